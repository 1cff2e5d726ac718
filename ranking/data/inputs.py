"""Input data of a ranker: judged rows, or queries and documents, with texts as features."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy import sparse

from ranking._utils.tensors import Tensors
from ranking.contracts.model import Model
from ranking.data.frames import interactions_of, is_frame
from ranking.data.ids import pack_ids, unpack_ids
from ranking.data.judged_lists import JudgedLists
from ranking.data.matching_data import MatchingData
from ranking.data.scaling import Scaling
from ranking.data.seen import SeenItems
from ranking.data.text.features import TextFeatures
from ranking.data.text_collection import TextCollection
from ranking.data.validation import Ids
from ranking.errors import DataError, DataWarning, ModelFileError, PartError

Trainable: TypeAlias = JudgedLists | MatchingData

DEFAULT_TEXT = "text"
"""The features of texts unless others are named."""


DOCUMENT = "document:"
"""What the name of the feature of a single document begins with."""


class OptionalSpec(str):
    """A spec of text features that is ignored for data without texts: a recipe's default."""

    __slots__ = ()


class PreparedData(NamedTuple):
    """Training and validation data as a model takes them.

    Attributes
    ----------
    data : JudgedLists or MatchingData
    valid : JudgedLists, MatchingData or None
    text : TextFeatures or None
        Fitted on the documents of a collection of texts.
    documents : Documents or None
        The documents of that collection.
    scaling : Scaling or None
        Fitted on judged rows; data and valid are scaled.
    """

    data: Trainable
    valid: Trainable | None
    text: TextFeatures | None
    documents: Documents | None
    scaling: Scaling | None = None

    def fingerprints(self) -> dict[str, str]:
        """Return a digest of the training and of the validation data, to recognise them again."""
        valid = "none" if self.valid is None else self.valid.fingerprint()
        return {"training data": self.data.fingerprint(), "validation data": valid}

    @property
    def has_features(self) -> bool:
        """Whether queries or documents have features, not made from texts, and relevance by id."""
        data = self.data
        if not isinstance(data, MatchingData) or self.text is not None or data.relevance is None:
            return False
        return data.queries is not None or data.documents is not None

    def without_features(self, user: str) -> PreparedData:
        """Return the same data without features, with a warning that names who takes none."""
        data, valid = without_features(self.data), without_features(self.valid)
        if isinstance(valid, MatchingData):
            valid = valid.with_documents(data.document_ids)
        warnings.warn(
            f"{user} knows queries (users) and documents (items) by id only, so their features are "
            "not used; take model factored with solver sgd (recipe warp) to use them.",
            DataWarning,
            stacklevel=4,
        )
        return self._replace(data=data, valid=valid)


def prepare_data(
    X: Any,
    y: Any,
    qid: Any,
    valid: Any,
    features: str | TextFeatures | None,
    scale: str | None = None,
) -> PreparedData:
    """Return training and validation data as a model takes them.

    Parameters
    ----------
    X, y, qid
        As in `as_trainable`.
    valid : the same as X, or a tuple (X, y, qid), or None
    features : str, TextFeatures or None
        How to represent texts.
    scale : str or None
        How to scale the features of judged rows; see `Scaling`.
    """
    text = fit_text(X, features)
    data = as_trainable(X, y, qid, text)
    if scale is not None:
        return _prepare_scaled(data, valid, scale)
    by_text = text is not None and isinstance(data, MatchingData)
    documents = Documents.from_data(data, text) if by_text else None  # type: ignore[arg-type]
    if valid is None:
        return PreparedData(data, None, text, documents)
    held_out = as_trainable(*_triple(valid), text)
    if isinstance(data, MatchingData) and isinstance(held_out, MatchingData):
        held_out = held_out.with_documents(data.document_ids)
        warn_of_untrained(None, SeenItems.from_data(data), held_out)
    return PreparedData(data, held_out, text, documents)


def without_features(data: Any) -> Any:
    """Return queries and documents without their features, and other data as they are."""
    return data.without_features() if isinstance(data, MatchingData) else data


def _prepare_scaled(data: Trainable, valid: Any, scale: str) -> PreparedData:
    """Return scaled judged rows, for training and for validation."""
    held_out = None if valid is None else as_trainable(*_triple(valid), None)
    for rows in (data, held_out):
        if isinstance(rows, MatchingData):
            raise PartError(
                f"scale={scale} is for the features of judged rows, and these are queries and "
                "documents; leave it out."
            )
    scaling = Scaling.fit(scale, data)  # type: ignore[arg-type]
    scaled = scaling.transform(data)  # type: ignore[arg-type]
    other = None if held_out is None else scaling.transform(held_out)  # type: ignore[arg-type]
    return PreparedData(scaled, other, None, None, scaling)


def warn_of_untrained(
    model: Model | None, seen: SeenItems | None, data: Trainable, *, ranked: bool = False
) -> None:
    """Warn of queries that are known by id only and were not trained.

    Parameters
    ----------
    model : Model or None
        Whose query features are known; None if only the training data are.
    seen : SeenItems or None
        Users and positives of the training data.
    data : JudgedLists or MatchingData
        The queries to measure, or to rank.
    ranked : bool
        Whether queries without positives count too.
    """
    if not isinstance(data, MatchingData) or data.queries is not None or data.relevance is None:
        return
    if seen is not None and seen.positives is not None:
        trained = seen.user_ids[np.diff(seen.positives.indptr) > 0]
        remedy = (
            "they are ranked by popularity, the number of users who have an item; fold_in ranks "
            "by a history"
        )
    else:
        if ranked:
            return
        trained = getattr(model, "query_feature_ids", None)
        remedy = (
            "their embeddings are those before training; leave them out, or rank them by fold_in"
        )
    wanted = slice(None) if ranked else np.diff(data.relevance.indptr) > 0
    measured = data.query_ids[wanted]
    if trained is None or trained.dtype.kind != measured.dtype.kind:
        return
    missing = measured[~np.isin(measured, trained)]
    if missing.size:
        warnings.warn(
            f"{missing.size} of {measured.size} queries (users), such as {missing[0].item()!r}, "
            f"have no positives in the training data: {remedy}.",
            DataWarning,
            stacklevel=4,
        )


def _columns_of(X: Any) -> str:
    """Return what a data frame of interactions lacks, or an empty text."""
    if not is_frame(X):
        return ""
    columns = ", ".join(map(str, list(getattr(X, "column_names", X.columns))[:6]))
    return (
        f" Interactions need a column for the user and one for the item, and this data frame has "
        f"{columns}; name them: MatchingData.from_interactions(frame, user=..., item=...)."
    )


def _triple(valid: Any) -> tuple[Any, Any, Any]:
    if isinstance(valid, tuple) and len(valid) == 3:
        return valid
    if isinstance(valid, tuple | list):
        raise DataError("valid must be of the kind of X, or a tuple (X, y, qid).")
    return valid, None, None


def as_trainable(X: Any, y: Any, qid: Any, text: TextFeatures | None) -> Trainable:
    """Return data that a model takes.

    Parameters
    ----------
    X : array, sparse matrix, data frame, JudgedLists, MatchingData or TextCollection
        A data frame of interactions, without y, is a `MatchingData`.
    y, qid : array-like
        Grades and queries, for an array.
    text : TextFeatures or None
        Fitted; they represent the texts of a `TextCollection`.
    """
    X = interactions_of(X, y)
    if X is None:
        raise DataError(
            "X is None; give an array with y and qid, or a JudgedLists, MatchingData or "
            "TextCollection."
        )
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
    if y is None:
        raise DataError(
            "y (the grades) is missing: fitting requires y to be passed, but the target y is None; "
            "give both y and qid, or a JudgedLists, MatchingData or TextCollection."
            + _columns_of(X)
        )
    if qid is None:
        n_rows = X.shape[0] if len(getattr(X, "shape", ())) else len(np.asarray(y))
        qid = np.zeros(n_rows, np.int64)
        warnings.warn(
            f"qid (the query of each row) is missing, so all {n_rows} rows are ranked as one "
            "query; give qid if they belong to several.",
            DataWarning,
            stacklevel=4,
        )
    return JudgedLists(X, y, whole_numbers(qid))


def whole_numbers(qid: Any) -> Any:
    """Return ids that a data frame holds as floats, for want of integers with gaps, as integers."""
    ids = np.asarray(qid)
    if ids.dtype.kind != "f":
        return qid
    if np.isnan(ids).any():
        raise DataError(
            f"qid: row {int(np.argmax(np.isnan(ids)))} is missing (NaN); every row needs the query "
            "that it belongs to."
        )
    limit = 2.0**53
    if (ids != np.rint(ids)).any() or np.abs(ids).max(initial=0.0) > limit:
        return qid
    return ids.astype(np.int64)


def among_known(data: Trainable, model: Model) -> Trainable:
    """Return the data with all documents that the model knows by id as candidates.

    Interactions name the items of some users; they are ranked among all items of the training
    data. Documents that have features are ranked among themselves.
    """
    names = getattr(model, "document_feature_ids", None)
    if names is None or not isinstance(data, MatchingData):
        return data
    return data.with_documents(names)


def fit_text(X: Any, features: str | TextFeatures | None) -> TextFeatures | None:
    """Return features fitted on the documents of a `TextCollection`; None for other data."""
    if not isinstance(X, TextCollection):
        if features is not None and not isinstance(features, OptionalSpec):
            raise PartError(
                f"features={features!s} represent texts, and the data are a {type(X).__name__}; "
                "leave them out."
            )
        return None
    spec = features.spec() if isinstance(features, TextFeatures) else features or DEFAULT_TEXT
    return TextFeatures.from_spec(spec).fit(X.document_texts).fit_queries(X.query_texts)


def describe_texts(texts: TextCollection, text: TextFeatures) -> MatchingData:
    """Return the same relevance with one feature per term."""
    documents = text.transform(texts.document_texts)
    same = texts.query_texts is texts.document_texts or texts.query_texts == texts.document_texts
    shared = same and text.is_symmetric
    queries = documents if shared else text.transform_queries(texts.query_texts)
    names = np.array(text.query_feature_names)
    documents, document_names = with_document_ids(text, documents, texts.document_ids)
    return texts.with_features(
        queries, documents, query_feature_ids=names, document_feature_ids=document_names
    )


def describe_counts(data: MatchingData, text: TextFeatures) -> MatchingData:
    """Return data whose features are counts of all words with the features of a text model."""
    if data.query_feature_ids.dtype.kind != "U" or data.document_feature_ids.dtype.kind != "U":
        raise DataError(
            "a model of the combination needs words, and these data have none; give texts, with "
            "features text:words=none,weighting=counts."
        )
    queries = text.weigh(data.query_rows, data.query_feature_ids.tolist(), queries=True)
    documents = text.weigh(data.document_rows, data.document_feature_ids.tolist())
    documents, names = with_document_ids(text, documents, data.document_ids)
    return data._replace(
        queries=queries,
        documents=documents,
        query_feature_ids=np.array(text.feature_names),
        document_feature_ids=names,
    )


def with_document_ids(text: TextFeatures, documents: Any, ids: Ids) -> tuple[Any, Ids]:
    """Return rows of terms and the names of their columns, with one per document if requested."""
    names = text.feature_names
    if not text.document_ids:
        return documents, np.array(names)
    own = sparse.eye_array(ids.size, dtype=documents.dtype)
    rows = sparse.csr_array(sparse.hstack([documents, own], format="csr"))
    return rows, np.array([*names, *(f"{DOCUMENT}{one}" for one in ids.tolist())])


class Documents(NamedTuple):
    """The documents of a collection of texts, stored with a model so that it can search them.

    Attributes
    ----------
    ids : array
    rows : csr_array
        The weights of terms.
    """

    ids: Ids
    rows: Any

    @classmethod
    def from_data(cls, data: MatchingData, text: TextFeatures) -> Documents:
        """Return the documents of these data, which `text` represents."""
        rows = data.document_rows
        return cls(data.document_ids, rows[:, : text.n_features] if text.document_ids else rows)

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
        """Restore what `tensors` returned, or raise `ModelFileError`."""
        kinds = {"indptr": ("int64",), "indices": ("int32",), "values": ("float32", "float64")}
        for name, kind in kinds.items():
            array = tensors.get(name)
            if array is None or array.ndim != 1 or array.dtype.name not in kind:
                raise ModelFileError(f"documents need `{name}`, a vector of {' or '.join(kind)}.")
        ids = unpack_ids("ids", tensors)
        try:
            parts = (tensors["values"], tensors["indices"], tensors["indptr"])
            rows = sparse.csr_array(parts, shape=(ids.size, n_features))
            # Validates the rows of the file as any other data.
            checked = MatchingData(rows, rows, labels=(ids, ids), query_ids=ids, document_ids=ids)
        except ValueError as error:
            raise ModelFileError(f"the documents in the file are damaged: {error}") from error
        return cls(ids, checked.document_rows)

    def with_queries(self, texts: Sequence[str], text: TextFeatures) -> MatchingData:
        """Return these documents and some queries, numbered from 0, as data without positives."""
        rows, names = with_document_ids(text, self.rows, self.ids)
        return MatchingData(
            text.transform_queries(texts),
            rows,
            sparse.csr_array((len(texts), self.ids.size)),
            query_ids=np.arange(len(texts)),
            document_ids=self.ids,
            query_feature_ids=np.array(text.query_feature_names),
            document_feature_ids=names,
        )
