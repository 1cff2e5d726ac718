"""`RankedResults`: ids out, lazy lists, data frames, TREC runs and JSON."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

from ranking import JudgedLists, MatchingData, RankedResults, Ranker, read_data
from ranking.errors import DataError
from ranking.inference.results import Columns, RankedList
from ranking.inference.retrieval import TopK


class Retrieve:
    """Scores documents by their position, and counts the lists that it computes."""

    def __init__(self, n_queries=4, k=2):
        self.n_queries, self.k, self.computed = n_queries, k, []

    def __call__(self, queries):
        for query in range(self.n_queries) if queries is None else queries.tolist():
            self.computed.append(query)
            yield TopK(query, np.arange(self.k), np.array([2.0 + query, 0.5])[: self.k])


def results(k=2, **options):
    ids = np.array(["ann", "bob", "cy", "di"])
    return RankedResults(ids, np.array(["alien", "red mars"]), Retrieve(k=k), **options)


def test_iteration_yields_ids_and_scores_lazily():
    result = results()
    rows = iter(result)
    assert next(rows) == ("ann", [("alien", 2.0), ("red mars", 0.5)])
    assert result.retrieve.computed == [0]
    assert [query for query, _ in rows] == ["bob", "cy", "di"]
    assert result.retrieve.computed == [0, 1, 2, 3]
    assert len(result) == 4


def test_index_by_query_id_computes_one_list():
    result = results()
    ranked = result["cy"]
    assert ranked == [("alien", 4.0), ("red mars", 0.5)]
    assert result.retrieve.computed == [2]
    assert ranked[0] == ("alien", 4.0)
    assert ranked[-1:] == [("red mars", 0.5)]
    assert (len(ranked), ("alien", 4.0) in ranked) == (2, True)
    assert ranked.ids.tolist() == ["alien", "red mars"]
    assert "cy" in result
    assert "eve" not in result
    with pytest.raises(KeyError, match=r"no query 'eve'.* such as 'ann'"):
        result["eve"]


def test_collect_keeps_the_lists():
    result = results().collect()
    assert result["bob"] == result.to_dict()["bob"]
    assert len(list(result)) == 4
    assert result.retrieve.computed == [0, 1, 2, 3]
    assert result == results()
    assert result != results(k=1)


def test_equal_query_ids_index_the_first():
    result = RankedResults(np.array(["a", "b", "a"]), np.array(["x"]), Retrieve(3, 1))
    assert result["a"] == [("x", 2.0)]
    assert [query for query, _ in result] == ["a", "b", "a"]


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow", None])
def test_to_frame(backend):
    frame = results(columns=Columns("user", "item")).to_frame(backend)
    rows = frame.to_pylist() if backend == "pyarrow" else None
    if rows is None:
        columns = {name: list(frame[name]) for name in frame.columns}
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    assert len(rows) == 8
    assert rows[2] == {"user": "bob", "item": "alien", "rank": 1, "score": 3.0}
    with pytest.raises(DataError, match="backend is 'excel'"):
        results().to_frame("excel")


def test_to_trec_can_be_read_back(tmp_path):
    text = results().to_trec(tag="my run")
    assert text.splitlines()[1] == "ann Q0 red-mars 2 0.5 my-run"
    path = tmp_path / "some.run"
    assert results().to_trec(path) is None
    assert path.read_text() == results().to_trec()
    assert read_data(path, "run").query_ids.tolist() == ["ann", "bob", "cy", "di"]
    with pytest.raises(FileNotFoundError, match="nowhere does not exist"):
        results().to_trec(tmp_path / "nowhere" / "some.run")


def test_to_json(tmp_path):
    records = json.loads(results().to_json())
    assert records[0] == {"query": "ann", "document": "alien", "rank": 1, "score": 2.0}
    lines = results().to_json(lines=True).splitlines()
    assert [json.loads(line) for line in lines] == records
    results().to_json(tmp_path / "all.json")
    assert json.loads((tmp_path / "all.json").read_text()) == records
    nothing = RankedResults(np.zeros(0, np.int64), np.array(["x"]), Retrieve(0))
    assert json.loads(nothing.to_json()) == []
    assert nothing.to_trec() == ""


def test_repr_shows_a_few_lists():
    result = results()
    assert repr(result).splitlines() == [
        "RankedResults(4 results by query id)",
        "  'ann': 'alien' (2), 'red mars' (0.5)",
        "  'bob': 'alien' (3), 'red mars' (0.5)",
        "  'cy': 'alien' (4), 'red mars' (0.5)",
        "  ...",
    ]
    assert result.retrieve.computed == [0, 1, 2]
    assert repr(RankedList(np.array([7]), np.array([0.5]))) == "[(7, 0.5)]"


def test_results_of_a_ranker_are_picklable(make_tastes):
    data = make_tastes(4)
    ranker = Ranker("factored:dimensions=4", "warp", solver="sgd:max_steps=20").fit(data)
    for result in (ranker.rank(data, 3), ranker.recommend(["u1"]), ranker.fold_in(data, [["i1"]])):
        assert pickle.loads(pickle.dumps(result)) == result


@pytest.mark.parametrize("k", [1, 2, None])
def test_judged_rows_are_ranked_by_document_id(judged, k):
    named = JudgedLists(
        judged.features,
        judged.grades,
        judged.query_ids[judged.row_groups],
        doc_ids=[f"d{row % 7}{row}" for row in range(judged.n_rows)],
    )
    ranker = Ranker(loss="domination").fit(named)
    scores = ranker.score_rows(named)
    for position, (query, ranked) in enumerate(ranker.rank(named, k)):
        rows = range(*named.group_ptr[position : position + 2])
        expected = sorted(rows, key=lambda row: (-scores[row], named.doc_ids[row]))[:k]
        assert query == named.query_ids[position]
        assert ranked.ids.tolist() == named.doc_ids[expected].tolist()
    with pytest.raises(DataError, match="exclude and candidates are for queries and documents"):
        ranker.rank(named, candidates=["d1"])


def test_documents_by_id_are_ranked_among_all_known(make_tastes):
    data = make_tastes(4)
    ranker = Ranker("factored:dimensions=4", "warp", solver="sgd:max_steps=200").fit(data)
    few = MatchingData(None, None, [[1.0]], query_ids=["u3"], document_ids=["i2"])
    assert len(ranker.rank(few)["u3"]) == data.n_documents
    assert ranker.rank(few)["u3"] == ranker.rank(data)["u3"]
    # The metric is that of the same list.
    place = ranker.rank(few)["u3"].ids.tolist().index("i2") + 1
    assert ranker.score(few, metric="mrr") == 1 / place
