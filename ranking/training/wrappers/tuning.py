"""The options of `Ranker.tune`, and the recipes that are tried by default."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from ranking._utils.validation import validate_seed, validate_threads
from ranking.data.judged_lists import JudgedLists
from ranking.data.text_collection import TextCollection
from ranking.errors import PartError
from ranking.metrics.parse import parse_metrics
from ranking.registry.manager import get_registry
from ranking.training.budget import Budget
from ranking.training.wrappers.halving import Trial, TuningSettings

SAMPLERS = ("random", "optuna")

JUDGED = ("listnet", "lambdarank", "rank-svm-linear", "domination", "lambdamart")
INTERACTIONS = ("popularity", "item-knn", "ials", "ease", "warp", "graph-filter")
TEXTS = ("bm25", "cosine", "bm25-warp", "pamir")
FEATURES = ("popularity", "warp", "bpr")
"""Recipes that are tried if none are named; those that do not fit the data drop out."""


def _nothing(trial: Trial) -> None:
    pass


@dataclasses.dataclass(frozen=True)
class TuningOptions:
    """The options of `Ranker.tune`, with their defaults."""

    recipes: Sequence[str] = ()
    budget: str = "40trials"
    metrics: str | Sequence[str] = "ndcg@10"
    random_state: int = 0
    threads: int = 1
    kernel: Any = "auto"
    sampler: str = "random"
    features: Any = None
    scale: str | None = None
    on_trial: Callable[[Trial], None] = _nothing

    def settings(self, data: Any) -> TuningSettings:
        """Return what the search takes, for these data."""
        if self.sampler not in SAMPLERS:
            raise PartError(f"sampler is {self.sampler!r}; it must be {' or '.join(SAMPLERS)}.")
        names = [self.recipes] if isinstance(self.recipes, str) else list(self.recipes)
        for name in names:
            get_registry().find("recipe", name)
        return TuningSettings(
            recipes=names or default_recipes(data),
            metrics=list(parse_metrics(self.metrics).values()),
            budget=Budget.parse(self.budget),
            seed=validate_seed(self.random_state),
            threads=validate_threads(self.threads),
            kernel=self.kernel,
            sampler=self.sampler,
            features=self.features,
            scale=self.scale,
        )


def default_recipes(data: Any) -> list[str]:
    """Return the recipes to try on data of a kind, as far as they are installed."""
    names: Sequence[str]
    if isinstance(data, JudgedLists):
        names = JUDGED
    elif isinstance(data, TextCollection):
        names = TEXTS
    else:
        names = INTERACTIONS if data.queries is data.documents is None else FEATURES
    installed = get_registry().names("recipe")
    return [name for name in names if name in installed]
