"""What exports are made of: a linear function, embeddings, or weights of pairs of terms."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.model import Embedding, Model
from ranking.data.scaling import AFFINE, Scaling
from ranking.data.validation import Ids
from ranking.errors import CombinationError, DataError
from ranking.io.model_file import Extras
from ranking.models.bilinear import Bilinear
from ranking.models.linear import Linear

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]


class Exportable(NamedTuple):
    """A trained ranker, as exports need it.

    Attributes
    ----------
    model : Model
    extras : Extras
    embed : function
        Returns ids of queries and documents and their embeddings, or raises an error that says why
        there are none.
    """

    model: Model
    extras: Extras
    embed: Callable[[], tuple[Ids, Ids, Embedding]]


class LinearFunction(NamedTuple):
    """The score as a sum over features: weight x (value - center) / width.

    Attributes
    ----------
    names : list of str
    weights, center, width : float64 array
    logarithm : bool
        Whether values are replaced by sign(x) log(1 + abs(x)) before.
    """

    names: list[str]
    weights: Floats
    center: Floats
    width: Floats
    logarithm: bool

    @property
    def is_scaled(self) -> bool:
        """Whether any value is moved or divided."""
        return bool(self.center.any() or (self.width != 1.0).any())

    def refuse_logarithm(self, target: str) -> None:
        """Refuse to export logarithms to a target that has none."""
        if self.logarithm:
            raise CombinationError(
                f"{target} has no logarithm of features, and the model was trained with scale=log; "
                "export to vespa, onnx or json, or train with scale=standard."
            )


class Embeddings(NamedTuple):
    """Embeddings whose dot products are the scores, biases included.

    Attributes
    ----------
    query_ids, document_ids : arrays of ids
    queries, documents : float32 arrays
        One row per id. The bias of a document is its last number, and that of queries is 1.
    """

    query_ids: Ids
    document_ids: Ids
    queries: Singles
    documents: Singles


@dataclasses.dataclass(frozen=True)
class TermWeights:
    """The score as a sum over pairs of a query term and a document term.

    Attributes
    ----------
    query_terms, document_terms : list of str
        The rows and columns of W.
    weights : csr_array
        W.
    query_weights : float64 array
        The weight of a query term that occurs once, such as its idf.
    document_ids : list of str
    documents : csr_array
        One row per document and one column per document term.
    """

    query_terms: list[str]
    document_terms: list[str]
    weights: Any
    query_weights: Floats
    document_ids: list[str]
    documents: Any


def linear_function(source: Exportable, names: Sequence[str] | None) -> LinearFunction:
    """Return the linear function of a model, with its scaling.

    Parameters
    ----------
    source : Exportable
    names : sequence of str, optional
        The names of the features in the target; by default the columns of the data frame that the
        model was trained on, or the numbers of the features.
    """
    model, scaling = source.model, source.extras.scaling
    if not isinstance(model, Linear):
        raise CombinationError(
            f"this format is for linear models of judged rows, and this one is {model.name!r}; "
            "export it to parquet, npy, vespa, onnx or json."
        )
    columns = _feature_names(source, names)
    n_features = len(columns)
    if scaling is None:
        return LinearFunction(
            columns, model.weights, np.zeros(n_features), np.ones(n_features), False
        )
    _refuse_by_query(scaling)
    center, width = scaling.center, scaling.width
    return LinearFunction(columns, model.weights, center, width, scaling.method not in AFFINE)


def _refuse_by_query(scaling: Scaling) -> None:
    if scaling.method == "query-min-max":
        raise CombinationError(
            "the model was trained with scale=query-min-max, which needs all documents of a query "
            "at once, and no export format has that; train with scale=min-max or standard."
        )


def _feature_names(source: Exportable, names: Sequence[str] | None) -> list[str]:
    ids = source.model.tensors()["feature_ids"]
    if names is None:
        columns = source.extras.columns
        return [str(name) for name in (ids if columns is None else columns).tolist()]
    if len(names) != ids.size:
        raise DataError(f"the model has {ids.size} features, and {len(names)} names were given.")
    if len(set(names)) < len(names):
        raise DataError("the names of the features must be distinct.")
    return [str(name) for name in names]


def embeddings(source: Exportable) -> Embeddings:
    """Return the embeddings of a model, without padding and with biases."""
    query_ids, document_ids, embedding = source.embed()
    width = getattr(source.model, "dimensions", None) or embedding.documents.shape[1]
    queries, documents = embedding.queries[:, :width], embedding.documents[:, :width]
    if embedding.biases.size:
        queries = np.column_stack((queries, np.ones(query_ids.size, np.float32)))
        documents = np.column_stack((documents, embedding.biases))
    return Embeddings(
        query_ids,
        document_ids,
        np.ascontiguousarray(queries, np.float32),
        np.ascontiguousarray(documents, np.float32),
    )


def term_weights(source: Exportable) -> TermWeights:
    """Return the weights of pairs of terms, and the documents that the model holds."""
    model, text, documents = source.model, source.extras.text, source.extras.documents
    if not isinstance(model, Bilinear) or text is None or documents is None:
        raise CombinationError(
            "this format is for bilinear or diagonal models of a collection of texts, and this "
            f"one is {model.name!r}{'' if text is not None else ' without texts'}; export it to "
            "parquet, npy, onnx or json."
        )
    if text.document_ids or text.query_ngrams is not None:
        raise CombinationError(
            "this format has terms only, and this model has features of single documents or "
            "n-grams of queries; export it to parquet, npy or json, or train it without "
            "document_ids and query_ngrams."
        )
    names = [str(name) for name in text.feature_names]
    position = {name: at for at, name in enumerate(names)}
    rows = [str(name) for name in model.query_feature_ids.tolist()]
    columns = [str(name) for name in model.document_feature_ids.tolist()]
    idf = np.ones(len(names)) if text.is_symmetric is False or text.idf_ is None else text.idf_
    query_weights = np.array([idf[position[name]] if name in position else 0.0 for name in rows])
    in_columns = [position[name] for name in columns]
    return TermWeights(
        rows,
        columns,
        model.weights,
        query_weights,
        [str(one) for one in documents.ids.tolist()],
        documents.rows.tocsc()[:, in_columns].tocsr(),
    )
