"""Search parameters on validation data: paths of warm-started trainings."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from ranking._utils.tensors import Tensors, pack_history, section, under, unpack_history
from ranking.contracts.metric import Metric
from ranking.contracts.model import Model
from ranking.contracts.recipe import Search
from ranking.data.inputs import Trainable
from ranking.errors import DataError, ModelFileError
from ranking.io.result import TrainingResult
from ranking.io.schema import check_search
from ranking.metrics.evaluation import mean
from ranking.metrics.parse import parse_metric
from ranking.training.fitter import Fitter
from ranking.training.plan import TrainingPlan
from ranking.training.trainer import Snapshot, Trainer


@dataclasses.dataclass
class SearchProgress:
    """Trials of a search so far; a checkpoint stores it.

    Attributes
    ----------
    trials : list of dict
        One row per complete training: parameters, metric, density, history.
    best : int
        The best trial so far.
    best_tensors, last_tensors : dict of arrays
        The parameters of the best model, and those that the next training starts from.
    """

    trials: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    best: int = -1
    best_tensors: Tensors = dataclasses.field(default_factory=dict)
    last_tensors: Tensors = dataclasses.field(default_factory=dict)

    def facts(self) -> dict[str, Any]:
        """Return the JSON values."""
        return {"trials": [_without_history(trial) for trial in self.trials], "best": self.best}

    def tensors(self) -> Tensors:
        """Return the arrays."""
        arrays = under("best", self.best_tensors) | under("last", self.last_tensors)
        for number, trial in enumerate(self.trials):
            arrays |= under(f"history/{number}", pack_history(trial["history"]))
        return arrays

    @classmethod
    def restore(cls, facts: Any, tensors: Tensors) -> SearchProgress:
        """Restore what `facts` and `tensors` returned, or raise `ModelFileError`."""
        check_search("the checkpoint", facts)
        trials = [
            {**trial, "history": unpack_history(section(tensors, f"history/{number}"))}
            for number, trial in enumerate(facts["trials"])
        ]
        best, last = section(tensors, "best"), section(tensors, "last")
        if trials and not (best and last and all(trial["history"] for trial in trials)):
            raise ModelFileError(
                "the checkpoint is damaged: tensors of its completed trials are missing; train "
                "again from the start."
            )
        return cls(trials, facts["best"], best, last)


def _no_callback(trainer: Trainer, progress: SearchProgress) -> None:
    pass


@dataclasses.dataclass(frozen=True)
class ParameterSearch(Fitter):
    """Train once per trial of a search, and return the best by the metric on validation data.

    Parameters
    ----------
    plan : TrainingPlan
        The base; the searched parameters are set for each trial.
    search : Search
        Which values are tried, in which order, and which metric decides.
    on_trial : function, optional
        Called with the trainer of each trial and the progress so far, before it trains.

    Examples
    --------
    >>> from ranking.contracts.recipe import Search
    >>> from ranking.data.synthetic import demo
    >>> data = demo()
    >>> plan = TrainingPlan(loss="domination", regularizer="l1")
    >>> search = ParameterSearch(plan, Search("regularizer", "strength", (10, 0.01), "map"))
    >>> result = search.fit(data["train"], data["valid"])
    >>> result.report.best, result.regularizer.strength
    (1, 0.01)
    """

    plan: TrainingPlan
    search: Search
    on_trial: Callable[[Trainer, SearchProgress], None] = _no_callback

    def trainer(
        self, data: Trainable, valid: Trainable | None = None, *, exclude_seen: bool = False
    ) -> SearchTraining:
        """Return the search before its first trial."""
        if valid is None:
            raise DataError("a search needs validation data; give valid.")
        return SearchTraining(self, data, valid, exclude_seen)


@dataclasses.dataclass
class SearchTraining:
    """A search in progress.

    Attributes
    ----------
    progress : SearchProgress
        The trials so far; set it before `train` to continue an interrupted search.
    """

    wrapper: ParameterSearch
    data: Trainable
    valid: Trainable
    exclude_seen: bool = False
    progress: SearchProgress = dataclasses.field(default_factory=SearchProgress)
    _current: Trainer | None = None

    def train(self, resume: Snapshot | None = None) -> None:
        """Run the remaining trials.

        Parameters
        ----------
        resume : Snapshot, optional
            Where the first of them was interrupted.
        """
        search, progress = self.wrapper.search, self.progress
        metric = parse_metric(search.metric)
        self._refuse_other_search(metric.spelled())
        for number in range(len(progress.trials), len(search.trials())):
            warm = number % len(search.values) != 0
            trainer = self._trainer(number, progress.last_tensors if warm else None, self.valid)
            adjusted = None if resume is not None else self._adjusted(number)
            self._current, trainer.is_trial = trainer, True
            self.wrapper.on_trial(trainer, progress)
            if adjusted is None:
                trainer.train(resume)
            else:
                trainer.model = adjusted
                last = progress.trials[-1]
                trainer.history, trainer.stopped = list(last["history"]), last["stopped"]
            resume = None
            self._record(number, trainer, metric)

    def _adjusted(self, number: int) -> Model | None:
        """Return the model of the last trial with the parameters of this one, if that is all."""
        if not self.progress.trials:
            return None
        before, now = (self.wrapper.search.trials()[at] for at in (number - 1, number))
        if not all(a.part == b.part == "model" for a, b in zip(before, now, strict=True)):
            return None
        last = self._trainer(number - 1, self.progress.last_tensors).model
        return last.adjusted(**{choice.parameter: choice.value for choice in now})

    def _refuse_other_search(self, metric: str) -> None:
        """Refuse completed trials that are not those of this search."""
        expected = self.wrapper.search.trials()
        for number, trial in enumerate(self.progress.trials):
            choices = expected[number] if number < len(expected) else ()
            same = all(trial.get(choice.parameter) == choice.value for choice in choices)
            if not (choices and same and metric in trial):
                raise ModelFileError(
                    f"the checkpoint belongs to another search: its trial {number + 1} is not "
                    "one of this search; train again from the start."
                )

    def _trainer(
        self, number: int, initial: Tensors | None, valid: Trainable | None = None
    ) -> Trainer:
        choices = self.wrapper.search.trials()[number]
        plan = self.wrapper.plan.with_choices(self.data, choices)
        return plan.trainer(self.data, valid, initial=initial, exclude_seen=self.exclude_seen)

    def _record(self, number: int, trainer: Trainer, metric: Metric) -> None:
        progress, name = self.progress, metric.spelled()
        value = mean(trainer.validate([metric])[name])
        choices = self.wrapper.search.trials()[number]
        progress.trials.append(
            {
                **{choice.parameter: choice.value for choice in choices},
                name: value,
                "density": trainer.model.density,
                "stopped": trainer.stopped,
                "history": trainer.history,
            }
        )
        progress.last_tensors = {k: v.copy() for k, v in trainer.model.tensors().items()}
        best = None if progress.best < 0 else progress.trials[progress.best][name]
        if best is None or (value > best if metric.higher_is_better else value < best):
            progress.best = number
            progress.best_tensors = progress.last_tensors

    @property
    def finished(self) -> bool:
        """Whether a trial is complete, or the first has an epoch."""
        return bool(self.progress.trials or (self._current and self._current.history))

    def result(self) -> TrainingResult:
        """Return the best trial; its training may have run in another process.

        While no trial is complete, return the one in progress.
        """
        progress = self.progress
        if not progress.trials:
            assert self._current is not None
            return self._current.result()
        trial = progress.trials[progress.best]
        trainer = self._trainer(progress.best, progress.best_tensors)
        trainer.history, trainer.stopped = trial["history"], trial["stopped"]
        trainer.warn_of_result()
        result = trainer.result()
        result.description["search"] = {
            **dataclasses.asdict(self.wrapper.search),
            "best": progress.best,
            "trials": [_without_history(trial) for trial in progress.trials],
        }
        return dataclasses.replace(result, report=progress)


def _without_history(trial: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in trial.items() if name != "history"}
