"""Sampling of triplets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from parity_helpers import EXAMPLES, Same, bits, make_positive_lists

from ranking.kernels.kernel import Kernel


@EXAMPLES
@given(
    seed=st.integers(0, 2**64 - 1),
    first=st.integers(0, 2**63),
    options=st.fixed_dictionaries(
        {name: st.booleans() for name in ("labels", "own", "counts", "any_negative")}
    ),
    max_trials=st.sampled_from([1, 2, 7]),
    n_positives=st.sampled_from([1, 1, 3]),
)
def test_sample_triplets(same: Same, seed, first, options, max_trials, n_positives) -> None:
    lists = make_positive_lists(seed % 1000, **options)
    steps = (lists, seed, first, 50, max_trials, n_positives)
    triplets = same.kernel.sampling.sample_triplets(*steps)
    assert bits(triplets) == bits(same.reference.sampling.sample_triplets(*steps))


def test_sampling_can_be_resumed(kernel: Kernel) -> None:
    lists, sample = make_positive_lists(0, labels=True, own=True), kernel.sampling.sample_triplets
    parts = [sample(lists, 3, 0, 7, 2), sample(lists, 3, 7, 13, 2)]
    assert np.array_equal(sample(lists, 3, 0, 20, 2), np.concatenate(parts))
    assert sample(lists, 3, 0, 0).shape == (0, 3)


@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize("any_negative", [False, True])
def test_triplets_are_positives_and_negatives(
    kernel: Kernel, counts: bool, any_negative: bool
) -> None:
    lists = make_positive_lists(1, own=True, counts=counts, any_negative=any_negative)
    for query, positive, negative in kernel.sampling.sample_triplets(lists, 5, 0, 500).tolist():
        members = lists.members[lists.member_ptr[query] : lists.member_ptr[query + 1]]
        assert positive in members
        assert lists.own_document[query] not in (positive, negative)
        assert negative != positive if any_negative else negative not in members
