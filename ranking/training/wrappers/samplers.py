"""Propose configurations by optuna's samplers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ranking.contracts.recipe import Choice
from ranking.errors import PartError
from ranking.training.wrappers.spaces import Range


class OptunaSampler:
    """Propose configurations of one recipe by the tree-structured Parzen estimator.

    Parameters
    ----------
    space : sequence of Range
    seed : int
    higher_is_better : bool
    """

    def __init__(self, space: Sequence[Range], seed: int, *, higher_is_better: bool) -> None:
        try:
            import optuna
        except ImportError as error:
            raise PartError(
                "the sampler optuna needs the package optuna; install it with "
                "pip install 'ranking-kit[tune]', or leave it out."
            ) from error
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        direction = "maximize" if higher_is_better else "minimize"
        sampler = optuna.samplers.TPESampler(seed=seed % 2**32, n_startup_trials=5)
        self._study = optuna.create_study(direction=direction, sampler=sampler)
        self._space = space
        self._asked: dict[tuple[Choice, ...], Any] = {}

    def ask(self) -> tuple[Choice, ...]:
        """Return the next configuration."""
        trial = self._study.ask()
        choices = []
        for one in self._space:
            name = f"{one.part}:{one.parameter}"
            value = (
                trial.suggest_int(name, math.ceil(one.low), max(math.floor(one.high), 1))
                if one.integer
                else trial.suggest_float(name, one.low, one.high, log=one.log)
            )
            choices.append(Choice(one.part, one.parameter, value))
        self._asked[tuple(choices)] = trial
        return tuple(choices)

    def tell(self, choices: tuple[Choice, ...], value: float) -> None:
        """Report the value of a configuration; NaN: it failed."""
        import optuna

        trial = self._asked.pop(choices, None)
        if trial is None:
            return
        if math.isnan(value):
            self._study.tell(trial, state=optuna.trial.TrialState.FAIL)
        else:
            self._study.tell(trial, value)
