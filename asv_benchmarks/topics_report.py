"""Print how fast one model per topic is trained: by induction or in full, by one thread or two.

    RANKING_BENCH_PROFILE=full python -P asv_benchmarks/topics_report.py

The full profile is 100 topics over 10,000 texts of 10,000 words. Ways to train are compared by
processor time, which other work on the machine hardly changes; one thread and two by the clock,
in turn, which needs a quiet machine: the medians count.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from benchmarks.common import KERNELS
from benchmarks.topics import SOLVERS, average_precision, make_topics

from ranking import Ranker
from ranking.per_query import fit_per_query

JOBS = (1, 2)
ROUNDS = 7


def main() -> None:
    """Measure and print."""
    train, test = make_topics()
    print(f"{train}, load {os.getloadavg()[0]:.1f}")  # noqa: T201
    print(f"{'':30}{'cpu':>9}{'density':>9}{'map':>8}")  # noqa: T201
    for regularizer in ("l1:strength=0.01", "l2:strength=0.01"):
        for name, solver in SOLVERS.items():
            ranker = Ranker("linear", "domination", regularizer, solver, kernel=KERNELS[-1])
            started = time.process_time()
            model = fit_per_query(ranker, train).model
            spent = time.process_time() - started
            reached = average_precision(model, test, KERNELS[-1])
            line = f"{spent:8.2f}s{model.density:9.2%}{reached:8.4f}"
            print(f"{name + ', ' + regularizer:30}{line}")  # noqa: T201
    ranker = Ranker("linear", "domination", "l1:strength=0.01", SOLVERS["induced"])
    seconds: dict[int, list[float]] = {jobs: [] for jobs in JOBS}
    for _ in range(ROUNDS):
        for jobs in JOBS:
            started = time.perf_counter()
            fit_per_query(ranker, train, jobs=jobs)
            seconds[jobs].append(time.perf_counter() - started)
    middle = {jobs: statistics.median(each) for jobs, each in seconds.items()}
    for jobs in JOBS:
        print(f"{jobs} jobs: {middle[jobs]:.2f}s, best {min(seconds[jobs]):.2f}s")  # noqa: T201
    print(f"ratio {middle[1] / middle[2]:.2f}, load {os.getloadavg()[0]:.1f}")  # noqa: T201


if __name__ == "__main__":
    main()
