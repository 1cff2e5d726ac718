"""The words of a text: a stated rule, and a slow one written from its statement."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ranking.data.text.tokenise import check_texts, ngram_range, stop_list, words
from ranking.errors import DataError, PartError


def slow_words(text: str) -> list[str]:
    composed = unicodedata.normalize("NFC", text.lower())
    return "".join(c if c.isalnum() else " " for c in composed).split(" ")


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=())))
def test_words_are_runs_of_letters_and_digits(text):
    result = words(text)
    assert result == [word for word in slow_words(text) if word]
    "".join(result).encode()  # no surrogate without a partner is left


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n\t", []),
        ("snake_case, 3rd e-mail!", ["snake", "case", "3rd", "e", "mail"]),
        ("nul\0nul", ["nul", "nul"]),
        ("half\ud800pair", ["half", "pair"]),
        ("STRASSE Straße", ["strasse", "straße"]),
        ("Cafe\u0301", ["café"]),
        ("東京 x²", ["東京", "x²"]),
    ],
)
def test_words_of(text, expected):
    assert words(text) == expected


@pytest.mark.parametrize(
    ("ngrams", "expected"), [(1, (1, 1)), ("1", (1, 1)), (2, (2, 2)), ("1-3", (1, 3))]
)
def test_ngram_ranges_are_parsed(ngrams, expected):
    assert ngram_range(ngrams) == expected


@pytest.mark.parametrize("ngrams", [0, -1, True, 1.5, "2-1", "0-1", "1-", "1,2", "x", None])
def test_invalid_ngrams_raise(ngrams):
    with pytest.raises(PartError, match="1-2 for both"):
        ngram_range(ngrams)


def test_stop_words_by_name():
    assert stop_list(None) == frozenset()
    assert {"the", "of"} <= stop_list("english")
    with pytest.raises(PartError, match="stop_words='french'"):
        stop_list("french")


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("one text", "texts are one str"),
        (b"one text", "texts are one bytes"),
        (["a", None], r"text 1 \(from 0\) is of type NoneType"),
        (["a", "b", b"c"], r"text 2 \(from 0\) is of type bytes"),
        ([float("nan")], r"text 0 \(from 0\) is of type float"),
    ],
)
def test_other_types_than_text_raise(texts, message):
    with pytest.raises(DataError, match=message):
        list(check_texts(texts))
