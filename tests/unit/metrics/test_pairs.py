"""Metrics of pairs and ranks against loops over all pairs; AUC against scikit-learn."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from ranking.data.judged_lists import JudgedLists
from ranking.metrics.evaluation import evaluate
from ranking.metrics.pairwise import AUC, AllPairsError, DominationError, PairError
from ranking.metrics.parse import parse_metrics
from ranking.metrics.precision import Recall, RPrecision
from ranking.metrics.ranks import MeanRank, ReciprocalRank


def pairs_of(grades, scores):
    n = range(len(grades))
    return [(scores[i], scores[j]) for i in n for j in n if grades[i] > grades[j]]


def pair_error(grades, scores):
    pairs = pairs_of(grades, scores)
    return sum(a <= b for a, b in pairs) / len(pairs) if pairs else math.nan


def all_pairs_error(grades, scores):
    return pair_error([grade >= 1 for grade in grades], scores)


def domination_error(grades, scores):
    n = range(len(grades))
    below = {i: [scores[j] for j in n if grades[j] < grades[i]] for i in n}
    dominating = [i for i in n if below[i]]
    wrong = sum(max(below[i]) >= scores[i] for i in dominating)
    return wrong / len(dominating) if dominating else math.nan


def mean_rank(grades, scores):
    ranks = [
        sum(other > score for other in scores) + (sum(other == score for other in scores) + 1) / 2
        for grade, score in zip(grades, scores, strict=True)
        if grade >= 1
    ]
    return sum(ranks) / len(ranks) if ranks else math.nan


def auc(grades, scores):
    relevant = [grade >= 1 for grade in grades]
    return roc_auc_score(relevant, scores) if 0 < sum(relevant) < len(grades) else math.nan


LITERAL = [
    (PairError(), pair_error),
    (AllPairsError(), all_pairs_error),
    (DominationError(), domination_error),
    (MeanRank(ties="average"), mean_rank),
    (AUC(), auc),
]


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.integers(-1, 3) | st.floats(-2, 5).map(lambda x: round(x, 2)),
            st.integers(-2, 2),
        ),
        min_size=1,
        max_size=40,
    )
)
def test_loops_over_all_pairs_agree(rows):
    qids, grades, scores = (list(column) for column in zip(*rows, strict=True))
    data = JudgedLists(np.ones((len(rows), 1)), np.array(grades, dtype=float), qids)
    placed = np.array(scores, dtype=float)[data.row_order]
    for metric, literal in LITERAL:
        want = []
        for query in data.query_ids:
            some = [row for row in range(len(rows)) if qids[row] == query]
            want.append(literal([grades[r] for r in some], [scores[r] for r in some]))
        np.testing.assert_allclose(metric.per_query(data, placed), want, rtol=1e-12)


def test_by_hand():
    data = JudgedLists(np.ones((4, 1)), [0, 2, 1, 0], ["q"] * 4)
    scores = np.array([4.0, 3.0, 2.0, 1.0])
    assert ReciprocalRank().mean(data, scores) == 0.5
    assert ReciprocalRank(1).mean(data, scores) == 0.0
    assert MeanRank().mean(data, scores) == 2.5
    assert RPrecision().mean(data, scores) == 0.5
    assert Recall(3).mean(data, scores) == 1.0
    assert PairError().mean(data, scores) == 2 / 5
    assert AllPairsError().mean(data, scores) == 2 / 4
    assert DominationError().mean(data, scores) == 1.0
    assert AUC().mean(data, scores) == 0.5


def test_ties_by_document_and_by_place():
    data = JudgedLists(np.ones((3, 1)), [1, 0, 0], ["q"] * 3)
    tied = np.zeros(3)  # by document id, descending: 2, 1, 0
    assert ReciprocalRank().mean(data, tied) == pytest.approx(1 / 3)
    assert ReciprocalRank(ties="file").mean(data, tied) == 1.0
    assert [MeanRank(ties=t).mean(data, tied) for t in ("docid", "file", "average")] == [3, 1, 2]
    assert Recall(1, ties="average").mean(data, tied) == pytest.approx(1 / 3)
    assert RPrecision(ties="average").mean(data, tied) == pytest.approx(1 / 3)


@pytest.mark.parametrize("name", ["auc", "pair-error", "domination-error", "all-pairs-error"])
def test_a_query_without_pairs_is_left_out(name):
    data = JudgedLists(np.ones((3, 1)), [1, 0, 1], [1, 1, 2])
    scores = np.array([1.0, 0.0, 0.0])
    skip, zero = parse_metrics(f"{name},{name}(empty=zero)").values()
    assert np.isnan(skip.per_query(data, scores)[1])
    assert zero.per_query(data, scores)[1] == 0.0


def test_many_at_once_are_those_one_by_one():
    random = np.random.default_rng(3)
    n = 300
    grades, scores = random.integers(-1, 4, n), random.integers(0, 9, n) / 3.0
    data = JudgedLists(np.ones((n, 1)), grades, random.integers(0, 9, n))
    metrics = parse_metrics(
        "ndcg,ndcg@5(gain=exp2),ndcg(ties=average),letor-ndcg@3,letor-mean-ndcg,map,p@3,recall@4,"
        "mrr,r-precision,mean-rank,auc,pair-error,domination-error,all-pairs-error(scores=float64)"
    ).values()
    metrics = list(metrics)
    together = evaluate(metrics, data, scores, threads=2)
    assert list(together) == [metric.spelled() for metric in metrics]
    for metric in metrics:
        alone = metric.per_query(data, scores)
        np.testing.assert_array_equal(together[metric.spelled()], alone)
    errors = {m.name for m in metrics if not m.higher_is_better}
    assert errors == {"mean-rank", "pair-error", "domination-error", "all-pairs-error"}
