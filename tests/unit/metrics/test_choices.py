"""Choices of the metrics: ties, gains, discounts, and what is refused."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score

from ranking.data.judged_lists import JudgedLists
from ranking.errors import DataError
from ranking.metrics.average_precision import AveragePrecision
from ranking.metrics.ndcg import NDCG, LetorMeanNDCG
from ranking.metrics.precision import Precision

ONE = JudgedLists(np.ones((4, 1)), [0, 2, 1, 0], ["q"] * 4)


def test_ndcg_by_hand():
    scores = np.array([4.0, 3.0, 2.0, 1.0])
    want = (2 / math.log2(3) + 1 / 2) / (2 + 1 / math.log2(3))
    assert NDCG().mean(ONE, scores) == pytest.approx(want)
    want = (3 / math.log2(3) + 1 / 2) / (3 + 1 / math.log2(3))
    assert NDCG(gain="exp2").mean(ONE, scores) == pytest.approx(want)
    assert NDCG(2).mean(ONE, scores) == pytest.approx((2 / math.log2(3)) / (2 + 1 / math.log2(3)))
    assert NDCG(1).mean(ONE, scores) == 0.0


def test_ties_by_document_and_by_place():
    scores = np.zeros(4)  # by document id, descending: 3, 2, 1, 0
    assert AveragePrecision().mean(ONE, scores) == pytest.approx((1 / 2 + 2 / 3) / 2)
    assert AveragePrecision(ties="file").mean(ONE, scores) == pytest.approx((1 / 2 + 2 / 3) / 2)
    assert Precision(1).mean(ONE, scores) == 0.0
    assert NDCG(2).mean(ONE, scores) == pytest.approx(1 / math.log2(3) / (2 + 1 / math.log2(3)))
    assert NDCG(2, ties="file").mean(ONE, scores) > NDCG(2).mean(ONE, scores)


@pytest.mark.parametrize("metric", [NDCG(2), NDCG(), Precision(3), LetorMeanNDCG()])
def test_average_is_the_mean_over_all_orders_of_the_tied(metric):
    grades, scores = np.array([0, 2, 1, 0, 3]), np.array([1.0, 1.0, 1.0, 2.0, 0.0])
    one_by_one = []
    for order in itertools.permutations(range(5)):
        data = JudgedLists(np.ones((5, 1)), grades[list(order)], ["q"] * 5)
        metric.set_params(ties="file")
        one_by_one.append(metric.mean(data, scores[list(order)]))
    data = JudgedLists(np.ones((5, 1)), grades, ["q"] * 5)
    metric.set_params(ties="average")
    assert metric.mean(data, scores) == pytest.approx(np.mean(one_by_one))


@pytest.mark.parametrize("k", [None, 1, 5])
def test_average_ties_agree_with_scikit_learn(k):
    random = np.random.default_rng(0)
    grades, scores = random.integers(0, 4, (20, 12)), random.integers(0, 4, (20, 12))
    data = JudgedLists(np.ones((240, 1)), grades.ravel(), np.repeat(np.arange(20), 12))
    ours = NDCG(k, ties="average").mean(data, scores.ravel().astype(float))
    assert ours == pytest.approx(ndcg_score(grades, scores, k=k))


@pytest.mark.slow
@settings(deadline=None)
@given(st.integers(1, 40), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(n, random):
    qids = [random.randrange(4) for _ in range(n)]
    grades = [random.choice([0, 0, 1, 2.5]) for _ in range(n)]
    scores = np.array([float(random.randrange(3)) for _ in range(n)])
    names = [f"d{i}" for i in range(n)]
    order = list(range(n))
    random.shuffle(order)

    def per_query(metric, rows):
        data = JudgedLists(
            np.ones((n, 1)),
            [grades[row] for row in rows],
            [qids[row] for row in rows],
            doc_ids=[names[row] for row in rows],
        )
        values = metric.per_query(data, scores[rows][data.row_order])
        return dict(zip(data.query_ids.tolist(), values.tolist(), strict=True))

    for metric in (NDCG(3), NDCG(gain="exp2", ties="average"), AveragePrecision(), Precision(2)):
        assert per_query(metric, range(n)) == pytest.approx(per_query(metric, order), abs=1e-12)


@settings(deadline=None)
@given(st.lists(st.integers(-20, 60), min_size=1, max_size=12))
def test_float_grades_stay_between_nothing_and_perfect(tenths):
    grades = [tenth / 10 for tenth in tenths]
    data = JudgedLists(np.ones((len(grades), 1)), grades, ["q"] * len(grades))
    for gain in ("linear", "exp2"):
        assert 0 <= NDCG(gain=gain).mean(data, -data.grades) <= 1 + 1e-12
        best = NDCG(gain=gain, scores="float64").mean(data, data.grades)
        assert best == pytest.approx(float(max(grades) > 0))


@pytest.mark.parametrize("grades", [[1024.0, 0.0], [1023.5, 1023.5]])
def test_a_gain_that_overflows_is_refused(grades):
    data = JudgedLists(np.ones((3, 1)), [0.0, *grades], ["p", "q", "q"])
    with pytest.raises(DataError, match=r"query q has grade 102\d.*; use gain=linear"):
        NDCG(gain="exp2").per_query(data, np.zeros(3))
    assert NDCG().mean(data, np.array([0.0, 1.0, 0.0])) == pytest.approx(0.5)


def test_scores_are_checked():
    with pytest.raises(DataError, match=r"scores: expected shape \(4,\), got \(3,\)"):
        NDCG().per_query(ONE, np.zeros(3))
    with pytest.raises(DataError, match=r"row 2 \(query q\) is NaN"):
        NDCG().per_query(ONE, np.array([0.0, 1.0, np.nan, 2.0]))


def test_scores_are_left_alone():
    scores = np.array([1.0, 1.0, 2.0, 1.0])
    scores.flags.writeable = False
    for metric in (NDCG(), NDCG(ties="average"), AveragePrecision(), Precision(2)):
        metric.per_query(ONE, scores)
    assert scores.tolist() == [1, 1, 2, 1]
