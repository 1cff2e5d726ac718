"""Print how fast one model per topic is trained: by induction or in full, by one thread or two.

    RANKING_BENCH_PROFILE=full python -P asv_benchmarks/topics_report.py

The full profile is 100 topics over 10,000 texts of 10,000 words. Ways to train are compared by
processor time, which other work on the machine hardly changes; one thread and two by the clock,
interleaved, which needs a quiet machine: the medians count.
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

from ranking import MatchingData, Ranker
from ranking.training.wrappers.per_query import PerQuery

JOBS = (1, 2)
ROUNDS = {"induced": 7, "all": 3}
L1 = "l1:strength=0.01"


def main() -> None:
    """Measure and print."""
    train, test = make_topics()
    print(f"{train}, load {os.getloadavg()[0]:.1f}")  # noqa: T201
    print(f"{'':30}{'cpu':>9}{'density':>9}{'map':>8}")  # noqa: T201
    for regularizer in (L1, "l2:strength=0.01"):
        for name, solver in SOLVERS.items():
            ranker = Ranker("linear", "domination", regularizer, solver, kernel=KERNELS[-1])
            started = time.process_time()
            model = PerQuery(ranker.plan()).fit(train).model
            spent = time.process_time() - started
            reached = average_precision(model, test, KERNELS[-1])
            line = f"{spent:8.2f}s{model.density:9.2%}{reached:8.4f}"
            print(f"{name + ', ' + regularizer:30}{line}")  # noqa: T201
    for name, rounds in ROUNDS.items():
        _compare_jobs(name, Ranker("linear", "domination", L1, SOLVERS[name]), train, rounds)


def _compare_jobs(name: str, ranker: Ranker, train: MatchingData, rounds: int) -> None:
    seconds: dict[int, list[float]] = {jobs: [] for jobs in JOBS}
    for _ in range(rounds):
        for jobs in JOBS:
            started = time.perf_counter()
            PerQuery(ranker.plan(), jobs=jobs).fit(train)
            seconds[jobs].append(time.perf_counter() - started)
    one, two = (statistics.median(seconds[jobs]) for jobs in JOBS)
    lines = f"{name}, {L1}: 1 thread {one:.2f}s, 2 threads {two:.2f}s, ratio {one / two:.2f}"
    print(f"{lines}, load {os.getloadavg()[0]:.1f}")  # noqa: T201


if __name__ == "__main__":
    main()
