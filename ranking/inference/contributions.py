"""What made a score: features of a document, features of a pair, past items, neighbours."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.model import Model
from ranking.data.judged_lists import JudgedLists
from ranking.data.matching_data import MatchingData
from ranking.data.seen import SeenItems
from ranking.errors import CombinationError, DataError
from ranking.inference.explain import Contribution
from ranking.kernels.kernel import Kernel
from ranking.models.factored import Factored, unit_rows
from ranking.models.structured import Structured

Floats = NDArray[np.float64]
REST = "rest"
"""The name of what is not attributed to any item or feature."""


class Swap(NamedTuple):
    """What would exchange a document and the next one of a list.

    Attributes
    ----------
    document, next : ids
    gap : float
        The difference of their scores.
    feature : id
        The feature whose smallest change, in standard deviations over the list, closes the gap.
    change : float
        How much less of it the document must have, as the model sees it (after scaling).
    """

    document: Any
    next: Any
    gap: float
    feature: Any
    change: float


def linear_weights(model: Model) -> Floats | None:
    """Return the weights of a linear model of judged rows, None for another model."""
    weights = getattr(model, "weights", None)
    is_vector = isinstance(weights, np.ndarray) and weights.ndim == 1
    return weights.astype(np.float64) if is_vector and weights is not None else None


class ColumnNames(dict[Any, Any]):
    """The columns of the data frame that a model was fitted on, by the ids of its features."""

    @classmethod
    def of(cls, model: Model, names: Any) -> ColumnNames:
        """Return the names; none if the model was not fitted on a data frame."""
        ids = getattr(model, "feature_ids", None)
        if names is None or ids is None or len(ids) != len(names):
            return cls()
        return cls(zip(ids.tolist(), map(str, names), strict=True))

    def __missing__(self, feature: Any) -> Any:
        """Return a feature without a name as it is."""
        return feature


def query_rows(data: JudgedLists, query: Any) -> slice:
    """Return the rows of a query, given by id or by its text."""
    places = np.flatnonzero(data.query_ids.astype(np.str_) == str(query))
    if not places.size:
        raise DataError(
            f"the data have no query {query!r}; they have {data.query_ids[0]} and "
            f"{data.n_queries - 1} others."
        )
    return slice(*data.group_ptr[places[0] : places[0] + 2].tolist())


def explain_rows(
    model: Model, data: JudgedLists, rows: slice, run: tuple[Kernel, int]
) -> list[list[Contribution]]:
    """Return the contribution of each feature to the score of each row, the largest first.

    Of a linear model it is weight times value. Of another model it is how much the score falls if
    the feature has its median over the rows; such contributions need not add up to the score.
    """
    part = data.select(np.unique(data.row_groups[rows]))
    weights = linear_weights(model)
    ids = getattr(model, "feature_ids", None)
    ids = part.feature_ids if ids is None or not len(ids) else ids
    values = _dense(part.aligned_features(ids))
    if weights is not None:
        effects = values * weights
    else:
        weights = np.full(values.shape[1], np.nan)
        effects = _falls(model, part, values, ids, run)
    names = ids.tolist()
    parts = []
    for row, effect in zip(values, effects, strict=True):
        order = np.argsort(-np.abs(effect), kind="stable")
        parts.append(
            [
                Contribution(
                    names[at], names[at], float(weights[at]), 1.0, float(row[at]), float(effect[at])
                )
                for at in order.tolist()
                if effect[at] != 0.0
            ]
        )
    return parts


def _falls(
    model: Model, data: JudgedLists, values: Floats, ids: Any, run: tuple[Kernel, int]
) -> Floats:
    """Return how much scores fall if one feature at a time has its median."""

    def scores(features: Floats) -> Floats:
        changed = data.with_features(features, ids, JudgedLists)
        return np.asarray(model.scores(changed, *run), np.float64)

    before = scores(values)
    effects = np.zeros_like(values)
    medians = np.median(values, axis=0)
    for column in np.flatnonzero(np.ptp(values, axis=0) > 0).tolist():
        changed = values.copy()
        changed[:, column] = medians[column]
        effects[:, column] = before - scores(changed)
    return effects


def _dense(features: Any) -> Floats:
    return np.asarray(features.toarray() if hasattr(features, "toarray") else features, np.float64)


def explain_order(model: Model, data: JudgedLists, rows: slice, scores: Floats) -> list[Swap]:
    """Return for each document of a ranked list what would put the next one above it."""
    weights = linear_weights(model)
    if weights is None:
        raise CombinationError(
            f"what changes the order is known for linear models, and this one is {model.name}; "
            "look at the contributions of its documents."
        )
    ids: Any = getattr(model, "feature_ids", data.feature_ids)
    values = _dense(data.aligned_features(ids))[rows]
    spread = values.std(axis=0)
    order = np.argsort(-scores[rows], kind="stable")
    documents = data.doc_ids[rows]
    swaps = []
    for above, below in zip(order[:-1].tolist(), order[1:].tolist(), strict=True):
        gap = float(scores[rows][above] - scores[rows][below])
        steps = np.abs(weights) * spread
        if not steps.any():
            break
        at = int(np.argmax(steps))
        swaps.append(
            Swap(
                documents[above].item(),
                documents[below].item(),
                gap,
                ids[at].item(),
                gap / float(weights[at]),
            )
        )
    return swaps


def explain_embeddings(
    model: Factored, data: MatchingData, query: int, document: int, run: tuple[Kernel, int]
) -> list[Contribution]:
    """Return the contribution of each pair of a query's and a document's feature to their score.

    Structured models add the documents of the stage before: their similarity by S, weighted by
    one over their rank.
    """
    rows, columns = (
        _feature_row(model, data, side, at) for side, at in ((0, query), (1, document))
    )
    U, V = model.U.astype(np.float64), model.V.astype(np.float64)
    scale = 1.0
    if model.score == "cosine":
        sides = [
            unit_rows(np.asarray(row[1] @ matrix[row[0]], np.float32)[None])[1][0]
            for row, matrix in ((rows, model.U), (columns, model.V))
        ]
        scale = 1.0 / float(sides[0] * sides[1])
    products = scale * (U[rows[0]] @ V[columns[0]].T)
    parts = []
    for (f, q), line in zip(zip(*rows, strict=True), products, strict=True):
        for (g, d), weight in zip(zip(*columns, strict=True), line, strict=True):
            names = model.query_feature_ids[f].item(), model.document_feature_ids[g].item()
            parts.append(Contribution(*names, float(weight), q, d, float(q * weight * d)))
    if model.document_biases.size:
        for g, d in zip(*columns, strict=True):
            bias = float(model.document_biases[g])
            name = model.document_feature_ids[g].item()
            parts.append(Contribution("bias", name, bias, 1.0, d, bias * d))
    if isinstance(model, Structured) and model.stage:
        parts += _neighbours(model, data, query, columns, run)
    return sorted(parts, key=lambda one: -abs(one.contribution))


def _neighbours(
    model: Structured, data: MatchingData, query: int, columns: Any, run: tuple[Kernel, int]
) -> list[Contribution]:
    """Return what each document of the list of the stage before adds."""
    best = model.neighbours(data, query, *run)
    S = model.S.astype(np.float64)
    own = np.asarray(columns[1]) @ S[columns[0]]
    name = "+".join(str(one) for one in model.document_feature_ids[columns[0]].tolist()[:3])
    parts = []
    for rank, neighbour in enumerate(best.tolist(), start=1):
        features, values = _feature_row(model, data, 1, neighbour)
        weight = float(own @ (np.asarray(values) @ S[features]))
        label = f"neighbour {data.document_ids[neighbour]}"
        parts.append(Contribution(label, name, weight, 1.0 / rank, 1.0, weight / rank))
    return parts


def _feature_row(
    model: Factored, data: MatchingData, side: int, at: int
) -> tuple[Any, list[float]]:
    """Return the positions and values of the features of a query or a document."""
    rows = model.feature_rows(data, side)
    if isinstance(rows, int):
        return np.array([at]), [1.0]
    part = rows[[at]]
    return part.indices.astype(np.int64), part.data.astype(np.float64).tolist()


def explain_by_history(
    model: Factored, seen: SeenItems, user: int, item: int
) -> list[Contribution]:
    """Return what each past item of a user adds to the score of an item.

    The embedding of the user is written as a combination of those of the past items, by ridge
    regression; what remains, and the bias of the item, are named so.
    """
    if seen.positives is None:
        raise DataError(
            "this model was saved without the items that users have; train again, or explain a "
            "model that was saved with them."
        )
    past = seen.positives[[user]].indices
    names = seen.item_ids
    V = model.V[:, : model.dimensions].astype(np.float64)
    u = model.U[user, : model.dimensions].astype(np.float64)
    v = V[item]
    if model.score == "cosine":
        u = u / max(float(np.linalg.norm(u)), 1e-30)
        v = v / max(float(np.linalg.norm(v)), 1e-30)
    basis = V[past]
    gram = basis @ basis.T
    ridge = 1e-3 * max(float(np.trace(gram)) / max(past.size, 1), 1e-12)
    shares = np.linalg.solve(gram + ridge * np.eye(past.size), basis @ u)
    parts = [
        Contribution(names[at].item(), names[item].item(), float(V[at] @ v), float(a), 1.0, one)
        for at, a, one in zip(past.tolist(), shares, shares * (basis @ v), strict=True)
    ]
    parts = [one._replace(contribution=float(one.contribution)) for one in parts]
    target = names[item].item()
    rest = float(u @ v) - sum(one.contribution for one in parts)
    parts.append(Contribution(REST, target, rest, 1.0, 1.0, rest))
    if model.document_biases.size:
        bias = float(model.document_biases[item])
        parts.append(Contribution("bias", target, bias, 1.0, 1.0, bias))
    return sorted(parts, key=lambda one: -abs(one.contribution))
