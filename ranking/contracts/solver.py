"""The contract of a solver: what it takes, why it refuses, and one turn per epoch."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from numpy.typing import NDArray

from ranking.contracts.engine import Engine
from ranking.contracts.loss import Loss
from ranking.contracts.model import Model
from ranking.contracts.part import Part
from ranking.contracts.regularizer import Regularizer

if TYPE_CHECKING:
    from ranking.data.judged_lists import JudgedLists
    from ranking.data.matching_data import MatchingData
    from ranking.kernels.kernel import Kernel

State = dict[str, NDArray[Any]]

History = Sequence[Mapping[str, Any]]
"""A row per epoch, as in `ranking.training.trainer`."""


def default_engine() -> Engine:
    """Return the engine that needs nothing but this process."""
    from ranking.registry import get_registry

    made: Engine = get_registry().create("engine", "local")
    return made


class Compatibility(NamedTuple):
    """Whether parts work together; if not, the mathematics that are against it.

    The parts need no names in a reason: whoever prints it names them. What would work instead is
    found by :mod:`ranking.registry.compatibility`.
    """

    works: bool
    reason: str = ""


YES = Compatibility(True)


@dataclasses.dataclass(frozen=True)
class TrainingProblem:
    """Everything a solver needs: the parts, the data and who computes.

    Attributes
    ----------
    model : Model
        Started and sized for the data; the solver changes its parameters in place.
    state : dict of arrays or None
        What `EpochResult.state` returned when an interrupted run stopped; the solver goes on from there.
    engine : Engine
        Who holds the data, for a solver that `spreads`.
    """

    model: Model
    loss: Loss
    regularizer: Regularizer
    data: JudgedLists | MatchingData
    kernel: Kernel
    threads: int = 1
    seed: int = 0
    state: State | None = None
    engine: Engine = dataclasses.field(default_factory=default_engine)


@dataclasses.dataclass(frozen=True)
class EpochResult:
    """What one epoch of a solver came to; the model already holds its parameters.

    Attributes
    ----------
    epoch : int
        From 1.
    objective : float
        Loss plus penalty at the model's parameters.
    converged : bool
        True in the last turn of a solver that met its own stopping rule.
    state : function that returns a dict of arrays
        Enough to resume bit for bit after this turn; to be asked before the next.
    measures : mapping
        What else there is to tell about the epoch, by name, for the history.
    """

    epoch: int
    objective: float
    converged: bool
    state: Callable[[], State]
    measures: Mapping[str, float] = dataclasses.field(default_factory=dict)


class OnlineTrainer(Protocol):
    """A training without an end, fed part by part."""

    def set_data(self, data: Any) -> None:
        """Go on with other data, whose features may be new."""

    def step(self, triplets: NDArray[Any] | None, steps: int | None) -> EpochResult:
        """Take these tuples' steps, or those of as many that are drawn."""


@dataclasses.dataclass
class Solver(Part, ABC):
    """Minimises loss + penalty over a model's parameters."""

    @classmethod
    @abstractmethod
    def accepts(
        cls, model: type[Model], loss: type[Loss], regularizer: type[Regularizer]
    ) -> Compatibility:
        """Say whether these kinds of parts work with this solver; for a no, why."""

    @classmethod
    def spreads(cls, loss: type[Loss]) -> bool:
        """Say whether the work for a loss goes through the problem's engine."""
        return False

    @abstractmethod
    def run_epochs(self, problem: TrainingProblem) -> Iterator[EpochResult]:
        """Yield one turn per epoch; whoever iterates may stop at any turn."""

    def online_trainer(self, problem: TrainingProblem, history: History = ()) -> OnlineTrainer:
        """Return a training that is fed part by part, for `Ranker.partial_fit`.

        Parameters
        ----------
        history : sequence of mappings
            The epochs that led to the model as it is, if it was trained before.
        """
        from ranking.errors import CombinationError

        raise CombinationError(
            f"solver {self.name!r} needs all data at once, so there is no partial_fit; sgd has one."
        )

    def notes(self) -> dict[str, Any]:
        """Return what the model file should tell about the last run, as JSON values."""
        return {}
