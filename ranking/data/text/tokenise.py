"""Tokenise texts; parse the parameters of n-grams and stop words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Any

from ranking.errors import DataError, PartError

# \w matches what str.isalnum accepts, and the underscore, by Python's own tables; so NUL, lone
# surrogates, marks and symbols all separate words.
WORD = re.compile(r"[^\W_]+")
NGRAMS = re.compile(r"([1-9]\d?)(?:-([1-9]\d?))?")


def words(text: str) -> list[str]:
    """Return the words of a text: lower case, runs of letters and digits.

    Text beyond ASCII is normalised to Unicode's composed form (NFC), so that composed and
    decomposed accents give the same word.

    Examples
    --------
    >>> words("The Café_au-lait, 2nd cup!")
    ['the', 'café', 'au', 'lait', '2nd', 'cup']
    """
    lower = text.lower()
    if not lower.isascii():
        lower = unicodedata.normalize("NFC", lower)
    return WORD.findall(lower)


def ngram_range(ngrams: int | str) -> tuple[int, int]:
    """Parse ``2`` (pairs of words) or ``"1-2"`` (words and pairs) as the shortest and longest."""
    match = NGRAMS.fullmatch(str(ngrams))
    shortest, longest = (int(match[1]), int(match[2] or match[1])) if match else (0, -1)
    if isinstance(ngrams, bool) or shortest > longest:
        raise PartError(
            f"text has ngrams={ngrams!r}; write 1 for words, 2 for pairs of words, or 1-2 for both."
        )
    return shortest, longest


def stop_list(name: str | None) -> frozenset[str]:
    """Return a list of stop words by its name; the only one is ``english``, scikit-learn's."""
    if name is None:
        return frozenset()
    if name != "english":
        raise PartError(f"text has stop_words={name!r}; it must be english or none.")
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return frozenset(ENGLISH_STOP_WORDS)


def check_texts(texts: Iterable[Any]) -> Iterable[str]:
    """Yield the texts, and raise `DataError` for anything else."""
    if isinstance(texts, str | bytes):
        raise DataError(
            f"texts are one {type(texts).__name__}, and must be a sequence of str; "
            "put a single text into a list."
        )
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise DataError(
                f"text {row} (from 0) is of type {type(text).__name__}, and must be str; "
                "decode bytes, and write '' where a text is missing."
            )
        yield text
