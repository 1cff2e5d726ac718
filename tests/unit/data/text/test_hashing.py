"""The hash: its definition written out, published vectors of its two halves, fixed vectors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ranking.data.text import hashing
from ranking.data.text.hashing import columns_of, hash_terms, signs_of

VECTORS = Path(__file__).parents[3] / "vectors" / "text_hash.json"


def fnv1a(term: bytes) -> int:
    value = 0xCBF29CE484222325
    for byte in term:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def mixed(z: int) -> int:
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
    return z ^ z >> 31


def test_fnv_and_splitmix_match_published_values():
    # FNV-1a: the vectors of its authors. SplitMix64: the first number of seed 0.
    assert fnv1a(b"") == 0xCBF29CE484222325
    assert fnv1a(b"a") == 0xAF63DC4C8601EC8C
    assert fnv1a(b"foobar") == 0x85944171F73967E8
    assert mixed(0x9E3779B97F4A7C15) == 0xE220A8397B1DCDAF


@settings(deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=100)))
def test_hashes_follow_the_definition(terms):
    assert hash_terms(terms).tolist() == [mixed(fnv1a(term.encode())) for term in terms]


@pytest.mark.parametrize("extra", [-1, 0, 1, 1000])
def test_long_terms_are_hashed_whole(extra):
    long = "ab" * hashing.PREFIX_BYTES
    terms = ["x", long[: hashing.PREFIX_BYTES + extra], long * 10 + "z" * (extra + 1), "yy"]
    assert hash_terms(terms).tolist() == [mixed(fnv1a(term.encode())) for term in terms]


def test_hashes_match_the_test_vectors():
    vectors = json.loads(VECTORS.read_text())
    hashes = hash_terms([vector["term"] for vector in vectors])
    assert [f"{value:016x}" for value in hashes.tolist()] == [v["hash"] for v in vectors]
    assert columns_of(hashes, 1000).tolist() == [vector["column_of_1000"] for vector in vectors]
    assert signs_of(hashes).tolist() == [vector["sign"] for vector in vectors]


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**64 - 1)), st.integers(1, 2**31 - 1))
def test_columns_follow_the_order_of_hashes(values, n_columns):
    columns = columns_of(np.sort(np.array(values, dtype=np.uint64)), n_columns)
    assert (np.diff(columns) >= 0).all()
    assert ((columns >= 0) & (columns < n_columns)).all()
    assert columns.tolist() == [((value >> 32) * n_columns) >> 32 for value in sorted(values)]


def test_columns_and_signs_are_spread_evenly():
    hashes = hash_terms([f"w{number}" for number in range(64_000)])
    loads = np.bincount(columns_of(hashes, 64), minlength=64)
    assert abs(loads - 1000).max() < 6 * np.sqrt(1000)
    assert abs(signs_of(hashes).sum()) < 6 * np.sqrt(64_000)
    # Signs must not follow columns, or sums of a column would not cancel.
    signed = np.bincount(columns_of(hashes, 64), weights=signs_of(hashes), minlength=64)
    assert abs(signed).max() < 6 * np.sqrt(1000)
