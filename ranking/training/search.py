"""A small, stated search of parameters on validation data, paths of warm-started trainings."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from ranking.contracts.metric import Metric
from ranking.contracts.recipe import Choice, Search
from ranking.data.inputs import Trainable
from ranking.io.tensors import Tensors
from ranking.metrics.evaluate import mean
from ranking.metrics.model_evaluation import measure
from ranking.metrics.parse import parse_metric
from ranking.ranker import Ranker
from ranking.training.trainer import Run, Snapshot, pack_history, section, under, unpack_history


@dataclasses.dataclass
class Progress:
    """How far a search has come; a checkpoint keeps it.

    Attributes
    ----------
    trials : list of dict
        A row per finished training: the tried values, the metric, the density, the history.
    best : int
        The trial that won so far.
    best_tensors, last_tensors : dict of arrays
        The winner's parameters, and those that the next training starts from.
    """

    trials: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    best: int = -1
    best_tensors: Tensors = dataclasses.field(default_factory=dict)
    last_tensors: Tensors = dataclasses.field(default_factory=dict)

    def facts(self) -> dict[str, Any]:
        """Return the JSON side."""
        return {"trials": [_without_history(trial) for trial in self.trials], "best": self.best}

    def tensors(self) -> Tensors:
        """Return the arrays."""
        arrays = under("best", self.best_tensors) | under("last", self.last_tensors)
        for number, trial in enumerate(self.trials):
            arrays |= under(f"history/{number}", pack_history(trial["history"]))
        return arrays

    @classmethod
    def restore(cls, facts: dict[str, Any], tensors: Tensors) -> Progress:
        """Take back what `facts` and `tensors` returned."""
        trials = [
            {**trial, "history": unpack_history(section(tensors, f"history/{number}"))}
            for number, trial in enumerate(facts["trials"])
        ]
        return cls(trials, facts["best"], section(tensors, "best"), section(tensors, "last"))


def fit_path(
    ranker: Ranker,
    search: Search,
    data: Trainable,
    valid: Trainable,
    *,
    progress: Progress | None = None,
    resume: Snapshot | None = None,
    started: Callable[[Run, Progress], None] = lambda run, progress: None,
) -> Progress:
    """Fit the ranker once per trial of the search; it ends up fitted as the best.

    Parameters
    ----------
    ranker : Ranker
        Its parts are the recipe's; the searched parameters are set for each trial.
    search : Search
        What is tried, in which order, and what decides.
    progress, resume : Progress, Snapshot
        Where an interrupted search goes on.
    started : function
        Told of each run before it goes.
    """
    metric = parse_metric(search.metric)
    progress = progress or Progress()
    for number, choices in list(enumerate(search.trials()))[len(progress.trials) :]:
        first = number % len(search.values) == 0
        run = ranker.prepare(data, valid, start=None if first else progress.last_tensors)
        _set(run, choices)
        started(run, progress)
        try:
            run.go(resume)
        except KeyboardInterrupt:
            if progress.trials:
                _adopt_best(ranker, search, progress, data)
            elif run.history:
                ranker.adopt(run)
            raise
        resume = None
        values = measure(run.model, [metric], valid, run.kernel, run.threads)
        measured = mean(values[metric.spelled()])
        progress.trials.append(
            {
                **{choice.parameter: choice.value for choice in choices},
                metric.spelled(): measured,
                "density": run.model.density,
                "stopped": run.stopped,
                "history": run.history,
            }
        )
        progress.last_tensors = _copy(run.model.tensors())
        if progress.best < 0 or _better(metric, measured, progress):
            progress.best = len(progress.trials) - 1
            progress.best_tensors = progress.last_tensors
    _adopt_best(ranker, search, progress, data)
    return progress


def _adopt_best(ranker: Ranker, search: Search, progress: Progress, data: Trainable) -> None:
    """Fit the ranker as the best trial was; its run may have ended in another process."""
    trial = progress.trials[progress.best]
    run = ranker.prepare(data, start=progress.best_tensors)
    _set(run, search.trials()[progress.best])
    run.history, run.stopped = trial["history"], trial["stopped"]
    ranker.adopt(run)
    ranker.description_["search"] = {
        **dataclasses.asdict(search),
        "best": progress.best,
        "trials": [_without_history(trial) for trial in progress.trials],
    }


def _set(run: Run, choices: Sequence[Choice]) -> None:
    for part, parameter, value in choices:
        getattr(run, part).set_params(**{parameter: value})


def _without_history(trial: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in trial.items() if name != "history"}


def _better(metric: Metric, measured: float, progress: Progress) -> bool:
    best = progress.trials[progress.best][metric.spelled()]
    return bool(measured > best if metric.higher_is_better else measured < best)


def _copy(tensors: Tensors) -> Tensors:
    return {name: tensor.copy() for name, tensor in tensors.items()}
