"""Print sweeps of pairwise losses over judged lists next to those of Domination Rank.

    RANKING_BENCH_PROFILE=full python -P asv_benchmarks/pairwise_report.py [THREADS]

The full profile is 1,000,000 rows x 136 float32 features in 8,000 queries. Of `SWEEPS` sweeps from
weights 0, the shortest (processor time) and the objective, with `PENALTY`, after some of them.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

from ranking.contracts.regularizer import EntryPenalty

sys.path.insert(0, str(Path(__file__).parent))
from benchmarks.common import KERNELS, kernel_or_skip, make_judged

from ranking_plugins.losses import Domination, Hinge, Logistic, SquaredHinge

SWEEPS = 8
SHOWN = (1, 2, 4, 8)
PENALTY = EntryPenalty(0.0, 1e-3)


def main() -> None:
    """Measure and print."""
    threads = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    data = make_judged()
    columns = np.arange(data.n_features)
    print(f"{data.n_rows} rows x {data.n_features} features, {threads} threads")  # noqa: T201
    for name in KERNELS:
        losses = (Domination(), Hinge(), SquaredHinge(), Logistic())
        problems = {
            loss.name: loss.coordinate_problem(
                data, np.zeros(data.n_features), kernel_or_skip(name), threads, "newton"
            )
            for loss in losses
        }
        seconds = dict.fromkeys(problems, float("inf"))
        objectives: dict[str, list[float]] = {loss: [] for loss in problems}
        for _ in range(SWEEPS):  # interleaved, so that a busy moment hits all equally
            for loss, problem in problems.items():
                start = time.process_time()
                problem.sweep(columns, PENALTY)
                seconds[loss] = min(seconds[loss], time.process_time() - start)
                penalty = 0.5 * PENALTY.l2 * float((problem.weights**2).sum())
                objectives[loss].append(problem.value() + penalty)
        for loss, each in seconds.items():
            ratio = each / seconds["domination"]
            values = " ".join(f"{objectives[loss][at - 1]:.8f}" for at in SHOWN)
            print(f"{name:8}{loss:14}{each:7.3f}s{ratio:6.2f} x  {values}")  # noqa: T201


if __name__ == "__main__":
    main()
