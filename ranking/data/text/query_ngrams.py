"""N-grams that only queries have as features: what was asked, word by word."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy import sparse

from ranking._utils.tensors import Tensors
from ranking.data.text import vocabulary
from ranking.data.text.counts import count, take_columns
from ranking.data.text.tokenise import check_texts, ngram_range
from ranking.errors import ModelFileError

PREFIX = "query:"


class QueryNgrams:
    """Counts of the n-grams of training queries, stop words included.

    Parameters
    ----------
    ngrams : int or str
        As in `TextFeatures`.
    """

    def __init__(self, ngrams: int | str) -> None:
        self._range = ngram_range(ngrams)
        self._columns: dict[str, int] = {}

    def fit(self, texts: Iterable[str]) -> None:
        """Learn the n-grams of the training queries."""
        terms, _ = count(check_texts(texts), self._range, frozenset())
        self._columns = {term: at for at, term in enumerate(sorted(terms))}

    @property
    def names(self) -> list[str]:
        """The name of each feature, ``query:`` and the n-gram."""
        return [f"{PREFIX}{term}" for term in self._columns]

    def transform(self, texts: Iterable[str]) -> Any:
        """Return the counts of known n-grams, one row per text, in float32."""
        terms, counts = count(check_texts(texts), self._range, frozenset())
        positions = np.array([self._columns.get(term, -1) for term in terms], dtype=np.int64)
        return sparse.csr_array(take_columns(counts, positions, len(self._columns)), dtype="f4")

    def tensors(self) -> Tensors:
        """Return the n-grams as arrays."""
        if not self._columns:
            return {}
        packed, offsets = vocabulary.pack(list(self._columns))
        return {"query_words": packed, "query_word_offsets": offsets}

    def restore(self, tensors: Tensors) -> None:
        """Restore what `tensors` returned."""
        names = ("query_words", "query_word_offsets")
        if not any(name in tensors for name in names):
            self._columns = {}
            return
        missing = [name for name in names if name not in tensors]
        if missing:
            raise ModelFileError(f"text features need `{missing[0]}`, and it is missing.")
        terms = vocabulary.unpack(*(tensors[name] for name in names))
        self._columns = {term: at for at, term in enumerate(terms)}
