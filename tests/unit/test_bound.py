"""The generalisation bounds against numbers computed by hand."""

from __future__ import annotations

from math import log, sqrt

import numpy as np
import pytest

from ranking import MatchingData, Ranker
from ranking.errors import CombinationError, DataError
from ranking.kernels.select import get_kernel
from ranking_plugins.bound import bound
from ranking_plugins.losses import Alignment
from ranking_plugins.regularizers import L2, L1L2Row, Orthonormal

# Two queries with documents, one and three of them: n_y = 2 / (1/1 + 1/3) = 1.5. Norms are 5 and
# 2, the largest response 6, so R = 60. At most 2 features of a query are not zero, 1 of a document.
DATA = MatchingData(
    [[3.0, 4.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
    [[2.0, 0.0], [0.0, 1.0], [1.0, 0.0]],
    [[0.0, 6.0, 0.0], [1.0, 2.0, 3.0], [0.0, 0.0, 0.0]],
)
RATES = 1 / sqrt(2 * 1.5) + 1 / sqrt(2)


def model(regularizer):
    parts = ("factored:dimensions=2,biases=false", "alignment", regularizer, "alternating")
    return Ranker(*parts, kernel="reference").fit(DATA).model_


def test_theorem_5_by_hand():
    result = bound(model("l1l2-row:limit=3"), Alignment(), L1L2Row(limit=3.0), DATA, delta=0.1)
    assert (result.n_x, result.n_y, result.R) == (2, pytest.approx(1.5), pytest.approx(60.0))
    assert pytest.approx(sqrt(2 * 1) * 9) == result.space.B
    assert pytest.approx(sqrt(3 * 2) * 9) == result.space.C
    expected = (2 * sqrt(6) * 9 * 60 + sqrt(2) * 9 * 60 * sqrt(2 * log(10))) * RATES
    assert result.gap == pytest.approx(expected)


def test_theorem_4_by_hand():
    result = bound(model("orthonormal:scale=1"), Alignment(), Orthonormal(1.0), DATA, delta=0.1)
    assert (result.space.theorem, result.space.B, result.space.C) == (4, 1.0, sqrt(2))
    expected = (2 * sqrt(2) * 60 + 60 * sqrt(2 * log(10))) * RATES
    assert result.gap == pytest.approx(expected)


def test_the_alignment_is_that_of_the_pairs():
    trained = model("l1l2-row:limit=3")
    scores = trained.scores(DATA, get_kernel("reference"))
    expected = 0.5 * (6 * scores[0, 1] + (scores[1] @ [1.0, 2.0, 3.0]) / 3)
    assert bound(trained, Alignment(), L1L2Row(limit=3.0), DATA).alignment == pytest.approx(
        expected, rel=1e-5
    )


def test_regularizers_without_a_bound_are_refused():
    trained = model("max-norm")
    with pytest.raises(CombinationError, match="no bound for regularizer 'l2'"):
        bound(trained, Alignment(), L2(), DATA)
    with pytest.raises(DataError, match="delta is 1"):
        bound(trained, Alignment(), L1L2Row(), DATA, delta=1)
    with pytest.raises(DataError, match="there is no bound"):
        bound(trained, Alignment(), L1L2Row(), MatchingData(None, None, np.zeros((2, 2))))


def test_all_quantities_of_the_bound_are_reported():
    result = bound(model("max-norm"), Alignment(), L1L2Row(), DATA)
    rows = {row["quantity"]: row["value"] for row in result.rows()}
    names = (
        "n_x n_y response norm_x norm_y R m_x m_y d_x d_y d theta_x theta_y B C delta alignment "
        "gap_documents gap_queries gap"
    )
    assert set(rows) == set(names.split())
    assert (rows["m_x"], rows["m_y"], rows["d_x"], rows["d_y"]) == (2, 1, 3, 2)


def test_theorems_1_and_2_by_hand():
    result = bound(model("orthonormal:scale=1"), Alignment(), Orthonormal(1.0), DATA, delta=0.1)
    spread = 2 * sqrt(2) * 60 + 60 * sqrt(2 * log(10))
    assert result.gap_documents == pytest.approx(spread / sqrt(2 * 1.5))
    assert result.gap_queries == pytest.approx(spread / sqrt(2))
    assert result.gap == result.gap_documents + result.gap_queries


def test_theorem_5_with_the_constrained_form():
    regularizer = L1L2Row(strength=0.0, limit=3.0, sum_limit=2.0)
    result = bound(model("l1l2-row:strength=0,limit=3,sum_limit=2"), Alignment(), regularizer, DATA)
    # min(d lambda^2, theta^2) = min(2 * 4, 9), and min(lambda^2, theta^2) = 4.
    assert pytest.approx(sqrt(2 * 1) * 8) == result.space.B
    assert pytest.approx(sqrt(3 * 2) * 4) == result.space.C
    assert result.space.quantities["lambda_x"] == 2.0
