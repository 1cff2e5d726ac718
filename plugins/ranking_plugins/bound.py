"""Bounds on the difference between the alignment of a model on training and on unseen queries.

Theorems 1 to 5 of Wu, Lu and Li (2013). Let D be the largest gap, over all maps of a space,
between the alignment on n_x queries with n_i documents each and its expectation. With probability
at least 1 - 2 delta,

    D <= (2 C R + B R sqrt(2 log(1 / delta))) (1 / sqrt(n_x n_y) + 1 / sqrt(n_x)),

where n_y is the harmonic mean of the n_i, R bounds the response, B the product of the norms of two
images, and C the norm of U V'. D is at most the sum of two gaps: between the documents of the
queries at hand and all that they might have (theorem 1, the first fraction), and between these
queries and all (theorem 2, the second), each with probability at least 1 - delta. The theorems have
features of norm 1 at most. Other features are divided by their largest norm, and R multiplied by
it, which leaves every term the same.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from ranking.contracts.loss import LinearLoss
from ranking.contracts.regularizer import Regularizer, SupportsRowMaximum, of_side
from ranking.data.click_matrix import click_matrix
from ranking.data.matching_data import MatchingData
from ranking.errors import CombinationError, DataError
from ranking.models.factored import Factored
from ranking_plugins.regularizers.l1l2_row import ConstrainedRow
from ranking_plugins.regularizers.orthonormal import Orthonormal


@dataclasses.dataclass(frozen=True)
class Space:
    """The constants B and C of the space of maps, which do not depend on the data.

    Attributes
    ----------
    theorem : int
        4 for orthonormal columns, 5 for rows of bounded norm.
    quantities : dict
        The values from which B and C are computed.
    """

    theorem: int
    B: float
    C: float
    quantities: dict[str, float]


@dataclasses.dataclass(frozen=True)
class Bound:
    """The bound and the quantities from which it is computed.

    Attributes
    ----------
    n_x, n_y : float
        Queries with documents, and the harmonic mean of the numbers of their documents.
    R : float
        The largest response, times the largest norms of the features of both sides.
    quantities : dict
        Further values, by name.
    alignment : float
        The alignment of the model on the data.
    gap_documents, gap_queries : float
        The bounds of theorems 1 and 2.
    gap : float
        The bound on D: their sum.
    """

    n_x: int
    n_y: float
    R: float
    delta: float
    space: Space
    quantities: dict[str, float]
    alignment: float
    gap_documents: float
    gap_queries: float

    @property
    def gap(self) -> float:
        """The bound on D, with probability 1 - 2 delta (theorem 3)."""
        return self.gap_documents + self.gap_queries

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per quantity."""
        values: dict[str, tuple[float, str]] = {
            "n_x": (self.n_x, "queries with documents"),
            "n_y": (self.n_y, "harmonic mean of the documents of a query"),
            **{name: (value, MEANINGS[name]) for name, value in self.quantities.items()},
            "R": (self.R, "largest response x the largest norms of features"),
            **{name: (value, MEANINGS[name]) for name, value in self.space.quantities.items()},
            "B": (self.space.B, f"bounds the product of two images' norms, theorem {self.number}"),
            "C": (self.space.C, f"bounds the norm of U V', theorem {self.number}"),
            "delta": (self.delta, f"the bound holds with probability {1 - 2 * self.delta:g}"),
            "alignment": (self.alignment, "of the model on these data"),
            "gap_documents": (
                self.gap_documents,
                f"from other documents of these queries, theorem 1, probability {1 - self.delta:g}",
            ),
            "gap_queries": (
                self.gap_queries,
                f"from other queries, theorem 2, probability {1 - self.delta:g}",
            ),
            "gap": (self.gap, "at most this far from the expected alignment"),
        }
        return [
            {"quantity": name, "value": value, "meaning": meaning}
            for name, (value, meaning) in values.items()
        ]

    @property
    def number(self) -> int:
        """The theorem that gives B and C."""
        return self.space.theorem


MEANINGS = {
    "response": "largest response",
    "norm_x": "largest norm of a query's features",
    "norm_y": "largest norm of a document's features",
    "m_x": "most non-zero features of a query",
    "m_y": "most non-zero features of a document",
    "d_x": "query features",
    "d_y": "document features",
    "d": "dimensions",
    "theta_x": "largest norm of the embedding of a query feature",
    "theta_y": "largest norm of the embedding of a document feature",
    "lambda_x": "largest sum of absolute values of the embedding of a query feature",
    "lambda_y": "largest sum of absolute values of the embedding of a document feature",
    "scale_x": "length of the columns of U",
    "scale_y": "length of the columns of V",
}


def bound(
    model: Factored,
    loss: LinearLoss,
    regularizer: Regularizer,
    data: MatchingData,
    delta: float = 0.05,
) -> Bound:
    """Compute the bound for a model that was trained with these parts.

    Parameters
    ----------
    data : MatchingData
        The training data: independently sampled queries, with sampled documents for each.
    delta : float
        The bound may fail with probability 2 delta.
    """
    if not 0.0 < delta < 0.5:
        raise DataError(f"delta is {delta!r}; it must lie between 0 and 0.5.")
    counts, largest = _responses(data, loss)
    if not counts.size:
        raise DataError("no query of the data has documents, so there is no bound.")
    norms, sizes = zip(*map(_extremes, (data.query_rows, data.document_rows)), strict=True)
    space = _space(model, regularizer, sizes)
    n_x, n_y = counts.size, counts.size / float((1.0 / counts).sum())
    R = largest * norms[0] * norms[1]
    spread = 2.0 * space.C * R + space.B * R * math.sqrt(2.0 * math.log(1.0 / delta))
    gaps = (spread / math.sqrt(n_x * n_y), spread / math.sqrt(n_x))
    quantities = {"response": largest, "norm_x": norms[0], "norm_y": norms[1]}
    alignment = _alignment(model, loss, space, data)
    return Bound(n_x, n_y, R, delta, space, quantities, alignment, *gaps)


def _space(model: Factored, regularizer: Regularizer, sizes: Any) -> Space:
    d, shape = model.dimensions, (model.U.shape[0], model.V.shape[0])
    if isinstance(regularizer, Orthonormal):
        lengths = [regularizer.column_length((rows, d)) for rows in shape]
        B = lengths[0] * lengths[1]
        quantities = {"d": d, "scale_x": lengths[0], "scale_y": lengths[1]}
        return Space(4, B, math.sqrt(d) * B, quantities)
    limits, sums = [], []
    for side in (0, 1):
        rows = of_side(regularizer, side)
        if isinstance(rows, ConstrainedRow):
            limits.append(rows.limit)
            sums.append(rows.sum_limit)
        elif isinstance(rows, SupportsRowMaximum):
            limits.append(rows.row_maximum().limit)
    if len(limits) < 2:
        raise CombinationError(
            f"there is no bound for regularizer {regularizer.name!r}; there is one for l1l2-row, "
            "max-norm and orthonormal."
        )
    # Without a limit of the sum of absolute values, lambda in the theorem, a non-zero row has norm
    # theta, so lambda is at least theta: the minimum of lambda and theta is theta.
    square = by_images = limits[0] * limits[1]
    if sums:
        by_images = min(d * sums[0] * sums[1], square)
        square = min(sums[0] * sums[1], square)
    quantities = {"m_x": sizes[0], "m_y": sizes[1], "d_x": shape[0], "d_y": shape[1], "d": d}
    return Space(
        5,
        math.sqrt(sizes[0] * sizes[1]) * by_images,
        math.sqrt(shape[0] * shape[1]) * square,
        {
            **quantities,
            "theta_x": limits[0],
            "theta_y": limits[1],
            **dict(zip(("lambda_x", "lambda_y"), sums, strict=False)),
        },
    )


def _responses(data: MatchingData, loss: LinearLoss) -> tuple[Any, float]:
    """Return the number of documents of each query that has some, and the largest response."""
    if data.labels is not None:
        counts = data.n_relevant
        return counts[counts > 0].astype(np.float64), float(loss.pair_weights(np.ones(1))[0])
    relevance = data.relevance
    owner = np.repeat(np.arange(data.n_queries), np.diff(relevance.indptr))
    included = np.ones(relevance.nnz, np.bool_)
    if data.own_document is not None:
        included = relevance.indices != data.own_document[owner]
    counts = np.bincount(owner[included], minlength=data.n_queries)
    responses = loss.pair_weights(relevance.data[included].astype(np.float64))
    return counts[counts > 0].astype(np.float64), float(responses.max(initial=0.0))


def _extremes(rows: Any) -> tuple[float, int]:
    """Return the largest norm of a row, and the most non-zeros of one."""
    squares = rows.astype(np.float64).power(2).sum(axis=1)
    filled = np.add.reduceat(np.append(rows.data != 0, False), rows.indptr[:-1])
    filled = np.where(np.diff(rows.indptr) > 0, filled, 0)
    return math.sqrt(float(np.max(squares))), int(filled.max())


def _alignment(model: Factored, loss: LinearLoss, space: Space, data: MatchingData) -> float:
    """Return the alignment of the model on the data.

    Singular values that the model keeps depend on the data, so theorem 4 is about the directions
    alone: all columns are scaled to the length of the space.
    """
    matrix = click_matrix(data, loss.pair_weights).rows.astype(np.float64)
    for side in ("query", "document"):
        name = f"{side}_feature_ids"
        if not np.array_equal(getattr(model, name), getattr(data, name)):
            raise DataError(
                f"the model has other {side} features than these data; give the data that it was "
                "trained on."
            )
    U, V = (side[:, : model.dimensions].astype(np.float64) for side in (model.U, model.V))
    if space.theorem == 4:
        U *= space.quantities["scale_x"] / np.linalg.norm(U, axis=0)
        V *= space.quantities["scale_y"] / np.linalg.norm(V, axis=0)
    return float(((matrix @ V) * U).sum())
