"""The contract of a solver: which parts it accepts, and one `EpochResult` per epoch."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from numpy.typing import NDArray

from ranking.contracts.engine import Engine
from ranking.contracts.loss import Loss
from ranking.contracts.model import Model
from ranking.contracts.part import Part
from ranking.contracts.regularizer import Regularizer
from ranking.errors import CombinationError

if TYPE_CHECKING:
    from ranking.data.judged_lists import JudgedLists
    from ranking.data.matching_data import MatchingData
    from ranking.kernels.kernel import Kernel

State = dict[str, NDArray[Any]]

History = Sequence[Mapping[str, Any]]
"""One row per epoch, as in `ranking.training.trainer`."""


class Compatibility(NamedTuple):
    """Whether parts work together; if not, the mathematical reason.

    The reason does not name the parts: the message around it does, and
    :mod:`ranking.registry.compatibility` adds the nearest supported combination.

    Attributes
    ----------
    first_choice : bool
        Whether "auto" and suggestions take this solver; if not, only where no other one works.
    """

    works: bool
    reason: str = ""
    first_choice: bool = True


YES = Compatibility(True)


@dataclasses.dataclass(frozen=True)
class TrainingProblem:
    """Everything a solver needs: the parts, the data, and the kernel.

    Attributes
    ----------
    model : Model
        Initialized for the data; the solver changes its parameters in place.
    state : dict of arrays or None
        What `EpochResult.state` returned before an interruption; the solver continues there.
    engine : Engine or None
        Holds the data, for a solver that `spreads`; None is this process.
    """

    model: Model
    loss: Loss
    regularizer: Regularizer
    data: JudgedLists | MatchingData
    kernel: Kernel
    threads: int = 1
    seed: int = 0
    state: State | None = None
    engine: Engine | None = None


@dataclasses.dataclass(frozen=True)
class EpochResult:
    """The result of one epoch; the model already has its parameters.

    Attributes
    ----------
    epoch : int
        From 1.
    objective : float
        Loss plus penalty at the model's parameters.
    converged : bool
        True in the last epoch of a solver whose stopping rule is met.
    state : function that returns a dict of arrays
        Enough to resume bit for bit after this epoch; to be called before the next.
    measures : mapping
        Further values for the history, by name.
    """

    epoch: int
    objective: float
    converged: bool
    state: Callable[[], State]
    measures: Mapping[str, float] = dataclasses.field(default_factory=dict)


class OnlineTrainer(Protocol):
    """Training without a fixed end, for `Ranker.partial_fit`."""

    def set_data(self, data: Any) -> None:
        """Continue with other data, which may have new features."""

    def step(self, triplets: NDArray[Any] | None, steps: int | None) -> EpochResult:
        """Take a step for each of these triplets, or a number of steps on sampled triplets."""


@dataclasses.dataclass
class Solver(Part, ABC):
    """Minimizes loss + penalty over the parameters of a model.

    Attributes
    ----------
    patience : int
        The epochs without a better value on the validation data after which early stopping ends
        training by default. Epochs of boosting are small, so it needs more.
    """

    patience: ClassVar[int] = 5

    @classmethod
    @abstractmethod
    def accepts(
        cls, model: type[Model], loss: type[Loss], regularizer: type[Regularizer]
    ) -> Compatibility:
        """Return whether these classes of parts work with this solver, and if not, why."""

    @classmethod
    def spreads(cls, loss: type[Loss]) -> bool:
        """Return whether the work for a loss goes through the engine of the problem."""
        return False

    @property
    def by_id(self) -> bool:
        """Whether queries and documents are known by id only, so that features have no effect."""
        return False

    @property
    def expects_convergence(self) -> bool:
        """Whether training that ends without `EpochResult.converged` deserves a warning.

        A solver with a stopping rule returns True, unless its tolerance is 0: then a fixed number
        of epochs is wanted.
        """
        return False

    @abstractmethod
    def run_epochs(self, problem: TrainingProblem) -> Iterator[EpochResult]:
        """Yield one result per epoch; the caller may stop after any of them."""

    def online_trainer(self, problem: TrainingProblem, history: History = ()) -> OnlineTrainer:
        """Return a trainer that takes data part by part, for `Ranker.partial_fit`.

        Parameters
        ----------
        history : sequence of mappings
            The previous epochs of the model, if it has been trained before.
        """
        raise CombinationError(
            f"solver {self.name!r} needs all data at once, so it has no partial_fit; use sgd."
        )

    def notes(self) -> dict[str, Any]:
        """Return what the model file records about the last run, as JSON values."""
        return {}
