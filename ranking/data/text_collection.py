"""`TextCollection`: texts of queries and documents, and their relevance."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from ranking.data.matching_data import MatchingData, summarize_relevance
from ranking.data.relevance import RelevanceData
from ranking.data.validation import Ints
from ranking.errors import DataError


@dataclasses.dataclass(frozen=True, init=False, eq=False, repr=False)
class TextCollection(RelevanceData):
    """Queries and documents as raw texts, and which pairs are relevant.

    Parameters
    ----------
    query_ids : sequence of int or str
    query_texts : sequence of str
    document_ids : sequence of int or str
    document_texts : sequence of str
    relevance, labels, times, queries_are_documents
        As in `MatchingData`.

    Attributes
    ----------
    query_texts, document_texts : tuple of str
    query_ids, document_ids, relevance, times, labels, classes, own_document
        As in `ranking.data.relevance.RelevanceData`.

    Examples
    --------
    >>> TextCollection(["q"], ["wings"], ["a", "b"], ["a wing", "heat"], [[1, 0]])
    TextCollection(1 queries x 2 documents, 1 judged pairs)
    """

    query_texts: tuple[str, ...]
    document_texts: tuple[str, ...]

    def __init__(
        self,
        query_ids: Any,
        query_texts: Sequence[str],
        document_ids: Any,
        document_texts: Sequence[str],
        relevance: Any = None,
        *,
        labels: tuple[Any, Any] | None = None,
        times: Any = None,
        queries_are_documents: bool = False,
    ) -> None:
        texts = {"query_texts": query_texts, "document_texts": document_texts}
        for name, values in texts.items():
            if isinstance(values, str) or not all(isinstance(text, str) for text in values):
                raise DataError(f"{name} must be a sequence of texts.")
            if not len(values):
                raise DataError(f"{name} is empty; give at least one text.")
        sizes = (len(query_texts), len(document_texts))
        self._set_relevance(
            sizes, relevance, labels, query_ids, document_ids, times, queries_are_documents
        )
        self._set_fields(query_texts=tuple(query_texts), document_texts=tuple(document_texts))

    def _select_features(self, positions: Ints) -> dict[str, Any]:
        return {"query_texts": tuple(self.query_texts[at] for at in positions.tolist())}

    def with_features(
        self,
        queries: Any,
        documents: Any,
        *,
        query_feature_ids: Any = None,
        document_feature_ids: Any = None,
    ) -> MatchingData:
        """Return the same relevance with features, computed from the texts by the caller."""
        data = MatchingData(
            queries,
            documents,
            self.relevance,
            labels=self.labels,
            query_ids=self.query_ids,
            document_ids=self.document_ids,
            query_feature_ids=query_feature_ids,
            document_feature_ids=document_feature_ids,
            times=self.times,
        )
        return data._replace(
            classes=self.classes, labels=self.labels, own_document=self.own_document
        )

    def __repr__(self) -> str:
        return (
            f"TextCollection({self.n_queries} queries x {self.n_documents} documents, "
            f"{summarize_relevance(self)})"
        )
