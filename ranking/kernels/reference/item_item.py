"""Reference of the item-item family: coordinate descent on one column after the other."""

from __future__ import annotations

import numpy as np

from ranking.kernels.contract import Csr, Floats, Ints, ItemRule


class _Column:
    """The state of the descent on one column."""

    def __init__(self, gram: Csr, diagonal: Floats, rule: ItemRule, column: int) -> None:
        self.gram, self.diagonal, self.rule, self.column = gram, diagonal, rule, column
        self.target = np.zeros(diagonal.size)
        indices, values = self._row(column)
        self.target[indices] = values
        self.slopes = -self.target

    def _row(self, item: int) -> tuple[Ints, Floats]:
        part = slice(int(self.gram.indptr[item]), int(self.gram.indptr[item + 1]))
        return self.gram.indices[part].astype(np.int64), self.gram.data[part].astype(np.float64)

    def add(self, item: int, step: float) -> None:
        """Add a multiple of a row of the Gram matrix to the slopes."""
        indices, values = self._row(item)
        self.slopes[indices] += step * values

    def sweep(self, items: Ints, weights: Floats, active: bool) -> float:
        """Take a step along each candidate; return the largest curvature times squared step."""
        rule, largest = self.rule, 0.0
        for at, item in enumerate(items.tolist()):
            old = float(weights[at])
            own = float(self.diagonal[item])
            curvature = 2.0 * own + rule.l2
            if item == self.column or (active and old == 0.0) or not curvature > 0.0:
                continue
            pull = 2.0 * (own * old - float(self.slopes[item]))
            new = 0.0
            if pull > rule.l1:
                new = (pull - rule.l1) / curvature
            elif pull < -rule.l1 and not rule.nonnegative:
                new = (pull + rule.l1) / curvature
            step = new - old
            if step != 0.0:
                weights[at] = new
                self.add(item, step)
                largest = max(largest, curvature * (step * step))
        return largest

    def descend(self, items: Ints, weights: Floats) -> int:
        """Sweep until convergence; return the number of sweeps, negative without convergence."""
        least = self.rule.tolerance * float(self.diagonal[self.column])
        active = False
        for sweep in range(1, self.rule.sweeps + 1):
            converged = self.sweep(items, weights, active) <= least
            if converged and not active:
                return sweep
            active = not converged
        return -self.rule.sweeps

    def loss(self, items: Ints, weights: Floats) -> float:
        """Return the squared error of the column."""
        total = float(self.diagonal[self.column])
        for item, weight in zip(items.tolist(), weights.tolist(), strict=True):
            total += weight * (float(self.slopes[item]) - float(self.target[item]))
        return total


def item_columns(
    gram: Csr,
    diagonal: Floats,
    candidates: Csr,
    rule: ItemRule,
    losses: Floats,
    sweeps: Ints,
    threads: int,
) -> None:
    """Minimize column by column."""
    for column in range(diagonal.size):
        part = slice(int(candidates.indptr[column]), int(candidates.indptr[column + 1]))
        items, weights = candidates.indices[part].astype(np.int64), candidates.data[part]
        state = _Column(gram, diagonal, rule, column)
        for item, weight in zip(items.tolist(), weights.tolist(), strict=True):
            if weight != 0.0:
                state.add(item, weight)
        sweeps[column] = state.descend(items, weights)
        losses[column] = state.loss(items, weights)
