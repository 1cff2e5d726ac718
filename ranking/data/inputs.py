"""What a ranker may be given, and what it makes of it: judged rows, or queries and documents."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ranking._utils.tensors import Tensors
from ranking.contracts.model import Model
from ranking.data.ids import pack_ids, unpack_ids
from ranking.data.judged_lists import JudgedLists
from ranking.data.matching_data import MatchingData
from ranking.data.text.features import TextFeatures
from ranking.data.text_collection import TextCollection
from ranking.data.validation import Ids
from ranking.errors import DataError, ModelFileError, PartError

Trainable: TypeAlias = JudgedLists | MatchingData

DEFAULT_TEXT = "text"
"""The features of texts if nobody says which."""


def as_trainable(X: Any, y: Any, qid: Any, text: TextFeatures | None) -> Trainable:
    """Return data that a model takes.

    Parameters
    ----------
    X : array, sparse matrix, JudgedLists, MatchingData or TextCollection
    y, qid : array-like
        Grades and queries, for an array.
    text : TextFeatures or None
        Fitted; they describe the texts of a `TextCollection`.
    """
    if isinstance(X, JudgedLists | MatchingData | TextCollection):
        if y is not None or qid is not None:
            raise DataError(
                f"a {type(X).__name__} brings its own grades and queries; leave y and qid out."
            )
        if not isinstance(X, TextCollection):
            return X
        if text is None:
            raise DataError(
                "these are texts, and the training data were not; give data with the features "
                "that the model was trained on."
            )
        return describe_texts(X, text)
    if y is None or qid is None:
        missing = "y (the grades)" if y is None else "qid (the query of each row)"
        raise DataError(
            f"{missing} is not given; give both y and qid, or a JudgedLists, MatchingData or TextCollection."
        )
    return JudgedLists(X, y, qid)


def among_known(data: Trainable, model: Model) -> Trainable:
    """Return the data with every document that the model knows by its id, to be ranked too."""
    names = getattr(model, "document_feature_ids", None)
    return (
        data.with_documents(names) if isinstance(data, MatchingData) and names is not None else data
    )


def fit_text(X: Any, features: str | TextFeatures | None) -> TextFeatures | None:
    """Return features fitted on the documents of a `TextCollection`; None for other data."""
    if not isinstance(X, TextCollection):
        if features is not None:
            raise PartError(
                f"features={features!s} describe texts, and the data are a {type(X).__name__}; "
                "leave them out."
            )
        return None
    made = TextFeatures.from_spec(
        features.spec() if isinstance(features, TextFeatures) else features or DEFAULT_TEXT
    )
    return made.fit(X.document_texts)


def describe_texts(texts: TextCollection, text: TextFeatures) -> MatchingData:
    """Return the same matches with a feature a term."""
    documents = text.transform(texts.document_texts)
    same = texts.query_texts is texts.document_texts or texts.query_texts == texts.document_texts
    queries = documents if same else text.transform(texts.query_texts)
    names = np.array(text.feature_names)
    return texts.with_features(
        queries, documents, query_feature_ids=names, document_feature_ids=names
    )


class Documents(NamedTuple):
    """The documents of a collection of texts, kept with a model so that it can search them."""

    ids: Ids
    rows: Any

    @classmethod
    def of(cls, data: MatchingData) -> Documents:
        """Return the documents of these data."""
        return cls(data.document_ids, data.document_rows)

    def tensors(self) -> Tensors:
        """Return named arrays for a model file."""
        return {
            **pack_ids("ids", self.ids),
            "indptr": self.rows.indptr.astype(np.int64),
            "indices": self.rows.indices.astype(np.int32),
            "values": self.rows.data,
        }

    @classmethod
    def restore(cls, tensors: Tensors, n_features: int) -> Documents:
        """Take back what `tensors` returned, or raise `ModelFileError`."""
        from scipy import sparse

        kinds = {"indptr": ("int64",), "indices": ("int32",), "values": ("float32", "float64")}
        for name, kind in kinds.items():
            array = tensors.get(name)
            if array is None or array.ndim != 1 or array.dtype.name not in kind:
                raise ModelFileError(f"documents need `{name}`, a vector of {' or '.join(kind)}.")
        ids = unpack_ids("ids", tensors)
        try:
            parts = (tensors["values"], tensors["indices"], tensors["indptr"])
            rows = sparse.csr_array(parts, shape=(ids.size, n_features))
            # The checks at the door of all data are also those for a file.
            checked = MatchingData(rows, rows, labels=(ids, ids), query_ids=ids, document_ids=ids)
        except ValueError as error:
            raise ModelFileError(f"the documents in the file are damaged: {error}") from error
        return cls(ids, checked.document_rows)

    def asked(self, queries: Any, names: Ids, query_ids: Ids) -> MatchingData:
        """Return these documents and some queries as data without matches."""
        from scipy import sparse

        return MatchingData(
            queries,
            self.rows,
            sparse.csr_array((query_ids.size, self.ids.size)),
            query_ids=query_ids,
            document_ids=self.ids,
            query_feature_ids=names,
            document_feature_ids=names,
        )
