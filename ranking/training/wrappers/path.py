"""Regularization paths: one warm-started training per strength, with its metrics."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from joblib import Parallel, delayed

from ranking._utils.tensors import History
from ranking.contracts.loss import CoordinateLoss
from ranking.contracts.recipe import Search
from ranking.data.inputs import Trainable
from ranking.data.judged_lists import JudgedLists
from ranking.data.split import query_kfold
from ranking.errors import CombinationError, DataError
from ranking.io.result import TrainingResult
from ranking.kernels.select import get_kernel
from ranking.metrics.evaluation import evaluate_model, mean
from ranking.metrics.parse import parse_metrics
from ranking.models.linear import Linear
from ranking.training.fitter import Fitter
from ranking.training.plan import TrainingPlan
from ranking.training.trainer import Trainer
from ranking.training.wrappers.search import ParameterSearch, SearchTraining


@dataclasses.dataclass(frozen=True)
class PathPoint:
    """One strength of a path.

    Attributes
    ----------
    loss, held_out_loss : float
        Without the penalty, on the training and on the validation data.
    density : float
        The share of weights that are not zero.
    epochs : int
    metrics : dict
        On the validation data, by their names as they were given.
    history : list of dict
        One row per epoch.
    """

    strength: float
    loss: float
    held_out_loss: float
    density: float
    epochs: int
    metrics: dict[str, float]
    history: History

    def row(self) -> dict[str, Any]:
        """Return the numbers, one per column."""
        return {
            "strength": self.strength,
            "loss": self.loss,
            "held-out loss": self.held_out_loss,
            "density": self.density,
            "epochs": float(self.epochs),
            **self.metrics,
        }


@dataclasses.dataclass(frozen=True)
class RegularizationPath(Fitter):
    """Train with each strength in order, each from the weights of the one before.

    The result is the best by the first metric; its report is a list of `PathPoint`.

    Parameters
    ----------
    plan : TrainingPlan
        The base: a linear model, a loss with a coordinate interface, a regularizer with a strength.
    strengths : sequence of float
        From the strongest, whose solution is nearest to the start, to the weakest.
    metrics : sequence of str
        Evaluated on the validation data.

    Examples
    --------
    >>> from ranking.data.synthetic import demo
    >>> data = demo()
    >>> plan = TrainingPlan(loss="domination", regularizer="l1")
    >>> path = RegularizationPath(plan, (10, 0.01), ["map"]).fit(data["train"], data["valid"])
    >>> [point.density > 0.0 for point in path.report]
    [False, True]
    """

    plan: TrainingPlan
    strengths: Sequence[float]
    metrics: Sequence[str]

    def trainer(
        self, data: Trainable, valid: Trainable | None = None, *, exclude_seen: bool = False
    ) -> PathTraining:
        """Return the path before its first training."""
        if not isinstance(data, JudgedLists) or not isinstance(valid, JudgedLists):
            raise DataError("a regularization path needs judged rows to train and to validate on.")
        search = Search("regularizer", "strength", tuple(self.strengths), self.metrics[0])
        trainers: list[Trainer] = []
        wrapper = ParameterSearch(self.plan, search, lambda each, _: trainers.append(each))
        return PathTraining(wrapper.trainer(data, valid), self, trainers)

    def cross_validate(
        self, data: JudgedLists, folds: int, seed: int = 0, jobs: int = 1
    ) -> list[dict[str, Any]]:
        """Return the means over folds by query, and the standard errors of the means.

        Every fold has its own path. A row has the columns of `PathPoint.row`, and ``<column> se``.
        Folds share `jobs` threads, by joblib; with several jobs, each fold has one thread. The
        numbers do not depend on it.
        """
        get_kernel(self.plan.kernel)  # find plugins once, not in every thread

        def fold_path(train: JudgedLists, test: JudgedLists) -> list[dict[str, Any]]:
            plan = copy.deepcopy(self.plan)
            if jobs != 1:
                plan = dataclasses.replace(plan, threads=1)
            result = dataclasses.replace(self, plan=plan).fit(train, test)
            return [point.row() for point in result.report]

        splits = query_kfold(data, folds, seed)
        paths = Parallel(n_jobs=jobs, prefer="threads")(
            delayed(fold_path)(*split) for split in splits
        )
        return [_mean_row(same) for same in zip(*paths, strict=True)]


@dataclasses.dataclass(frozen=True)
class PathTraining:
    """A path in progress: a search whose trainers are kept."""

    search: SearchTraining
    path: RegularizationPath
    trainers: list[Trainer]

    def train(self) -> None:
        """Train with each strength."""
        self.search.train()

    @property
    def finished(self) -> bool:
        """Whether there is a result."""
        return self.search.finished

    def result(self) -> TrainingResult:
        """Return the best training; the report has one point per complete training."""
        trials = len(self.search.progress.trials)
        report = [
            _point(trainer, strength, cast(JudgedLists, self.search.valid), self.path.metrics)
            for trainer, strength in zip(
                self.trainers[:trials], self.path.strengths[:trials], strict=True
            )
        ]
        return dataclasses.replace(self.search.result(), report=report)


def _mean_row(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the means of one strength over the folds, and their standard errors."""
    row: dict[str, Any] = {"strength": rows[0]["strength"]}
    for column in list(rows[0])[1:]:
        values = np.array([one[column] for one in rows], float)
        row[column] = float(values.mean())
        row[f"{column} se"] = float(values.std(ddof=1) / np.sqrt(values.size))
    return row


def _point(
    trainer: Trainer, strength: float, valid: JudgedLists, metrics: Sequence[str]
) -> PathPoint:
    parsed = parse_metrics(metrics)
    values = evaluate_model(
        trainer.model, list(parsed.values()), valid, trainer.kernel, trainer.threads
    )
    return PathPoint(
        strength,
        _loss(trainer, cast(JudgedLists, trainer.data)),
        _loss(trainer, valid),
        trainer.model.density,
        int(trainer.history[-1]["epoch"]),
        {name: mean(values[metric.spelled()]) for name, metric in parsed.items()},
        trainer.history,
    )


def _loss(trainer: Trainer, data: JudgedLists) -> float:
    """Return the loss of a linear model on any data, without the penalty."""
    model = trainer.model
    if not isinstance(model, Linear) or "coordinate" not in trainer.loss.interfaces:
        raise CombinationError(
            "a path needs a linear model and a loss with a coordinate interface, not "
            f"{model.name!r} and {trainer.loss.name!r}; try model linear and loss domination."
        )
    features = data.aligned_features(model.feature_ids)
    if features is not data.features:
        qids = data.query_ids[data.row_groups]
        data = JudgedLists(features, data.grades, qids, feature_ids=model.feature_ids)
    loss = cast(CoordinateLoss, trainer.loss)
    return loss.coordinate_problem(
        data, model.weights, trainer.kernel, trainer.threads, "popoviciu"
    ).value()
