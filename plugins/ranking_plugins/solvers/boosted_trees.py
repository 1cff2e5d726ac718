"""Boosted regression trees by LightGBM: MART and LambdaMART."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, ClassVar, cast

import numpy as np
import scipy.sparse as sp

from ranking.contracts.loss import Loss
from ranking.contracts.model import Model
from ranking.contracts.parameters import integer, number
from ranking.contracts.regularizer import Regularizer
from ranking.contracts.solver import YES, Compatibility, EpochResult, Solver, State, TrainingProblem
from ranking.data.judged_lists import JudgedLists
from ranking.errors import DataError, PartError
from ranking.models.trees import Trees
from ranking_plugins.losses.lambdarank import LambdaRank
from ranking_plugins.losses.squared_grades import SquaredGrades
from ranking_plugins.losses.whole_lists import mean_and_slopes

MISSING = (
    "solver lightgbm needs LightGBM, which is not installed; install ranking-kit[trees], or take "
    "recipe rankboost or domination."
)

LARGEST_GRADE = 30
"""The largest grade of LightGBM's lambdarank, whose gain is 2**grade - 1."""


@dataclasses.dataclass
class LightGBM(Solver):
    """Add one regression tree per round, by LightGBM; the parameters have its names.

    The loss `squared-grades` is its objective regression (MART), `lambdarank` its objective of that
    name (LambdaMART), which normalizes the gradients of each query and whose truncation level is
    `k`, or the longest list if that is 0. The trees become arrays of the model, so scoring and
    model files do not need LightGBM. The reported objective is our loss at the scores of the trees.

    Parameters
    ----------
    max_epochs : int
        The number of trees.
    learning_rate : float
        The factor of each tree.
    num_leaves, min_data_in_leaf, max_bin : int
        Leaves of a tree, rows of a leaf, and bins of a feature.
    lambda_l2 : float
        L2 on the values of leaves, as LightGBM has it.
    feature_fraction, bagging_fraction : float
        The share of features of a tree, and the share of rows that are drawn for each tree.
    """

    name: ClassVar[str] = "lightgbm"
    patience: ClassVar[int] = 50

    max_epochs: int = integer(100, minimum=1)
    learning_rate: float = number(0.1, above=0.0)
    num_leaves: int = integer(31, minimum=2)
    min_data_in_leaf: int = integer(20, minimum=1)
    max_bin: int = integer(255, minimum=2)
    lambda_l2: float = number(0.0, minimum=0.0)
    feature_fraction: float = number(1.0, above=0.0, maximum=1.0)
    bagging_fraction: float = number(1.0, above=0.0, maximum=1.0)

    @classmethod
    def accepts(
        cls, model: type[Model], loss: type[Loss], regularizer: type[Regularizer]
    ) -> Compatibility:
        """Accept trees, the squared error of grades or LambdaRank, and no penalty."""
        if not issubclass(model, Trees):
            return Compatibility(False, "LightGBM grows trees, and nothing else")
        if not issubclass(loss, SquaredGrades | LambdaRank):
            return Compatibility(
                False,
                "LightGBM has gradients of the squared error of grades and of LambdaRank, and a "
                "tree needs second derivatives by single scores, which other losses do not give",
            )
        if regularizer.name != "none":
            return Compatibility(
                False,
                "trees have no weights that a penalty could act on; LightGBM penalizes the values "
                "of leaves by its own lambda_l2",
            )
        return YES

    def run_epochs(self, problem: TrainingProblem) -> Iterator[EpochResult]:
        """Yield one result per tree; a resumed training grows the same trees again first."""
        model, data = cast(Trees, problem.model), cast(JudgedLists, problem.data)
        booster = self._booster(problem)
        lists = cast(Any, problem.loss).whole_lists(data, problem.kernel)
        model.initialize(data, problem.seed, problem.kernel)
        scores = np.zeros(data.n_rows)
        done = 0 if problem.state is None else int(problem.state["epoch"][0])
        for epoch in range(1, self.max_epochs + 1):
            finished = booster.update()
            grown = booster.num_trees() == epoch
            if grown:
                tree = _only(model, booster.dump_model(start_iteration=epoch - 1, num_iteration=1))
                scores = scores + tree.scores(data, problem.kernel)
                model.append(tree.features, tree.thresholds, tree.left, tree.right, tree.leaves)
            if epoch <= done:
                continue
            objective = mean_and_slopes(lists, scores[lists.rows])[0]
            yield EpochResult(epoch, objective, finished, partial(_state, epoch))
            if finished:
                return

    def _settings(self, problem: TrainingProblem) -> dict[str, Any]:
        """Return the parameters that LightGBM is given."""
        data, loss = cast(JudgedLists, problem.data), problem.loss
        settings: dict[str, Any] = {
            "objective": "regression",
            "learning_rate": self.learning_rate,
            "num_leaves": self.num_leaves,
            "min_data_in_leaf": self.min_data_in_leaf,
            "max_bin": self.max_bin,
            "lambda_l2": self.lambda_l2,
            "feature_fraction": self.feature_fraction,
            "bagging_fraction": self.bagging_fraction,
            "bagging_freq": 1 if self.bagging_fraction < 1.0 else 0,
            "seed": problem.seed % 2**31,
            "num_threads": problem.threads,
            "deterministic": True,
            "force_row_wise": True,
            "verbose": -1,
        }
        if isinstance(loss, LambdaRank):
            longest = int(np.diff(data.group_ptr).max())
            settings["objective"] = "lambdarank"
            settings["lambdarank_truncation_level"] = loss.k or longest
        return settings

    def _booster(self, problem: TrainingProblem) -> Any:
        """Return LightGBM's booster on the data, before its first tree."""
        try:
            import lightgbm
        except ImportError:
            raise PartError(MISSING) from None
        data = cast(JudgedLists, problem.data)
        ranks = isinstance(problem.loss, LambdaRank)
        if ranks:
            _check_grades(data)
        settings = self._settings(problem)
        rows = lightgbm.Dataset(
            sp.csr_matrix(data.features) if sp.issparse(data.features) else data.features,
            label=data.grades,
            group=np.diff(data.group_ptr) if ranks else None,
            params=settings,
        )
        return lightgbm.Booster(params=settings, train_set=rows)


def _check_grades(data: JudgedLists) -> None:
    wrong = (data.grades != np.floor(data.grades)) | (data.grades < 0)
    wrong |= data.grades > LARGEST_GRADE
    if wrong.any():
        raise DataError(
            f"LambdaMART takes grades that are integers from 0 to {LARGEST_GRADE}, and there is "
            f"{data.grades[wrong][0]:g}; change the grades, or take recipe mart."
        )


def _state(epoch: int) -> State:
    return {"epoch": np.array([epoch])}


def _only(model: Trees, dump: Mapping[str, Any]) -> Trees:
    """Return the only tree of LightGBM's dump as a model; nodes are numbered from the root."""
    features: list[int] = []
    thresholds: list[float] = []
    children: list[list[int]] = []
    leaves: list[float] = []

    def leaf(node: Mapping[str, Any]) -> int:
        leaves.append(float(node["leaf_value"]))
        return -len(leaves)

    root = dump["tree_info"][0]["tree_structure"]
    waiting = [(root, -1, 0)]
    while waiting:
        node, parent, side = waiting.pop()
        if "split_feature" in node:
            if node["decision_type"] != "<=":
                raise DataError(
                    f"a tree of LightGBM has a split {node['decision_type']!r}, and features here "
                    "are numbers; leave out parameters for categories."
                )
            own = len(features)
            features.append(int(node["split_feature"]))
            thresholds.append(float(node["threshold"]))
            children.append([0, 0])
            waiting += [(node["right_child"], own, 1), (node["left_child"], own, 0)]
        else:
            own = leaf(node)
        if parent >= 0:
            children[parent][side] = own
    tree = Trees()
    tree.feature_ids = model.feature_ids
    both = np.array(children, np.int64).reshape(-1, 2)
    tree.append(
        np.array(features, np.int64),
        np.array(thresholds),
        both[:, 0].copy(),
        both[:, 1].copy(),
        np.array(leaves),
    )
    return tree
