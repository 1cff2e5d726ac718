"""Print what an epoch of WARP costs in every kernel, next to LightFM if it is installed.

    python -P asv_benchmarks/factored_report.py [--quick] [--kernel NAME] [--epochs N]
                                                [--width N] [--threads N] [--block N]
                                                [--processor] [--seeds N]

MovieLens 1M from $RANKING_DATA, or synthetic likes of its shape; four fifths to train on. At most
ten trials, adagrad, biases, and with "features" about 12 a row on both sides: a row's own and
11 of 200 others. LightFM (`pip install lightfm-next`) does the same in the same run. All take
turns, an epoch each, on one thread and on two, so that what else the machine does, and how far
its processors are apart, is the same for all. Seconds are those of the clock, the shortest and the
median of the epochs, drawing included; with --processor those of the processor, which hold on a
busy machine too, but add up those of threads. Behind the precision after all epochs: how much
longer LightFM takes on as many threads, and how much longer one thread does. With --seeds the
precision alone, without features, its mean over so many seeds and the standard error.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

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

from ranking.kernels.kernel import Kernel

try:
    from lightfm import LightFM
except ImportError:
    LightFM = None


TIMER = time.perf_counter
PEER = "lightfm"


def clock(call: Callable[[], object]) -> float:
    """Return the seconds of one call."""
    start = TIMER()
    call()
    return TIMER() - start


class Racer(NamedTuple):
    """A trainer on some threads.

    Attributes
    ----------
    step : callable
        Takes an epoch, and returns the share of triplets that moved something, if that is known.
    precision : callable
        That of what is trained.
    """

    name: str
    threads: int
    step: Callable[[int], float | None]
    precision: Callable[[], float]


def ours(
    kind: type[Warp],
    kernel: Kernel,
    likes: Likes,
    width: int,
    features: bool,
    threads: int,
    block: int,
    seed: int = 0,
) -> Racer:
    """Return a kernel of ours."""
    warp = kind(kernel, likes, width, features, block, seed)

    def step(epoch: int) -> float:
        _, weights = warp.step(warp.sampler(epoch), threads)
        return float(np.mean(weights > 0.0))

    name = f"{kind.__name__} {kernel.name}"
    return Racer(name, threads, step, lambda: precision_of(warp.top(), likes))


def narrow(rows: sp.csr_array) -> sp.csr_matrix:
    """Return what LightFM takes: a matrix with int32 indices."""
    indices, indptr = rows.indices.astype(np.int32), rows.indptr.astype(np.int32)
    return sp.csr_matrix((rows.data, indices, indptr), shape=rows.shape)


def lightfm(likes: Likes, width: int, features: bool, threads: int, seed: int = 0) -> Racer:
    """Return LightFM."""
    model = LightFM(
        no_components=width, loss="warp", learning_rate=RATE, max_sampled=TRIALS, random_state=seed
    )
    train, sides = narrow(likes.train), {}
    if features:
        for at, name in enumerate(("user_features", "item_features")):
            sides[name] = narrow(make_features(likes.train.shape[at], at))

    def step(_: int) -> None:
        model.fit_partial(train, epochs=1, num_threads=threads, **sides)

    def result() -> float:
        _, users = model.get_user_representations(sides.get("user_features"))
        biases, items = model.get_item_representations(sides.get("item_features"))
        return precision(np.asarray(users @ items.T + biases, np.float32), likes)

    return Racer(PEER, threads, step, result)


def race(racers: Sequence[Racer], width: int, features: bool, epochs: int) -> None:
    """Run all of them interleaved, epoch by epoch, and print what each took and reached."""
    seconds, moved = np.empty((epochs, len(racers))), [None] * len(racers)
    for epoch in range(epochs):
        for at, racer in enumerate(racers):
            start = TIMER()
            moved[at] = racer.step(epoch)
            seconds[epoch, at] = TIMER() - start
    shortest = {
        (racer.name, racer.threads): value
        for racer, value in zip(racers, seconds.min(axis=0), strict=True)
    }
    for at, (name, threads, _, precision_now) in enumerate(racers):
        own = shortest[name, threads]
        share = "" if moved[at] is None else f"{moved[at]:.1%}"
        peer, one = shortest.get((PEER, threads)), shortest.get((name, 1))
        ratios = f"{peer / own:8.2f} x" if peer and name != PEER else " " * 10
        ratios += f"{one / own:8.2f} x" if one and threads > 1 else ""
        which = "features" if features else "none"
        print(  # noqa: T201
            f"{name:16}{width:6}{which:>10}{threads:9}{own:9.3f}{np.median(seconds[:, at]):9.3f}"
            f"{share:>9}{precision_now():9.4f}{ratios}",
            flush=True,
        )


def report_precision(
    racers: Sequence[Callable[[int], Racer]], width: int, epochs: int, seeds: int
) -> None:
    """Print the precision of each, over seeds."""
    for racer in racers:
        result = []
        for seed in range(seeds):
            name, _, step, precision_now = racer(seed)
            for epoch in range(epochs):
                step(epoch)
            result.append(precision_now())
        error = np.std(result, ddof=1) / seeds**0.5
        print(f"{name:16}{width:6}  P@10 {np.mean(result):.4f} ± {error:.4f}", flush=True)  # noqa: T201


def report_scores(kernel: Kernel, likes: Likes, width: int) -> None:
    """Print the time of all scores, and of the ten best, next to NumPy's product."""
    warp = Warp(kernel, likes, width, False)
    Q, D, biases = warp.embeddings()
    every = min(clock(lambda: kernel.factored.scores(Q, D, biases)) for _ in range(5))
    best = min(clock(lambda: kernel.factored.top_k(Q, D, biases, 10)) for _ in range(5))
    theirs = min(clock(lambda: Q @ D.T) for _ in range(5))
    print(  # noqa: T201
        f"{kernel.name}: width {width}: all scores {every:.3f}s, the ten best {best:.3f}s; "
        f"NumPy's product (on the threads that it has) {theirs:.3f}s",
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
    parser.add_argument("--seeds", type=int, help="only the precision, over so many seeds")
    parser.add_argument("--processor", action="store_true", help="measure processor time")
    options = parser.parse_args()
    if options.processor:
        global TIMER
        TIMER = time.process_time
    likes = make_likes((600, 400), 20_000) if options.quick else read_likes()
    print(  # noqa: T201
        f"{likes.name}, {likes.train.shape[0]} x {likes.train.shape[1]}, {likes.train.nnz} likes\n"
        f"{'':16}{'width':>6}{'':>10}{'threads':>9}{'epoch':>9}{'median':>9}{'moved':>9}"
        f"{'P@10':>9}{'LightFM':>10}{'one':>10}"
    )
    names = [options.kernel] if options.kernel else KERNELS
    kernels = []
    for name in names:
        try:
            kernels.append(kernel_or_skip(name))
        except NotImplementedError as error:
            print(f"{name}: left out, {error}")  # noqa: T201
    widths = [options.width] if options.width else [32, 64, 128]
    crews = [options.threads] if options.threads else [1, 2]
    for width in widths:
        if options.seeds:
            trainers = [partial(lightfm, likes, width, False, 1)] if LightFM else []
            trainers += [
                partial(ours, Warp, kernel, likes, width, False, 1, options.block)
                for kernel in kernels
            ]
            report_precision(trainers, width, options.epochs, options.seeds)
            continue
        for features in (False, True):
            racers = [lightfm(likes, width, features, threads) for threads in crews if LightFM]
            racers += [
                ours(Warp, kernel, likes, width, features, threads, options.block)
                for kernel in kernels
                for threads in crews
            ]
            race(racers, width, features, options.epochs)
        pairs = [ours(Bpr, kernel, likes, width, False, 1, options.block) for kernel in kernels]
        race(pairs, width, False, options.epochs)
        for kernel in kernels:
            report_scores(kernel, likes, width)


if __name__ == "__main__":
    main()
