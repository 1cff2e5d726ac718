"""What a plan and its wrappers have in common: `trainer` and `fit`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

from ranking.data.inputs import Trainable
from ranking.io.result import TrainingResult


class Training(Protocol):
    """A training in progress: a `Trainer`, or a wrapper's several trainings.

    After an interrupt, `finished` says whether there is a result nevertheless.
    """

    def train(self) -> None:
        """Train to the end."""

    def result(self) -> TrainingResult:
        """Return what training has produced so far."""

    @property
    def finished(self) -> bool:
        """Whether there is a result: at least one epoch is complete."""


class Fitter(ABC):
    """A plan, or a wrapper around one, as scikit-learn's meta-estimators wrap an estimator."""

    @abstractmethod
    def trainer(
        self, data: Trainable, valid: Trainable | None = None, *, exclude_seen: bool = False
    ) -> Training:
        """Return the training that `fit` would run, before its first epoch."""

    def fit(
        self, data: Trainable, valid: Trainable | None = None, *, exclude_seen: bool = False
    ) -> TrainingResult:
        """Train on data.

        Parameters
        ----------
        data, valid : JudgedLists or MatchingData
            Training and validation data.
        exclude_seen : bool
            Whether positives of the training data are left out of the lists that are validated.
        """
        training = self.trainer(data, valid, exclude_seen=exclude_seen)
        training.train()
        return training.result()
