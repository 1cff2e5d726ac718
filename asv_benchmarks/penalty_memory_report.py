"""Peak memory of training with each penalty, as a multiple of that without one.

Each training has a process of its own, whose largest resident memory is measured. Run it as
``python -P asv_benchmarks/penalty_memory_report.py [ROWS] [DIMENSIONS]``; the rows of both
sides together are 300,000 by default.
"""

from __future__ import annotations

import resource
import subprocess
import sys

PENALTIES = (
    "l1:strength=1e-7",
    "l2:strength=1e-7",
    "l2:strength=1e-7,scaling=frequency",
    "elastic:strength=1e-7",
    "l1l2-row:strength=1e-7",
    "max-norm",
    "group-l1:strength=1e-7",
    "l1-row:limit=4",
    "orthonormal",
)
TRAININGS = (
    ("hinge", "sgd:epochs=1"),
    ("hinge", "sgd:epochs=1,schedule=inverse-sqrt,learning_rate=1"),
    ("softmax", "sgd:epochs=1,n_negatives=64"),
    ("domination", "coordinate:max_epochs=1,tolerance=0,n_negatives=2"),
    ("hinge", "alternating:max_epochs=1,tolerance=0,n_negatives=2"),
    ("warp", "alternating:max_epochs=1,tolerance=0"),
)


def train(parts: tuple[str, str, str], rows: int, dimensions: int) -> None:
    """Train once, and print the peak memory before and after in MB."""
    import warnings

    import numpy as np
    import scipy.sparse as sp

    from ranking import MatchingData, Ranker

    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    shape = 2 * rows // 3, rows // 3
    places = rng.integers(0, shape[0], rows), rng.integers(0, shape[1], rows)
    data = MatchingData(relevance=sp.csr_array((np.ones(rows), places), shape))
    before = peak()
    model = f"factored:dimensions={dimensions},init_scale=0.1"
    Ranker(model, *parts, threads=1, random_state=0).fit(data)
    print(before, peak())  # noqa: T201


def peak() -> float:
    """Return the largest resident memory of this process, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def measure(parts: tuple[str, str, str], rows: int, dimensions: int) -> tuple[float, float]:
    """Return the peak memory of a process that trains, before and after, in MB."""
    command = [sys.executable, "-P", __file__, "train", *parts, str(rows), str(dimensions)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    before, after = map(float, done.stdout.split())
    return before, after


def main(rows: int = 300_000, dimensions: int = 64) -> None:
    """Print a table of all trainings."""
    megabytes = rows * dimensions * 4 / 2**20
    print(f"{rows} embeddings of {dimensions} numbers, {megabytes:.0f} MB\n")  # noqa: T201
    print("| loss | solver | regularizer | peak MB | times that of none |")  # noqa: T201
    print("|---|---|---|---|---|")  # noqa: T201
    for loss, solver in TRAININGS:
        free = 0.0
        for penalty in ("none", *PENALTIES):
            _, after = measure((loss, penalty, solver), rows, dimensions)
            free = free or after
            print(  # noqa: T201
                f"| `{loss}` | `{solver}` | `{penalty}` | {after:.0f} | {after / free:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    if sys.argv[1:2] == ["train"]:
        loss, penalty, solver, rows, dimensions = sys.argv[2:]
        train((loss, penalty, solver), int(rows), int(dimensions))
    else:
        main(*map(int, sys.argv[1:]))
