"""Ids in files: there and back, and nothing damaged comes back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranking.data.ids import pack_ids, unpack_ids
from ranking.errors import ModelFileError

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"))


@given(st.lists(st.integers(-(2**63), 2**63 - 1), unique=True))
def test_integer_ids_round_trip(numbers):
    ids = np.array(numbers, dtype=np.int64)
    packed = pack_ids("ids", ids)
    assert set(packed) == {"ids"}
    back = unpack_ids("ids", packed)
    assert back.dtype == np.int64
    assert back.tolist() == numbers


@given(st.lists(TEXT, min_size=1, unique=True))
def test_text_ids_round_trip(texts):
    ids = np.array(texts)
    packed = pack_ids("ids", ids)
    assert {name: array.dtype.name for name, array in packed.items()} == {
        "ids.text": "uint8",
        "ids.offsets": "int64",
    }
    back = unpack_ids("ids", packed)
    assert back.dtype.kind == "U"
    assert back.tolist() == texts


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"ids": np.array([1, 2], np.int32)}, "`ids` must be a vector of int64"),
        ({"ids": np.array([1.0])}, "vector of int64"),
        ({"ids": np.zeros((2, 2), np.int64)}, "vector of int64"),
        ({"ids": np.array(3)}, "vector of int64"),
        ({"ids": np.array([4, 5, 4])}, "each id once"),
        ({}, "`ids` is missing"),
        ({"ids.text": b"abc"}, "`ids` is missing"),
        ({"ids.offsets": [0, 1]}, "`ids` is missing"),
        ({"ids.text": b"abab", "ids.offsets": [0, 2, 4]}, "each id once"),
        ({"ids.text": np.zeros((1, 1), np.uint8), "ids.offsets": [0, 1]}, "vector of uint8"),
        ({"ids.text": np.array([97]), "ids.offsets": [0, 1]}, "vector of uint8"),
        ({"ids.text": b"ab", "ids.offsets": [0]}, "two or more"),
        ({"ids.text": b"ab", "ids.offsets": []}, "two or more"),
        ({"ids.text": b"ab", "ids.offsets": np.array([0.0, 2.0])}, "vector of int64"),
        ({"ids.text": b"ab", "ids.offsets": [[0, 2]]}, "vector of int64"),
        ({"ids.text": b"ab", "ids.offsets": [1, 2]}, "rise from 0 to the 2 bytes"),
        ({"ids.text": b"ab", "ids.offsets": [0, 1]}, "rise from 0"),
        ({"ids.text": b"ab", "ids.offsets": [0, 3]}, "rise from 0"),
        ({"ids.text": b"ab", "ids.offsets": [0, 2, 1, 2]}, "rise from 0"),
        ({"ids.text": b"\xff\xfe", "ids.offsets": [0, 2]}, "UTF-8"),
        ({"ids.text": "é".encode(), "ids.offsets": [0, 1, 2]}, "UTF-8"),
        ({"ids.text": b"a\x00a", "ids.offsets": [0, 2, 3]}, "each id once"),
    ],
)
def test_damaged_ids_raise(changed, problem):
    tensors = {}
    for name, value in changed.items():
        if isinstance(value, bytes):
            value = np.frombuffer(value, np.uint8)
        elif not isinstance(value, np.ndarray):
            value = np.array(value, np.int64)
        tensors[name] = value
    with pytest.raises(ModelFileError, match=problem):
        unpack_ids("ids", tensors)


def test_unpacked_ids_are_a_copy():
    numbers = np.array([3, 1])
    back = unpack_ids("ids", {"ids": numbers})
    numbers[0] = 9
    assert back.tolist() == [3, 1]
