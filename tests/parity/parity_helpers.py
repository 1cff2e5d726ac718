"""Comparison of kernels bit by bit, and inputs that several families share."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ranking.kernels.kernel import Kernel
from ranking.kernels.sampling import PositiveLists

THREADS = (1, 2, 5)
KINDS = [(data, index) for data in ("float32", "float64") for index in ("int32", "int64")]
"""Dtypes of sparse features: data, and indices."""

EXAMPLES = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
SEEDS = st.integers(0, 2**20)
Outcome = Mapping[str, Any] | Sequence[Any]


def bits(array: Any) -> tuple[str, tuple[int, ...], bytes]:
    """Return dtype, shape and bits; all NaNs are equal, as no operation fixes their bits."""
    array = np.asarray(array)
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), np.nan, array).astype(array.dtype)
    return str(array.dtype), array.shape, array.tobytes()


def differences(outcome: Outcome, expected: Outcome) -> list[Any]:
    """Return the names (or positions) of the arrays that differ."""
    if not isinstance(outcome, Mapping) or not isinstance(expected, Mapping):
        outcome, expected = dict(enumerate(outcome)), dict(enumerate(expected))
    assert outcome.keys() == expected.keys()
    return [name for name in expected if bits(outcome[name]) != bits(expected[name])]


@dataclasses.dataclass(frozen=True)
class Same:
    """Compare all bits of a kernel with the reference, for several numbers of threads."""

    kernel: Kernel
    reference: Kernel

    def __call__(self, run: Callable[[Kernel, int], Outcome]) -> Outcome:
        """Run on both kernels; return the outcome."""
        expected = run(self.reference, 1)
        for threads in THREADS:
            assert differences(run(self.kernel, threads), expected) == [], threads
        return expected

    def orders(self) -> list[tuple[Kernel, Kernel]]:
        """Return kernels for the first and the second half of a training that is resumed."""
        one, two = self.kernel, self.reference
        return [(one, one), (one, two), (two, one)]


def refuses(message: str) -> Any:
    """Expect a ValueError with a message, or a TypeError if the message begins with that word."""
    error = TypeError if message.startswith("TypeError: ") else ValueError
    return pytest.raises(error, match=message.removeprefix("TypeError: "))


def csr(dense: NDArray[Any], kind: tuple[str, str]) -> sp.csr_array:
    """Return a CSR matrix of these dtypes."""
    matrix = sp.csr_array(dense.astype(kind[0]))
    matrix.indptr, matrix.indices = matrix.indptr.astype(kind[1]), matrix.indices.astype(kind[1])
    return matrix


def singles(rng: np.random.Generator, *shape: int) -> NDArray[np.float32]:
    """Return normal numbers in float32."""
    return rng.normal(size=shape).astype(np.float32)


def make_positive_lists(
    seed: int,
    n_queries: int = 15,
    n_documents: int = 40,
    *,
    labels: bool = False,
    own: bool = False,
    counts: bool = False,
    weights: bool = False,
    any_negative: bool = False,
) -> PositiveLists:
    """Return one list per query, or with `labels` four lists that queries share.

    With `own`, every other query has a member of its list that is never sampled for it; with
    `counts`, that member counts 0.
    """
    rng = np.random.default_rng(seed)
    list_of = np.arange(n_queries)
    if labels:
        label = rng.permutation(np.arange(n_documents) % 4)
        lists = [np.flatnonzero(label == one) for one in range(4)]
        list_of = rng.integers(0, 4, n_queries)
    else:
        sizes = rng.integers(2, n_documents - 1, n_queries)
        lists = [np.sort(rng.permutation(n_documents)[:size]) for size in sizes]
    first = np.array([members[0] for members in lists])[list_of]
    own_document = np.where(own & (np.arange(n_queries) % 2 == 1), first, -1)
    count = [
        rng.integers(0, 4, members.size) * (np.arange(members.size) > 0 if own else 1)
        + (np.arange(members.size) == 1)
        for members in lists
    ]
    totals = np.array([each.sum() for each in count])
    size = sum(members.size for members in lists)
    empty = np.zeros(0, np.int64)
    return PositiveLists(
        queries=np.arange(n_queries),
        list_of=list_of,
        member_ptr=np.concatenate(([0], np.cumsum([members.size for members in lists]))),
        members=np.concatenate(lists),
        own_document=own_document,
        n_documents=n_documents,
        query_sums=np.cumsum(totals[list_of]) if counts else empty,
        member_sums=np.concatenate([np.cumsum(each) for each in count]) if counts else empty,
        member_weights=(rng.random(size) + 0.5).astype(np.float32)[: size * weights],
        any_negative=any_negative,
    )
