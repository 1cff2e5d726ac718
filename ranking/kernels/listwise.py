"""Losses of sampled lists, with checked arguments."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from ranking.kernels.contract import (
    NO_CALL,
    Floats,
    ListSlopes,
    ListwiseFamily,
    ListwiseForm,
    ListwiseLoss,
)
from ranking.kernels.native.functions import ListwiseFunctions
from ranking.kernels.validation import check_array, validate_threads


@dataclasses.dataclass(frozen=True, eq=False)
class ListTrainingLoss:
    """A listwise loss for training loops.

    Attributes
    ----------
    form : ListwiseForm
    weight, margin : float
        Of the domination loss.
    functions : ListwiseFunctions, optional
        The C functions of a loss whose form is `NATIVE`.
    """

    form: ListwiseForm = ListwiseForm.DOMINATION
    weight: float = 1.0
    margin: float = 0.0
    functions: ListwiseFunctions | None = None

    def __post_init__(self) -> None:
        """Refuse functions without the native form, and the native form without functions."""
        form = ListwiseForm(self.form)
        if form != ListwiseForm.NATIVE and self.functions is not None:
            raise ValueError(f"form {form.name} is built in; leave the functions out.")
        if form == ListwiseForm.NATIVE and not isinstance(self.functions, ListwiseFunctions):
            raise TypeError(
                f"form NATIVE needs ListwiseFunctions, not {type(self.functions).__name__}."
            )
        if not (0.0 <= self.weight < math.inf and math.isfinite(self.margin)):
            raise ValueError(
                f"weight is {self.weight} and margin {self.margin}; they must be finite, and the "
                "weight not negative."
            )

    def for_kernel(self) -> ListwiseLoss:
        """Return the loss as a kernel takes it."""
        calls = NO_CALL, NO_CALL
        if self.functions is not None:
            calls = self.functions.call("value"), self.functions.call("slopes")
        return ListwiseLoss(int(self.form), *calls, float(self.weight), float(self.margin))


DOMINATION = ListTrainingLoss()


class ListwiseKernel:
    """Losses of sampled lists; see :mod:`ranking.kernels.contract.listwise`."""

    def __init__(self, implementation: ListwiseFamily) -> None:
        self.implementation = implementation

    def slopes(
        self, margins: Floats, loss: ListTrainingLoss = DOMINATION, threads: int = 1
    ) -> ListSlopes:
        """Return the loss of each list, and the slopes of the scores of its documents."""
        check_array("margins", margins, ("float64",), (None, None))
        lists, negatives = margins.shape
        if not negatives:
            raise ValueError("margins: expected one or more negatives per list, got none.")
        out = ListSlopes(np.empty(lists), np.empty((lists, 1 + negatives)))
        self.implementation.listwise_slopes(
            loss.for_kernel(), margins, out, validate_threads(threads)
        )
        return out
