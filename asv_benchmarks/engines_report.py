"""Print what an iteration of the alternating half-steps costs by engine, and what moves.

    [RANKING_BENCH_PROFILE=full] python -P asv_benchmarks/engines_report.py [--repeats N]

Both half-steps of RMLS and of PLS without its damping, d = 96: in this process with one thread and
with two, in 16 parts one after the other, and by two workers of engine ray with one thread each on
this machine, so over shared memory. Seconds are of the clock, the least of the repeats, in which
the ways are interleaved; the ratio is to one thread in this process.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from benchmarks.engines import ROW_LENGTH, SIZE, WIDTH
from benchmarks.half_steps import LIMIT, THRESHOLD, Sides, make_embeddings

from ranking import get_kernel
from ranking.contracts.engine import Shards
from ranking.contracts.regularizer import RowMaximum
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


def rmls(held: Shards, threads: int, embeddings: Any, buffers: Any) -> None:
    """Take both half-steps with a threshold and a norm."""
    for side in (0, 1):
        held.checkpoint()
        by, best = Computing(get_kernel("cython"), threads), RowMaximum(THRESHOLD, LIMIT)
        result = held.map(best_rows, side, embeddings, by, best, buffers[side])
        embeddings = concatenated([output for output, _ in result], buffers[side])


def pls(held: Shards, threads: int, embeddings: Any, buffers: Any) -> None:
    """Take both half-steps with a Gram matrix and a product with a small one."""
    for side in (0, 1):
        held.checkpoint()
        arguments = (
            side,
            embeddings,
            Computing(get_kernel("cython"), threads),
            buffers[side],
            None,
            WIDTH,
        )
        square = held.reduce(product_grams, add_all, np.zeros((WIDTH, WIDTH)), *arguments)
        rotation = np.linalg.inv(np.linalg.cholesky(square)).T
        embeddings = concatenated(held.map(rotated, rotation), buffers[side])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    sides = Sides.make((SIZE, SIZE), ROW_LENGTH)
    both, embeddings = (sides.rows, sides.columns), make_embeddings(SIZE, WIDTH)
    here, nowhere = [np.empty_like(embeddings) for _ in both], (None, None)
    whole = Local().scatter(split(both, 1))
    with Ray(workers=2).scatter(split(both, 2)) as workers:
        for name, take in (("rmls", rmls), ("pls", pls)):
            ways: dict[str, Callable[[], None]] = {
                "local, 1 thread": partial(take, whole, 1, embeddings, here),
                "local, 2 threads": partial(take, whole, 2, embeddings, here),
                "16 parts, 1 thread": partial(
                    take, Local().scatter(split(both, 16)), 1, embeddings, here
                ),
                "ray, 2 workers": partial(take, workers, 1, embeddings, nowhere),
            }
            best = dict.fromkeys(ways, np.inf)
            for _ in range(repeats):
                for way, run in ways.items():
                    start = time.perf_counter()
                    run()
                    best[way] = min(best[way], time.perf_counter() - start)
            for way, seconds in best.items():
                ratio = best["local, 1 thread"] / seconds
                print(f"{name:5} {way:20} {seconds:8.3f} s  {ratio:5.2f} x")  # noqa: T201
    moved = 4 * embeddings.nbytes / 1e6  # out and back, twice
    print(f"{moved:.0f} MB of embeddings move in an iteration")  # noqa: T201


if __name__ == "__main__":
    main()
