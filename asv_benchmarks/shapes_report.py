"""Print what RMLS and PLS cost at the shapes of the paper: a week of clicks, and half a year.

    [RANKING_BENCH_PROFILE=full] python -P asv_benchmarks/shapes_report.py
        --part rmls-week|pls-week|half-year [--rounds N] [--kernel NAME] [--threads N]

The paper (Wu, Lu and Li, 2013) has 1,380 s for ten iterations of RMLS and 945,382 s for PLS, at
d = 1000 and the shape of a week; on one core. M is made up: half of the columns of a row are of its
own topic. Seconds are of the clock, once: of the whole, and of each round; memory is the most that
this process has held.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

sys.path.insert(0, str(Path(__file__).parent))
from benchmarks.common import PROFILE

from ranking import MatchingData, Ranker
from ranking.contracts.callback import Callback

SHRINK = {"fast": 10, "full": 1}[PROFILE]
PARTS = {
    "rmls-week": ((210_000, 200_000), 25.8, 1000, "l1l2-row:strength=1"),
    "pls-week": ((210_000, 200_000), 25.8, 1000, "orthonormal:scale=1"),
    "half-year": ((4_900_000, 6_600_000), 25.0, 100, "l1l2-row:strength=1"),
}
"""Shape, non-zeros a row, dimensions and regularizer."""

TOPICS, BLOCK = 200, 100_000


def say(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)  # noqa: T201


def topical(shape: tuple[int, int], row_length: float, seed: int = 0) -> sp.csr_array:
    """M of clicks with topics, made by blocks of rows: little memory is needed next to it."""
    rng = np.random.default_rng(seed)
    rows, columns = shape
    lengths = rng.poisson(row_length, rows)
    indptr = np.concatenate(([0], np.cumsum(lengths)))
    indices = np.empty(indptr[-1], np.int32)
    size = columns // TOPICS
    for first in range(0, rows, BLOCK):
        count = lengths[first : first + BLOCK]
        topic = np.repeat((rng.random(count.size) ** 2 * TOPICS).astype(np.int64), count)
        own = topic * size + rng.integers(0, size, topic.size)
        other = rng.integers(0, columns, topic.size)
        last = min(first + BLOCK, rows)
        indices[indptr[first] : indptr[last]] = np.where(rng.random(topic.size) < 0.5, own, other)
    values = rng.random(indices.size, dtype=np.float32)
    output = sp.csr_array((values, indices, indptr.astype(np.int32)), shape=shape)
    output.sum_duplicates()
    return output


class Clock(Callback):
    """Prints the seconds of each round."""

    name = "clock"

    def __init__(self) -> None:
        self.last = time.perf_counter()

    def on_fit_begin(self, run: Any) -> None:
        """Begin to count."""
        self._tell(f"M and first embeddings, {gibibytes():.1f} GiB")

    def on_epoch_end(self, run: Any, result: Any) -> bool:
        """Print the seconds since the last call."""
        self._tell(f"round {result.epoch}, objective {result.objective:.6g}")
        return False

    def _tell(self, what: str) -> None:
        now = time.perf_counter()
        say(f"  {now - self.last:8.2f} s  {what}")
        self.last = now


def gibibytes() -> float:
    """The most memory that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    """Train once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=tuple(PARTS), required=True)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--tolerance", type=float, default=0.0)
    parser.add_argument("--kernel", default="auto")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    shape, row_length, d, regularizer = PARTS[options.part]
    shape = shape[0] // SHRINK, shape[1] // SHRINK
    M = topical(shape, row_length)
    say(f"{options.part}: M {shape}, {M.nnz} non-zeros, d = {d}, {options.threads} threads")
    model = "factored" if regularizer.startswith("orthonormal") else "sparse-factored"
    ranker = Ranker(
        f"{model}:dimensions={d},biases=false,init_scale=1",
        "alignment:per_query=false",
        regularizer,
        f"alternating:max_epochs={options.rounds},tolerance={options.tolerance}",
        kernel=options.kernel,
        threads=options.threads,
        callbacks=[Clock()],
    )
    data = MatchingData(None, None, M)
    del M
    started = time.perf_counter()
    ranker.fit(data)
    say(
        f"  {time.perf_counter() - started:8.2f} s  in all, {len(ranker.history_)} rounds, "
        f"{ranker.stopped_}, density {ranker.model_.density:.2%}, most memory {gibibytes():.1f} GiB"
    )


if __name__ == "__main__":
    main()
