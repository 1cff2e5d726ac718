"""The choice of terms, and the arrays that store them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ranking.data.text.counts import count
from ranking.data.text.vocabulary import most_frequent, pack, unpack
from ranking.errors import ModelFileError

TEXTS = st.lists(st.lists(st.sampled_from("abcdefg"), max_size=8).map(" ".join), max_size=6)


@settings(deadline=None)
@given(TEXTS, st.none() | st.integers(1, 8), st.integers(1, 4), st.integers(1, 4))
def test_most_frequent_terms_match_a_sort(texts, n, min_count, min_documents):
    occurrences = Counter(word for text in texts for word in text.split())
    documents = Counter(word for text in texts for word in set(text.split()))
    allowed = [w for w in occurrences if occurrences[w] >= min_count]
    allowed = [w for w in allowed if documents[w] >= min_documents]
    expected = sorted(sorted(allowed, key=lambda w: (-occurrences[w], w))[:n])
    terms, counts = count(texts, (1, 1), frozenset())
    places = most_frequent(terms, counts, n, min_count, min_documents)
    assert [terms[place] for place in places] == expected


def test_ties_are_broken_by_term():
    terms, counts = count(["z y x z", "w"], (1, 1), frozenset())
    assert [terms[place] for place in most_frequent(terms, counts, 2, 1, 1)] == ["w", "z"]


@settings(deadline=None)
@given(st.sets(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1))
def test_pack_round_trips(terms):
    ordered = sorted(terms)
    assert unpack(*pack(ordered)) == ordered


DATA, OFFSETS = pack(["a", "bé", "c d"])


@pytest.mark.parametrize(
    ("data", "offsets", "message"),
    [
        (DATA.astype(np.int8), OFFSETS, "a vector of uint8"),
        (DATA[None], OFFSETS, "a vector of uint8"),
        (DATA, OFFSETS.astype(np.int32), "one of int64"),
        (DATA, OFFSETS[None], "one of int64"),
        (DATA, OFFSETS[:-1], "from 0 to the 7 bytes"),
        (DATA[:-1], OFFSETS, "from 0 to the 6 bytes"),
        (DATA, OFFSETS + 1, "from 0 to the 7 bytes"),
        (DATA[:0], OFFSETS[:1], "from 0 to the 0 bytes"),
        (DATA[:0], OFFSETS[:0], "from 0 to the 0 bytes"),
        (DATA, np.array([0, 4, 1, 7]), "must increase"),
        (DATA, np.array([0, -9, 4, 7]), "must increase"),
        (DATA, np.array([0, 2**62, 4, 7]), "must increase"),
        (DATA, np.array([0, 1, 1, 7]), "must increase"),
        (DATA, np.array([0, 1, 3, 7]), "must be UTF-8"),
        (np.array([97, 255], np.uint8), np.array([0, 1, 2]), "must be UTF-8"),
        (*pack(["b", "a"]), "must be sorted"),
        (*pack(["a", "a"]), "must be sorted"),
    ],
)
def test_invalid_vocabulary_raises(data, offsets, message):
    with pytest.raises(ModelFileError, match=message):
        unpack(data, offsets)
