"""Errors of preference graphs: dominated error and generalized error.

Dekel, Manning and Singer, Log-linear models for label ranking (NIPS 2004). The grades of a list are
a graph with an edge from each document to all of lower grades. A decomposition cuts it into
subgraphs; a subgraph is an error unless all its edges are in the order of the scores.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ranking.contracts.metric import Metric
from ranking.contracts.parameters import choice
from ranking.data.judged_lists import JudgedLists
from ranking.errors import DataError
from ranking.metrics.ranked import EMPTY, SCORES, Floats

GRAPHS = ("dominating", "dominated", "pairs", "list")


@dataclasses.dataclass
class GeneralizedError(Metric):
    """The share of the subgraphs of a list that have an edge out of order, or tied.

    Attributes
    ----------
    graphs : {"dominating", "dominated", "pairs", "list"}
        The subgraphs: the edges of each document to those of lower grades (`domination-error`),
        those from higher grades to each document (`dominated-error`), single edges (`pair-error`),
        or the whole list.
    empty : {"skip", "zero"}
        What a query without edges counts.
    scores : {"float32", "float64"}
        Precision in which scores are compared.
    """

    name: ClassVar[str] = "generalized-error"

    graphs: str = choice("dominating", *GRAPHS)
    empty: str = choice("skip", *EMPTY)
    scores: str = choice("float32", *SCORES)

    @property
    def higher_is_better(self) -> bool:
        """False."""
        return False

    def per_query(self, data: JudgedLists, scores: Floats) -> Floats:
        """Return the error of each query."""
        with np.errstate(over="ignore"):
            compared = np.asarray(scores).astype(self.scores).astype(np.float64)
        values = np.full(data.n_queries, 0.0 if self.empty == "zero" else np.nan)
        bounds = zip(data.group_ptr[:-1].tolist(), data.group_ptr[1:].tolist(), strict=True)
        for query, (start, stop) in enumerate(bounds):
            wrong = self._wrong(compared[start:stop], data.grades[start:stop])
            if wrong.size:
                values[query] = wrong.mean()
        return values

    def _wrong(self, scores: Floats, grades: Floats) -> NDArray[np.bool_]:
        """Return for each subgraph of a list whether an edge is out of order."""
        any_of = np.logical_or.reduce
        edges: NDArray[np.bool_] = np.greater.outer(grades, grades)
        broken: NDArray[np.bool_] = edges * np.less_equal.outer(scores, scores)
        wrong = {
            "dominating": any_of(broken, axis=1)[any_of(edges, axis=1)],
            "dominated": any_of(broken, axis=0)[any_of(edges, axis=0)],
            "pairs": broken[edges],
            "list": broken.any(keepdims=True).ravel()[: int(edges.any())],
        }
        return np.asarray(wrong[self.graphs])

    def spelled(self) -> str:
        """Return the name with all options."""
        return f"{self.name}(graphs={self.graphs},empty={self.empty},scores={self.scores})"


@dataclasses.dataclass
class DominatedError(GeneralizedError):
    """The share of dominated documents that are above, or tied with, one that dominates them."""

    name: ClassVar[str] = "dominated-error"

    graphs: str = dataclasses.field(default="dominated", init=False)

    def spelled(self) -> str:
        """Return the name with all options."""
        return f"{self.name}(empty={self.empty},scores={self.scores})"


def graph_error(
    scores: ArrayLike, edges: ArrayLike, subgraphs: ArrayLike, *, ties: bool = True
) -> float:
    """Return the generalized error of any preference graph.

    Parameters
    ----------
    scores : array
        One per vertex.
    edges : integer array of shape (n, 2)
        Each says that its first vertex is to be above its second.
    subgraphs : array of shape (n,)
        The subgraph of each edge; numbers or words.
    ties : bool
        Whether an equal score is an error, as in the other metrics; the paper does not count it.

    Examples
    --------
    >>> edges = [[0, 1], [0, 2], [1, 2]]
    >>> graph_error([3.0, 1.0, 2.0], edges, [0, 0, 1])  # 1 is not above 2
    0.5
    """
    values, pairs, groups = np.asarray(scores, np.float64), np.asarray(edges), np.asarray(subgraphs)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or groups.shape != pairs.shape[:1] or not groups.size:
        raise DataError(
            f"expected edges of shape (n, 2) and n subgraphs, n >= 1, got {pairs.shape} and "
            f"{groups.shape}."
        )
    if pairs.dtype.kind not in "iu" or pairs.min() < 0 or pairs.max() >= values.size:
        raise DataError(f"edges must be positions of the {values.size} scores, from 0.")
    better, worse = values[pairs[:, 0]], values[pairs[:, 1]]
    broken = better <= worse if ties else better < worse
    _, place = np.unique(groups, return_inverse=True)
    wrong = np.bincount(place.ravel(), weights=broken) > 0.0
    return float(wrong.mean())
