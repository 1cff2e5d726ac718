"""Frequencies of sampled triplets, and validation of the positives they come from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from parity_helpers import refuses

from ranking.kernels.kernel import Kernel
from ranking.kernels.sampling import PositiveLists


def assert_sampled(sampled: NDArray[np.int64], chances: NDArray[np.float64]) -> None:
    """Assert frequencies that equal the chances up to five standard deviations."""
    frequencies = np.bincount(sampled, minlength=chances.size) / sampled.size
    deviations = np.sqrt(chances * (1.0 - chances) / sampled.size)
    assert np.all(np.abs(frequencies - chances) <= 5.0 * deviations)


def counted_lists(**more: Any) -> PositiveLists:
    """Two queries with lists of their own; the second skips document 5, which counts 0."""
    return PositiveLists(
        **(
            {
                "queries": np.array([0, 1]),
                "list_of": np.array([0, 1]),
                "member_ptr": np.array([0, 3, 6]),
                "members": np.array([0, 2, 4, 1, 2, 5]),
                "own_document": np.array([-1, 5]),
                "n_documents": 7,
            }
            | more
        )
    )


def test_members_are_sampled_by_their_counts(kernel: Kernel) -> None:
    lists = counted_lists(member_sums=np.array([2, 2, 5, 1, 8, 8]))
    sampled = kernel.sampling.sample_triplets(lists, 1, 0, 4000)
    assert_sampled(sampled[:, 0], np.array([0.5, 0.5]))
    for query, counts in ((0, [2, 0, 0, 0, 3, 0, 0]), (1, [0, 1, 7, 0, 0, 0, 0])):
        own = sampled[sampled[:, 0] == query]
        assert_sampled(own[:, 1], np.array(counts) / sum(counts))
        outside = np.ones(7)
        outside[[0, 2, 4] if query == 0 else [1, 2, 5]] = 0.0
        assert_sampled(own[:, 2], outside / outside.sum())


@pytest.mark.slow
@pytest.mark.parametrize("counted", [False, True])
def test_every_positive_is_sampled_once_per_pass_or_by_its_count(
    kernel: Kernel, counted: bool
) -> None:
    counts = {(0, 0): 2, (0, 4): 3, (1, 1): 1, (1, 2): 7} if counted else {}
    if counted:
        lists = counted_lists(
            query_sums=np.array([5, 13]), member_sums=np.array([2, 2, 5, 1, 8, 8])
        )
    else:
        lists = counted_lists(query_sums=np.array([3, 5]))
        counts = dict.fromkeys([(0, 0), (0, 2), (0, 4), (1, 1), (1, 2)], 1)
    total = sum(counts.values())
    passes = []
    for at in range(30):
        sampled = kernel.sampling.sample_triplets(lists, 5, at * total, total)
        pairs = [tuple(row) for row in sampled[:, :2].tolist()]
        assert {pair: pairs.count(pair) for pair in pairs} == counts
        passes.append(tuple(pairs))
    assert len(set(passes)) > 10, "passes have orders of their own"
    # Of the first of a pass, each has its share.
    firsts = kernel.sampling.sample_triplets(lists, 5, 0, 2000 * total)[::total, 0]
    assert_sampled(firsts, np.array([5.0, 8.0]) / 13.0 if counted else np.array([3.0, 2.0]) / 5.0)


def test_any_other_document_can_be_a_negative(kernel: Kernel) -> None:
    sampled = kernel.sampling.sample_triplets(counted_lists(any_negative=True), 1, 0, 6000, 2)
    for query, members in ((0, [0, 2, 4]), (1, [1, 2])):
        own = sampled[sampled[:, 0] == query]
        assert_sampled(own[:, 1], np.isin(np.arange(7), members) / len(members))
        for positive in members:
            others = np.ones(7)
            others[positive] = 0.0
            if query == 1:
                others[5] = 0.0  # itself
            assert_sampled(own[own[:, 1] == positive][:, 2:].ravel(), others / others.sum())


def test_several_positives_are_sampled_independently(kernel: Kernel) -> None:
    sampled = kernel.sampling.sample_triplets(
        counted_lists(), 1, 0, 5000, max_trials=1, n_positives=2
    )
    assert sampled.shape == (5000, 4)
    for query, members in ((0, [0, 2, 4]), (1, [1, 2])):
        own = sampled[sampled[:, 0] == query]
        pairs = np.searchsorted(members, own[:, 1]) * len(members)
        pairs += np.searchsorted(members, own[:, 2])
        assert_sampled(pairs, np.full(len(members) ** 2, 1.0 / len(members) ** 2))
        assert not np.isin(own[:, 3], members).any()


def test_invalid_lists() -> None:
    good = {
        "queries": np.array([0]),
        "list_of": np.array([0]),
        "member_ptr": np.array([0, 2]),
        "members": np.array([0, 1]),
        "own_document": np.array([0]),
        "n_documents": 3,
    }
    PositiveLists(**good)
    for change, message in (
        ({"own_document": np.array([2])}, "not in its own list"),
        ({"own_document": np.array([3])}, "position of a document"),
        ({"members": np.array([0, 3])}, "indices run from 0 to 3"),
        ({"members": np.array([1, 0])}, "not sorted"),
        ({"queries": np.array([1])}, "queries run from 1 to 1"),
        ({"list_of": np.array([1])}, "list_of run from 1 to 1"),
        ({"n_documents": 2}, "at least one positive and one negative"),
        (
            {"member_ptr": np.array([0, 0]), "members": np.zeros(0, np.int64)},
            "at least one positive",
        ),
        ({"query_sums": np.array([1, 2])}, "query_sums: expected shape"),
        ({"query_sums": np.array([2])}, "must rise by the number of positives"),
        ({"query_sums": np.array([2**32])}, "at most 4294967295"),
        ({"query_sums": np.array([-1])}, "must not fall"),
        ({"member_sums": np.array([0])}, "member_sums: expected shape"),
        ({"member_sums": np.array([1, 2])}, "own document must have the count 0"),
        ({"member_sums": np.array([0, 0])}, "are all 0"),
        ({"member_sums": np.array([0, -1])}, "must not fall"),
        ({"member_weights": np.ones(1, np.float32)}, "member_weights: expected shape"),
        ({"member_weights": np.array([1, np.nan], np.float32)}, "member_weights must be finite"),
        ({"any_negative": True, "n_documents": 2}, "at least one positive and one negative"),
    ):
        with refuses(message):
            PositiveLists(**{**good, **change})
