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
    concatenated,
    product_grams,
    rotated,
    split,
)

from .common import PROFILE, kernel_or_skip
from .half_steps import LIMIT, THRESHOLD, Sides, make_embeddings

SIZE = {"fast": 20_000, "full": 200_000}[PROFILE]
ROW_LENGTH, WIDTH = 25.0, 96
BEST = RowMaximum(THRESHOLD, LIMIT)


def half_step(held: Held, embeddings: np.ndarray, by: Computing) -> np.ndarray:
    """Return the rows of all parts, in order."""
    return concatenated(
        [rows for rows, _ in held.map(best_rows, 0, embeddings, by, BEST, None)], None
    )


def difference(result: np.ndarray, sides: Sides, embeddings: np.ndarray) -> float:
    """Return the largest difference from a half-step in one part by one thread: 0 is promised."""
    one = Computing(kernel_or_skip("cython"), 1)
    whole = half_step(Local().scatter(split((sides.rows, sides.columns), 1)), embeddings, one)
    return float(np.abs(result - whole).max())


class Shards:
    params = ([1, 2, 16], [1, 2])
    param_names = ("parts", "threads")
    timeout = 600

    def setup(self, parts: int, threads: int) -> None:
        self.sides = Sides.make((SIZE, SIZE), ROW_LENGTH)
        self.held = Local().scatter(split((self.sides.rows, self.sides.columns), parts))
        self.by = Computing(kernel_or_skip("cython"), threads)
        self.embeddings, self.buffer = (
            make_embeddings(SIZE, WIDTH),
            make_embeddings(SIZE, WIDTH, seed=2),
        )

    def time_best_rows(self, parts: int, threads: int) -> None:
        self.held.map(best_rows, 0, self.embeddings, self.by, BEST, self.buffer)

    def peakmem_best_rows(self, parts: int, threads: int) -> None:
        self.held.map(best_rows, 0, self.embeddings, self.by, BEST, self.buffer)

    def track_difference(self, parts: int, threads: int) -> float:
        return difference(
            half_step(self.held, self.embeddings, self.by), self.sides, self.embeddings
        )

    def time_turned(self, parts: int, threads: int) -> None:
        arguments = (0, self.embeddings, self.by, self.buffer, None)
        start = np.zeros((WIDTH, WIDTH))
        self.held.reduce(product_grams, add_all, start, *arguments, WIDTH)
        self.held.map(rotated, np.eye(WIDTH))


class Workers:
    """The same by two processes of engine ray on this machine, which start in the setup."""

    timeout = 600
    number, repeat, rounds, warmup_time = 5, 2, 1, 0.0  # asv sets up again for every repeat
    held: Held | None = None

    def setup(self) -> None:
        self.sides = Sides.make((SIZE, SIZE), ROW_LENGTH)
        try:
            self.held = Ray(workers=2).scatter(split((self.sides.rows, self.sides.columns), 2))
        except EngineError as error:
            raise NotImplementedError(str(error)) from error
        self.by, self.embeddings = (
            Computing(kernel_or_skip("cython"), 1),
            make_embeddings(SIZE, WIDTH),
        )

    def teardown(self) -> None:
        if self.held is not None:  # asv also tears down what it skips
            self.held.close()

    def time_best_rows(self) -> None:
        self.held.checkpoint()
        half_step(self.held, self.embeddings, self.by)

    def peakmem_best_rows(self) -> None:
        half_step(self.held, self.embeddings, self.by)

    def track_difference(self) -> float:
        return difference(
            half_step(self.held, self.embeddings, self.by), self.sides, self.embeddings
        )
