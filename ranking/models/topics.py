"""The bilingual topic model: queries and documents share topics, each side its own words."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp

from ranking.contracts.model import MatchingModel, Tensors
from ranking.contracts.parameters import integer, number
from ranking.data.ids import empty_ids, pack_ids, unpack_ids
from ranking.data.validation import Ids, take_columns
from ranking.errors import DataError, ModelFileError
from ranking.kernels.contract import Floats, Ints

if TYPE_CHECKING:
    from ranking.data.matching_data import MatchingData
    from ranking.kernels.kernel import Kernel

BLOCK = 64
"""Terms of queries whose probabilities are computed at a time."""


@dataclasses.dataclass
class Topics(MatchingModel):
    """Score by the logarithm of the probability of the query, given the topics of the document.

    Each of K topics has a distribution over words of queries and one over words of documents (Gao,
    Toutanova and Yih, 2011). The topics theta of a document are those that make its words most
    probable. A term w of a query has the probability
    ``s P(w | collection) + (1 - s) (m P(w | words of d) + (1 - m) sum_k theta_k P(w | k))``.
    Features must be counts.

    Parameters
    ----------
    dimensions : int
        The number of topics (K).
    smoothing : float
        The share of the collection (s).
    words : float
        The share of the document's own words in the rest (m).
    topic_prior : float
        Added to the expected count of each topic of a text (Dirichlet prior, alpha - 1).
    fold_in : int
        EM iterations for the topics of a document.

    Attributes
    ----------
    query_words, document_words : float64 arrays
        One row per feature, one column per topic; columns sum to 1.
    collection : float64 array
        The probability of each query feature in the collection.
    """

    name: ClassVar[str] = "topics"
    form: ClassVar[Any] = "probabilities"

    dimensions: int = integer(50, minimum=1, maximum=4096)
    smoothing: float = number(0.3, above=0.0, below=1.0)
    words: float = number(0.7, minimum=0.0, maximum=1.0)
    topic_prior: float = number(0.1, minimum=0.0)
    fold_in: int = integer(20, minimum=1, maximum=1000)

    query_feature_ids: Ids = dataclasses.field(
        init=False, repr=False, compare=False, default_factory=empty_ids
    )
    document_feature_ids: Ids = dataclasses.field(
        init=False, repr=False, compare=False, default_factory=empty_ids
    )

    def _setup(self) -> None:
        self.query_words: Floats = np.zeros((0, self.dimensions))
        self.document_words: Floats = np.zeros((0, self.dimensions))
        self.collection: Floats = np.zeros(0)

    def initialize(self, data: MatchingData, seed: int, kernel: Kernel) -> None:
        """Sample the words of topics from the uniform Dirichlet distribution; count the words."""
        queries, documents = counts(data.query_rows, "queries"), counts(data.document_rows)
        self.query_feature_ids = data.query_feature_ids.copy()
        self.document_feature_ids = data.document_feature_ids.copy()
        sides = []
        for side, size in enumerate((queries.shape[1], documents.shape[1])):
            stream = int(kernel.random.bits(seed, side, 1)[0])
            sampled = -np.log1p(-kernel.random.uniform(stream, 0, size * self.dimensions)) + 1e-3
            table = sampled.reshape(size, self.dimensions)
            sides.append(table / table.sum(axis=0))
        self.query_words, self.document_words = sides
        names = (self.document_feature_ids, self.query_feature_ids)
        shared = take_columns(documents, *names)
        occurrences = np.asarray(queries.sum(axis=0)).ravel() + np.asarray(shared.sum(axis=0))
        self.collection = (1.0 + occurrences) / (1.0 + occurrences).sum()

    def document_topics(self, rows: Any) -> Floats:
        """Return the topics that make the words of each row most probable."""
        words = sp.csr_array(rows, dtype=np.float64)
        topics = np.full((words.shape[0], self.dimensions), 1.0 / self.dimensions)
        for _ in range(self.fold_in):
            topics *= ratios(words, topics, self.document_words) @ self.document_words
            topics += self.topic_prior + 1e-12
            topics /= topics.sum(axis=1, keepdims=True)
        return topics

    def scorer(
        self, data: MatchingData, kernel: Kernel, threads: int = 1
    ) -> Callable[[Ints], Floats]:
        """Return a function from positions of queries to their scores, one row per query."""
        queries = take_columns(
            counts(data.query_rows, "queries"), data.query_feature_ids, self.query_feature_ids
        )
        known = take_columns(
            counts(data.document_rows), data.document_feature_ids, self.document_feature_ids
        )
        topics = self.document_topics(known)
        own = take_columns(known, self.document_feature_ids, self.query_feature_ids)
        lengths = np.maximum(np.asarray(own.sum(axis=1)).ravel(), 1.0)
        shares = sp.csc_array(own * (self.words / lengths)[:, None])

        def block(positions: Ints) -> Floats:
            rows = queries[positions]
            total = np.zeros((positions.size, topics.shape[0]))
            terms = np.unique(rows.indices)
            for at in range(0, terms.size, BLOCK):
                part = terms[at : at + BLOCK]
                mixed = (1.0 - self.words) * (topics @ self.query_words[part].T)
                mixed += shares[:, part].toarray()
                mixed = self.smoothing * self.collection[part] + (1.0 - self.smoothing) * mixed
                total += rows[:, part] @ np.log(mixed).T
            return total

        return block

    def tensors(self) -> Tensors:
        """Return the words of the topics, the collection and the ids."""
        return {
            "query_words": self.query_words,
            "document_words": self.document_words,
            "collection": self.collection,
            **pack_ids("query_feature_ids", self.query_feature_ids),
            **pack_ids("document_feature_ids", self.document_feature_ids),
        }

    def restore(self, tensors: Tensors) -> None:
        """Restore what `tensors` returned."""
        rows = unpack_ids("query_feature_ids", tensors)
        columns = unpack_ids("document_feature_ids", tensors)
        shapes = {
            "query_words": (rows.size, self.dimensions),
            "document_words": (columns.size, self.dimensions),
            "collection": (rows.size,),
        }
        for name, shape in shapes.items():
            array = tensors.get(name)
            if array is None or array.dtype != np.float64 or array.shape != shape:
                raise ModelFileError(f"a topics model needs `{name}`, float64 of shape {shape}.")
            positive = array > 0.0 if name == "collection" else array >= 0.0
            if not (positive & (array <= 1.0)).all():
                raise ModelFileError(f"`{name}` of a topics model must hold probabilities.")
        self.query_words = np.array(tensors["query_words"])
        self.document_words = np.array(tensors["document_words"])
        self.collection = np.array(tensors["collection"])
        self.query_feature_ids, self.document_feature_ids = rows, columns

    @property
    def density(self) -> float:
        """The share of the probabilities that are not zero."""
        parts = (self.query_words, self.document_words)
        filled = sum(int(np.count_nonzero(part)) for part in parts)
        return filled / max(sum(part.size for part in parts), 1)


def counts(rows: Any, side: str = "documents") -> Any:
    """Return features as counts of words, in double precision; refuse negative ones."""
    words = sp.csr_array(rows, dtype=np.float64)
    if words.nnz and words.data.min() < 0.0:
        raise DataError(
            f"topics need counts of words, and the {side} have a feature of {words.data.min():g}; "
            "use features text:weighting=counts."
        )
    return words


def ratios(words: Any, topics: Floats, table: Floats) -> Any:
    """Return the counts, each divided by its probability under topics and their words."""
    owner = np.repeat(np.arange(words.shape[0]), np.diff(words.indptr))
    expected = np.empty(words.nnz)
    step = 1 << 16
    for at in range(0, words.nnz, step):
        part = slice(at, at + step)
        left, right = topics[owner[part]], table[words.indices[part]]
        expected[part] = np.einsum("ij,ij->i", left, right)
    divided = words.data / np.maximum(expected, 1e-300)
    return sp.csr_array((divided, words.indices, words.indptr), shape=words.shape)
