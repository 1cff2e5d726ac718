"""Reference of the alternating family: product, threshold and norm, one row at a time."""

from __future__ import annotations

import numpy as np

from ranking.kernels.contract import WIDE, Csr, Floats, Int32s, Ints, Singles, SquaredRule
from ranking.kernels.reference.factored import ZERO, dot


def _row(
    matrix: Csr, row: int, embeddings: Singles, threshold: float, limit: float
) -> tuple[Singles, float]:
    """Return a row of the half-step, and its gain."""
    indptr, indices, data = matrix
    omega = np.zeros(embeddings.shape[1], np.float32)
    for at in range(int(indptr[row]), int(indptr[row + 1])):
        omega += np.float32(data[at]) * embeddings[indices[at]]
    cut = np.float32(threshold)
    shrunk = np.abs(omega) - cut
    soft = np.where(shrunk > ZERO, np.copysign(shrunk, omega), ZERO)
    square = dot(soft, soft)
    if limit > 0.0 and square > ZERO:
        soft = soft * (np.float32(limit) / np.sqrt(square))
    ones = np.ones_like(soft)
    gain = float(dot(soft, omega)) - float(cut) * float(dot(np.abs(soft), ones))
    return soft, gain


def half_step(
    matrix: Csr,
    embeddings: Singles,
    threshold: float,
    limit: float,
    out: Singles,
    gains: Floats,
    threads: int,
) -> None:
    """Take a half-step, row by row."""
    for row in range(out.shape[0]):
        out[row], gains[row] = _row(matrix, row, embeddings, threshold, limit)


def half_step_sparse(
    matrix: Csr,
    embeddings: Csr,
    width: int,
    threshold: float,
    limit: float,
    gains: Floats,
    threads: int,
) -> tuple[Ints, Int32s, Singles]:
    """Take the same half-step from sparse embeddings."""
    pointers, dimensions, values = embeddings
    dense = np.zeros((pointers.size - 1, -(-width // WIDE) * WIDE), np.float32)
    rows = np.repeat(np.arange(pointers.size - 1), np.diff(pointers))
    dense[rows, dimensions] = values
    out = np.empty((gains.size, dense.shape[1]), np.float32)
    half_step(matrix, dense, threshold, limit, out, gains, threads)
    nonzero = out != ZERO
    indptr = np.concatenate(([0], np.cumsum(nonzero.sum(axis=1)))).astype(np.int64)
    return indptr, np.nonzero(nonzero)[1].astype(np.int32), out[nonzero]


LEAST = np.float32(1e-30)
"""Below it a squared residual counts as 0."""


def _times(x: Singles, gram: Singles) -> Singles:
    """Return x'G, row by row of G."""
    total = np.zeros_like(x)
    for value, row in zip(x, gram, strict=True):
        total += value * row
    return total


class _Quadratic:
    """The quadratic of one row: A and b of the contract."""

    def __init__(
        self, entries: tuple[Singles, Singles], gram: Singles, rule: SquaredRule, ridge: np.float32
    ) -> None:
        (self.responses, self.rows), self.gram, self.ridge = entries, gram, ridge
        self.observed, self.unobserved = np.float32(rule.observed), np.float32(rule.unobserved)
        self.excess = self.observed - self.unobserved

    def product(self, x: Singles) -> Singles:
        """Return A x."""
        total: Singles = self.ridge * x + self.unobserved * _times(x, self.gram)
        for row in self.rows:
            total += (self.excess * dot(row, x)) * row
        return total

    def target(self) -> Singles:
        """Return b."""
        total = np.zeros(self.gram.shape[0], np.float32)
        for response, row in zip(self.responses, self.rows, strict=True):
            total += (self.observed * response) * row
        return total


def _descend(quadratic: _Quadratic, x: Singles, steps: int) -> float:
    """Take steps of conjugate gradients from x, in place; return the gain."""
    b = quadratic.target()
    residual = b - quadratic.product(x)
    direction, square = residual.copy(), dot(residual, residual)
    for _ in range(steps):
        if not square > LEAST:
            break
        product = quadratic.product(direction)
        curvature = dot(direction, product)
        if not curvature > ZERO:
            break
        length = square / curvature
        x += length * direction
        residual -= length * product
        before, square = square, dot(residual, residual)
        direction = residual + (square / before) * direction
    return float(dot(x, b)) + float(dot(x, residual))


def squared_half_step(
    matrix: Csr,
    embeddings: Singles,
    gram: Singles,
    rule: SquaredRule,
    ridges: Singles,
    out: Singles,
    gains: Floats,
    threads: int,
) -> None:
    """Decrease the squared error of all pairs, row by row."""
    for row in range(out.shape[0]):
        part = slice(int(matrix.indptr[row]), int(matrix.indptr[row + 1]))
        entries = matrix.data[part].astype(np.float32), embeddings[matrix.indices[part]]
        gains[row] = _descend(_Quadratic(entries, gram, rule, ridges[row]), out[row], rule.steps)
