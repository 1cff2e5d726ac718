"""Print the processor time that recommenders need to reach a given NDCG@20.

    python -P asv_benchmarks/time_to_quality_report.py [--set NAME] [--data FOLDER]
                                                       [--dimensions D]

Beside LightFM (`pip install lightfm-next`) and implicit, if they are installed. A tenth of the
training positives is held out and measured, for at most 2,000 users. All take turns, an epoch each,
on one thread, so that what else the machine does is the same for all; seconds are those of the
processor, of training alone. Settings of the others: LightFM has WARP with its defaults; implicit's
ALS three regularizations, its BPR the learning rate 0.05. Ours are those of the recipes, with the
same number of dimensions. `ials`, `graph-filter` and implicit are trained from the beginning for
each number of epochs. The qualities that are timed are shares of the best that the others reach.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).parent))
from recommender_sets import K, Parts, at_20, matching_data, read_set

from ranking import Ranker

N_USERS = 2_000
SHARES = (0.8, 0.9, 0.95, 1.0)
"""Of the best NDCG@20 that LightFM and implicit reach, the quality that is timed."""

REGULARIZATIONS = (3.0, 10.0, 30.0)


class Point(NamedTuple):
    """Processor seconds of training so far, and NDCG@20."""

    seconds: float
    ndcg: float


class Judge:
    """The held-out positives of some users."""

    def __init__(self, parts: Parts) -> None:
        users = np.flatnonzero(np.diff(parts.held_out.indptr))
        self.users = np.sort(np.random.default_rng(2).permutation(users)[:N_USERS])
        self.known, self.held_out = parts.train[self.users], parts.held_out[self.users]

    def ndcg(self, scores: Any) -> float:
        """Return NDCG@20 from the scores of the users."""
        scores = np.array(scores, np.float64)
        rows = np.repeat(np.arange(self.users.size), np.diff(self.known.indptr))
        scores[rows, self.known.indices] = -np.inf
        some = np.argpartition(-scores, K, axis=1)[:, :K]
        order = np.argsort(-np.take_along_axis(scores, some, axis=1), axis=1, kind="stable")
        return at_20(np.take_along_axis(some, order, axis=1), self.held_out)[1]


def timed(call: Callable[[], object]) -> float:
    """Return the processor seconds of a call."""
    start = time.process_time()
    call()
    return time.process_time() - start


def lightfm(parts: Parts, judge: Judge, width: int) -> Iterator[Point]:
    """Yield a point per epoch of LightFM's WARP."""
    from lightfm import LightFM

    model, seconds = LightFM(no_components=width, loss="warp", random_state=0), 0.0
    at = [part.astype(np.int32) for part in parts.train.nonzero()]
    pairs = sp.coo_matrix((np.ones(at[0].size, np.float32), tuple(at)), shape=parts.train.shape)
    while True:
        seconds += timed(partial(model.fit_partial, pairs, epochs=1, num_threads=1))
        scores = model.user_embeddings[judge.users] @ model.item_embeddings.T + model.item_biases
        yield Point(seconds, judge.ndcg(scores))


def implicit(
    kind: str, parts: Parts, judge: Judge, width: int, regularization: float = 0.01
) -> Iterator[Point]:
    """Yield a point per epoch of implicit's ALS, or per five epochs of its BPR."""
    from implicit.cpu.als import AlternatingLeastSquares
    from implicit.cpu.bpr import BayesianPersonalizedRanking

    pairs, common = sp.csr_matrix(parts.train, dtype=np.float32), {"num_threads": 1}
    for epochs in range(1, 100) if kind == "als" else range(5, 500, 5):
        model: Any
        if kind == "als":
            model = AlternatingLeastSquares(
                width, regularization, iterations=epochs, random_state=0, **common
            )
        else:
            model = BayesianPersonalizedRanking(
                width, 0.05, iterations=epochs, random_state=0, **common
            )
        seconds = timed(partial(model.fit, pairs, show_progress=False))
        yield Point(seconds, judge.ndcg(model.user_factors[judge.users] @ model.item_factors.T))


def ours(recipe: str, parts: Parts, judge: Judge, width: int, **settings: str) -> Iterator[Point]:
    """Yield a point per epoch of a recipe of this package."""
    data, seconds = matching_data(parts.train), 0.0
    options = {"threads": 1, "random_state": 0, **settings}
    ranker, epochs = Ranker.from_recipe(recipe, **options), 0
    while True:
        epochs += 1
        if recipe == "warp":
            seconds += timed(partial(ranker.partial_fit, data, steps=parts.train.nnz))
        else:
            again = settings | {"solver": settings["solver"].format(epochs)}
            ranker = Ranker.from_recipe(recipe, **{**options, **again})
            seconds = timed(partial(ranker.fit, data))
        scorer = ranker.model_.scorer(data, ranker.kernel_, 1)
        yield Point(seconds, judge.ndcg(scorer(judge.users)))


def contestants(parts: Parts, judge: Judge, width: int) -> dict[str, tuple[Iterator[Point], int]]:
    """Return the points of each system, and how many are taken."""
    factored = f"factored:dimensions={width}"
    runs: dict[str, tuple[Iterator[Point], int]] = {
        "ials": (
            ours(
                "ials",
                parts,
                judge,
                width,
                model=f"{factored},biases=false",
                solver="alternating:max_epochs={},tolerance=0",
            ),
            8,
        ),
        "warp": (ours("warp", parts, judge, width, model=factored), 12),
        "graph-filter": (
            ours("graph-filter", parts, judge, width, solver="graph-filter:max_epochs={}"),
            4,
        ),
    }
    if find_spec("lightfm"):
        runs["LightFM WARP"] = (lightfm(parts, judge, width), 12)
    if find_spec("implicit"):
        for value in REGULARIZATIONS:
            runs[f"implicit ALS {value:g}"] = (implicit("als", parts, judge, width, value), 8)
        runs["implicit BPR"] = (implicit("bpr", parts, judge, width), 4)
    return runs


def main() -> None:
    """Print the points of each system, and the time to each quality."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("RANKING_DATA"))
    parser.add_argument("--set", default="movielens1m")
    parser.add_argument("--dimensions", type=int, default=64)
    options = parser.parse_args()
    if options.data is None:
        sys.exit("say where the data sets are: --data FOLDER, or RANKING_DATA.")
    warnings.simplefilter("ignore")
    parts = read_set(options.set, Path(options.data), validate=True)
    judge = Judge(parts)
    points: dict[str, list[Point]] = {}
    with threadpool_limits(1):
        systems = contestants(parts, judge, options.dimensions)
        for at in range(max(count for _, count in systems.values())):
            for name, (source, count) in systems.items():
                if at < count:
                    points.setdefault(name, []).append(next(source))
    for name, each in points.items():
        line = "  ".join(f"{one.seconds:.2f} s {one.ndcg:.4f}" for one in each)
        print(f"{name:18} {line}")  # noqa: T201
    ones = [name for name in points if name.startswith(("LightFM", "implicit"))]
    goal = max((one.ndcg for name in ones for one in points[name]), default=np.nan)
    print(f"\n{'NDCG@20':18}" + "".join(f"{share * goal:>10.4f}" for share in SHARES))  # noqa: T201
    for name, each in points.items():
        cells = []
        for share in SHARES:
            reached = [one.seconds for one in each if one.ndcg >= share * goal]
            cells.append(f"{min(reached):8.2f} s" if reached else f"{'-':>10}")
        print(f"{name:18}" + "".join(cells))  # noqa: T201


if __name__ == "__main__":
    main()
