"""The contract of a solver: what it takes, why it refuses, and one turn per epoch."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.loss import Loss
from ranking.contracts.model import Model
from ranking.contracts.part import Part
from ranking.contracts.regularizer import Regularizer

if TYPE_CHECKING:
    from ranking.data.judged import Judged
    from ranking.kernels.kernel import Kernel

State = dict[str, NDArray[np.float64]]


class Verdict(NamedTuple):
    """Whether parts work together; if not, why, and what would."""

    works: bool
    reason: str = ""
    instead: str = ""


YES = Verdict(True)


@dataclasses.dataclass(frozen=True)
class Task:
    """Everything a solver needs: the parts, the data and who computes.

    Attributes
    ----------
    model : Model
        Started and sized for the data; the solver changes its parameters in place.
    state : dict of arrays or None
        What `Turn.state` returned when an interrupted run stopped; the solver goes on from there.
    """

    model: Model
    loss: Loss
    regularizer: Regularizer
    data: Judged
    kernel: Kernel
    threads: int = 1
    seed: int = 0
    state: State | None = None


@dataclasses.dataclass(frozen=True)
class Turn:
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
    """

    epoch: int
    objective: float
    converged: bool
    state: Callable[[], State]


@dataclasses.dataclass
class Solver(Part, ABC):
    """Minimises loss + penalty over a model's parameters."""

    @classmethod
    @abstractmethod
    def accepts(
        cls, model: type[Model], loss: type[Loss], regularizer: type[Regularizer]
    ) -> Verdict:
        """Say whether these kinds of parts work with this solver; for a no, why and what would."""

    @abstractmethod
    def turns(self, task: Task) -> Iterator[Turn]:
        """Yield one turn per epoch; whoever iterates may stop at any turn."""
