"""`TrainingLoss`: a pairwise loss for training loops, with checked arguments."""

from __future__ import annotations

import dataclasses

import numpy as np

from ranking.kernels.contract import NO_CALL, Features, NativeCall, PairwiseForm, PairwiseLoss
from ranking.kernels.native.functions import PairwiseFunctions
from ranking.kernels.validation import check_array


@dataclasses.dataclass(frozen=True, eq=False)
class TrainingLoss:
    """A pairwise loss for training loops.

    Attributes
    ----------
    form : PairwiseForm
    functions : PairwiseFunctions, optional
        The C functions of a loss whose form is `NATIVE`.
    rank_weights : float64 (bilinear) or float32 (factored) array, optional
        Weight of a violation by rank; ranks beyond the end have the last value. Default: 1.
    """

    form: PairwiseForm = PairwiseForm.HINGE
    functions: PairwiseFunctions | None = None
    rank_weights: Features | None = None

    def __post_init__(self) -> None:
        """Refuse functions without the native form, and the native form without functions."""
        form = PairwiseForm(self.form)
        if form != PairwiseForm.NATIVE and self.functions is not None:
            raise ValueError(f"form {form.name} is built in; leave the functions out.")
        if form == PairwiseForm.NATIVE and not isinstance(self.functions, PairwiseFunctions):
            raise TypeError(
                f"form NATIVE needs PairwiseFunctions, not {type(self.functions).__name__}."
            )

    @property
    def slope(self) -> NativeCall:
        """The call of the slope, if that is a C function."""
        return NO_CALL if self.functions is None else self.functions.call("slope")

    def for_kernel(self, dtype: str, n_documents: int) -> PairwiseLoss:
        """Return the loss as a kernel takes it, with rank weights of this precision."""
        ranks = np.ones(1, dtype) if self.rank_weights is None else self.rank_weights
        check_array("rank_weights", ranks, (dtype,), (None,))
        if not ranks.size or not np.isfinite(ranks).all():
            raise ValueError("rank_weights must be finite, and at least one.")
        return PairwiseLoss(int(self.form), self.slope, ranks, int(n_documents))
