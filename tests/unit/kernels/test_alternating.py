"""Half-steps against SciPy's product and against solvers, and their input validation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from parity_helpers import refuses
from scipy.optimize import minimize

from ranking.kernels.alternating import AlternatingMatrix
from ranking.kernels.kernel import Kernel

WIDTH = 16


def make_matrix(seed: int, rows: int = 40, columns: int = 30, density: float = 0.2) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    dense = rng.normal(size=(rows, columns)) * (rng.random((rows, columns)) < density)
    dense[3] = 0.0
    return sp.csr_array(dense)


def make_embeddings(seed: int, columns: int = 30, width: int = WIDTH) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=(columns, width)).astype(np.float32)


def rows_of(
    kernel: Kernel, matrix: sp.csr_array, embeddings: Any, **options: Any
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    out, gains = kernel.alternating.half_step(AlternatingMatrix(matrix), embeddings, **options)
    if isinstance(out, sp.csr_array):
        out = out.toarray()
    return out.astype(np.float64), gains


def objective(row: NDArray[Any], omega: NDArray[Any], threshold: float) -> float:
    return float(row @ omega - threshold * np.abs(row).sum())


# --- what a half-step is ------------------------------------------------------------------------


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("limit", [0.0, 0.7])
@pytest.mark.parametrize("threshold", [0.0, 0.5, 50.0])
def test_product_threshold_and_norm(
    kernel: Kernel, seed: int, threshold: float, limit: float, sparse: bool
) -> None:
    matrix, embeddings = make_matrix(seed), make_embeddings(seed + 1)
    omega = matrix @ embeddings.astype(np.float64)
    expected = np.sign(omega) * np.maximum(np.abs(omega) - threshold, 0.0)
    if limit:
        norms = np.linalg.norm(expected, axis=1, keepdims=True)
        expected = np.divide(
            limit * expected, norms, out=np.zeros_like(expected), where=norms > 0.0
        )
    inputs = sp.csr_array(embeddings) if sparse else embeddings
    rows, gains = rows_of(kernel, matrix, inputs, threshold=threshold, limit=limit)
    np.testing.assert_allclose(rows, expected, rtol=1e-4, atol=1e-5)
    worth = [objective(*pair, threshold) for pair in zip(rows, omega, strict=True)]
    np.testing.assert_allclose(gains, worth, rtol=1e-4, atol=1e-4)


def best_row(omega: NDArray[np.float64], threshold: float, limit: float) -> NDArray[np.float64]:
    """Maximise <omega, p - n> - threshold (p + n) over p, n >= 0 in the ball, by SLSQP."""
    size = omega.size
    slope = np.concatenate([omega - threshold, -omega - threshold])

    def difference(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return x[:size] - x[size:]

    def inside(x: NDArray[np.float64]) -> float:
        return float(limit**2 - difference(x) @ difference(x))

    def inside_slope(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return -2.0 * np.concatenate([difference(x), -difference(x)])

    # The line search of SLSQP fails from some starting points, depending on the processor.
    for start in (1e-2, 3e-2, 1e-1, 3e-3):
        solution = minimize(
            lambda x: -slope @ x,
            np.full(2 * size, start),
            jac=lambda x: -slope,
            bounds=[(0.0, limit)] * (2 * size),
            constraints={"type": "ineq", "fun": inside, "jac": inside_slope},
            method="SLSQP",
            options={"maxiter": 1000, "ftol": 1e-9},
        )
        if solution.success:
            return difference(solution.x)
    raise AssertionError(solution.message)


@pytest.mark.parametrize("threshold", [0.0, 0.4, 1.5])
def test_a_row_is_the_maximiser(kernel: Kernel, seed: int, threshold: float) -> None:
    matrix, embeddings = make_matrix(seed, rows=10), make_embeddings(seed + 1, width=8)
    limit = 0.8
    omega = matrix @ embeddings.astype(np.float64)
    rows, gains = rows_of(kernel, matrix, embeddings, threshold=threshold, limit=limit)
    for row, gain, one in zip(rows, gains, omega, strict=True):
        best = best_row(one, threshold, limit)
        assert np.linalg.norm(row) <= limit * (1.0 + 1e-5)
        assert gain == pytest.approx(objective(best, one, threshold), rel=1e-4, abs=1e-5)
        np.testing.assert_allclose(row, best, atol=5e-3)


def test_alternating_half_steps_do_not_decrease_the_objective(kernel: Kernel, seed: int) -> None:
    matrix, embeddings = make_matrix(seed), make_embeddings(seed + 1)
    sides = (AlternatingMatrix(matrix), AlternatingMatrix(sp.csr_array(matrix.T)))
    threshold, limit, before = 0.05, 1.0, -np.inf
    for number in range(12):
        # The penalty of the side that stands still is part of the objective.
        still = threshold * float(np.abs(embeddings).sum(dtype=np.float64)) if number else np.inf
        embeddings, gains = kernel.alternating.half_step(
            sides[number % 2], embeddings, threshold=threshold, limit=limit
        )
        assert float(gains.sum()) - still >= before - 1e-3
        before = float(gains.sum()) - still
    assert before > 0.0


# --- input validation ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["threshold", "limit"])
@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
def test_numbers_are_checked(kernel: Kernel, name: str, value: float) -> None:
    matrix, embeddings = AlternatingMatrix(make_matrix(0)), make_embeddings(1)
    with refuses(name):
        kernel.alternating.half_step(matrix, embeddings, **{name: value})


def test_the_matrix_is_checked() -> None:
    with refuses("TypeError: csr_array, not ndarray"):
        AlternatingMatrix(np.eye(3))  # type: ignore[arg-type]
    for value in (np.nan, np.inf):
        matrix = make_matrix(0)
        matrix.data[4] = value
        with refuses("finite"):
            AlternatingMatrix(matrix)
    matrix = make_matrix(0)
    matrix.indices[2] = 30
    with refuses("indices"):
        AlternatingMatrix(matrix)


@pytest.mark.parametrize(
    ("embeddings", "words"),
    [
        (make_embeddings(1, columns=29), "29 features, and M has 30"),
        (make_embeddings(1, width=12), "pad them to a multiple of 8"),
        (np.empty((30, 0), np.float32), "pad them to a multiple of 8"),
        (make_embeddings(1).astype(np.float64), "TypeError: float32"),
        (np.asfortranarray(make_embeddings(1)), "contiguous"),
        (sp.csr_array(make_embeddings(1, columns=31)), "31 features, and M has 30"),
    ],
)
def test_embeddings_are_checked(kernel: Kernel, embeddings: Any, words: str) -> None:
    with refuses(words):
        kernel.alternating.half_step(AlternatingMatrix(make_matrix(0)), embeddings)


def test_threads_are_checked(kernel: Kernel) -> None:
    with refuses("threads"):
        kernel.alternating.half_step(
            AlternatingMatrix(make_matrix(0)), make_embeddings(1), threads=0
        )


def test_out_is_written(kernel: Kernel, seed: int) -> None:
    matrix, embeddings = AlternatingMatrix(make_matrix(seed)), make_embeddings(seed + 1)
    expected, gains = kernel.alternating.half_step(matrix, embeddings, threshold=0.3, limit=1.0)
    buffer = np.full((40, WIDTH), np.nan, np.float32)
    out, again = kernel.alternating.half_step(
        matrix, embeddings, threshold=0.3, limit=1.0, out=buffer
    )
    assert out is buffer
    assert buffer.tobytes() == expected.tobytes()
    assert again.tobytes() == gains.tobytes()
    both = np.zeros((70, WIDTH), np.float32)
    for out, reason in (
        (buffer[:39], "out: expected shape"),
        (buffer[:, ::2], "out: expected shape"),
        (buffer.astype(np.float64), "out has dtype"),
        (both[:40], "overlap in memory"),
    ):
        with pytest.raises((ValueError, TypeError), match=reason):
            kernel.alternating.half_step(matrix, both[30 - 5 : 55], out=out)
