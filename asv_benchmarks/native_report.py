"""Print what an epoch costs with a third-party hinge, as a ratio to the built-in one.

    pip install ./examples/native/cython ./examples/native/cffi ./examples/native/numba \
        ./examples/native/rust
    python -P asv_benchmarks/native_report.py [--rounds N] [--quick]

MovieLens 1M from $RANKING_DATA, or synthetic likes of its shape; one thread. Embeddings of 64
dimensions by SGD, a pass over the positives per epoch; and a sparse matrix, a tenth of that, as it
has one row per user. Every way is timed in every round, so that a busy machine meets them all; the
ratio is that of the shortest epochs, and behind it the median of those within a round. "equal"
says that the weights have the same bits as those of the built-in hinge. The Python loss is asked
by batches, and for a matrix they are 64 steps where the others have 1, so its weights differ.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from benchmarks.common import KERNELS, kernel_or_skip
from benchmarks.interactions import make_likes, read_likes
from benchmarks.native import WAYS, make_loss, matching_of, train

MODELS = {"factored:dimensions=64": 1, "bilinear": 10}
"""The share of the positives that an epoch samples."""


def available() -> list[str]:
    """Return the ways that are installed; say which are not."""
    result = ["built-in"]
    for way in (*WAYS, "python"):
        try:
            make_loss(way)
            result.append(way)
        except NotImplementedError as error:
            print(f"{way} is left out: {error}")  # noqa: T201
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="synthetic likes, a few of them")
    options = parser.parse_args()
    likes = make_likes((600, 400), 20_000) if options.quick else read_likes()
    data, ways = matching_of(likes), available()
    print(f"{likes.name}, {likes.train.nnz} matches, one thread")  # noqa: T201
    print(f"{'model':24}{'kernel':8}{'loss':10}{'seconds':>9}{'ratio':>7}{'median':>8}  equal")  # noqa: T201
    for model, part in MODELS.items():
        for name in KERNELS:
            kernel = kernel_or_skip(name)
            seconds: dict[str, list[float]] = defaultdict(list)
            equal = {}
            for _ in range(options.rounds):
                for way in ways:
                    times, ranker = train(kernel, data, way, model, 2, likes.train.nnz // part)
                    seconds[way].append(min(times))
                    bits = [np.asarray(t).tobytes() for t in ranker.model_.tensors().values()]
                    if way == "built-in":
                        expected = bits
                    equal[way] = bits == expected
            for way in ways:
                ratio = min(seconds[way]) / min(seconds["built-in"])
                middle = np.median(np.divide(seconds[way], seconds["built-in"]))
                print(  # noqa: T201
                    f"{model:24}{name:8}{way:10}{min(seconds[way]):9.3f}{ratio:7.2f}{middle:8.2f}"
                    f"  {'yes' if equal[way] else 'no'}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
