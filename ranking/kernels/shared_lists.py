"""Lists that share their sampled negatives, with checked arguments."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from ranking.kernels.contract import (
    WIDE,
    Exclusions,
    SharedForm,
    SharedGradients,
    SharedLists,
    SharedListsFamily,
    SharedLoss,
)
from ranking.kernels.validation import check_array, check_compressed, validate_threads


@dataclasses.dataclass(frozen=True)
class SharedTrainingLoss:
    """A loss of lists that share their negatives; see `contract.shared_lists`.

    Attributes
    ----------
    form : SharedForm
    scale : float
        By which scores are multiplied; for a softmax, 1 / temperature.
    threshold, weight : float
        Of negatives, where the form has them.
    """

    form: SharedForm = SharedForm.SOFTMAX
    scale: float = 1.0
    threshold: float = 0.0
    weight: float = 1.0

    def __post_init__(self) -> None:
        """Refuse numbers that are not finite, and a scale or weight below 0."""
        numbers = (self.scale, self.threshold, self.weight)
        if not all(map(math.isfinite, numbers)) or self.scale <= 0.0 or self.weight < 0.0:
            raise ValueError(
                f"scale, threshold and weight are {numbers}; they must be finite, the scale "
                "positive and the weight not negative."
            )

    def for_kernel(self) -> SharedLoss:
        """Return the loss as a kernel takes it."""
        numbers = float(self.scale), float(self.threshold), float(self.weight)
        return SharedLoss(int(self.form), *numbers)


class SharedListsKernel:
    """Slopes and gradients of lists that share their negatives."""

    def __init__(self, implementation: SharedListsFamily) -> None:
        self.implementation = implementation

    def gradients(
        self, lists: SharedLists, loss: SharedTrainingLoss, threads: int = 1
    ) -> SharedGradients:
        """Return the gradients of the sum of the lists' losses, and the slopes of scores."""
        n_lists, width = _check_lists(lists)
        n = lists.negatives.shape[0]
        out = SharedGradients(
            np.empty((n_lists, width), np.float32),
            np.empty((n_lists, width), np.float32),
            np.empty((n, width), np.float32),
            *(np.empty(size, np.float32) for size in (n_lists, n, n_lists, n_lists, n_lists)),
        )
        self.implementation.shared_lists(lists, loss.for_kernel(), out, validate_threads(threads))
        return out


def no_exclusions(n_lists: int) -> Exclusions:
    """Return lists that have all negatives."""
    return Exclusions(np.zeros(n_lists + 1, np.int64), np.zeros(0, np.int64))


def _check_lists(lists: SharedLists) -> tuple[int, int]:
    """Return the number of lists and the width."""
    check_array("queries", lists.queries, ("float32",), (None, None))
    n_lists, width = lists.queries.shape
    if width % WIDE or not width:
        raise ValueError(f"embeddings have {width} numbers; pad them to a multiple of {WIDE}.")
    check_array("positives", lists.positives, ("float32",), (n_lists, width))
    check_array("negatives", lists.negatives, ("float32",), (None, width))
    n = lists.negatives.shape[0]
    if not n:
        raise ValueError("negatives: expected one or more, got none.")
    check_array("positive_offsets", lists.positive_offsets, ("float32",), (n_lists,))
    check_array("negative_offsets", lists.negative_offsets, ("float32",), (n,))
    check_array("weights", lists.weights, ("float32",), (n_lists,))
    excluded = lists.excluded
    check_array("excluded", excluded.documents, ("int64",), (None,))
    ones = np.ones(excluded.documents.size)
    check_compressed(*excluded, ones, n_lists, n, sorted_once=True)
    return n_lists, width
