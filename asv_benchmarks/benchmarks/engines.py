"""A half-step over shards of M: in one part and in several, in this process and by workers."""

from __future__ import annotations

import numpy as np

from ranking.contracts.engine import Shards as Held
from ranking.contracts.regularizer import RowMaximum
from ranking.errors import EngineError
from ranking_plugins.engines.local import Local
from ranking_plugins.engines.ray import Ray
from ranking_plugins.solvers.shards import (
    Computing,
    add_all,
    best_rows,
    cut,
    concatenated,
    product_grams,
    rotated,
)

from .common import PROFILE, kernel_or_skip
from .matched import LIMIT, THRESHOLD, Sides, make_vectors

SIZE = {"fast": 20_000, "full": 200_000}[PROFILE]
ROW_LENGTH, WIDTH = 25.0, 96
BEST = RowMaximum(THRESHOLD, LIMIT)


def half_step(held: Held, vectors: np.ndarray, by: Computing) -> np.ndarray:
    """Return the rows of all parts, in order."""
    return concatenated([rows for rows, _ in held.map(best_rows, 0, vectors, by, BEST, None)], None)


def difference(found: np.ndarray, sides: Sides, vectors: np.ndarray) -> float:
    """Return the largest difference from a half-step in one part by one thread: 0 is promised."""
    one = Computing(kernel_or_skip("cython"), 1)
    whole = half_step(Local().scatter(split((sides.rows, sides.columns), 1)), vectors, one)
    return float(np.abs(found - whole).max())


class Shards:
    params = ([1, 2, 16], [1, 2])
    param_names = ("parts", "threads")
    timeout = 600

    def setup(self, parts: int, threads: int) -> None:
        self.sides = Sides.make((SIZE, SIZE), ROW_LENGTH)
        self.held = Local().scatter(split((self.sides.rows, self.sides.columns), parts))
        self.by = Computing(kernel_or_skip("cython"), threads)
        self.vectors, self.room = make_vectors(SIZE, WIDTH), make_vectors(SIZE, WIDTH, seed=2)

    def time_best_rows(self, parts: int, threads: int) -> None:
        self.held.map(best_rows, 0, self.vectors, self.by, BEST, self.room)

    def peakmem_best_rows(self, parts: int, threads: int) -> None:
        self.held.map(best_rows, 0, self.vectors, self.by, BEST, self.room)

    def track_difference(self, parts: int, threads: int) -> float:
        return difference(half_step(self.held, self.vectors, self.by), self.sides, self.vectors)

    def time_turned(self, parts: int, threads: int) -> None:
        asked = (0, self.vectors, self.by, self.room, None)
        start = np.zeros((WIDTH, WIDTH))
        self.held.reduce(product_grams, add_all, start, *asked, WIDTH)
        self.held.map(rotated, np.eye(WIDTH))


class Workers:
    """The same by two processes of engine ray on this machine, which start in the setup."""

    timeout = 600
    number, repeat, rounds, warmup_time = 5, 2, 1, 0.0  # asv sets up anew for every repeat
    held: Held | None = None

    def setup(self) -> None:
        self.sides = Sides.make((SIZE, SIZE), ROW_LENGTH)
        try:
            self.held = Ray(workers=2).scatter(split((self.sides.rows, self.sides.columns), 2))
        except EngineError as error:
            raise NotImplementedError(str(error)) from error
        self.by, self.vectors = Computing(kernel_or_skip("cython"), 1), make_vectors(SIZE, WIDTH)

    def teardown(self) -> None:
        if self.held is not None:  # asv also tears down what it skips
            self.held.close()

    def time_best_rows(self) -> None:
        self.held.checkpoint()
        half_step(self.held, self.vectors, self.by)

    def peakmem_best_rows(self) -> None:
        half_step(self.held, self.vectors, self.by)

    def track_difference(self) -> float:
        return difference(half_step(self.held, self.vectors, self.by), self.sides, self.vectors)
