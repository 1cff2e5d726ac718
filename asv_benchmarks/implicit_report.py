"""Print BPR's epochs and the ten best of all users next to implicit's, and what NumPy needs.

    python -P asv_benchmarks/implicit_report.py [--width D ...]

MovieLens 1M from $RANKING_DATA, or synthetic likes of its shape; one thread. implicit is `pip
install implicit`. Seconds are those of the clock, the shortest of five. Memory is what a process
of its own holds at most beyond the embeddings, for twenty times the users; on Linux.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from implicit.cpu.bpr import BayesianPersonalizedRanking
from implicit.cpu.topk import topk
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).parent))
from benchmarks.common import KERNELS, kernel_or_skip
from benchmarks.interactions import RATE, Bpr, Likes, read_likes

from ranking.kernels.contract import Singles

REPEATS, BEST, MORE = 5, 10, 20


def shortest(call: Callable[[], object]) -> float:
    """Return the seconds of the fastest of some calls."""
    result = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        call()
        result.append(time.perf_counter() - start)
    return min(result)


def implicit_epoch(likes: Likes, width: int) -> float:
    """Return the seconds per epoch of implicit's BPR, as the slope over epochs."""

    def fit(iterations: int) -> None:
        BayesianPersonalizedRanking(
            factors=width,
            learning_rate=RATE,
            iterations=iterations,
            num_threads=1,
            random_state=0,
        ).fit(sp.csr_matrix(likes.train), show_progress=False)

    return (shortest(lambda: fit(6)) - shortest(lambda: fit(1))) / 5


def numpy_top(queries: Singles, documents: Singles) -> None:
    """Find the ten best by all scores at once."""
    np.argpartition(-(queries @ documents.T), BEST, axis=1)


def ways(width: int, users: int, items: int) -> dict[str, Callable[[], object]]:
    """Return the functions that find the ten best documents for random embeddings."""
    rng, no_biases = np.random.default_rng(0), np.zeros(0, np.float32)
    queries, documents = (rng.standard_normal((n, width), np.float32) for n in (users, items))
    output: dict[str, Callable[[], object]] = {
        "numpy": lambda: numpy_top(queries, documents),
        "implicit": lambda: topk(documents, queries, BEST, num_threads=1),
    }
    for name in KERNELS:
        kernel = kernel_or_skip(name)
        output[name] = lambda kernel=kernel: kernel.factored.top_k(
            queries, documents, no_biases, BEST
        )
    return output


def most_held() -> float:
    """Return the most memory of this process so far, in MB; getrusage's is its parent's too."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def peak_growth(name: str, width: int, shape: tuple[int, int]) -> float:
    """Return the growth of the process in MB while it finds the ten best."""
    call = ways(width, MORE * shape[0], shape[1])[name]
    before = most_held()
    call()
    return most_held() - before


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, nargs="*", default=[32, 64, 128])
    options = parser.parse_args()
    likes = read_likes()
    shape = likes.train.shape
    print(f"{likes.name}, {shape[0]} x {shape[1]}, {likes.train.nnz} likes")  # noqa: T201
    print(f"{'':10}{'width':>6}{'BPR epoch':>12}{'ten best':>12}{'MB':>8}")  # noqa: T201
    for width in options.width:
        epochs = {"implicit": implicit_epoch(likes, width)}
        for name in KERNELS:
            bpr = Bpr(kernel_or_skip(name), likes, width, False)
            epochs[name] = shortest(lambda bpr=bpr: bpr.step(bpr.sampler(0), 1))
        with threadpool_limits(1), multiprocessing.get_context("spawn").Pool(1, None, (), 1) as own:
            for name, call in ways(width, *shape).items():
                memory = own.apply(peak_growth, (name, width, shape))
                epoch = f"{epochs[name]:12.3f}" if name in epochs else f"{'':12}"
                print(  # noqa: T201
                    f"{name:10}{width:6}{epoch}{shortest(call):12.3f}{memory:8.0f}", flush=True
                )


if __name__ == "__main__":
    main()
