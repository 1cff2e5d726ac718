"""Runs and judgements against trec_eval itself: what is unjudged, missing, tied or negative."""

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from ranking.contracts.metric import Metric
from ranking.data.trec import Judgements, Run, join_run
from ranking.errors import PartError
from ranking.metrics.evaluation import evaluate_run
from ranking.metrics.parse import parse_metric, parse_metrics

SHARED = {
    "ndcg": "ndcg",
    "ndcg_cut_5": "ndcg@5",
    "map": "map",
    "P_5": "p@5",
    "recall_5": "recall@5",
    "recip_rank": "mrr",
    "Rprec": "r-precision",
}


def compare(qrels, run):
    """Expect trec_eval's values; both are {query: {document: number}}."""
    judgements = Judgements(*columns(qrels))
    joined = join_run(Run(*columns(run)), judgements)
    metrics = [parse_metric(name) for name in SHARED.values()]
    values = evaluate_run(metrics, joined)
    names = {"ndcg", "ndcg_cut.5", "map", "P.5", "recall.5", "recip_rank", "Rprec"}
    want = pytrec_eval.RelevanceEvaluator(qrels, names).evaluate(run)
    assert set(want) == set(joined.query_ids[~joined.missing].tolist())
    for theirs, metric in zip(SHARED, metrics, strict=True):
        for query, value in zip(joined.query_ids.tolist(), values[metric.spelled()], strict=True):
            if query in want:
                assert value == pytest.approx(want[query][theirs], abs=1e-9), (theirs, query)
            else:
                assert np.isnan(value)


def columns(table):
    rows = [(q, d, x) for q, documents in table.items() for d, x in documents.items()]
    return [list(column) for column in zip(*rows, strict=True)]


@pytest.mark.parametrize("levels", [2, 5, 10**6], ids="levels{}".format)
def test_trec_eval_agrees(levels):
    random = np.random.default_rng(levels)
    documents = [f"D{number}" for number in range(60)]
    qrels, run = {}, {}
    for q in range(40):
        judged = random.choice(documents, 25, replace=False)
        grades = random.choice([-1, 0, 0, 1, 2, 3], 25)
        grades[0] = max(grades[0], 0)  # pytrec_eval never returns from negative grades alone
        if q % 9 == 0:
            grades = np.minimum(grades, 0)
        if q % 7:
            qrels[f"q{q}"] = dict(zip(judged.tolist(), grades.tolist(), strict=True))
        if q % 5:
            result = random.choice(documents, random.integers(1, 40), replace=False)
            scores = 1.0 + random.integers(0, levels, result.size) * 1e-9
            run[f"q{q}"] = dict(zip(result.tolist(), scores.tolist(), strict=True))
    compare(qrels, run)


@settings(deadline=None, max_examples=150)
@given(
    st.dictionaries(
        st.sampled_from("pqr"),
        st.dictionaries(st.sampled_from("abcdefgh"), st.integers(-1, 3), min_size=1).filter(
            lambda grades: max(grades.values()) >= 0
        ),
        min_size=1,
    ),
    st.dictionaries(
        st.sampled_from("pqrs"),
        st.dictionaries(st.sampled_from("abcdefghij"), st.integers(-2, 2).map(float), min_size=1),
        min_size=1,
    ),
)
def test_trec_eval_agrees_on_small_runs(qrels, run):
    if set(qrels) & set(run):
        compare(qrels, run)


def test_what_the_run_lacks_does_not_count_in_pairs():
    judgements = Judgements(["q"] * 3, ["a", "b", "c"], [1, 0, 2])
    joined = join_run(Run(["q"] * 3, ["a", "b", "z"], [3.0, 2.0, 1.0]), judgements)
    values = evaluate_run(list(parse_metrics("pair-error,auc,mean-rank,recall@9").values()), joined)
    assert [float(value[0]) for value in values.values()] == [0.0, 1.0, 1.0, 0.5]


def test_nothing_found_of_what_is_relevant():
    joined = join_run(Run(["q"], ["a"], [1.0]), Judgements(["q"], ["b"], [1]))
    values = evaluate_run(list(parse_metrics("map,mrr,ndcg,mean-rank").values()), joined)
    np.testing.assert_array_equal(list(values.values()), [[0.0], [0.0], [0.0], [np.nan]])


def test_numbers_as_ids_are_compared_as_text():
    joined = join_run(Run([1, 1], [9, 10], [0.0, 0.0]), Judgements([1, 1], [9, 10], [1, 0]))
    assert evaluate_run([parse_metric("mrr")], joined)[parse_metric("mrr").spelled()][0] == 1.0


def test_a_metric_that_needs_data_is_refused():
    class Strange(Metric):
        name = "strange"

        def per_query(self, data, scores):
            return np.zeros(data.n_queries)

        def spelled(self):
            return "strange"

    joined = join_run(Run(["q"], ["a"], [1.0]), Judgements(["q"], ["a"], [1]))
    with pytest.raises(PartError, match="'strange' measures judged data, not runs"):
        evaluate_run([Strange()], joined)
