"""Print one sweep of Domination Rank in every kernel next to NumPy, as ratios in one run.

    RANKING_BENCH_PROFILE=full python -P asv_benchmarks/sweep_report.py

The full profile is 1,000,000 rows x 136 float32 features in 8,000 queries. A sweep is timed in
the middle of training, best of several, kernels interleaved; bytes moved count, for each row and
feature, both columns that a step reads (the one that moves and the next) and margins and
exponentials, read and written.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from benchmarks.common import KERNELS, kernel_or_skip, make_judged, make_problem
from benchmarks.domination import NOTHING
from benchmarks.numpy_pass import NumpyPass

ROUNDS = 10
BYTES = 2 * 4 + 2 * 8 + 2 * 8


def clock(call: Callable[[], object]) -> float:
    """Return the seconds of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main() -> None:
    """Measure and print."""
    data = make_judged()
    columns = np.arange(data.n_features)
    runs: dict[str, Callable[[], None]] = {}
    for name in KERNELS:
        for threads in (1, 2):
            problem = make_problem(data, kernel_or_skip(name), threads)
            runs[f"{name}, {threads} thread{'s' * (threads > 1)}"] = lambda problem=problem: (
                problem.sweep(columns, NOTHING)
            )
    compared = NumpyPass(problem)
    runs["numpy, vectorised"] = lambda: compared.sweep(columns)

    first = {name: clock(run) for name, run in runs.items()}
    later = dict.fromkeys(runs, float("inf"))
    for number in range(ROUNDS):  # interleaved, so that a busy moment hits all equally
        for name, run in runs.items():
            if "numpy" not in name or number < 3:
                later[name] = min(later[name], clock(run))
    source = np.ones(64_000_000)
    target = np.empty_like(source)
    copy = min(clock(lambda: np.copyto(target, source)) for _ in range(ROUNDS))

    cells = data.n_rows * data.n_features
    print(f"{data.n_rows} rows x {data.n_features} features, {data.n_queries} queries")  # noqa: T201
    print(f"a copy moves {2 * source.nbytes / copy / 1e9:.1f} GB/s")  # noqa: T201
    print(f"{'':20}{'first':>9}{'later':>9}{'ns/cell':>9}{'GB/s':>7}{'x numpy':>9}")  # noqa: T201
    for name in runs:
        ratio = later["numpy, vectorised"] / later[name]
        print(  # noqa: T201
            f"{name:20}{first[name]:8.3f}s{later[name]:8.3f}s{later[name] / cells * 1e9:9.2f}"
            f"{BYTES * cells / later[name] / 1e9:7.1f}{ratio:9.1f}"
        )


if __name__ == "__main__":
    main()
