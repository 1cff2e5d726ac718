"""Calls of a plugin's C functions over arrays.

A plugin may bring C functions (``ranking/native.h``). A kernel gets their addresses and calls them
with doubles, from any thread, without the GIL. The slope of a float32 margin is rounded to float32.
Rows are widened to doubles, changed in place by the function, and the result is rounded to their
precision. Calls do not depend on each other: threads change nothing.
"""

from __future__ import annotations

from typing import Protocol

from ranking.kernels.contract.arrays import Features, Floats, GradedScores, NativeCall


class NativeFamily(Protocol):
    """Calls of a plugin's C functions; `matrix` is float32 or float64 (rows, columns)."""

    def native_pairwise(self, call: NativeCall, margins: Floats, out: Floats, threads: int) -> None:
        """Fill out[i] with the value of a function of margins[i]."""

    def native_listwise_values(
        self, call: NativeCall, lists: GradedScores, out: Floats, threads: int
    ) -> None:
        """Fill out[i] (float64 (lists)) with the loss of list i."""

    def native_listwise_slopes(
        self, call: NativeCall, lists: GradedScores, out: Floats, threads: int
    ) -> None:
        """Fill `out` (float64 (rows)) with the slopes of each list's loss."""

    def native_penalties(
        self, call: NativeCall, matrix: Features, out: Floats, threads: int
    ) -> None:
        """Fill out[i] (float64 (rows)) with the penalty of row i."""

    def native_prox(
        self, call: NativeCall, matrix: Features, width: int, step: float, threads: int
    ) -> None:
        """Replace the first `width` numbers of each row by their prox, in place."""

    def native_maximize(self, call: NativeCall, matrix: Features, width: int, threads: int) -> None:
        """Replace the first `width` numbers of each row, a gain, by their maximiser, in place."""
