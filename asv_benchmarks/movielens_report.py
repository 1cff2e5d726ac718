"""Print the quality of WARP on MovieLens 100K, next to LightFM if it is installed.

    python -P asv_benchmarks/movielens_report.py [--data FOLDER] [--seeds N] [--kernel NAME]
                                                 [--choose]

Ten ratings of each user are held out for test, 4 and 5 stars are positives, and every item is
ranked for every user, those of the training too: the protocol of LightFM's tests, whose floors are
printed. The official split (ua.base, ua.test) has ten ratings a user as well, but others. "unseen"
leaves out what the user is known to like. Both systems take ten epochs on one thread and try up to
10 negatives. LightFM (`pip install lightfm-next`) has the settings of its tests. Those of WARP here
are what `--choose` finds: with the ten ratings left out and ten others held out, the settings of a
grid with the largest product of test p@10 and unseen p@10. LightFM gets a grid there too.

Numbers are means over the seeds, each of which fixes the split and the training; behind them is
the standard deviation. "gain" is the difference, seed by seed, and its standard error.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.stats import rankdata

from ranking import MatchingData, Ranker
from ranking_plugins.reproductions.held_out import read_likes

try:
    from lightfm import LightFM
except ImportError:
    LightFM = None

EPOCHS = 10
TRIALS = 10
FLOORS = {"train p@10": 0.45, "test p@10": 0.07, "train auc": 0.94, "test auc": 0.9}
"""Of LightFM's test_warp_precision: 10 dimensions, 10 epochs, rate 0.05, no features."""

Scores = NDArray[np.float64]
Split = tuple[MatchingData, MatchingData]


class Settings(NamedTuple):
    """The learning rate of Adagrad, the strength of l2, and init_scale."""

    rate: float
    strength: float
    init_scale: float = 1.0


BEST_SETTINGS = {
    (10, False): Settings(0.08, 0.01, 0.05),
    (32, False): Settings(0.06, 0.01, 0.05),
    (10, True): Settings(0.08, 0.01, 0.1),
    (32, True): Settings(0.08, 0.03, 0.05),
}
"""By dimensions, and whether there are features; what `--choose` found, by ten seeds."""

GRID = [
    Settings(*one) for one in itertools.product((0.06, 0.07, 0.08), (0.01, 0.02, 0.03), (0.05, 0.1))
]

LIGHTFM_CHOSEN = Settings(0.05, 0.0)
LIGHTFM_GRID = [Settings(*one) for one in itertools.product((0.05, 0.07), (0.0, 1e-6, 1e-5, 1e-4))]
"""It initialises its embeddings in one way only."""

System = Callable[[MatchingData, int, Settings, int], Scores]


def quality(scores: Scores, train: MatchingData, test: MatchingData) -> dict[str, float]:
    """Measure scores of all users and items."""
    known, relevant = (data.relevance.toarray() > 0 for data in (train, test))
    unseen = np.where(known, -np.inf, scores)
    return {
        "train p@10": precision(scores, known),
        "test p@10": precision(scores, relevant),
        "train auc": auc(scores, known),
        "test auc": auc(scores, relevant),
        "unseen p@10": precision(unseen, relevant),
    }


def precision(scores: Scores, relevant: NDArray[np.bool_], k: int = 10) -> float:
    """Return the mean of precision@k over the users who have something to find."""
    best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    hits = np.take_along_axis(relevant, best, axis=1).mean(axis=1)
    return float(hits[relevant.any(axis=1)].mean())


def auc(scores: Scores, relevant: NDArray[np.bool_]) -> float:
    """Return the mean of the area under the curve over the users who have something to find."""
    ranks = rankdata(scores, axis=1)
    n_wanted = relevant.sum(axis=1)
    sums = (ranks * relevant).sum(axis=1) - n_wanted * (n_wanted + 1) / 2
    some = n_wanted > 0
    return float((sums[some] / (n_wanted * (relevant.shape[1] - n_wanted))[some]).mean())


def ours(kernel: str) -> System:
    """Return what trains by WARP here, and scores."""

    def run(train: MatchingData, dimensions: int, settings: Settings, seed: int) -> Scores:
        ranker = Ranker(
            f"factored:dimensions={dimensions},init_scale={settings.init_scale}",
            f"warp:max_trials={TRIALS}",
            f"l2:strength={settings.strength}",
            f"sgd:learning_rate={settings.rate},max_steps={EPOCHS * train.relevance.nnz}",
            kernel=kernel,
            random_state=seed,
        )
        return ranker.fit(train).predict(train)

    return run


def narrow(matrix: Any) -> sp.csr_matrix:
    """Return a matrix with the types that LightFM takes."""
    parts = matrix.data, matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
    return sp.csr_matrix(parts, shape=matrix.shape, dtype=np.float32)


def lightfm(train: MatchingData, dimensions: int, settings: Settings, seed: int) -> Scores:
    """Train LightFM and score."""
    sides: dict[str, Any] = {}
    if train.queries is not None:
        sides = {
            "user_features": narrow(train.query_rows),
            "item_features": narrow(train.document_rows),
        }
    model = LightFM(
        dimensions,
        loss="warp",
        learning_rate=settings.rate,
        user_alpha=settings.strength,
        item_alpha=settings.strength,
        max_sampled=TRIALS,
        random_state=seed,
    )
    model.fit(narrow(train.relevance > 0).tocoo(), epochs=EPOCHS, **sides)
    users, items = np.divmod(np.arange(train.n_queries * train.n_documents), train.n_documents)
    scores = model.predict(users.astype(np.int32), items.astype(np.int32), **sides)
    return np.asarray(scores, dtype=np.float64).reshape(train.n_queries, -1)


def measured(
    system: System, splits: list[Split], dimensions: int, settings: Settings
) -> dict[str, Scores]:
    """Return the values of all seeds, by metric."""
    result = [
        quality(system(train, dimensions, settings, seed), train, test)
        for seed, (train, test) in enumerate(splits)
    ]
    return {metric: np.array([one[metric] for one in result]) for metric in result[0]}


def show(name: str, cells: Iterable[str]) -> None:
    """Print a line."""
    print(f"{name:46}" + "".join(f"{cell:>18}" for cell in cells), flush=True)  # noqa: T201


def compare(system: System, splits: list[Split], dimensions: int, features: bool) -> None:
    """Print both systems, and what is gained."""
    rest = f"d = {dimensions}{', features' if features else ''}"
    settings = BEST_SETTINGS[dimensions, features]
    values = measured(system, splits, dimensions, settings)
    show(f"ranking, {rest}", [f"{v.mean():.4f} ({v.std(ddof=1):.4f})" for v in values.values()])
    if LightFM is not None:
        theirs = measured(lightfm, splits, dimensions, LIGHTFM_CHOSEN)
        show(f"LightFM, {rest}", [f"{v.mean():.4f} ({v.std(ddof=1):.4f})" for v in theirs.values()])
        gains = [values[metric] - theirs[metric] for metric in values]
        show("  gain", [f"{g.mean():+.4f} ± {g.std(ddof=1) / g.size**0.5:.4f}" for g in gains])


def choose(system: System, splits: list[Split], dimensions: int, features: bool) -> None:
    """Print the settings of both grids, by the product that decides, the best of each first."""
    systems = {"ranking": (system, GRID)}
    if LightFM is not None:
        systems["LightFM"] = (lightfm, LIGHTFM_GRID)
    for name, (one, grid) in systems.items():
        rows = []
        for settings in grid:
            values = measured(one, splits, dimensions, settings)
            means = {metric: float(value.mean()) for metric, value in values.items()}
            rows.append((means["test p@10"] * means["unseen p@10"], settings, means))
        for _, settings, means in sorted(rows, key=lambda row: -row[0]):
            rest = f"d = {dimensions}{', features' if features else ''}: {tuple(settings)}"
            show(f"{name}, {rest}", [f"{mean:.4f}" for mean in means.values()])


def main() -> None:
    """Print both systems, with and without features."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default=os.environ.get("RANKING_DATA"))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--kernel", default="auto")
    parser.add_argument("--choose", action="store_true", help="on held-out training ratings")
    options = parser.parse_args()
    if options.data is None:
        sys.exit("say where the data sets are: --data FOLDER, or RANKING_DATA.")
    if LightFM is None:
        print("LightFM is not installed (pip install lightfm-next).")  # noqa: T201
    show("", [*FLOORS, "unseen p@10"])
    if not options.choose:
        show("LightFM's published floors", [f"{floor:.3f}" for floor in FLOORS.values()])
    folder = Path(options.data) / "interactions"
    for dimensions, features in BEST_SETTINGS:
        splits = [
            read_likes(folder, seed, features=features, validate=options.choose)
            for seed in range(options.seeds)
        ]
        step = choose if options.choose else compare
        step(ours(options.kernel), splits, dimensions, features)


if __name__ == "__main__":
    main()
