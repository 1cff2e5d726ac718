"""A half-step over shards of M, in one part and in several, in this process."""

from __future__ import annotations

import numpy as np

from ranking.contracts.regularizer import RowMaximum
from ranking_plugins.engines.local import Local
from ranking_plugins.solvers.shards import Computing, add_all, best_rows, cut, pulled_grams, turned

from .common import PROFILE, kernel_or_skip
from .matched import LIMIT, THRESHOLD, Sides, make_vectors

SIZE = {"fast": 20_000, "full": 200_000}[PROFILE]
ROW_LENGTH, WIDTH = 25.0, 96


class Shards:
    params = ([1, 2, 16], [1, 2])
    param_names = ("parts", "threads")
    timeout = 600

    def setup(self, parts: int, threads: int) -> None:
        sides = Sides.make((SIZE, SIZE), ROW_LENGTH)
        self.held = Local().scatter(cut((sides.rows, sides.columns), parts))
        self.by = Computing(kernel_or_skip("cython"), threads)
        self.vectors, self.room = make_vectors(SIZE, WIDTH), make_vectors(SIZE, WIDTH, seed=2)

    def time_best_rows(self, parts: int, threads: int) -> None:
        best = RowMaximum(THRESHOLD, LIMIT)
        self.held.map(best_rows, 0, self.vectors, self.by, best, self.room)

    def time_turned(self, parts: int, threads: int) -> None:
        asked = (0, self.vectors, self.by, self.room, None)
        start = np.zeros((WIDTH, WIDTH))
        self.held.reduce(pulled_grams, add_all, start, *asked, WIDTH)
        self.held.map(turned, np.eye(WIDTH))
