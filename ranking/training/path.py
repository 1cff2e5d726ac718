"""Regularization paths: a training for each strength, warm-started, and what each comes to."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone

from ranking.contracts.loss import CoordinateLoss
from ranking.contracts.recipe import Search
from ranking.data.judged_lists import JudgedLists
from ranking.data.split import query_kfold
from ranking.errors import CombinationError
from ranking.kernels.select import get_kernel
from ranking.metrics.evaluate import mean
from ranking.metrics.model_evaluation import measure
from ranking.metrics.parse import parse_metric
from ranking.models.linear import Linear
from ranking.ranker import Ranker
from ranking.training.search import fit_path
from ranking.training.trainer import History, Run


@dataclasses.dataclass(frozen=True)
class Point:
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
        The training, epoch by epoch.
    """

    strength: float
    loss: float
    held_out_loss: float
    density: float
    epochs: int
    metrics: dict[str, float]
    history: History

    def row(self) -> dict[str, Any]:
        """Return the numbers, one a column."""
        return {
            "strength": self.strength,
            "loss": self.loss,
            "held-out loss": self.held_out_loss,
            "density": self.density,
            "epochs": float(self.epochs),
            **self.metrics,
        }


def regularization_path(
    ranker: Ranker,
    strengths: Sequence[float],
    data: JudgedLists,
    valid: JudgedLists,
    metrics: Sequence[str],
) -> list[Point]:
    """Train with each strength in order, each from the weights of the one before.

    Parameters
    ----------
    ranker : Ranker
        Its regularizer has a strength; it ends up fitted as the best by the first metric.
    strengths : sequence of float
        From the strongest, whose solution is nearest to the start, to the weakest.
    metrics : sequence of str
        Measured on the validation data.

    Examples
    --------
    >>> from ranking.data.synthetic import demo
    >>> data = demo()
    >>> ranker = Ranker(loss="domination", regularizer="l1")
    >>> path = regularization_path(ranker, (10, 0.01), data["train"], data["valid"], ["map"])
    >>> [point.density > 0.0 for point in path]
    [False, True]
    """
    runs: list[Run] = []
    search = Search("regularizer", "strength", tuple(strengths), metrics[0])
    fit_path(ranker, search, data, valid, started=lambda run, _: runs.append(run))
    return [
        _point(run, strength, valid, metrics) for run, strength in zip(runs, strengths, strict=True)
    ]


def cross_validated_path(
    ranker: Ranker,
    strengths: Sequence[float],
    data: JudgedLists,
    folds: int,
    metrics: Sequence[str],
    seed: int = 0,
    jobs: int = 1,
) -> list[dict[str, Any]]:
    """Return the means over folds by query, and the standard errors of the means.

    Every fold has a path of its own. A row has the columns of `Point.row`, and ``<column> se``.
    Folds share `jobs` threads, by joblib; with several, a fold has one, whatever the ranker says.
    The numbers do not depend on it.
    """
    get_kernel(ranker.kernel)  # plugins are found here, once, and not by every thread

    def path(train: JudgedLists, test: JudgedLists) -> list[dict[str, Any]]:
        own = clone(ranker)
        if jobs != 1:
            own.set_params(threads=1)
        return [point.row() for point in regularization_path(own, strengths, train, test, metrics)]

    parts = query_kfold(data, folds, seed)
    paths = Parallel(n_jobs=jobs, prefer="threads")(delayed(path)(*part) for part in parts)
    rows = []
    for same in zip(*paths, strict=True):
        row: dict[str, Any] = {"strength": same[0]["strength"]}
        for column in list(same[0])[1:]:
            values = np.array([one[column] for one in same], float)
            row[column] = float(values.mean())
            row[f"{column} se"] = float(values.std(ddof=1) / np.sqrt(values.size))
        rows.append(row)
    return rows


def _point(run: Run, strength: float, valid: JudgedLists, metrics: Sequence[str]) -> Point:
    parsed = {name: parse_metric(name) for name in metrics}
    values = measure(run.model, list(parsed.values()), valid, run.kernel, run.threads)
    model = cast(Linear, run.model)
    return Point(
        strength,
        _loss(run, cast(JudgedLists, run.data)),
        _loss(run, valid),
        model.density,
        int(run.history[-1]["epoch"]),
        {name: mean(values[metric.spelled()]) for name, metric in parsed.items()},
        run.history,
    )


def _loss(run: Run, data: JudgedLists) -> float:
    """Return the loss of a linear model on any data, without a penalty."""
    model = run.model
    if not isinstance(model, Linear) or "coordinate" not in run.loss.interfaces:
        raise CombinationError(
            f"a path is for a linear model and a loss with a coordinate interface, not {model.name!r} "
            f"and {run.loss.name!r}; try model linear and loss domination."
        )
    features = data.aligned_features(model.feature_ids)
    if features is not data.features:
        qids = data.query_ids[data.row_groups]
        data = JudgedLists(features, data.grades, qids, feature_ids=model.feature_ids)
    loss = cast(CoordinateLoss, run.loss)
    return loss.coordinate_problem(
        data, model.weights, run.kernel, run.threads, "popoviciu"
    ).value()
