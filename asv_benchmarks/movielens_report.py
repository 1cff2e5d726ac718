"""Print the quality of WARP on MovieLens 100K, beside LightFM if it is installed.

    python -P asv_benchmarks/movielens_report.py [--data FOLDER] [--seeds N] [--kernel NAME]

Ten ratings of each user are drawn to test, 4 and 5 stars are matches, and every item is ranked for
every user, those of the training too: the protocol of LightFM's tests, whose floors are printed.
The official split (ua.base, ua.test) has ten ratings a user as well, but others. "unseen" leaves
out what the user is known to like. Both systems take ten epochs at the rate 0.05 on one
thread; LightFM (`pip install lightfm-next`) tries up to 10 negatives, WARP here up to 30.
Numbers are means over the seeds, each of which draws the split and the training; behind them is
the standard deviation.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.stats import rankdata

from ranking import Matching, Ranker
from ranking_plugins.reproductions.held_out import read_likes

try:
    from lightfm import LightFM
except ImportError:
    LightFM = None

EPOCHS = 10
FLOORS = {"train p@10": 0.45, "test p@10": 0.07, "train auc": 0.94, "test auc": 0.9}
"""Of LightFM's test_warp_precision: 10 dimensions, 10 epochs, rate 0.05, no features."""

Scores = NDArray[np.float64]


def quality(scores: Scores, train: Matching, test: Matching) -> dict[str, float]:
    """Measure scores of all users and items."""
    known, wanted = (data.relevance.toarray() > 0 for data in (train, test))
    unseen = np.where(known, -np.inf, scores)
    return {
        "train p@10": precision(scores, known),
        "test p@10": precision(scores, wanted),
        "train auc": auc(scores, known),
        "test auc": auc(scores, wanted),
        "unseen p@10": precision(unseen, wanted),
    }


def precision(scores: Scores, wanted: NDArray[np.bool_], k: int = 10) -> float:
    """Return the mean of precision@k over the users who have something to find."""
    best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    hits = np.take_along_axis(wanted, best, axis=1).mean(axis=1)
    return float(hits[wanted.any(axis=1)].mean())


def auc(scores: Scores, wanted: NDArray[np.bool_]) -> float:
    """Return the mean of the area under the curve over the users who have something to find."""
    ranks = rankdata(scores, axis=1)
    n_wanted = wanted.sum(axis=1)
    sums = (ranks * wanted).sum(axis=1) - n_wanted * (n_wanted + 1) / 2
    some = n_wanted > 0
    return float((sums[some] / (n_wanted * (wanted.shape[1] - n_wanted))[some]).mean())


def ours(train: Matching, dimensions: int, seed: int, kernel: str) -> Scores:
    """Train by WARP, from vectors as small as LightFM's, and score."""
    model = f"factored:dimensions={dimensions},spread=0.1"
    ranker = Ranker(model, "warp:max_trials=30", "none", "sgd", kernel=kernel, seed=seed)
    return ranker.fit(train).predict(train)


def narrow(matrix: Any) -> sp.csr_matrix:
    """Return a matrix with the types that LightFM takes."""
    parts = matrix.data, matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
    return sp.csr_matrix(parts, shape=matrix.shape, dtype=np.float32)


def lightfm(train: Matching, dimensions: int, seed: int, kernel: str) -> Scores:
    """Train LightFM and score."""
    sides: dict[str, Any] = {}
    if train.queries is not None:
        sides = {
            "user_features": narrow(train.query_rows),
            "item_features": narrow(train.document_rows),
        }
    model = LightFM(dimensions, learning_rate=0.05, loss="warp", random_state=seed)
    model.fit(narrow(train.relevance > 0).tocoo(), epochs=EPOCHS, **sides)
    users, items = np.divmod(np.arange(train.n_queries * train.n_documents), train.n_documents)
    scores = model.predict(users.astype(np.int32), items.astype(np.int32), **sides)
    return np.asarray(scores, dtype=np.float64).reshape(train.n_queries, -1)


def show(name: str, cells: list[str]) -> None:
    """Print a line."""
    print(f"{name:34}" + "".join(f"{cell:>17}" for cell in cells), flush=True)  # noqa: T201


def main() -> None:
    """Print both systems, with and without features."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default=os.environ.get("RANKING_DATA"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--kernel", default="auto")
    options = parser.parse_args()
    if options.data is None:
        sys.exit("say where the data sets are: --data FOLDER, or RANKING_DATA.")
    systems: dict[str, Callable[..., Scores]] = {"ranking": ours}
    if LightFM is None:
        print("LightFM is not installed (pip install lightfm-next).")  # noqa: T201
    else:
        systems["LightFM"] = lightfm
    show("", [*FLOORS, "unseen p@10", "seconds"])
    show("LightFM's published floors", [f"{floor:.3f}" for floor in FLOORS.values()])
    for features in (False, True):
        folder = Path(options.data) / "interactions"
        splits = [read_likes(folder, seed, features=features) for seed in range(options.seeds)]
        for dimensions in (10, 32):
            for name, system in systems.items():
                found, seconds = [], []
                for seed, (train, test) in enumerate(splits):
                    started = time.perf_counter()
                    scores = system(train, dimensions, seed, options.kernel)
                    seconds.append(time.perf_counter() - started)
                    found.append(quality(scores, train, test))
                cells = []
                for metric in found[0]:
                    values = np.array([one[metric] for one in found])
                    cells.append(f"{values.mean():.4f} ({values.std(ddof=1):.4f})")
                rest = ", features" if features else ""
                show(f"{name}, d = {dimensions}{rest}", [*cells, f"{np.mean(seconds):.2f}"])


if __name__ == "__main__":
    main()
