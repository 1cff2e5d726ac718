"""The plain names against trec_eval itself (pytrec_eval), query by query."""

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from ranking.data.judged_lists import JudgedLists
from ranking.metrics.average_precision import AveragePrecision
from ranking.metrics.ndcg import NDCG
from ranking.metrics.precision import Precision

METRICS = {
    "ndcg": NDCG(),
    "ndcg_cut_1": NDCG(1),
    "ndcg_cut_5": NDCG(5),
    "ndcg_cut_10": NDCG(10),
    "map": AveragePrecision(),
    "P_1": Precision(1),
    "P_5": Precision(5),
    "P_10": Precision(10),
}


def trec_eval(data, scores):
    qrels, run = {}, {}
    for q, query in enumerate(data.query_ids):
        rows = range(data.group_ptr[q], data.group_ptr[q + 1])
        qrels[str(query)] = {data.doc_ids[r].item(): int(data.grades[r]) for r in rows}
        run[str(query)] = {data.doc_ids[r].item(): float(scores[r]) for r in rows}
    evaluator = pytrec_eval.RelevanceEvaluator(
        qrels, {"ndcg", "ndcg_cut.1,5,10", "map", "P.1,5,10"}
    )
    return evaluator.evaluate(run)


def compare(data, scores):
    want = trec_eval(data, scores)
    for name, metric in METRICS.items():
        ours = metric.per_query(data, scores)
        theirs = [want[str(query)][name] for query in data.query_ids]
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9, err_msg=name)


SCORES = {
    "all different": lambda random, n: random.permutation(n) / 7.0,
    "many ties": lambda random, n: random.integers(0, 4, n).astype(float),
    "all tied": lambda random, n: np.zeros(n),
    "different in double precision only": lambda random, n: 1.0 + 1e-12 * random.permutation(n),
    "negative": lambda random, n: -(10.0 ** random.uniform(-3, 3, n)),
    "beyond single precision": lambda random, n: random.permutation(n) * 1e300,
}


@pytest.mark.parametrize("kind", SCORES)
@pytest.mark.parametrize("named", [True, False])
def test_trec_eval_agrees(kind, named):
    random = np.random.default_rng(len(kind))
    n = 600
    qids = random.integers(0, 40, n)
    grades = random.choice([-1, 0, 0, 0, 1, 2, 4], n)
    grades[qids < 5] = 0  # queries without relevant documents
    names = [f"D{number}" for number in random.permutation(n)] if named else None
    compare(JudgedLists(np.ones((n, 1)), grades, qids, doc_ids=names), SCORES[kind](random, n))


@pytest.mark.slow
@settings(deadline=None, max_examples=200)
@given(
    st.lists(
        # pytrec_eval never returns from a query whose grades are all negative.
        st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(-2, 2)),
        min_size=1,
        max_size=40,
    )
)
def test_trec_eval_agrees_on_small_lists(rows):
    qids, grades, scores = (np.array(column) for column in zip(*rows, strict=True))
    data = JudgedLists(np.ones((len(rows), 1)), grades, qids)
    compare(data, scores[data.row_order].astype(float))


def test_queries_without_relevant_documents_count_in_the_mean():
    data = JudgedLists(np.ones((2, 1)), [1, 0], [1, 2])
    for metric in (NDCG(), AveragePrecision(), Precision(1)):
        assert metric.mean(data, np.zeros(2)) == 0.5
    for skipping in (
        NDCG(empty="skip"),
        AveragePrecision(empty="skip"),
        Precision(1, empty="skip"),
    ):
        assert skipping.mean(data, np.zeros(2)) == 1.0
        assert np.isnan(skipping.per_query(data, np.zeros(2))[1])
