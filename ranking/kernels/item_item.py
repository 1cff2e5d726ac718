"""Columns of item-item weights, with checked arguments."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ranking.kernels.contract import Csr, Floats, Ints, ItemItemFamily, ItemRule
from ranking.kernels.validation import (
    check_array,
    check_finite,
    check_no_overlap,
    check_not_negative,
    csr_arrays,
    validate_threads,
)


class ItemColumns(NamedTuple):
    """The squared error of each column of W, and its sweeps, negative if not converged."""

    losses: Floats
    sweeps: Ints


class GramMatrix:
    """The Gram matrix of the items, checked once.

    Parameters
    ----------
    gram : csr_array
        Symmetric, one row per item.
    """

    def __init__(self, gram: sp.csr_array) -> None:
        if gram.shape[0] != gram.shape[1]:
            raise ValueError(f"a Gram matrix is square, and this one has shape {gram.shape}.")
        self.arrays: Csr = csr_arrays("gram", gram)
        check_finite(gram=self.arrays.data)
        self.n_items: int = gram.shape[0]
        self.diagonal: Floats = gram.diagonal().astype(np.float64)


class ItemItemKernel:
    """Columns of item-item weights; see :mod:`ranking.kernels.contract.item_item`."""

    def __init__(self, implementation: ItemItemFamily) -> None:
        self.implementation = implementation

    def columns(
        self, gram: GramMatrix, candidates: sp.csr_array, rule: ItemRule, threads: int = 1
    ) -> ItemColumns:
        """Minimize over the data of `candidates`, in place.

        Parameters
        ----------
        gram : GramMatrix
        candidates : csr_array of float64
            Row j has the candidates of column j of W, with the weights to start from.
        """
        if candidates.shape != (gram.n_items, gram.n_items):
            raise ValueError(
                f"there are candidates of shape {candidates.shape} for {gram.n_items} items."
            )
        arrays = csr_arrays("candidates", candidates)
        check_array("weights", arrays.data, ("float64",), (None,), writeable=True)
        check_finite(weights=arrays.data)
        check_not_negative(l1=rule.l1, l2=rule.l2, tolerance=rule.tolerance)
        if rule.sweeps < 1:
            raise ValueError(f"sweeps is {rule.sweeps}; it must be at least 1.")
        out = ItemColumns(np.empty(gram.n_items), np.empty(gram.n_items, np.int64))
        if not gram.n_items:
            return out
        check_no_overlap({"weights": arrays.data}, {"gram": gram.arrays.data})
        self.implementation.item_columns(
            gram.arrays, gram.diagonal, arrays, rule, *out, validate_threads(threads)
        )
        return out
