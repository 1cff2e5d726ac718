"""Lists of one positive and several negatives, by their margins: all lists in one call."""

from __future__ import annotations

import dataclasses
from typing import cast

import numpy as np

from ranking.contracts.loss import Array, Loss, MarginListLoss, PairwiseLoss
from ranking.errors import CombinationError
from ranking.kernels.contract import ListSlopes
from ranking.kernels.kernel import Kernel
from ranking.kernels.listwise import ListTrainingLoss
from ranking_plugins.losses.domination import Domination
from ranking_plugins.losses.pairwise import WARP
from ranking_plugins.losses.smooth_warp import SmoothWARP


@dataclasses.dataclass(frozen=True)
class MeanOfPairs:
    """A pairwise loss as a loss of lists: the mean over the negatives."""

    loss: PairwiseLoss

    def margin_values(self, margins: Array) -> Array:
        """Return the mean loss of each list."""
        values: Array = self.loss.pairwise_value(margins).mean(axis=1)
        return values

    def margin_slopes(self, margins: Array) -> Array:
        """Return the derivative by each margin."""
        slopes: Array = self.loss.pairwise_slope(margins) / margins.shape[1]
        return slopes

    def margin_curvatures(self, margins: Array) -> Array:
        """Return the curvature of the loss's majorizer, or 1 if it does not know one."""
        curvature = getattr(self.loss, "pairwise_curvature", np.ones_like)
        curvatures: Array = curvature(margins) / margins.shape[1]
        return curvatures


class KernelDomination:
    """The domination loss in a kernel: values, slopes and curvatures in one pass over the lists."""

    def __init__(self, loss: Domination, kernel: Kernel, threads: int) -> None:
        self.loss = ListTrainingLoss(*loss.sampled_list_form())
        self.kernel, self.threads = kernel, threads
        self._last: tuple[Array, ListSlopes] | None = None

    def margin_values(self, margins: Array) -> Array:
        """Return the loss of each list."""
        return self._pass(margins).losses

    def margin_slopes(self, margins: Array) -> Array:
        """Return minus the shares."""
        return -self.margin_curvatures(margins)

    def margin_curvatures(self, margins: Array) -> Array:
        """Return the shares p_j: the second derivative is diag(p) - p p'."""
        shares: Array = self._pass(margins).slopes[:, 1:]
        return shares

    def _pass(self, margins: Array) -> ListSlopes:
        """Return what the kernel computed last, if it was for the same array."""
        if self._last is None or self._last[0] is not margins:
            self._last = margins, self.kernel.listwise.slopes(margins, self.loss, self.threads)
        return self._last[1]


def margin_list_loss(loss: Loss, kernel: Kernel, threads: int) -> MarginListLoss:
    """Return a loss as one of lists of one positive and several negatives.

    The weight of WARP jumps with the sampled rank; smooth-warp takes its place, which is smooth for
    the weights 1 + 1/2 + ... + 1/rank.
    """
    if isinstance(loss, WARP) and loss.decay != 1.0:
        raise CombinationError(
            f"block coordinate descent minimizes smooth-warp in place of warp, which has decay=1, "
            f"and the loss has decay={loss.decay:g}; leave decay out, or use solver sgd."
        )
    if isinstance(loss, WARP):
        return SmoothWARP()
    if isinstance(loss, Domination):
        return KernelDomination(loss, kernel, threads)
    if "pairwise" in loss.interfaces:
        return MeanOfPairs(cast(PairwiseLoss, loss))
    return cast(MarginListLoss, loss)


def margin_list_reason(loss: type[Loss]) -> str:
    """Return why a loss is not one of margins with a bound, or nothing if it is."""
    if issubclass(loss, MarginListLoss) or (issubclass(loss, WARP) and not loss.orders_positives):
        return ""
    if loss.orders_positives:
        return "the loss selects one of several sampled positives, which changes with the scores"
    if "pairwise" not in loss.interfaces:
        return (
            "block coordinate descent bounds the loss by a parabola of each margin, and the loss "
            "has no values, slopes and curvatures by margins"
        )
    bounded = hasattr(loss, "pairwise_curvature") or "coordinate" in loss.interfaces
    return "" if bounded else loss.unsupported_reason("coordinate")
