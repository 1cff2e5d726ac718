"""The grid of losses, regularizers and solvers: every cell trained, measured and compared.

MovieLens 100K with a factored model, and the first fold of Ohsumed with a linear model where the
cell exists. The strength of a regularizer is chosen on validation data, then the cell is trained
again and tested once.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ranking import JudgedLists, MatchingData, Ranker
from ranking.data.exclusions import find_exclusions
from ranking.kernels.select import get_kernel
from ranking.metrics.evaluation import evaluate_model, mean
from ranking.metrics.parse import parse_metric
from ranking.models.factored import Factored
from ranking.registry.compatibility import Cell, Grid
from ranking_plugins.reproductions import Options, Row
from ranking_plugins.reproductions.held_out import read_likes
from ranking_plugins.reproductions.letor import read_fold

title = "The grid of losses, regularizers and solvers"
notes = (
    "MovieLens 100K: ratings of 4 and 5 are positives, ten random ratings of each user are for "
    "testing and ten others for validation; MAP of all unseen films, factored model of 16 "
    "dimensions. Ohsumed: fold 1, linear model, ndcg@10. The strength is the best of those tried "
    "on the validation data. 'start' is the objective of the untrained model, 'first' and "
    "'last' that after the first and the last "
    "epoch of the final training; 'falls' is 1 if no epoch increased it (sgd is stochastic, and so "
    "are the half-steps of warp). Cells that a linear model does not have are trained on "
    "MovieLens 100K. 'zeros' is the share of parameters that are 0, 'largest norm' "
    "that of a row of the embeddings, 'off' the largest entry of P'P - I for columns of length 1. "
    "'free' is the test value of the same cell without a regularizer. warp with coordinate is "
    "smooth-warp."
)

LOSSES = ("hinge", "warp", "domination")
LOSS_SPECS = {"warp": "warp:max_trials=10"}
REGULARIZERS = ("l1", "l2", "l1l2-row", "orthonormal")
SOLVERS = {
    "sgd": "sgd:epochs=20",
    "coordinate": "coordinate:max_epochs=30,tolerance=0",
    "alternating": "alternating:max_epochs=10",
}
QUICK_SOLVERS = {
    "sgd": "sgd:epochs=3",
    "coordinate": "coordinate:max_epochs=5,tolerance=0",
    "alternating": "alternating:max_epochs=2",
}
LINEAR_SOLVERS = {
    "sgd": "sgd:epochs=20",
    "coordinate": "coordinate",
    "alternating": "alternating",
}
STRENGTHS = (1e-6, 1e-5, 1e-4, 1e-3)
LINEAR_STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1)
DIMENSIONS = 16

Data = MatchingData | JudgedLists


class Task(NamedTuple):
    """A data set with its model: training, validation and test data, and how to measure."""

    name: str
    model: str
    metric: str
    solvers: dict[str, str]
    strengths: tuple[float, ...]
    choose: tuple[Data, Data]
    final: tuple[Data, Data]


def rows(options: Options) -> Iterator[Row]:
    """Train and measure every cell."""
    for load in (_movielens, _ohsumed):
        task = load(options)
        yield from _baselines(task, options)
        for loss, solver in itertools.product(LOSSES, task.solvers):
            if not _works(task, loss, "none", solver):
                yield from _served(task, loss, solver)
                continue
            options.tell(f"{task.name}: {loss}, {solver}")
            free = _measure(task, (loss, "none", task.solvers[solver]), options)
            yield _row(task, f"{loss} x none x {solver}", free, {})
            for name in REGULARIZERS:
                if _works(task, loss, name, solver):
                    yield _cell(task, (loss, name, solver), free.quality, options)
                else:
                    yield _missing(task, f"{loss} x {name} x {solver}")


def _served(task: Task, loss: str, solver: str) -> Iterator[Row]:
    """Say for each regularizer which model has a cell that this one does not have."""
    for name in REGULARIZERS:
        yield _missing(task, f"{loss} x {name} x {solver}")


def _missing(task: Task, cell: str) -> Row:
    return Row(task.name, f"{cell} (model factored)", {}, {})


def _movielens(options: Options) -> Task:
    folder = options.data / "interactions"
    choose, final = (
        read_likes(folder, options.seed, validate=validate) for validate in (True, False)
    )
    if options.quick:
        choose, final = (_fewer(*pair) for pair in (choose, final))
    solvers = QUICK_SOLVERS if options.quick else SOLVERS
    model = f"factored:dimensions={DIMENSIONS},init_scale=0.1"
    return Task("MovieLens 100K", model, "map", solvers, STRENGTHS, choose, final)


def _fewer(train: MatchingData, test: MatchingData) -> tuple[MatchingData, MatchingData]:
    users = np.arange(100)
    return train.select(users), test.select(users)


def _ohsumed(options: Options) -> Task:
    train, valid, test = read_fold(options.data / "letor/ohsumed/QueryLevelNorm", 0)
    return Task(
        "Ohsumed",
        "linear",
        "ndcg@10",
        LINEAR_SOLVERS,
        LINEAR_STRENGTHS,
        (train, valid),
        (train, test),
    )


def _works(task: Task, loss: str, regularizer: str, solver: str) -> bool:
    name = " x ".join((task.model.partition(":")[0], loss, regularizer, solver))
    return _cells()[name].compatibility().works


@functools.cache
def _cells() -> dict[str, Cell]:
    return {str(cell): cell for cell in Grid().cells()}


class Measured(NamedTuple):
    """A trained cell, its quality, and the seconds of training."""

    ranker: Ranker
    quality: float
    seconds: float


def _measure(
    task: Task, parts: tuple[str, str, str], options: Options, data: tuple[Data, Data] | None = None
) -> Measured:
    train, test = data or task.final
    loss, regularizer, solver = parts
    started = time.perf_counter()
    ranker = Ranker(
        task.model,
        LOSS_SPECS.get(loss, loss),
        regularizer,
        solver,
        kernel=options.kernel,
        threads=options.threads,
        random_state=options.seed,
    ).fit(train)
    seconds = time.perf_counter() - started
    return Measured(ranker, _quality(task, ranker.model_, train, test, options), seconds)


def _quality(task: Task, model: Any, train: Data, test: Data, options: Options) -> float:
    metric = parse_metric(task.metric)
    known = None
    if isinstance(train, MatchingData) and isinstance(test, MatchingData):
        known = find_exclusions(test, train)
    kernel = get_kernel(options.kernel)
    values = evaluate_model(model, [metric], test, kernel, options.threads, known)
    return mean(values[metric.spelled()])


def _cell(task: Task, cell: tuple[str, str, str], free: float, options: Options) -> Row:
    """Choose the strength on validation data, train, and test once."""
    loss, name, solver = cell
    specs = [name]
    if name != "orthonormal":
        strengths = task.strengths[1:3] if options.quick else task.strengths
        specs = [f"{name}:strength={strength:g}" for strength in strengths]
    candidates = {}
    for spec in specs if len(specs) > 1 else ():
        candidates[spec] = _measure(task, (loss, spec, task.solvers[solver]), options, task.choose)
    best = max(candidates, key=lambda spec: candidates[spec].quality) if candidates else specs[0]
    result = _measure(task, (loss, best, task.solvers[solver]), options)
    more = {"free": free}
    history = result.ranker.history_
    if "decrease" in history[0]:
        more["start"] = float(history[0]["objective"]) + float(history[0]["decrease"])
    else:
        untrained = _measure(task, (loss, best, "sgd:max_steps=0"), options)
        more["start"] = float(untrained.ranker.history_[-1]["objective"])
    return _row(task, f"{loss} x {best} x {solver}", result, more)


def _row(task: Task, method: str, measured: Measured, more: dict[str, float]) -> Row:
    history = [float(row["objective"]) for row in measured.ranker.history_]
    falls = all(after <= before for before, after in itertools.pairwise(history))
    metrics = {
        task.metric: measured.quality,
        "first": history[0],
        "last": history[-1],
        "falls": float(falls),
        **_properties(measured.ranker.model_),
        **more,
    }
    size = sum(array.nbytes for array in measured.ranker.model_.tensors().values())
    density = measured.ranker.model_.density
    return Row(task.name, method, metrics, {}, measured.seconds, size, density)


def _properties(model: Any) -> dict[str, float]:
    """Return what regularizers are for: zeros, norms of rows, orthonormal columns."""
    if not isinstance(model, Factored):
        return {"zeros": 1.0 - model.density}
    sides = [side[:, : model.dimensions].astype(np.float64) for side in (model.U, model.V)]
    norms = [float(np.linalg.norm(side, axis=1).max()) for side in sides]
    entries = np.concatenate([side.ravel() for side in sides])
    return {
        "zeros": float((entries == 0.0).mean()),
        "largest norm": max(norms),
        "off": max(_off(side) for side in sides),
    }


def _off(side: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    """Return the largest entry of P'P - I, the columns divided by their mean length."""
    gram = side.T @ side
    square = float(np.trace(gram)) / gram.shape[0]
    return float(np.abs(gram / square - np.eye(gram.shape[0])).max()) if square else 0.0


def _baselines(task: Task, options: Options) -> Iterator[Row]:
    """Measure the untrained model, and for interactions popularity."""
    train, test = task.final
    untrained = Ranker(task.model, "hinge", "none", "sgd:epochs=0", random_state=options.seed)
    quality = _quality(task, untrained.fit(train).model_, train, test, options)
    yield Row(task.name, "untrained", {task.metric: quality}, {})
    if isinstance(train, MatchingData):
        model = untrained.model_
        assert isinstance(model, Factored)
        model.U[:], model.V[:] = 0.0, 0.0
        model.document_biases[:] = np.bincount(train.relevance.indices, minlength=train.n_documents)
        quality = _quality(task, model, train, test, options)
        yield Row(task.name, "popularity", {task.metric: quality}, {})
