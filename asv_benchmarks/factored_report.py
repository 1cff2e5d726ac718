"""Print what an epoch of WARP costs in every kernel, beside LightFM if it is installed.

    python -P asv_benchmarks/factored_report.py [--quick] [--kernel NAME] [--epochs N]
                                                [--width N] [--threads N] [--block N]
                                                [--processor] [--turns]

MovieLens 1M from $RANKING_DATA, or synthetic likes of its shape; four fifths to train on. At most
ten trials, adagrad, biases, and with "features" about 12 a row on both sides: an object's own and
11 of 200 others. LightFM (`pip install lightfm-next`) does the same in the same run. Seconds are
those of the clock, the shortest of the epochs, drawing included; with --processor those of the
processor, which hold on a busy machine too, but add up those of threads. The precision is that
after all epochs. With --turns, what two threads gain with features, one and two taking turns, as
the processors of a machine may be nearer to each other at one time than at another.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import scipy.sparse as sp

sys.path.insert(0, str(Path(__file__).parent))
from benchmarks.common import KERNELS, kernel_or_skip
from benchmarks.interactions import (
    RATE,
    TRIALS,
    Bpr,
    Likes,
    Warp,
    make_features,
    make_likes,
    precision,
    precision_of,
    read_likes,
)

from ranking.kernels.factored import scores, top
from ranking.kernels.kernel import Kernel

try:
    from lightfm import LightFM
except ImportError:
    LightFM = None


TIMER = time.perf_counter


def clock(call: Callable[[], object]) -> float:
    """Return the seconds of one call."""
    start = TIMER()
    call()
    return TIMER() - start


def show(name: str, width: int, features: bool, threads: int, rest: str) -> None:
    """Print a line."""
    which = "features" if features else "none"
    print(f"{name:16}{width:6}{which:>10}{threads:9}{rest}", flush=True)  # noqa: T201


def report_epochs(warp: Warp, width: int, threads: int, epochs: int) -> float:
    """Print the shortest epoch, and the precision after all; return the epoch."""
    steps, share = [], 0.0
    for epoch in range(epochs):
        start = TIMER()
        _, weights = warp.step(warp.draws(epoch), threads)
        steps.append(TIMER() - start)
        share = float(np.mean(weights > 0.0))
    found = precision_of(warp.top(), warp.likes)
    rest = f"{min(steps):9.3f}{np.median(steps):9.3f}{share:9.1%}{found:9.4f}"
    name = f"{type(warp).__name__} {warp.kernel.name}"
    show(name, width, not isinstance(warp.sides[0], int), threads, rest)
    return min(steps)


def narrow(rows: sp.csr_array) -> sp.csr_matrix:
    """Return what LightFM takes: a matrix with int32 indices."""
    indices, indptr = rows.indices.astype(np.int32), rows.indptr.astype(np.int32)
    return sp.csr_matrix((rows.data, indices, indptr), shape=rows.shape)


def report_lightfm(
    likes: Likes, width: int, features: bool, threads: int, epochs: int
) -> float | None:
    """Print the same of LightFM."""
    if LightFM is None:
        return None
    model = LightFM(
        no_components=width, loss="warp", learning_rate=RATE, max_sampled=TRIALS, random_state=0
    )
    train, sides = narrow(likes.train), {}
    if features:
        for at, name in enumerate(("user_features", "item_features")):
            sides[name] = narrow(make_features(likes.train.shape[at], at))
    steps = [
        clock(lambda: model.fit_partial(train, epochs=1, num_threads=threads, **sides))
        for _ in range(epochs)
    ]
    _, users = model.get_user_representations(sides.get("user_features"))
    biases, items = model.get_item_representations(sides.get("item_features"))
    found = precision(np.asarray(users @ items.T + biases, np.float32), likes)
    show(
        "lightfm", width, features, threads,
        f"{min(steps):9.3f}{np.median(steps):9.3f}{'':9}{found:9.4f}",
    )  # fmt: skip
    return min(steps)


def report_scores(kernel: Kernel, likes: Likes, width: int) -> None:
    """Print the time of all scores, and of the ten best, beside NumPy's product."""
    warp = Warp(kernel, likes, width, False)
    Q, D, biases = warp.vectors()
    ours = min(clock(lambda: scores(kernel, Q, D, biases)) for _ in range(5))
    best = min(clock(lambda: top(kernel, Q, D, biases, 10)) for _ in range(5))
    theirs = min(clock(lambda: Q @ D.T) for _ in range(5))
    print(  # noqa: T201
        f"{kernel.name}: width {width}: all scores {ours:.3f}s, the ten best {best:.3f}s; "
        f"NumPy's product (on the threads that it has) {theirs:.3f}s",
        flush=True,
    )


def report_turns(kernels: list[Kernel], likes: Likes, widths: list[int], epochs: int) -> None:
    """Print the shortest epoch of one thread and of two, epoch by epoch in turns."""
    for width in widths:
        for kernel in kernels:
            warps = [Warp(kernel, likes, width, True) for _ in range(2)]
            steps = [
                [
                    clock(partial(warp.step, warp.draws(epoch), at + 1))
                    for at, warp in enumerate(warps)
                ]
                for epoch in range(epochs)
            ]
            one, two = np.min(steps, axis=0)
            print(  # noqa: T201
                f"{kernel.name:16}{width:6}  features, one thread {one:.3f}s, two {two:.3f}s: "
                f"{one / two:.2f} x",
                flush=True,
            )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small synthetic problem")
    parser.add_argument("--kernel", help="only this kernel")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--width", type=int, help="only this width")
    parser.add_argument("--threads", type=int, help="only so many threads")
    parser.add_argument("--block", type=int, default=0, help="steps of a block")
    parser.add_argument("--processor", action="store_true", help="measure processor time")
    parser.add_argument("--turns", action="store_true", help="one thread and two with features")
    options = parser.parse_args()
    if options.processor:
        global TIMER
        TIMER = time.process_time
    likes = make_likes((600, 400), 20_000) if options.quick else read_likes()
    print(  # noqa: T201
        f"{likes.name}, {likes.train.shape[0]} x {likes.train.shape[1]}, {likes.train.nnz} likes\n"
        f"{'':16}{'width':>6}{'':>10}{'threads':>9}{'epoch':>9}{'median':>9}{'moved':>9}"
        f"{'P@10':>9}"
    )
    names = [options.kernel] if options.kernel else KERNELS
    kernels = []
    for name in names:
        try:
            kernels.append(kernel_or_skip(name))
            kernels[-1].loops.factored_steps  # noqa: B018
        except (NotImplementedError, AttributeError) as error:
            kernels = [kernel for kernel in kernels if kernel.name != name]
            print(f"{name}: left out, {error}")  # noqa: T201
    widths = [options.width] if options.width else [32, 64, 128]
    if options.turns:
        report_turns(kernels, likes, widths, options.epochs)
        return
    for width in widths:
        for features in (False, True):
            for threads in [options.threads] if options.threads else (1, 2):
                theirs = report_lightfm(likes, width, features, threads, options.epochs)
                for kernel in kernels:
                    warp = Warp(kernel, likes, width, features, options.block)
                    ours = report_epochs(warp, width, threads, options.epochs)
                    if theirs:
                        print(f"  LightFM takes {theirs / ours:.2f} x")  # noqa: T201
        for kernel in kernels:
            report_epochs(Bpr(kernel, likes, width, False, options.block), width, 1, options.epochs)
            report_scores(kernel, likes, width)


if __name__ == "__main__":
    main()
