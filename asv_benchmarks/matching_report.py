"""Print what PLS and RMLS cost, solver and all, next to scikit-learn and SciPy.

    [RANKING_BENCH_PROFILE=full] python -P asv_benchmarks/matching_report.py [--kernel NAME]
        [--threads N] [--part pls|matrix] [--epochs N ...]

`pls`: the directions of M and the singular energy that they capture, next to scikit-learn's
randomized_svd with as many threads and, with --exact, ARPACK; bytes moved (as if no cache kept
any), and their rate as a share of that of a copy. `matrix`: M from clicks with features on both
sides, next to SciPy's products in one piece. Seconds are of the clock, once; `shapes_report.py` has
the shapes of the paper.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import svds
from sklearn.utils.extmath import randomized_svd
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).parent))
from alternating_report import copy_rate
from benchmarks.common import PROFILE
from benchmarks.half_steps import make_sparse

from ranking import MatchingData, Ranker
from ranking.data.click_matrix import click_matrix

SIZE = {"fast": 20_000, "full": 200_000}[PROFILE]
PLS_WIDTHS = (50, 100)
TALL_PASSES = 16
"""Reads and writes of matrices with one row per feature, per round, next to the two products."""


def say(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)  # noqa: T201


def timed_call(way: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a call returns, and its seconds."""
    started = time.perf_counter()
    result = way()
    return result, time.perf_counter() - started


def topical(shape: tuple[int, int], row_length: float, topics: int, seed: int = 0) -> sp.csr_array:
    """M of clicks with topics: half of a row's columns are of its own topic."""
    rng = np.random.default_rng(seed)
    output = abs(make_sparse(shape, row_length, seed))
    rows = np.repeat(np.arange(shape[0]), np.diff(output.indptr))
    own = rng.random(output.nnz) < 0.5
    size = shape[1] // topics
    # Topics of different weight, so that singular values fall.
    topic = (rng.random(shape[0]) ** 2 * topics).astype(np.int64)
    columns = np.where(
        own, topic[rows] * size + rng.integers(0, size, output.nnz), output.indices
    ).astype(np.int32)
    joined = sp.coo_array((output.data, (rows, columns)), shape=shape).tocsr()
    joined.sum_duplicates()
    return sp.csr_array(joined)


def energy(M: sp.csr_array, U: Any, V: Any) -> float:
    """The sum of squares of U'MV for orthonormal U and V."""
    return float(np.linalg.norm(U.T.astype(np.float64) @ (M @ V.astype(np.float64))) ** 2)


def train(M: sp.csr_array, parts: tuple[str, ...], options: argparse.Namespace) -> Ranker:
    """Return a ranker that is fitted on M alone."""
    ranker = Ranker(*parts, kernel=options.kernel, threads=options.threads)
    return ranker.fit(MatchingData(None, None, M))


def bytes_moved(M: sp.csr_array, width: int, rounds: int) -> int:
    """Bytes of the products and of the passes over tall matrices, `width` numbers a row."""
    tall = 4 * width * (M.shape[0] + M.shape[1]) // 2
    product = M.nnz * (4 * width + 8) + 2 * tall
    return rounds * (2 * product + TALL_PASSES * tall)


def pls(options: argparse.Namespace) -> None:
    """Compare captured energy and time."""
    M = topical((SIZE, SIZE), 25.0, 200)
    rate = copy_rate(options.threads, 3)
    say(f"M {M.shape}, {M.nnz} non-zeros, {options.threads} threads, copies {rate / 1e9:.1f} GB/s")
    train(M, pls_parts(PLS_WIDTHS[0], 1), options)  # the first has libraries to load
    for d in PLS_WIDTHS:
        with threadpool_limits(options.threads):
            (U, _, V), peer = timed_call(lambda d=d: randomized_svd(M, d, random_state=0))
        say(f"d={d} randomized_svd: {peer:.2f} s, energy {energy(M, U, V.T):.6g}")
        for epochs in options.epochs:
            parts = pls_parts(d, epochs)
            ranker, seconds = timed_call(lambda parts=parts: train(M, parts, options))
            result = energy(M, ranker.model_.U[:, :d], ranker.model_.V[:, :d])
            moved = bytes_moved(M, -(-(d + 10) // 8) * 8, epochs)
            say(
                f"d={d} alternating, {epochs} rounds: {seconds:.2f} s, {peer / seconds:.2f} x, "
                f"energy {result:.6g}; {moved / 1e9:.1f} GB moved, "
                f"{moved / seconds / rate:.0%} of copy"
            )
        if options.exact:
            (_, values, _), seconds = timed_call(lambda d=d: svds(M, k=d))
            say(f"d={d} ARPACK: {seconds:.2f} s, energy {float((values**2).sum()):.6g}")


def pls_parts(d: int, epochs: int) -> tuple[str, ...]:
    """The parts of a ranker that goes through so many rounds."""
    return (
        f"factored:dimensions={d},biases=false,init_scale=1",
        "alignment:per_query=false",
        "orthonormal:scale=1",
        f"alternating:max_epochs={epochs},tolerance=0,scale=1",
    )


def matrix(options: argparse.Namespace) -> None:
    """M from clicks with features."""
    rng = np.random.default_rng(0)
    n_queries = SIZE // 2
    data = MatchingData(
        abs(make_sparse((n_queries, SIZE), 4.0, 1)),
        abs(make_sparse((n_queries, SIZE), 5.9, 2)),
        sp.csr_array(abs(make_sparse((n_queries, n_queries), 1.74, 3)) * rng.integers(1, 50)),
    )
    for threads in (1, 2):
        output, seconds = timed_call(lambda threads=threads: click_matrix(data, threads=threads))
        say(
            f"M {output.rows.shape}, {output.rows.nnz} non-zeros, {threads} threads: "
            f"{seconds:.2f} s, {output.nbytes / 1e6:.0f} MB"
        )
    R = data.relevance
    _, seconds = timed_call(lambda: (data.queries.T @ (R @ data.documents)).tocsr().T.tocsr())
    say(f"SciPy in one piece: {seconds:.2f} s")


def main() -> None:
    """Run the parts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernel", default="auto")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--part", choices=("pls", "matrix"))
    parser.add_argument("--epochs", type=int, nargs="+", default=[5, 6, 12])
    parser.add_argument("--exact", action="store_true")
    options = parser.parse_args()
    for part in (matrix, pls):
        if options.part in (None, part.__name__):
            part(options)


if __name__ == "__main__":
    main()
