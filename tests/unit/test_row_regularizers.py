"""Operators on the rows and columns of vectors, against an optimiser that does not know them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.optimize import minimize

from ranking.contracts.regularizer import RowPenalty, kernel_form, kernel_forms
from ranking.errors import PartError
from ranking.registry import get_registry
from ranking_plugins.regularizers import L1, L2, L1L2Row, MaxNorm, NoPenalty, Orthonormal

ROWS = np.random.default_rng(1).normal(size=(4, 3)) * [[0.2], [1.0], [2.0], [0.0]]


def within_a_ball(smooth, slope, strength, limit, size=3):
    """Minimise smooth(v) + strength |v| under ||v|| <= limit, by two halves v = a - b >= 0."""

    def cost(halves):
        a, b = halves[:size], halves[size:]
        return smooth(a - b) + strength * halves.sum()

    def gradient(halves):
        g = slope(halves[:size] - halves[size:])
        return np.concatenate((g, -g)) + strength

    constraint = {
        "type": "ineq",
        "fun": lambda h: limit**2 - ((h[:size] - h[size:]) ** 2).sum(),
        "jac": lambda h: np.concatenate((-2 * (h[:size] - h[size:]), 2 * (h[:size] - h[size:]))),
    }
    best = np.inf
    for start in range(4):
        halves = np.random.default_rng(start).random(2 * size) * limit / 4
        solution = minimize(
            cost,
            halves,
            jac=gradient,
            method="SLSQP",
            bounds=[(0, None)] * (2 * size),
            constraints=[constraint],
            options={"ftol": 1e-15, "maxiter": 500},
        )
        best = min(best, solution.fun)
    return best


CASES = [MaxNorm(0.7), MaxNorm(5.0), L1L2Row(0.2, 0.7), L1L2Row(0.5, 9.0), L1L2Row(0.0, 0.7)]


@pytest.mark.parametrize("regularizer", CASES, ids=lambda r: r.spec())
@pytest.mark.parametrize("step", [0.3, 1.7])
def test_prox_of_rows_is_the_minimiser(regularizer, step):
    strength = step * getattr(regularizer, "strength", 0.0)
    result = regularizer.prox(ROWS, step)
    assert np.isfinite(regularizer.penalty(result))
    for row, p in zip(result, ROWS, strict=True):
        best = within_a_ball(
            lambda v, p=p: 0.5 * ((v - p) ** 2).sum(),
            lambda v, p=p: v - p,
            strength,
            regularizer.limit,
        )
        assert 0.5 * ((row - p) ** 2).sum() + strength * np.abs(row).sum() <= best + 1e-8
    # The operator may be taken of each row by itself.
    assert np.array_equal(result, np.vstack([regularizer.prox(row[None], step) for row in ROWS]))


@pytest.mark.parametrize("regularizer", CASES, ids=lambda r: r.spec())
def test_maximize_of_rows_is_the_maximiser(regularizer):
    strength = getattr(regularizer, "strength", 0.0)
    result = regularizer.maximize(ROWS)
    assert np.isfinite(regularizer.penalty(result))
    for row, gain in zip(result, ROWS, strict=True):
        best = -within_a_ball(
            lambda v, gain=gain: -float(gain @ v),
            lambda v, gain=gain: -gain,
            strength,
            regularizer.limit,
        )
        assert gain @ row - strength * np.abs(row).sum() >= best - 1e-7


def test_penalties_of_rows():
    inside, edge, outside = np.full((2, 1), 0.5), np.ones((2, 1)), np.full((2, 1), 1.1)
    for regularizer, expected in ((MaxNorm(1.0), 0.0), (L1L2Row(0.25, 1.0), 0.25)):
        assert regularizer.penalty(inside) == expected
        assert regularizer.penalty(edge) == 2 * expected
        assert regularizer.penalty(edge.astype(np.float32) * 1.000001) < 1.0  # rounding is not out
        assert regularizer.penalty(outside) == float("inf")


def rotations(size):
    """Orthogonal matrices all over the place, reflections among them."""
    for seed in range(20):
        q, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(size, size)))
        yield q * [(-1) ** seed, *([1] * (size - 1))]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scale", "shape"),
    [("unit-rows", (4, 2)), ("unit-rows", (4, 1)), (1.0, (3, 3)), (0.3, (3, 3)), (0.3, (4, 1))],
)
def test_orthonormal_is_the_nearest_and_the_best(scale, shape):
    """Against all P = scale Q by a search over rotations of the full space."""
    rows, columns = shape
    p = np.random.default_rng(2).normal(size=shape)
    regularizer = Orthonormal(scale)
    length = np.sqrt(rows / columns) if scale == "unit-rows" else scale
    result = regularizer.prox(p, 0.3)
    np.testing.assert_allclose(result.T @ result, length**2 * np.eye(columns), atol=1e-12)
    assert regularizer.penalty(result) == 0.0
    assert np.array_equal(result, regularizer.maximize(p))
    assert np.array_equal(result, regularizer.prox(p, 99.0))  # a constraint has no strength

    corner = np.triu_indices(rows, 1)

    def turned(angles, q):
        skew = np.zeros((rows, rows))
        skew[corner] = angles
        return length * (q @ expm(skew - skew.T))[:, :columns]

    best = min(
        minimize(lambda a, q=q: ((turned(a, q) - p) ** 2).sum(), np.zeros(corner[0].size)).fun
        for q in list(rotations(rows))[:2]
    )
    assert ((result - p) ** 2).sum() <= best + 1e-6
    # All have one norm, so the nearest has the largest inner product too.
    for q in rotations(rows):
        other = length * q[:, :columns]
        assert (p * result).sum() >= (p * other).sum() - 1e-9
        assert ((result - p) ** 2).sum() <= ((other - p) ** 2).sum() + 1e-9


def test_the_penalty_is_infinite_for_other_matrices():
    p = np.eye(4)[:, :2]
    assert Orthonormal(1.0).penalty(p) == 0.0
    assert Orthonormal(1.0).penalty(2 * p) == float("inf")
    assert Orthonormal().penalty(np.sqrt(2) * p) == 0.0
    assert Orthonormal(1.0).penalty(p + 0.1) == float("inf")
    with pytest.raises(PartError, match=r"at least as many rows.*2 features for 3 dimensions"):
        Orthonormal().prox(np.ones((2, 3)), 1.0)


def test_kernel_form_of_factors():
    assert kernel_form(NoPenalty(), "factors") == RowPenalty(0.0)
    assert kernel_form(MaxNorm(0.3), "factors") == RowPenalty(0.3)
    for regularizer in (L1(0.1), L2(0.1), L1L2Row(), Orthonormal()):
        assert kernel_form(regularizer, "factors") is None
        assert "factors" in regularizer.forms
        assert "factors" not in kernel_forms(regularizer)


@pytest.mark.parametrize("kind", [MaxNorm, L1L2Row])
@pytest.mark.parametrize("limit", [0, 0.0, -1.0, float("nan"), float("inf"), "long", None])
def test_a_bad_limit_is_refused(kind, limit):
    with pytest.raises(PartError, match="limit"):
        kind(limit=limit)


@pytest.mark.parametrize("strength", [-1.0, float("nan"), "much"])
def test_a_bad_strength_is_refused(strength):
    with pytest.raises(PartError, match="l1l2-row has strength="):
        L1L2Row(strength)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf"), "long", None])
def test_a_bad_scale_is_refused(scale):
    with pytest.raises(PartError, match="orthonormal has scale="):
        Orthonormal(scale)


def test_specs_are_read_back():
    for part in (MaxNorm(2.0), L1L2Row(0.1, 3.0), Orthonormal(), Orthonormal(2.0)):
        assert get_registry().create("regularizer", part.spec()) == part


def test_the_constrained_rows_are_the_best_of_a_solver(seed):
    """Maximum and projection within both limits, by SLSQP over positive and negative parts."""
    rng = np.random.default_rng(seed)
    for limit, total in ((1.0, 1.4), (2.0, 1.5), (0.8, 5.0)):
        part = L1L2Row(strength=0.0, limit=limit, sum_limit=total)
        rows = rng.normal(size=(6, 4))
        for ours, value in (
            (part.maximize(rows), lambda w, row: -row @ w),
            (part.prox(rows, 0.3), lambda w, row: 0.5 * ((w - row) ** 2).sum()),
        ):
            assert part.penalty(ours) == 0.0
            for row, best in zip(rows, ours, strict=True):

                def split(v, row=row, value=value):
                    return value(v[:4] - v[4:], row)

                limits = (
                    {"type": "ineq", "fun": lambda v, total=total: total - v.sum()},
                    {
                        "type": "ineq",
                        "fun": lambda v, limit=limit: limit**2 - ((v[:4] - v[4:]) ** 2).sum(),
                    },
                )
                start = np.full(8, 0.05)
                solved = minimize(
                    split, start, bounds=[(0, None)] * 8, constraints=limits, method="SLSQP"
                )
                assert value(best, row) <= solved.fun + 1e-6
