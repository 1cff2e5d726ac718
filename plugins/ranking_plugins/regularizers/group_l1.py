"""Group lasso: whole rows, columns or groups of features become zero together."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.parameters import choice, number
from ranking.contracts.regularizer import (
    Array,
    FeatureIds,
    Granularity,
    GroupPenalty,
    Ids,
    ParameterForm,
    Regularizer,
)
from ranking.errors import PartError
from ranking_plugins.regularizers.feature_files import read_columns


@dataclasses.dataclass
class GroupL1(Regularizer):
    """Penalty ``strength * sum_g sqrt(n_g) ||W_g||``, where n_g is the size of group g.

    Parameters
    ----------
    strength : float
        Larger values keep fewer groups.
    by : {"rows", "columns"}
        Whether groups consist of query features (rows of W) or of document features (columns).
    groups : mapping or path, optional
        The group of each feature, by its id; a file has one ``feature<TAB>group`` per line. Every
        other feature is a group by itself; by default all are.
    """

    name: ClassVar[str] = "group-l1"
    granularity: ClassVar[Granularity] = "row"
    forms: ClassVar[frozenset[ParameterForm]] = frozenset({"matrix", "factors"})
    kernel_forms: ClassVar[frozenset[ParameterForm]] = frozenset({"matrix"})

    strength: float = number(0.001, minimum=0.0)
    by: str = choice("rows", "rows", "columns")
    groups: Mapping[Any, Any] | str | Path | None = None

    def _setup(self) -> None:
        # Columns of embeddings are dimensions, which run through all rows.
        self.granularity = "matrix" if self.by == "columns" else "row"  # type: ignore[misc]
        groups: object = self.groups
        if groups is not None and not isinstance(groups, Mapping | str | Path):
            raise PartError(
                f"group-l1 has groups={groups!r}; it must be a mapping from features to groups, "
                "or the path of a file."
            )
        self._codes: NDArray[np.int64] | None = None

    def kernel_form(self, form: ParameterForm, ids: FeatureIds | None = None) -> GroupPenalty:
        """Return the groups of the features of a matrix."""
        if ids is None:
            raise PartError("group-l1 needs the ids of the features to assign them to groups.")
        rows, columns = ids
        by_column = self.by == "columns"
        features, across = (columns, rows.size) if by_column else (rows, columns.size)
        self._codes = self._coded(features)
        sizes = np.bincount(self._codes) * float(across)
        return GroupPenalty(self.strength, by_column, self._codes, np.sqrt(sizes))

    def _coded(self, ids: Ids) -> NDArray[np.int64]:
        if self.groups is None:
            return np.arange(ids.size)
        groups = self.groups
        if not isinstance(groups, Mapping):
            groups = _read(Path(groups))
        by_text = {str(feature): f"group {group}" for feature, group in groups.items()}
        labels = [by_text.get(str(one), f"feature {one}") for one in ids.tolist()]
        if not any(label.startswith("group ") for label in labels):
            raise PartError(
                f"group-l1: none of the {len(by_text)} features in groups is in the data, where "
                f"ids look like {ids[0]!s}; use the same ids."
            )
        return np.unique(labels, return_inverse=True)[1].astype(np.int64)

    def penalty(self, parameters: Array) -> float:
        """Return strength * sum_g sqrt(n_g) ||W_g||."""
        norms, sizes = self._norms(parameters)
        return self.strength * float((np.sqrt(sizes) * norms).sum())

    def prox(self, parameters: Array, step: float) -> Array:
        """Return the groups with their norms reduced by step * strength * sqrt(n_g)."""
        return self._prox(parameters, step)

    def prox_by_row(self, parameters: Array, steps: Array) -> Array:
        """Return the prox of each row, which is a group of its own, with its own step."""
        return self._prox(parameters, steps)

    def _prox(self, parameters: Array, step: float | Array) -> Array:
        norms, sizes = self._norms(parameters)
        due = step * self.strength * np.sqrt(sizes)
        remaining = np.where(norms > due, (norms - due) / np.where(norms > 0.0, norms, 1.0), 0.0)
        scale = remaining[self._codes_for(parameters)].astype(parameters.dtype, copy=False)
        return parameters * (scale if self.by == "columns" else scale[:, None])

    def _norms(self, parameters: Array) -> tuple[Array, Array]:
        """Return the norm of each group, and its number of entries."""
        codes = self._codes_for(parameters)
        axis = 0 if self.by == "columns" else 1
        over = "ij,ij->j" if self.by == "columns" else "ij,ij->i"
        squares = np.einsum(over, parameters, parameters, dtype=np.float64)
        norms: Array = np.sqrt(np.bincount(codes, weights=squares))
        sizes: Array = np.bincount(codes).astype(np.float64) * parameters.shape[axis]
        return norms, sizes

    def _codes_for(self, parameters: Array) -> NDArray[np.int64]:
        features = parameters.shape[1 if self.by == "columns" else 0]
        if self._codes is not None and self._codes.size == features:
            return self._codes
        if self.groups is not None:
            raise PartError(
                "group-l1 knows its groups only after kernel_form, for a matrix of weights; for "
                "embeddings, where each feature is a group by itself, leave groups out."
            )
        return np.arange(features)


def _read(path: Path) -> dict[str, str]:
    groups: dict[str, str] = {}
    rows = read_columns("group-l1:groups", path, "feature<TAB>group", 2)
    for line_number, (feature, group) in enumerate(rows, start=1):
        if feature in groups:
            raise PartError(
                f"{path}, line {line_number}: {feature!r} occurs twice; keep one group."
            )
        groups[feature] = group
    return groups
