"""The layout of judged lists."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranking.kernels.contract import BLOCK
from ranking.kernels.domination import LayeredLists


def test_rows_are_sorted_by_layer_and_padded() -> None:
    lists = LayeredLists.build(
        np.array([0, 3]), np.array([1.0, 0.0, 1.0]), np.array([2.0, 9.0, 4.0]), pad=4
    )
    assert lists.source.tolist() == [1, -1, -1, -1, 0, 2, -1, -1]
    assert lists.layer_ptr.tolist() == [0, 4, 8]
    assert lists.layer_size.tolist() == [1, 2]
    assert lists.list_ptr.tolist() == [0, 2]
    assert lists.omega.tolist() == [0.0, 0.0, 0.0, 0.0, 2.0, 4.0, 0.0, 0.0]
    assert lists.take(np.array([5.0, 6.0, 7.0])).tolist() == [6, 0, 0, 0, 5, 7, 0, 0]


def test_groups_with_one_grade_or_no_row_are_left_out() -> None:
    lists = LayeredLists.build(
        np.array([0, 2, 2, 4, 5]), np.array([1.0, 1, 0, 3, 2]), np.ones(5), pad=1
    )
    assert lists.n_lists == 1
    assert lists.source.tolist() == [2, 3]


@pytest.mark.parametrize("group_ptr", [[0], [0, 0], [0, 1]])
def test_nothing_to_order(group_ptr: list[int]) -> None:
    rows = group_ptr[-1]
    lists = LayeredLists.build(np.array(group_ptr), np.zeros(rows), np.ones(rows), pad=4)
    assert lists.n_lists == lists.n_rows == 0
    assert lists.list_ptr.tolist() == lists.layer_ptr.tolist() == lists.block_ptr.tolist() == [0]


@given(
    sizes=st.lists(st.integers(0, 3 * BLOCK // 2), max_size=6),
    grades=st.integers(1, 5),
    pad=st.sampled_from([1, 4]),
    seed=st.integers(0, 2**32),
)
def test_layout_holds_together(sizes: list[int], grades: int, pad: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    group_ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    rows = int(group_ptr[-1])
    grade, omega = rng.integers(0, grades, rows).astype(np.float64), rng.random(rows)
    lists = LayeredLists.build(group_ptr, grade, omega, pad=pad)

    group = np.repeat(np.arange(len(sizes)), sizes)
    ordered = {q for q in range(len(sizes)) if np.unique(grade[group == q]).size > 1}
    assert sorted(lists.source[lists.source >= 0]) == [
        r for r in range(rows) if group[r] in ordered
    ]
    assert lists.n_lists == len(ordered)
    assert np.all(np.diff(lists.layer_ptr) % pad == 0)
    for q in range(lists.n_lists):
        layers = range(lists.list_ptr[q], lists.list_ptr[q + 1])
        below = -1.0
        for layer in layers:
            start, stop = lists.layer_ptr[layer], lists.layer_ptr[layer + 1]
            source = lists.source[start:stop]
            real = source[: lists.layer_size[layer]]
            assert np.all(np.diff(real) > 0)  # the order of the data within a layer
            assert np.all(source[real.size :] == -1)
            assert np.unique(grade[real]).size == 1
            assert grade[real[0]] > below
            below = grade[real[0]]
            weight = 0.0 if layer == layers[0] else omega[real]
            assert np.all(lists.omega[start : start + real.size] == weight)
            assert np.all(lists.omega[start + real.size : stop] == 0.0)
    starts = lists.layer_ptr[lists.list_ptr][lists.block_ptr]
    assert lists.block_ptr[0] == 0
    assert lists.block_ptr[-1] == lists.n_lists
    assert np.all(np.diff(starts)[:-1] >= BLOCK)
