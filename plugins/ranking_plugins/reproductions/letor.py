"""Figure 4 of the thesis on Domination Rank (Stevens, 2010): LETOR's official folds.

Fold k trains on S_k, S_k+1 and S_k+2, validates on S_k+3 and tests on S_k+4, cyclically. The test
part is touched once, after everything was chosen on the validation part.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ranking import JudgedLists, Ranker
from ranking.contracts.recipe import Axis, Recipe, Search
from ranking.data.readers.read import read
from ranking.errors import DataError
from ranking.metrics.evaluation import evaluate_model, mean
from ranking.metrics.parse import parse_metric
from ranking.training.wrappers.search import ParameterSearch
from ranking_plugins.callbacks import EarlyStopping
from ranking_plugins.recipes import judged_lists
from ranking_plugins.recipes.baselines import rank_svm_linear
from ranking_plugins.recipes.domination import METRIC, STRENGTHS, domination
from ranking_plugins.reproductions import Options, Row
from ranking_plugins.reproductions.mart import installed
from ranking_plugins.reproductions.seeds import half_width

title = "Domination Rank on LETOR"
notes = (
    "ndcg@k, p@k and map are LETOR's own: its scripts discount ranks 1 and 2 by 1 and rank r by "
    "1/log2(r) from 3 on. 'log2 ndcg@k' has the discount 1/log2(1 + r) of most papers; the gain is "
    "2^grade - 1 in both. Every parameter is chosen on the validation part of the fold, by "
    f"{METRIC}. layered, flat and margin are the thesis' variations: all queries in one pool, "
    "unweighted; flat takes grades from 1 on as one. domination is the recipe: queries separate, "
    "items weighted by their gain, margin and strength chosen. The others are the recipes of those "
    "names; RankSVM is rank-svm-linear, and boosting takes the best of its rounds. Published "
    "values are those of Figure 4, which has no MQ2008 and no RankSVM. ± is Student's 95 % "
    "interval over the folds."
)

MEASURES = {
    **{f"ndcg@{k}": f"letor-ndcg@{k}" for k in range(1, 11)},
    **{f"p@{k}": f"letor-p@{k}" for k in (1, 3, 5, 10)},
    "map": "letor-map",
    **{f"log2 ndcg@{k}": f"ndcg@{k}(gain=exp2)" for k in (5, 10)},
}

WITH_INTERVAL = ("ndcg@5", "ndcg@10", "p@10", "map")

FOLDS = 5

PATIENCE = 300
"""Of boosting: all rounds are made, and the best by the validation part is taken."""

MISSING = "LightGBM is not installed; install ranking-kit[trees]."


class Collection(NamedTuple):
    """A data set, the numbers of the thesis for its own variants, and published ones."""

    name: str
    folder: str
    paper: Mapping[str, tuple[float, float]]
    """NDCG@5 and NDCG@10."""


COLLECTIONS = (
    Collection(
        "OHSUMED",
        "letor/ohsumed/QueryLevelNorm",
        {
            "layered": (0.4759, 0.4453),
            "flat": (0.4726, 0.4538),
            "margin": (0.4701, 0.4542),
            "ListNet": (0.4432, 0.4410),
            "AdaRank-NDCG": (0.4673, 0.4496),
            "AdaRank-MAP": (0.4613, 0.4429),
            "RankBoost": (0.4494, 0.4302),
        },
    ),
    Collection("MQ2008", "letor/mq2008", {}),
)


def _variation(loss: str, outer: Axis | None = None) -> Recipe:
    parts = {**domination().parts, "loss": loss}
    return Recipe(parts, Search("regularizer", "strength", STRENGTHS, METRIC, outer))


def _by_metric(recipe: Recipe) -> Recipe:
    """Return a recipe that searches by the metric of the others."""
    assert recipe.search is not None
    return Recipe(recipe.parts, dataclasses.replace(recipe.search, metric=METRIC))


METHODS = {
    "layered": _variation("domination:queries=pooled"),
    "flat": _variation("domination:queries=pooled"),
    "margin": _variation(
        "domination:queries=pooled,margin=grade", Axis("loss", "slope", (0.5, 1.0, 2.0, 4.0))
    ),
    "domination": domination(),
    "regression": judged_lists.regression(),
    "RankSVM": _by_metric(rank_svm_linear()),
    "ListNet": judged_lists.listnet(),
    "ListMLE": judged_lists.listmle(),
    "LambdaRank": judged_lists.lambdarank(),
    "ApproxNDCG": judged_lists.approx_ndcg(),
    "AdaRank-MAP": judged_lists.adarank_map(),
    "AdaRank-NDCG": judged_lists.adarank_ndcg(),
    "RankBoost": judged_lists.rankboost(),
    "MART": judged_lists.mart(),
    "LambdaMART": judged_lists.lambdamart(),
}

TREES = ("MART", "LambdaMART")
"""Methods that need LightGBM."""


def rows(options: Options) -> Iterator[Row]:
    """Train and measure each method on each fold; its mean comes first, then its folds."""
    for collection in COLLECTIONS:
        parts = [_read(options.data / collection.folder, number) for number in range(FOLDS)]
        paper = {
            name: {"ndcg@5": values[0], "ndcg@10": values[1]}
            for name, values in collection.paper.items()
        }
        for name in METHODS:
            if name in TREES and not installed():
                options.tell(f"{name} is left out: {MISSING}")
                continue
            folds = []
            for fold in range(1 if options.quick else FOLDS):
                options.tell(f"{collection.name}: {name}, fold {fold + 1}")
                folds.append(run(collection.name, name, parts, fold, options))
            yield _mean(folds, name, paper.pop(name, {}))
            yield from folds
        for name, values in paper.items():
            yield Row(collection.name, name, {}, values)


def run(dataset: str, name: str, parts: list[JudgedLists], fold: int, options: Options) -> Row:
    """Choose, train and test on one fold."""
    turned = [parts[(fold + number) % FOLDS] for number in range(FOLDS)]
    train = _joined(turned[:3], flat=name == "flat")
    recipe = METHODS[name]
    search = recipe.search
    if options.quick and search is not None:
        search = dataclasses.replace(search, values=search.values[2:4], outer=None)
    ranker = Ranker(
        recipe.parts["model"],
        recipe.parts["loss"],
        recipe.parts["regularizer"],
        recipe.parts["solver"],
        kernel=options.kernel,
        threads=options.threads,
        random_state=options.seed,
        callbacks=[] if search else [EarlyStopping(metric=METRIC, patience=PATIENCE)],
    )
    started = time.perf_counter()
    if search is None:
        ranker.fit(train, valid=turned[3])
    else:
        ranker.fit_with(ParameterSearch(ranker.plan(), search), train, valid=turned[3])
    seconds = time.perf_counter() - started
    metrics = {key: parse_metric(spelled) for key, spelled in MEASURES.items()}
    values = evaluate_model(ranker.model_, list(metrics.values()), turned[4], ranker.kernel_)
    return Row(
        dataset,
        f"{name}, fold {fold + 1}",
        {key: mean(values[metric.spelled()]) for key, metric in metrics.items()},
        {},
        seconds,
        sum(tensor.nbytes for tensor in ranker.model_.tensors().values()),
        ranker.model_.density,
    )


def _mean(folds: list[Row], name: str, paper: dict[str, float]) -> Row:
    """Return the means of the folds, some with their interval; seconds are the sum."""
    metrics = {key: float(np.mean([row.metrics[key] for row in folds])) for key in MEASURES}
    if len(folds) > 1:
        for key in WITH_INTERVAL:
            metrics[f"{key} ±"] = half_width(np.array([row.metrics[key] for row in folds]))
    return Row(
        folds[0].dataset,
        name,
        metrics,
        paper,
        sum(row.seconds for row in folds),
        folds[0].model_bytes,
        float(np.mean([row.density for row in folds])),
    )


def read_fold(folder: Path, fold: int) -> tuple[JudgedLists, JudgedLists, JudgedLists]:
    """Return the training, validation and test part of a fold, from 0."""
    parts = [_read(folder, (fold + number) % FOLDS) for number in range(FOLDS)]
    return _joined(parts[:3], flat=False), parts[3], parts[4]


def _read(folder: Path, number: int) -> JudgedLists:
    paths = [folder / f"S{number + 1}{ending}" for ending in (".txt", ".txt.gz")]
    for path in paths:
        if path.exists():
            return read(path)
    raise DataError(f"{paths[0]} does not exist; give the folder that holds letor with --data.")


def _joined(parts: list[JudgedLists], flat: bool) -> JudgedLists:
    """Return several parts as one; flat makes one grade of all from 1 on."""
    grades = np.concatenate([part.grades for part in parts])
    return JudgedLists(
        np.concatenate([part.features for part in parts]),
        (grades >= 1.0).astype(float) if flat else grades,
        np.concatenate([part.query_ids[part.row_groups] for part in parts]),
        feature_ids=parts[0].feature_ids,
    )
