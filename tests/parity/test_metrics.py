"""Ranks and measures of ranked lists."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parity_helpers import Same

from ranking.kernels.contract import MeasureKind
from ranking.kernels.kernel import Kernel
from ranking.kernels.metrics import RankedLists

MEASURES = np.array(
    [
        (kind, cutoff, gain, discount, shared, short)
        for kind, cutoff, gain, discount, shared, short in itertools.product(
            MeasureKind, (0, 1, 5, 1000), (0, 1), (0, 1), (0, 1), (0, 1)
        )
        if cutoff or kind not in (MeasureKind.PRECISION, MeasureKind.RECALL)
    ],
    dtype=np.int64,
)


def make_lists(
    seed: int,
    sizes: list[int],
    levels: int,
    scores: int,
    kernel: Kernel,
    lowest: float = -0.5,
    step: float = 0.5,
) -> RankedLists:
    rng = np.random.default_rng(seed)
    group_ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    missing = rng.integers(0, 4, size=len(sizes))
    unretrieved_ptr = np.concatenate([[0], np.cumsum(missing)]).astype(np.int64)
    rows, unretrieved = int(group_ptr[-1]), int(unretrieved_ptr[-1])
    order, tied = kernel.metrics.rank_lists(
        group_ptr, rng.integers(0, scores, rows).astype(np.float64)
    )
    return RankedLists(
        group_ptr=group_ptr,
        grades=lowest + step * rng.integers(0, levels + 1, rows),
        order=order,
        tied=tied,
        unretrieved_ptr=unretrieved_ptr,
        unretrieved_grades=lowest + step * rng.integers(0, levels + 1, unretrieved),
        gains=rng.random((1, rows)) * (rng.random((1, rows)) < 0.7),
        unretrieved_gains=rng.random((1, unretrieved)),
        discounts=rng.random((2, max(sizes, default=0) + 4)),
    )


@settings(deadline=None)
@given(
    st.lists(
        st.floats(width=32, allow_nan=False) | st.sampled_from([0.0, -0.0, 1.0]), max_size=200
    ),
    st.sampled_from(["float32", "float64"]),
    st.integers(0, 200),
)
def test_rank_lists(same: Same, scores, dtype, cut) -> None:
    values = np.array(scores, dtype=dtype)
    group_ptr = np.array([0, min(cut, values.size), min(cut, values.size), values.size])
    same(lambda k, threads: k.metrics.rank_lists(group_ptr, values, threads))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [47, 48, 49, 3000, 4095, 4096])
def test_rank_lists_of_every_size(same: Same, size: int, dtype: str) -> None:
    rng = np.random.default_rng(size)
    for values in (rng.normal(size=size), np.zeros(size), rng.integers(0, 3, size)):
        scores = np.concatenate([values, -values]).astype(dtype)
        group_ptr = np.array([0, size, 2 * size])
        same(lambda k, threads, x=scores, p=group_ptr: k.metrics.rank_lists(p, x, threads))


SCORES = (1, 3, 10**6)
LEVELS = (1, 4, 7, 8, 100)
GRADES = ((-0.5, 0.5), (-2.0, 1.0), (1.25, 1.0))
"""The lowest grade and the step between grades."""


@pytest.mark.parametrize(
    ("levels", "scores", "grades"),
    # Every pair of two of the three.
    [(n, m, GRADES[(i + j) % 3]) for i, n in enumerate(LEVELS) for j, m in enumerate(SCORES)],
)
def test_ranked_metrics(same: Same, levels: int, scores: int, grades: tuple[float, float]) -> None:
    lowest, step = grades
    sizes = [0, 1, 2, 7, 0, 49, 3, 130, 1, 1, 20]
    lists = make_lists(levels + scores, sizes, levels, scores, same.reference, lowest, step)
    (values,) = same(lambda k, threads: [k.metrics.ranked_metrics(lists, MEASURES, threads)])
    if lowest < 1.0 <= lowest + step * levels:
        assert np.isfinite(values).any(axis=0).all()


def test_nothing_to_rank(kernel: Kernel) -> None:
    lists = make_lists(0, [], 3, 3, kernel)
    assert kernel.metrics.ranked_metrics(lists, MEASURES).shape == (0, MEASURES.shape[0])
    assert kernel.metrics.ranked_metrics(make_lists(0, [3], 3, 3, kernel), MEASURES[:0]).shape == (
        1,
        0,
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"order": np.array([0, 1, 3])}, "order must hold rows"),
        ({"order": np.array([0, 1, -1])}, "order must hold rows"),
        ({"order": np.array([0, 1])}, "order: expected shape"),
        ({"tied": np.zeros(2, np.uint8)}, "tied: expected shape"),
        ({"group_ptr": np.array([0, 4])}, "group_ptr must rise"),
        ({"grades": np.array([0.0, np.nan, 1.0])}, "grades must be finite"),
        ({"discounts": np.ones((2, 2))}, "discounts has 2 ranks"),
        ({"gains": np.ones((1, 2))}, "gains: expected shape"),
    ],
)
def test_lists_that_do_not_fit_are_refused(kernel: Kernel, change, message) -> None:
    lists = dataclasses.replace(make_lists(0, [3], 3, 3, kernel), **change)
    with pytest.raises(ValueError, match=message):
        kernel.metrics.ranked_metrics(lists, MEASURES)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ((12, 0, 0, 0, 0, 0), "kind must lie in 0..11"),
        ((0, -1, 0, 0, 0, 0), "cutoff must lie"),
        ((0, 0, 2, 0, 0, 0), "gain must lie in 0..1"),
        ((0, 0, 0, 2, 0, 0), "discount must lie in 0..1"),
        ((3, 0, 0, 0, 0, 0), "precision and recall need a cutoff"),
    ],
)
def test_measures_that_mean_nothing_are_refused(kernel: Kernel, row, message) -> None:
    with pytest.raises(ValueError, match=message):
        kernel.metrics.ranked_metrics(make_lists(0, [3], 3, 3, kernel), np.array([row]))


def test_nan_has_no_rank(kernel: Kernel) -> None:
    with pytest.raises(ValueError, match="must not be NaN"):
        kernel.metrics.rank_lists(np.array([0, 1]), np.array([np.nan]))
