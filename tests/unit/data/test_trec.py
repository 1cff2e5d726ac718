"""TREC files, and the join of a run with judgements."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ranking.data.readers.read import read, read_any
from ranking.data.readers.trec import read_qrels, read_run
from ranking.data.trec import Judgements, Run, join_run
from ranking.data.writers import write as write_data
from ranking.errors import DataError, DataWarning

QRELS = "1 0 a 2\n1 0 b 0\n2 0 a -1\n"
RUN = "1 Q0 b 9 0.5 tag\n1 Q0 a 1 0.25 tag\n3 Q0 a 1 -inf tag\n"


def test_judgements(write, registry):
    data = read_any(write(QRELS), registry=registry)
    assert isinstance(data, Judgements)
    assert data.query_ids.tolist() == ["1", "2"]
    assert data.group_ptr.tolist() == [0, 2, 3]
    assert data.document_ids.tolist() == ["a", "b", "a"]
    assert data.grades.tolist() == [2, 0, -1]
    assert repr(data) == "Judgements(3 rows, 2 queries)"
    with pytest.raises(ValueError, match="read-only"):
        data.grades[0] = 1


def test_judgements_of_beir(write, registry):
    path = write("query-id\tcorpus-id\tscore\nq 1\td\t1\n")
    data = read_any(path, registry=registry)
    assert data.query_ids.tolist() == ["q 1"]


def test_run_is_read_with_its_scores(write, registry):
    data = read_any(write(RUN), registry=registry)
    assert isinstance(data, Run)
    assert data.scores.tolist() == [0.5, 0.25, -np.inf]
    assert data.tag == "tag"


def test_rows_are_grouped_by_query():
    data = Run(["b", "a", "b"], ["x", "x", "y"], [1.0, 2.0, 3.0])
    assert data.query_ids.tolist() == ["b", "a"]
    assert data.document_ids.tolist() == ["x", "y", "x"]
    assert data.scores.tolist() == [1, 3, 2]


def test_join(write):
    joined = join_run(read_run(write(RUN)), read_qrels(write(QRELS, "qrels")))
    assert joined.query_ids.tolist() == ["1", "2"]
    assert joined.group_ptr.tolist() == [0, 2, 2]
    assert joined.document_ids.tolist() == ["b", "a"]
    assert joined.scores.tolist() == [0.5, 0.25]
    assert joined.grades.tolist() == [0, 2]
    assert joined.missing.tolist() == [False, True]
    assert joined.unretrieved_grades.tolist() == [-1]
    assert joined.unretrieved_ptr.tolist() == [0, 0, 1]
    assert joined.unjudged_queries.tolist() == ["3"]


def test_join_of_different_id_types_raises():
    with pytest.raises(DataError, match="query_ids of the run are like"):
        join_run(Run([1], ["a"], [1]), Judgements(["1"], ["a"], [1]))


row = st.tuples(st.integers(0, 4), st.integers(0, 9), st.floats(-9, 9))
rows = st.lists(row, min_size=1, unique_by=lambda row: row[:2])


@settings(deadline=None, max_examples=50)
@given(rows, rows)
def test_join_matches_dictionaries(retrieved, judged):
    run = Run(*(list(column) for column in zip(*retrieved, strict=True)))
    joined = join_run(run, Judgements(*(list(c) for c in zip(*judged, strict=True))))
    grades = {(query, document): grade for query, document, grade in judged}
    scores = {(query, document): score for query, document, score in retrieved}
    for position, query in enumerate(joined.query_ids.tolist()):
        rows = slice(*joined.group_ptr[position : position + 2])
        documents = joined.document_ids[rows].tolist()
        assert documents == [d for q, d, _ in retrieved if q == query]
        want = [grades.get((query, document), np.nan) for document in documents]
        np.testing.assert_array_equal(joined.grades[rows], want)
        assert joined.scores[rows].tolist() == [scores[query, d] for d in documents]
        missing = joined.unretrieved_grades[slice(*joined.unretrieved_ptr[position : position + 2])]
        want = [g for q, d, g in judged if q == query and (q, d) not in scores]
        assert missing.tolist() == want
    judged_queries = {query for query, _, _ in judged}
    assert set(joined.unjudged_queries.tolist()) == {q for q, _, _ in retrieved} - judged_queries


@settings(deadline=None, max_examples=30)
@given(rows)
def test_write_and_read_round_trip(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("trec")
    columns = [[f"q{q}" for q, _, _ in rows], [f"d{d}" for _, d, _ in rows]]
    numbers = [number for _, _, number in rows]
    write_data(Judgements(*columns, numbers), "qrels", folder / "qrels")
    write_data(Run(*columns, numbers, "mine"), "run", folder / "run.gz")
    want = dict(zip(zip(*columns, strict=True), numbers, strict=True))
    for data, actual in (
        (read_qrels(folder / "qrels"), "grades"),
        (read_run(folder / "run.gz"), "scores"),
    ):
        keys = zip(data.query_ids[data.row_groups].tolist(), data.document_ids, strict=True)
        assert dict(zip(keys, getattr(data, actual).tolist(), strict=True)) == want


REFUSED = {
    "three columns": (read_qrels, "1 0 a\n", "line 1: there are 3 columns and should be 4"),
    "no number": (read_qrels, "1 0 a 1\n\n1 0 b x\n", "line 3: the grade 'x' is not a finite"),
    "nan": (read_qrels, "1 0 a nan\n", "the grade 'nan' is not a finite number"),
    "underscore": (read_qrels, "1 0 a 1_0\n", "the grade '1_0' is not"),
    "twice": (
        read_qrels,
        "1 0 a 1\n2 0 a 1\n1 0 a 0\n",
        "line 3: document 'a' of query '1' was on line 1 already, with the grade 1 and not 0",
    ),
    "nothing": (read_qrels, "\n\n", "has no lines"),
    "NUL": (read_qrels, b"1 0 a 1\n1 0 \0 1\n", "line 2: there is a NUL byte"),
    "not UTF-8": (read_qrels, b"1 0 \xe9 1\n", "line 1: the text is not UTF-8"),
    "five columns": (read_run, "1 Q0 a 1 2\n", "5 columns and should be 6"),
    "score": (read_run, "1 Q0 a 1 nan t\n", "the score 'nan'"),
    "twice in a run": (read_run, "1 Q0 a 1 2 t\n1 Q0 a 2 1 t\n", "line 2: document 'a'"),
    "two runs": (read_run, "1 Q0 a 1 2 t\n1 Q0 b 2 1 u\n", "line 2: the tag is 'u' and was 't'"),
}


def test_judgements_that_are_repeated_and_agree_are_left_out(write):
    path = write("1 0 a 1\n1 0 b 0\n1 0 a 1\n1 0 a 1\n")
    with pytest.warns(DataWarning, match="2 lines repeat an earlier one, such as line 3"):
        judgements = read_qrels(path)
    assert judgements.document_ids.tolist() == ["a", "b"]
    assert judgements.grades.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("case", REFUSED)
def test_invalid_input_raises_data_error(write, case):
    reader, content, message = REFUSED[case]
    path = write(content)
    with pytest.raises(DataError, match=message) as caught:
        reader(path)
    assert str(caught.value).startswith(str(path))


def test_run_cannot_be_read_as_judged_lists(write, registry):
    with pytest.raises(DataError, match="was read as run and holds a Run"):
        read(write(RUN), registry=registry)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ((["a"], ["b"], []), "at least one"),
        ((["a"], ["b"], [np.nan]), "is NaN"),
        ((["a", "a"], ["b", "b"], [1, 2]), "document b is twice in query a"),
        ((["a"], ["b", "c"], [1]), "document_ids has 2 entries and grades 1 rows"),
    ],
)
def test_invalid_judgements_and_runs_raise(columns, message):
    with pytest.raises(DataError, match=message):
        Judgements(*columns)


def test_real_judgements(real_data, registry):
    data = read_any(real_data / "ir" / "med" / "MED.REL", registry=registry)
    assert (data.n_rows, data.n_queries) == (696, 30)
