"""`TextCollection`: texts to search and texts to search with, and who matches whom."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from ranking.data.matches import Matches
from ranking.data.matching_data import MatchingData, described
from ranking.data.validation import Ints
from ranking.errors import DataError


@dataclasses.dataclass(frozen=True, init=False, eq=False, repr=False)
class TextCollection(Matches):
    """Queries and documents as raw texts, and which match.

    Parameters
    ----------
    query_ids : sequence of int or str
    query_texts : sequence of str
    document_ids : sequence of int or str
    document_texts : sequence of str
    relevance, labels, times, same_objects
        As in `MatchingData`.

    Attributes
    ----------
    query_texts, document_texts : tuple of str
    query_ids, document_ids, relevance, times, labels, classes, itself
        As in `ranking.data.matches.Matches`.

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
        same_objects: bool = False,
    ) -> None:
        texts = {"query_texts": query_texts, "document_texts": document_texts}
        for name, given in texts.items():
            if isinstance(given, str) or not all(isinstance(text, str) for text in given):
                raise DataError(f"{name} must be a sequence of texts.")
            if not len(given):
                raise DataError(f"{name} is empty; give at least one text.")
        sizes = (len(query_texts), len(document_texts))
        self._fill_matches(sizes, relevance, labels, query_ids, document_ids, times, same_objects)
        self._fill(query_texts=tuple(query_texts), document_texts=tuple(document_texts))

    def _selected(self, chosen: Ints) -> dict[str, Any]:
        return {"query_texts": tuple(self.query_texts[place] for place in chosen.tolist())}

    def with_features(
        self,
        queries: Any,
        documents: Any,
        *,
        query_feature_ids: Any = None,
        document_feature_ids: Any = None,
    ) -> MatchingData:
        """Return the same matches with features, which somebody made from the texts."""
        made = MatchingData(
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
        return made._replace(classes=self.classes, labels=self.labels, itself=self.itself)

    def __repr__(self) -> str:
        return (
            f"TextCollection({self.n_queries} queries x {self.n_documents} documents, "
            f"{described(self)})"
        )
