"""`TextFeatures`: transform texts into a sparse matrix of term weights."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ranking._utils.tensors import Tensors
from ranking.contracts.parameters import boolean, number, violations
from ranking.contracts.part import Part
from ranking.data.text import hashing as hashes
from ranking.data.text import vocabulary, weights
from ranking.data.text.counts import count, take_columns
from ranking.data.text.query_ngrams import QueryNgrams
from ranking.data.text.tokenise import check_texts, ngram_range, stop_list
from ranking.errors import DataError, DataWarning, ModelFileError, PartError
from ranking.registry.spec import parse_spec

MOST_COLUMNS = 2**31 - 1
LARGEST = 2.0**63
"""Largest value in a model file; values within this bound make no feature infinite."""

WEIGHTINGS = ("tf-idf", "singhal", "counts", "bm25", "lm-dirichlet")

RETRIEVAL = ("bm25", "lm-dirichlet")
"""Weightings of documents whose inner product with the counts of a query is a retrieval score."""

LENGTH = "#length"
"""The feature of lm-dirichlet that is not a term: no word contains its first character."""

OWN_PARAMETERS = {"bm25": {"k1", "b"}, "lm-dirichlet": {"mu"}}
"""The parameters that only one weighting has."""


class TermCounts(NamedTuple):
    """Counts of terms by text; hashed terms are in the order of their hashes."""

    counts: Any
    hashes: hashes.Hashes | None


@dataclasses.dataclass
class TextFeatures(Part):
    """Transform texts into rows of a sparse matrix, with one column per term (word or n-gram).

    The terms and their weights come from the texts of `fit`. Unknown words are left out and
    counted; a text without any known word gives a row of zeros, with a `DataWarning`. The result
    does not depend on the order of the texts.

    Parameters
    ----------
    words : int or None
        Maximal number of columns: the most frequent terms, ties broken by code points. None for
        all terms.
    min_count, min_documents : int
        Minimal number of occurrences of a term in all texts, and of texts that contain it.
    ngrams : int or str
        1 for words, 2 for pairs of neighbours, ``"1-2"`` for both, and so on.
    stop_words : {"english", None}
        Words to leave out before n-grams are built: scikit-learn's list, or none.
    weighting : {"tf-idf", "singhal", "counts", "bm25", "lm-dirichlet"}
        Weights of the counts; see :mod:`ranking.data.text.weights`. tf-idf has the smooth idf,
        singhal the plain one. bm25 and lm-dirichlet weight documents only, queries have counts.
    sublinear : bool
        Whether to replace the count c by 1 + log c; singhal has its own formula.
    unit_length : bool or "auto"
        Whether rows are scaled to Euclidean norm 1. "auto" is True for tf-idf only.
    hashing : int
        The number of columns of the hashing trick, or 0 for a vocabulary. With hashing, `words` is
        ignored. The weight of a term is added to its column with a sign that depends on its hash;
        idf belongs to the column.
    k1, b : float
        For bm25: how soon a count saturates, and how much of a document's length is made up for.
    mu : float
        For lm-dirichlet: the number of words that the collection counts for.
    document_ids : bool
        Whether each document of a collection also has a feature of its own, ``document:<id>``. A
        bilinear model then learns which words of queries lead to this document.
    query_ngrams : int, str or None
        N-grams of the training queries that are features of queries only, such as 2; stop words
        are kept in them. With document_ids and ``bilinear:trainable=unshared`` a model learns which
        phrases of queries lead to a document.
    query_similarity : float
        With query_ngrams: the least cosine of a query with a training query. Queries have only the
        n-grams that they share with training queries so similar; 0 keeps all known ones.

    Attributes
    ----------
    idf_ : float64 array or None
        One per column; None for counts and lm-dirichlet.
    pivot_ : float or None
        For singhal, the mean number of distinct known terms per text of `fit`; for bm25, the mean
        number of known terms.
    collection_ : float64 array or None
        For lm-dirichlet, the share of each term in all texts of `fit`.
    unknown_words_ : int
        Occurrences of terms without a column in the last transformed texts.
    """

    name: ClassVar[str] = "text"

    words: int | None = 10000
    min_count: int = 1
    min_documents: int = 1
    ngrams: int | str = 1
    stop_words: str | None = None
    weighting: str = "tf-idf"
    sublinear: bool = False
    unit_length: bool | str = "auto"
    hashing: int = 0
    k1: float = number(1.2, above=0.0, maximum=1e6)
    b: float = number(0.75, minimum=0.0, maximum=1.0)
    mu: float = number(2000.0, above=0.0, maximum=1e12)
    document_ids: bool = boolean(False)
    query_ngrams: int | str | None = None
    query_similarity: float = number(0.0, minimum=0.0, maximum=1.0)

    def __post_init__(self) -> None:
        """Validate the parameters and reset the fitted state."""
        self._check()
        self._ngrams = ngram_range(self.ngrams)
        self._stop_words = stop_list(self.stop_words)
        self._query_ngrams = (
            None
            if self.query_ngrams is None
            else QueryNgrams(self.query_ngrams, self.query_similarity)
        )
        self._columns: dict[str, int] | None = None
        self.idf_: NDArray[np.float64] | None = None
        self.pivot_: float | None = None
        self.collection_: NDArray[np.float64] | None = None
        self.unknown_words_ = 0

    def _check(self) -> None:
        minima = {"min_count": 1, "min_documents": 1, "hashing": 0}
        if self.words is not None:
            minima["words"] = 1
        for key, low in minima.items():
            value = getattr(self, key)
            whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
            if not whole or not low <= value <= MOST_COLUMNS:
                raise PartError(
                    f"text has {key}={value!r}; it must be a whole number from {low} to "
                    f"{MOST_COLUMNS}{', or none for all' if key == 'words' else ''}."
                )
        if self.weighting not in WEIGHTINGS:
            raise PartError(
                f"text has weighting={self.weighting!r}; it must be one of {', '.join(WEIGHTINGS)}."
            )
        if not isinstance(self.sublinear, bool):
            raise PartError(f"text has sublinear={self.sublinear!r}; it must be true or false.")
        if not isinstance(self.unit_length, bool) and self.unit_length != "auto":
            raise PartError(
                f"text has unit_length={self.unit_length!r}; it must be true, false or auto."
            )
        if self.weighting == "singhal" and self.sublinear:
            raise PartError("weighting=singhal is sublinear by itself; leave sublinear out.")
        if self.weighting == "singhal" and self.unit_length is True:
            raise PartError(
                "weighting=singhal has a length normalisation that unit_length would undo; "
                "leave unit_length out, or take weighting=tf-idf,sublinear=true."
            )
        if self.weighting in RETRIEVAL and (self.sublinear or self.unit_length is True):
            raise PartError(
                f"weighting={self.weighting} has its own saturation and length normalisation; "
                "leave sublinear and unit_length out."
            )
        if self.weighting == "lm-dirichlet" and self.hashing:
            raise PartError(
                "weighting=lm-dirichlet needs the probability of each term, and terms that share "
                "a hashed column have none; leave hashing out, or take weighting=bm25."
            )
        for key, constraint in violations(self).items():
            raise PartError(
                f"text has {key}={getattr(self, key)!r}; it must be {constraint.describe()}."
            )
        if self.hashing and (self.min_count > 1 or self.min_documents > 1):
            raise PartError(
                "hashing has no vocabulary from which min_count and min_documents could leave "
                "terms out; leave them at 1, or hashing at 0."
            )

    def auto_values(self, problem: object = None) -> dict[str, Any]:
        """Return the resolved value of `unit_length`, if it is "auto"."""
        return {"unit_length": self.weighting == "tf-idf"} if self.unit_length == "auto" else {}

    def idle(self) -> set[str]:
        """Return the parameters of other weightings, and `query_ngrams` without any."""
        others = {"k1", "b", "mu"} - OWN_PARAMETERS.get(self.weighting, set())
        if self.query_ngrams is None:
            return others | {"query_ngrams", "query_similarity"}
        return others

    @property
    def is_symmetric(self) -> bool:
        """Whether queries are weighted as documents are."""
        return self.weighting not in RETRIEVAL and self._query_ngrams is None

    @classmethod
    def from_spec(cls, spec: str) -> Self:
        """Build unfitted features from a spec."""
        name, params = parse_spec(spec)
        unknown = sorted(set(params) - set(cls.parameter_names()))
        if name != cls.name or unknown:
            raise PartError(
                f"{spec!r} is not {cls.name!r} with some of its parameters "
                f"{', '.join(cls.parameter_names())}."
            )
        return cls(**params)

    def fit(self, texts: Iterable[str]) -> Self:
        """Learn the terms and their weights from texts, which are iterated once."""
        self._learn(texts)
        return self

    def fit_queries(self, texts: Iterable[str]) -> Self:
        """Learn the n-grams of training queries, if `query_ngrams` asks for them."""
        if self._query_ngrams is not None:
            self._query_ngrams.fit(texts)
        return self

    def fit_transform(self, texts: Iterable[str]) -> Any:
        """Fit and transform, iterating the texts once."""
        return self._weight(self._learn(texts))

    def transform(self, texts: Iterable[str]) -> Any:
        """Return the features of texts, weighted as documents.

        Returns
        -------
        csr_array of float32
            One row per text; indices are sorted, no stored entry is zero.
        """
        return self._weight(self._known_counts(texts))

    def transform_queries(self, texts: Iterable[str]) -> Any:
        """Return the features of texts, weighted as queries: by counts for bm25 and lm-dirichlet.

        Other weightings treat queries as documents, so it is the same as `transform`, but for
        `query_ngrams`, which are appended. The columns are `query_feature_names`.
        """
        if self._query_ngrams is not None:
            texts = list(check_texts(texts))
        rows = self._weight(self._known_counts(texts), queries=self.weighting in RETRIEVAL)
        if self._query_ngrams is None:
            return rows
        return sparse.csr_array(sparse.hstack([rows, self._query_ngrams.transform(texts)]))

    def weigh(self, counts: Any, terms: Sequence[str], *, queries: bool = False) -> Any:
        """Return the features of texts whose words have been counted already.

        Parameters
        ----------
        counts : csr_array
            One row per text, one column per word, stop words included.
        terms : sequence of str
            The word of each column.
        queries : bool
            Whether to weight them as queries.
        """
        self._require_fit()
        assert self._columns is not None
        whole = sparse.csr_array(counts, dtype=np.int32)
        queries = queries and self.weighting in RETRIEVAL
        if not self.hashing:
            return self._weight(self._select_known(list(terms), whole, self._columns), queries)
        allowed = [at for at, term in enumerate(terms) if term not in self._stop_words]
        columns = sparse.csr_array(whole[:, allowed])
        return self._weight(_sort_by_hash([terms[at] for at in allowed], columns), queries)

    def _known_counts(self, texts: Iterable[str]) -> TermCounts:
        self._require_fit()
        assert self._columns is not None
        terms, counts = self._count(texts)
        if self.hashing:
            return _sort_by_hash(terms, counts)
        return self._select_known(terms, counts, self._columns)

    @property
    def n_features(self) -> int:
        """The number of columns."""
        self._require_fit()
        assert self._columns is not None
        return self.hashing or len(self._columns) + (self.weighting == "lm-dirichlet")

    @property
    def feature_names(self) -> list[str]:
        """The term of each column, in their order; a hashed column i is ``#i``.

        The last one of lm-dirichlet is ``#length``.
        """
        self._require_fit()
        assert self._columns is not None
        names = [f"#{column}" for column in range(self.hashing)] or list(self._columns)
        return [*names, LENGTH] if self.weighting == "lm-dirichlet" else names

    @property
    def query_feature_names(self) -> list[str]:
        """The name of each column of queries: `feature_names`, then ``query:<n-gram>``."""
        own = [] if self._query_ngrams is None else self._query_ngrams.names
        return [*self.feature_names, *own]

    def tensors(self) -> Tensors:
        """Return the fitted state as named arrays, for a model file."""
        self._require_fit()
        tensors: Tensors = {} if self._query_ngrams is None else self._query_ngrams.tensors()
        if self._columns:
            tensors["words"], tensors["word_offsets"] = vocabulary.pack(list(self._columns))
        if self.idf_ is not None:
            tensors["idf"] = self.idf_
        if self.pivot_ is not None:
            tensors["pivot"] = np.array([self.pivot_])
        if self.collection_ is not None:
            tensors["collection"] = self.collection_
        return tensors

    def restore(self, tensors: Tensors) -> None:
        """Restore the state that `tensors` returned with the same parameters.

        Raises
        ------
        ModelFileError
            If an array is missing or invalid.
        """
        columns: dict[str, int] = {}
        if not self.hashing:
            terms = vocabulary.unpack(_tensor(tensors, "words"), _tensor(tensors, "word_offsets"))
            columns = {term: column for column, term in enumerate(terms)}
        idf = pivot = collection = None
        if self.weighting == "lm-dirichlet":
            collection = _numbers(tensors, "collection", len(columns))
            if not (collection >= 1.0 / LARGEST).all():
                raise ModelFileError("text features' `collection` must be positive.")
        elif self.weighting != "counts":
            idf = _numbers(tensors, "idf", self.hashing or len(columns))
        if self.weighting in ("singhal", "bm25"):
            pivot = float(_numbers(tensors, "pivot", 1)[0])
            if pivot < 1.0 / LARGEST:
                raise ModelFileError(f"text features' `pivot` is {pivot}, and must be positive.")
        self._columns, self.idf_, self.pivot_ = columns, idf, pivot
        self.collection_ = collection
        self.unknown_words_ = 0
        if self._query_ngrams is not None:
            self._query_ngrams.restore(tensors)

    def _require_fit(self) -> None:
        if self._columns is None:
            from sklearn.exceptions import NotFittedError

            raise NotFittedError("these TextFeatures are not fitted; call fit or restore first.")

    def _learn(self, texts: Iterable[str]) -> TermCounts:
        terms, counts = self._count(texts)
        if counts.shape[0] == 0:
            raise DataError("there is no text to fit on; give at least one.")
        columns: dict[str, int] = {}
        if self.hashing:
            if not counts.nnz:
                raise DataError(f"no text has a term to fit on; {self._remedy()}.")
            counted = _sort_by_hash(terms, counts)
            occupied = _fold(counted, np.ones(counts.nnz), self.hashing)
        else:
            selection = vocabulary.most_frequent(
                terms, counts, self.words, self.min_count, self.min_documents
            )
            if not selection:
                raise DataError(
                    f"the vocabulary is empty: {counts.shape[0]} texts have no term to "
                    f"include; {self._remedy()}."
                )
            columns = {terms[at]: column for column, at in enumerate(selection)}
            counted = self._select_known(terms, counts, columns)
            occupied = counted.counts
        documents = np.bincount(occupied.indices, minlength=occupied.shape[1])
        self._columns, self.idf_, self.pivot_, self.collection_ = columns, None, None, None
        if self.weighting == "tf-idf":
            self.idf_ = weights.smooth_idf(documents, counts.shape[0])
        elif self.weighting == "singhal":
            self.idf_ = weights.plain_idf(documents, counts.shape[0])
            self.pivot_ = weights.mean_distinct(counted.counts)
        elif self.weighting == "bm25":
            self.idf_ = weights.bm25_idf(documents, counts.shape[0])
            self.pivot_ = weights.mean_length(counted.counts)
        elif self.weighting == "lm-dirichlet":
            self.collection_ = weights.shares(counted.counts)
        return counted

    def _count(self, texts: Iterable[str]) -> tuple[list[str], Any]:
        return count(check_texts(texts), self._ngrams, self._stop_words)

    def _select_known(self, terms: list[str], counts: Any, columns: dict[str, int]) -> TermCounts:
        """Keep the counts of terms that have a column, and note how many others occur."""
        positions = np.array([columns.get(term, -1) for term in terms], dtype=np.int64)
        known = take_columns(counts, positions, len(columns))
        self.unknown_words_ = int(counts.sum()) - int(known.sum())
        return TermCounts(known, None)

    def _remedy(self) -> str:
        remedies = ["check that the texts are not empty"]
        if self.min_count > 1 or self.min_documents > 1:
            remedies.append("lower min_count or min_documents")
        if self.stop_words is not None:
            remedies.append("keep the stop words")
        if self._ngrams[0] > 1:
            remedies.append("let ngrams begin at 1")
        return ", or ".join(remedies)

    def _weight(self, counted: TermCounts, queries: bool = False) -> Any:
        counts = counted.counts
        empty = np.flatnonzero(np.diff(counts.indptr) == 0)
        if empty.size:
            warnings.warn(
                f"{empty.size} of {counts.shape[0]} texts have no known word, the first is text "
                f"{empty[0]} (from 0); their rows are zero.",
                DataWarning,
                stacklevel=3,
            )
        values = self._term_frequencies(counts, queries)
        if counted.hashes is None:
            features = sparse.csr_array((values, counts.indices, counts.indptr), shape=counts.shape)
        else:
            values *= hashes.signs_of(counted.hashes)[counts.indices]
            features = _fold(counted, values, self.hashing)
        if self.weighting == "lm-dirichlet":
            features = weights.with_length(features, counts, None if queries else self.mu)
        if self.idf_ is not None and not queries:
            features.data *= self.idf_[features.indices]
        unit = self.auto_values().get("unit_length", self.unit_length)
        if unit:
            weights.scale_to_unit_length(features)
        features = features.astype(np.float32)
        features.eliminate_zeros()
        return features

    def _term_frequencies(self, counts: Any, queries: bool) -> NDArray[np.float64]:
        """Return the weight of each count without idf."""
        if self.weighting == "singhal":
            assert self.pivot_ is not None
            return weights.pivoted(counts, self.pivot_)
        if self.weighting == "bm25" and not queries:
            assert self.pivot_ is not None
            return weights.saturated(counts, self.pivot_, self.k1, self.b)
        if self.weighting == "lm-dirichlet" and not queries:
            assert self.collection_ is not None
            return weights.smoothed(counts, self.collection_, self.mu)
        values: NDArray[np.float64] = counts.data.astype(np.float64)
        return weights.sublinear(values) if self.sublinear else values


def _sort_by_hash(terms: list[str], counts: Any) -> TermCounts:
    """Put terms in the order of their hashes, so that sums do not depend on other texts."""
    hashed = hashes.hash_terms(terms)
    order = np.argsort(hashed, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    return TermCounts(take_columns(counts, rank, counts.shape[1]), hashed[order])


def _fold(counted: TermCounts, values: NDArray[np.float64], n_columns: int) -> Any:
    """Add up the values of the hashed terms of each column, in the order of their hashes."""
    counts = counted.counts
    assert counted.hashes is not None
    columns = hashes.columns_of(counted.hashes, n_columns)[counts.indices]
    # The arrays are copied: sum_duplicates works in place.
    folded = sparse.csr_array(
        (values, columns, counts.indptr), shape=(counts.shape[0], n_columns), copy=True
    )
    # The order of hashes is that of columns, so SciPy finds the indices sorted and does not sort.
    folded.sum_duplicates()
    return folded


def _tensor(tensors: Tensors, name: str) -> NDArray[Any]:
    if name not in tensors:
        raise ModelFileError(f"text features need `{name}`, and it is missing.")
    return tensors[name]


def _numbers(tensors: Tensors, name: str, length: int) -> NDArray[np.float64]:
    numbers = _tensor(tensors, name)
    if numbers.dtype != np.float64 or numbers.shape != (length,):
        raise ModelFileError(
            f"text features' `{name}` must be {length} float64, not {numbers.shape} of "
            f"{numbers.dtype}."
        )
    if not ((numbers >= 0.0) & (numbers <= LARGEST)).all():  # NaN is refused, too
        raise ModelFileError(
            f"text features' `{name}` must be finite, not negative, and no larger than {LARGEST:g}."
        )
    return np.array(numbers)
