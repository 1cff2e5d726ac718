"""Print what PLS and RMLS cost, solver and all, beside scikit-learn and SciPy.

    [RANKING_BENCH_PROFILE=full] python -P asv_benchmarks/matching_report.py [--kernel NAME]
        [--threads N] [--part pls|week|matrix]

`pls`: the directions of M and the singular energy that they capture, beside scikit-learn's
randomized_svd and, with --exact, ARPACK. `week`: RMLS at the shape of a week of clicks, d = 1000,
ten iterations. `matrix`: M from clicks with features on both sides, beside SciPy's products in one
piece. Seconds are of the clock, once.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import svds
from sklearn.utils.extmath import randomized_svd

sys.path.insert(0, str(Path(__file__).parent))
from benchmarks.common import PROFILE
from benchmarks.matched import make_sparse

from ranking import Matching, Ranker
from ranking.data.click_matrix import click_matrix

SIZE = {"fast": 20_000, "full": 200_000}[PROFILE]
WEEK = {"fast": (21_000, 20_000), "full": (210_000, 200_000)}[PROFILE]
PLS_WIDTHS = (50, 100)


def say(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)  # noqa: T201


def timed(way: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a call returns, and its seconds."""
    started = time.perf_counter()
    found = way()
    return found, time.perf_counter() - started


def topical(shape: tuple[int, int], row_length: float, topics: int, seed: int = 0) -> sp.csr_array:
    """M of clicks with topics: half of a row's columns are of its own topic."""
    rng = np.random.default_rng(seed)
    made = abs(make_sparse(shape, row_length, seed))
    rows = np.repeat(np.arange(shape[0]), np.diff(made.indptr))
    own = rng.random(made.nnz) < 0.5
    size = shape[1] // topics
    # Topics of different weight, so that singular values fall.
    topic = (rng.random(shape[0]) ** 2 * topics).astype(np.int64)
    columns = np.where(
        own, topic[rows] * size + rng.integers(0, size, made.nnz), made.indices
    ).astype(np.int32)
    joined = sp.coo_array((made.data, (rows, columns)), shape=shape).tocsr()
    joined.sum_duplicates()
    return sp.csr_array(joined)


def energy(M: sp.csr_array, U: Any, V: Any) -> float:
    """The sum of squares of U'MV for orthonormal U and V."""
    return float(np.linalg.norm(U.T.astype(np.float64) @ (M @ V.astype(np.float64))) ** 2)


def trained(M: sp.csr_array, parts: tuple[str, ...], options: argparse.Namespace) -> Ranker:
    """Return a ranker that is fitted on M alone."""
    ranker = Ranker(*parts, kernel=options.kernel, threads=options.threads)
    return ranker.fit(Matching(None, None, M))


def pls(options: argparse.Namespace) -> None:
    """Compare captured energy and time."""
    M = topical((SIZE, SIZE), 25.0, 200)
    say(f"M {M.shape}, {M.nnz} non-zeros, {options.threads} threads")
    for d in PLS_WIDTHS:
        for epochs in options.epochs:
            parts = (
                f"factored:dimensions={d},biases=false",
                "alignment:per_query=false",
                "orthonormal:scale=1",
                f"alternating:max_epochs={epochs},tolerance=0,scale=1",
            )
            ranker, seconds = timed(lambda parts=parts: trained(M, parts, options))
            found = energy(M, ranker.model_.U[:, :d], ranker.model_.V[:, :d])
            say(f"d={d} alternating, {epochs} rounds: {seconds:.2f} s, energy {found:.6g}")
        if d <= options.peers:
            (U, _, V), seconds = timed(lambda d=d: randomized_svd(M, d, random_state=0))
            say(f"d={d} randomized_svd: {seconds:.2f} s, energy {energy(M, U, V.T):.6g}")
        if options.exact:
            (_, values, _), seconds = timed(lambda d=d: svds(M, k=d))
            say(f"d={d} ARPACK: {seconds:.2f} s, energy {float((values**2).sum()):.6g}")


def week(options: argparse.Namespace) -> None:
    """RMLS at the size of the paper."""
    M = topical(WEEK, 25.0, 200)
    for d in (100, 1000):
        parts = (
            f"sparse-factored:dimensions={d}",
            "alignment:per_query=false",
            "l1l2-row:strength=1",
            f"alternating:max_epochs=10,tolerance=0,center={str(options.center).lower()}",
        )
        ranker, seconds = timed(lambda parts=parts: trained(M, parts, options))
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        last = ranker.history_[-1]
        say(
            f"RMLS {WEEK}, d={d}, 10 rounds: {seconds:.1f} s, density "
            f"{ranker.model_.density:.2%}, vectors {last['megabytes']:.0f} MB, most memory "
            f"{most:.1f} GiB"
        )


def matrix(options: argparse.Namespace) -> None:
    """M from clicks with features."""
    rng = np.random.default_rng(0)
    n_queries = SIZE // 2
    data = Matching(
        abs(make_sparse((n_queries, SIZE), 4.0, 1)),
        abs(make_sparse((n_queries, SIZE), 5.9, 2)),
        sp.csr_array(abs(make_sparse((n_queries, n_queries), 1.74, 3)) * rng.integers(1, 50)),
    )
    for threads in (1, 2):
        made, seconds = timed(lambda threads=threads: click_matrix(data, threads=threads))
        say(
            f"M {made.rows.shape}, {made.rows.nnz} non-zeros, {threads} threads: {seconds:.2f} s, "
            f"{made.nbytes / 1e6:.0f} MB"
        )
    R = data.relevance
    _, seconds = timed(lambda: (data.queries.T @ (R @ data.documents)).tocsr().T.tocsr())
    say(f"SciPy in one piece: {seconds:.2f} s")


def main() -> None:
    """Run the parts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernel", default="auto")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--part", choices=("pls", "week", "matrix"))
    parser.add_argument("--epochs", type=int, nargs="+", default=[4, 8, 16])
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--center", action="store_true")
    parser.add_argument("--peers", type=int, default=100, help="largest d for randomized_svd")
    options = parser.parse_args()
    for part in (matrix, pls, week):
        if options.part in (None, part.__name__):
            part(options)


if __name__ == "__main__":
    main()
