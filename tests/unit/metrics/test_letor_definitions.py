"""LETOR's definitions against a literal loop, written after the description of its script."""

import math

import numpy as np
import pytest

from ranking.data.judged_lists import JudgedLists
from ranking.metrics.average_precision import LetorAveragePrecision
from ranking.metrics.ndcg import LetorMeanNDCG, LetorNDCG
from ranking.metrics.precision import LetorPrecision


def dcg(grades, depth):
    total = 0.0
    for rank, grade in enumerate(grades[:depth], start=1):
        total += (2**grade - 1) * (1.0 if rank <= 2 else math.log(2) / math.log(rank))
    return total


def ndcg(grades, depth):
    best = dcg(sorted(grades, reverse=True), depth)
    return dcg(grades, depth) / best if best else 0.0


def ndcg_at(k):
    return lambda grades: ndcg(grades, k) if len(grades) >= k else 0.0


def precision_at(k):
    return lambda grades: sum(grade >= 1 for grade in grades[:k]) / k


def average_precision(grades):
    result, total = 0, 0.0
    for rank, grade in enumerate(grades, start=1):
        if grade >= 1:
            result += 1
            total += result / rank
    return total / result if result else 0.0


def mean_ndcg(grades):
    return sum(ndcg(grades, depth) for depth in range(1, len(grades) + 1)) / len(grades)


PAIRS = [
    (LetorNDCG(1), ndcg_at(1)),
    (LetorNDCG(2), ndcg_at(2)),
    (LetorNDCG(3), ndcg_at(3)),
    (LetorNDCG(10), ndcg_at(10)),
    (LetorPrecision(1), precision_at(1)),
    (LetorPrecision(10), precision_at(10)),
    (LetorAveragePrecision(), average_precision),
    (LetorMeanNDCG(), mean_ndcg),
]


@pytest.mark.parametrize(("metric", "literal"), PAIRS, ids=lambda x: getattr(x, "name", "loop"))
@pytest.mark.parametrize("levels", [2, 3, 1000], ids="levels{}".format)
def test_the_literal_loop_agrees(metric, literal, levels):
    random = np.random.default_rng(levels)
    n = 500
    qids = np.sort(random.integers(0, 50, n))
    grades = random.choice([0, 0, 1, 2], n)
    grades[qids < 5] = 0
    scores = 1.0 + 1e-12 * random.integers(0, levels, n)
    data = JudgedLists(np.ones((n, 1)), grades, qids)
    want = []
    for query in data.query_ids:
        rows = np.flatnonzero(qids == query)
        best_first = sorted(rows, key=lambda row: -scores[row])
        want.append(literal([int(grades[row]) for row in best_first]))
    np.testing.assert_allclose(metric.per_query(data, scores), want, rtol=0, atol=1e-12)


def test_by_hand():
    # Grades by rank: 1, 0, 2. DCG@3 is 1 + 0 + 3/log2(3), the best is 3 + 1 + 0.
    data = JudgedLists(np.ones((3, 1)), [1, 0, 2], ["q"] * 3)
    scores = np.array([3.0, 2.0, 1.0])
    assert LetorNDCG(3).mean(data, scores) == pytest.approx((1 + 3 / math.log2(3)) / 4)
    assert LetorNDCG(2).mean(data, scores) == pytest.approx(1 / 4)
    assert LetorNDCG(4).mean(data, scores) == 0.0
    assert LetorNDCG(4, short="keep").mean(data, scores) == LetorNDCG(3).mean(data, scores)
    assert LetorNDCG(4, empty="skip").mean(data, scores) == 0.0
    assert LetorAveragePrecision().mean(data, scores) == pytest.approx((1 + 2 / 3) / 2)
    assert LetorPrecision(10).mean(data, scores) == 0.2
