"""Named arrays: prefixes, and a training history as one array per column."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ranking.errors import ModelFileError

Tensors: TypeAlias = dict[str, NDArray[Any]]

History: TypeAlias = list[dict[str, Any]]
"""One row per epoch: ``epoch``, ``objective``, and what callbacks measured."""

COUNTS = ("epoch", "steps")
"""Columns of a history that are whole numbers."""

LARGEST_COUNT = 2.0**53


def section(tensors: Tensors, prefix: str) -> Tensors:
    """Return the tensors under a prefix, without it."""
    start = prefix + "/"
    return {k[len(start) :]: v for k, v in tensors.items() if k.startswith(start)}


def under(prefix: str, tensors: Tensors) -> Tensors:
    """Return the tensors with a prefix."""
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


def pack_history(history: History) -> Tensors:
    """Return a history as one array per column; NaN where a row lacks it."""
    names = dict.fromkeys(name for row in history for name in row)
    return {name: np.array([row.get(name, np.nan) for row in history], float) for name in names}


def unpack_history(columns: Tensors) -> History:
    """Restore what `pack_history` returned, or raise `ModelFileError`."""
    epochs = columns.get("epoch", np.zeros(0))
    for name in ("epoch", "objective"):
        if columns and name not in columns:
            raise ModelFileError(f"the history is damaged: {name} is missing.")
    for name, column in columns.items():
        if column.dtype != np.float64 or column.ndim != 1 or column.shape != epochs.shape:
            raise ModelFileError(f"the history is damaged: {name} must be a number for each epoch.")
    for name in COUNTS:
        column = columns.get(name, np.zeros(0))
        known = column[~np.isnan(column)]
        wrong = known[~((known >= 0) & (known <= LARGEST_COUNT) & (known == np.floor(known)))]
        if wrong.size or (name == "epoch" and known.size != column.size):
            what = f"{wrong[0]:g}" if wrong.size else "NaN"
            raise ModelFileError(
                f"the history is damaged: {name} is {what}, expected a whole number from 0 to 2^53."
            )
    rows: History = [{} for _ in epochs]
    for name in ["epoch", "objective", *sorted(set(columns) - {"epoch", "objective"})]:
        for row, value in zip(rows, columns.get(name, ()), strict=False):
            if not np.isnan(value):
                row[name] = int(value) if name == "epoch" else float(value)
    return rows
