"""Recipes for judged lists: time, peak memory, and the NDCG of held-out lists."""

from __future__ import annotations

import warnings
from importlib.util import find_spec

import numpy as np

from ranking import JudgedLists, Ranker
from ranking.errors import ConvergenceWarning

from .common import PROFILE, make_judged

QUERIES = {"fast": 60, "full": 600}[PROFILE]
HELD_OUT = QUERIES // 3

SOLVERS = {
    "regression": "lbfgs",
    "listnet": "lbfgs",
    "listmle": "lbfgs",
    "lambdarank": "lbfgs:max_epochs=5,iterations=5,tolerance=0",
    "approx-ndcg": "lbfgs:max_epochs=5,tolerance=0",
    "adarank-map": "adarank:max_epochs=50",
    "adarank-ndcg": "adarank:max_epochs=50",
    "rankboost": "rankboost:max_epochs=50",
    "mart": "lightgbm:max_epochs=50,num_leaves=7",
    "lambdamart": "lightgbm:max_epochs=50,num_leaves=7",
}


def split(data: JudgedLists) -> tuple[JudgedLists, JudgedLists]:
    """Return training lists and held-out lists."""
    end = int(data.group_ptr[-1 - HELD_OUT])
    ids = data.query_ids[data.row_groups]
    parts = [slice(0, end), slice(end, None)]
    train, test = (JudgedLists(data.features[p], data.grades[p], ids[p]) for p in parts)
    return train, test


class JudgedRecipes:
    """A whole training of each recipe, with so many rounds that it takes a moment."""

    params = (list(SOLVERS),)
    param_names = ("recipe",)
    timeout = 600

    def setup(self, recipe: str) -> None:
        if recipe in ("mart", "lambdamart") and find_spec("lightgbm") is None:
            raise NotImplementedError("install ranking-kit[trees]")
        self.train, self.test = split(make_judged(QUERIES + HELD_OUT))

    def fit(self, recipe: str) -> Ranker:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return Ranker.from_recipe(recipe, solver=SOLVERS[recipe]).fit(self.train)

    def time_fit(self, recipe: str) -> None:
        self.fit(recipe)

    def peakmem_fit(self, recipe: str) -> None:
        self.fit(recipe)

    def track_ndcg(self, recipe: str) -> float:
        """NDCG@10 of held-out lists, with gain 2**grade - 1."""
        return float(self.fit(recipe).score(self.test, metric="ndcg@10(gain=exp2)"))


class LbfgsIteration:
    """Ten iterations of L-BFGS: the value and slopes of all lists, and the rows by column."""

    params = (["listnet", "listmle", "approx-ndcg", "lambdarank", "logistic", "domination"],)
    param_names = ("loss",)
    timeout = 600

    def setup(self, loss: str) -> None:
        self.data = make_judged(QUERIES)

    def time_ten(self, loss: str) -> None:
        solver = "lbfgs:max_epochs=1,tolerance=0"
        weights = Ranker("linear", loss, "l2:strength=0.01", solver).fit(self.data).model_.weights
        assert np.isfinite(weights).all()
