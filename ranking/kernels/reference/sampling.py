"""Reference of the sampling family: triplets by counter."""

from __future__ import annotations

import numpy as np

from ranking.kernels.contract import Ints, Positives, Sampling
from ranking.kernels.reference.random import random_below, random_bits


def _below(key: int, number: int, bound: int) -> int:
    value = np.empty(1, dtype=np.int64)
    random_below(key, number, bound, value)
    return int(value[0])


def _bits(seed: int, number: int) -> int:
    bits = np.empty(1, dtype=np.uint64)
    random_bits(seed, number, bits)
    return int(bits[0])


def permuted(seed: int, step: int, size: int) -> int:
    """Return the number of a step: every pass over 0..size - 1 is a permutation of its own.

    A Feistel network of four rounds permutes the numbers of 2 h bits, h the smallest with
    2**(2 h) >= size; a number that is too large is sent through again.
    """
    key, number = _bits(seed, step // size), step % size
    half = max(1, -(-(size - 1).bit_length() // 2))
    mask = (1 << half) - 1
    while True:
        high, low = number >> half, number & mask
        for stage in range(4):
            high, low = low, high ^ (_bits(key, stage << 32 | low) >> 32 & mask)
        number = high << half | low
        if number < size:
            return number


def sample_triplets(sampling: Sampling, n_positives: int, out: Ints) -> None:
    """Sample a query, one or more of its positives, and negatives."""
    lists = sampling.positives
    keys = np.empty(out.shape[0], dtype=np.uint64)
    random_bits(sampling.seed, sampling.first, keys)
    for step, key in enumerate(keys.tolist()):
        excess = -1
        if lists.query_sums.size:
            number = permuted(sampling.seed, sampling.first + step, int(lists.query_sums[-1]))
            at = int(np.searchsorted(lists.query_sums, number, side="right"))
            excess = number - (int(lists.query_sums[at - 1]) if at else 0)
        else:
            at = _below(key, 0, lists.queries.size)
        out[step, 0] = query = int(lists.queries[at])
        for k in range(1, 1 + n_positives):
            out[step, k] = _positive(lists, query, key, k, excess if k == 1 else -1)
        excluded = _excluded(lists, query, int(out[step, 1]))
        # excluded[k] - k documents before excluded[k] are free, so the u-th free one is u + k.
        free_before = excluded - np.arange(excluded.size)
        for k in range(1 + n_positives, out.shape[1]):
            u = _below(key, k, lists.n_documents - excluded.size)
            out[step, k] = u + int(np.searchsorted(free_before, u, side="right"))


def _members(lists: Positives, query: int) -> slice:
    own = lists.list_of[query]
    return slice(int(lists.member_ptr[own]), int(lists.member_ptr[own + 1]))


def _positive(lists: Positives, query: int, key: int, k: int, number: int) -> int:
    """Return positive k of a step, by the number of the pass if that is not negative."""
    part = _members(lists, query)
    members, own = lists.members[part], int(lists.own_document[query])
    if number < 0:
        sums = lists.member_sums
        bound = int(sums[part][-1]) if sums.size else members.size - (own >= 0)
        number = _below(key, k, bound)
    if lists.member_sums.size:
        number = int(np.searchsorted(lists.member_sums[part], number, side="right"))
    elif own >= 0 and number >= int(np.searchsorted(members, own)):
        number += 1
    return int(members[number])


def _excluded(lists: Positives, query: int, positive: int) -> Ints:
    """Return the documents that are never negatives: all positives, or the sampled one."""
    if not lists.any_negative:
        return lists.members[_members(lists, query)]
    own = int(lists.own_document[query])
    return np.unique([document for document in (own, positive) if document >= 0])
