"""`Scaling`: scale the features of judged rows, as a part of the model.

The numbers are learnt from the training data, stored in the model file and applied whenever the
model scores, so that what is served is scaled as what was trained.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ranking._utils.tensors import Tensors
from ranking.data.judged_lists import JudgedLists
from ranking.errors import DataError, ModelFileError, PartError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

METHODS = ("standard", "min-max", "query-min-max", "log", "robust")

AFFINE = ("standard", "min-max", "robust")
"""The methods that are (x - center) / width with one center and width per feature."""


class ScaledLists(JudgedLists):
    """Judged rows whose features are scaled."""


@dataclasses.dataclass(frozen=True, eq=False)
class Scaling:
    """Scale features so that they are of one order of magnitude.

    ==============  ===============================================================
    standard        (x - mean) / standard deviation
    min-max         (x - minimum) / (maximum - minimum)
    robust          (x - median) / interquartile range
    query-min-max   min-max within each query, as LETOR's query-level normalisation
    log             sign(x) log(1 + abs(x))
    ==============  ===============================================================

    A feature that is constant is divided by 1. Sparse features are divided only, so that they stay
    sparse: what a linear model adds to all documents of a query changes no order.

    Attributes
    ----------
    method : str
    feature_ids : int64 array
        The features of the training data.
    center, width : float64 array
        One per feature; 0 and 1 for query-min-max and log.
    """

    method: str
    feature_ids: Ints
    center: Floats
    width: Floats

    kinds: ClassVar[dict[str, type]] = {
        "feature_ids": np.int64,
        "center": np.float64,
        "width": np.float64,
    }

    @classmethod
    def fit(cls, method: str, data: JudgedLists) -> Self:
        """Learn center and width of each feature.

        Parameters
        ----------
        method : {"standard", "min-max", "query-min-max", "log", "robust"}
        data : JudgedLists
            The training data.
        """
        if method not in METHODS:
            raise PartError(f"scale is {method!r}; it must be one of {', '.join(METHODS)}.")
        center, width = np.zeros(data.n_features), np.ones(data.n_features)
        if method in AFFINE:
            learn = {"standard": _moments, "min-max": _range, "robust": _quartiles}[method]
            center, width = learn(data.features)
            width = np.where(width > 0.0, width, 1.0)
            if sparse.issparse(data.features):
                center = np.zeros_like(center)
        return cls(method, np.array(data.feature_ids), center, width)

    def transform(self, data: JudgedLists) -> ScaledLists:
        """Return scaled rows; rows that are scaled already are returned as they are."""
        if isinstance(data, ScaledLists):
            return data
        features = data.aligned_features(self.feature_ids)
        if self.method == "query-min-max":
            scaled = _by_query(features, data.group_ptr)
        elif self.method == "log":
            scaled = _logarithms(features)
        else:
            scaled = self._affine(features)
        return data.with_features(scaled, self.feature_ids, ScaledLists)

    def _affine(self, features: Any) -> Any:
        dtype = features.dtype
        if sparse.issparse(features):
            data = (features.data / self.width[features.indices]).astype(dtype)
            if self.center.any():
                data = features.toarray()
                return ((data - self.center) / self.width).astype(dtype)
            return _with_values(features, data)
        return ((features - self.center) / self.width).astype(dtype)

    def tensors(self) -> Tensors:
        """Return named arrays for a model file."""
        return {name: getattr(self, name) for name in self.kinds}

    @classmethod
    def restore(cls, method: str, tensors: Tensors) -> Self:
        """Restore what `tensors` returned, or raise `ModelFileError`."""
        if method not in METHODS:
            raise ModelFileError(f"its scaling is {method[:40]!r}, not of {', '.join(METHODS)}.")
        for name, kind in cls.kinds.items():
            array = tensors.get(name)
            if array is None or array.ndim != 1 or array.dtype != kind:
                raise ModelFileError(f"its scaling needs `{name}`, a vector of {kind.__name__}.")
            if array.shape != tensors["feature_ids"].shape or not np.isfinite(array).all():
                raise ModelFileError(f"`{name}` of its scaling must be finite, one per feature.")
        ids = np.array(tensors["feature_ids"])
        if not (np.diff(np.sort(ids)) > 0).all() or not (tensors["width"] > 0.0).all():
            raise ModelFileError("its scaling needs distinct feature ids, and widths above 0.")
        return cls(method, ids, np.array(tensors["center"]), np.array(tensors["width"]))


def refuse_single_query(scaling: Scaling | None) -> None:
    """Refuse to scale by query where queries are not known."""
    if scaling is not None and scaling.method == "query-min-max":
        raise DataError(
            "the model scales features within each query, and an array does not say which rows "
            "are of one query; give a JudgedLists, or call rank."
        )


def _moments(features: Any) -> tuple[Floats, Floats]:
    """Return means and standard deviations; of float32 in double precision."""
    n_rows = features.shape[0]
    if sparse.issparse(features):
        values = features.astype(np.float64)
        center = np.asarray(values.sum(axis=0)).ravel() / n_rows
        squares = _with_values(values, (values.data - center[values.indices]) ** 2)
        zeros = n_rows - np.bincount(values.indices, minlength=features.shape[1])
        variance = np.asarray(squares.sum(axis=0)).ravel() + zeros * center**2
        return center, np.sqrt(variance / n_rows)
    center = features.mean(axis=0, dtype=np.float64)
    return center, features.std(axis=0, dtype=np.float64)


def _range(features: Any) -> tuple[Floats, Floats]:
    low, high = features.min(axis=0), features.max(axis=0)
    if sparse.issparse(features):
        low, high = low.toarray().ravel(), high.toarray().ravel()
    low = low.astype(np.float64)
    return low, high.astype(np.float64) - low


def _quartiles(features: Any) -> tuple[Floats, Floats]:
    columns = features.tocsc() if sparse.issparse(features) else features
    quartiles = np.zeros((3, features.shape[1]))
    for at in range(features.shape[1]):
        column = columns[:, [at]]
        column = column.toarray() if sparse.issparse(column) else column
        quartiles[:, at] = np.percentile(column.astype(np.float64), (25, 50, 75))
    return quartiles[1], quartiles[2] - quartiles[0]


def _logarithms(features: Any) -> Any:
    if sparse.issparse(features):
        return _with_values(features, np.sign(features.data) * np.log1p(np.abs(features.data)))
    return np.sign(features) * np.log1p(np.abs(features))


def _by_query(features: Any, group_ptr: Ints) -> Any:
    """Return each feature between 0 and 1 within a query; sparse ones are divided only."""
    if not sparse.issparse(features):
        low = np.minimum.reduceat(features, group_ptr[:-1], axis=0)
        width = np.maximum.reduceat(features, group_ptr[:-1], axis=0) - low
        width[width <= 0.0] = 1.0
        sizes = np.diff(group_ptr)
        scaled = features - np.repeat(low, sizes, axis=0)
        scaled /= np.repeat(width, sizes, axis=0)
        return scaled
    values = features.data.copy()
    for start, stop in zip(group_ptr[:-1].tolist(), group_ptr[1:].tolist(), strict=True):
        rows = features[start:stop]
        width = rows.max(axis=0).toarray().ravel() - rows.min(axis=0).toarray().ravel()
        width[width <= 0.0] = 1.0
        part = slice(features.indptr[start], features.indptr[stop])
        values[part] /= width[features.indices[part]]
    return _with_values(features, values)


def _with_values(features: Any, values: Any) -> Any:
    """Return a sparse matrix of the same pattern."""
    return sparse.csr_array((values, features.indices, features.indptr), shape=features.shape)
