"""Columns of item-item weights."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from parity_helpers import EXAMPLES, KINDS, SEEDS, Outcome, Same, csr

from ranking.kernels.contract import ItemRule
from ranking.kernels.item_item import GramMatrix
from ranking.kernels.kernel import Kernel


@dataclasses.dataclass(frozen=True)
class Case:
    """Interactions, candidates with weights, and a rule; hypothesis sets the fields."""

    seed: int = 0
    users: int = 30
    items: int = 25
    density: float = 0.3
    kind: tuple[str, str] = KINDS[0]
    candidates: float = 0.7
    l1: float = 0.5
    l2: float = 0.5
    nonnegative: bool = False
    tolerance: float = 1e-6
    sweeps: int = 30

    @property
    def gram(self) -> GramMatrix:
        """A Gram matrix with an item without users."""
        rng = np.random.default_rng(self.seed)
        clicks = rng.random((self.users, self.items)) * (
            rng.random((self.users, self.items)) < self.density
        )
        clicks[:, self.items // 2] = 0.0
        return GramMatrix(csr(clicks.T @ clicks, self.kind))

    @property
    def starts(self) -> sp.csr_array:
        """Candidates, most of them with weight 0."""
        rng = np.random.default_rng(self.seed + 1)
        pattern = sp.csr_array(rng.random((self.items, self.items)) < self.candidates)
        values = rng.normal(size=pattern.nnz) * (rng.random(pattern.nnz) < 0.2)
        index = self.kind[1]
        parts = (values, pattern.indices.astype(index), pattern.indptr.astype(index))
        return sp.csr_array(parts, shape=pattern.shape)

    @property
    def rule(self) -> ItemRule:
        return ItemRule(self.l1, self.l2, self.nonnegative, self.tolerance, self.sweeps)


def columns(kernel: Kernel, case: Case, threads: int) -> Outcome:
    weights = case.starts
    result = kernel.item_item.columns(case.gram, weights, case.rule, threads)
    return weights.data, result.losses, result.sweeps


def check(case: Case, same: Same) -> Outcome:
    return same(lambda kernel, threads: columns(kernel, case, threads))


CASES = st.builds(
    Case,
    seed=SEEDS,
    users=st.integers(1, 40),
    items=st.integers(1, 50),
    density=st.sampled_from([0.0, 0.1, 0.6]),
    kind=st.sampled_from(KINDS),
    candidates=st.sampled_from([0.0, 0.2, 1.0]),
    l1=st.sampled_from([0.0, 0.3, 100.0]),
    l2=st.sampled_from([0.0, 0.3, 100.0]),
    nonnegative=st.booleans(),
    tolerance=st.sampled_from([0.0, 1e-8, 1e-2]),
    sweeps=st.sampled_from([1, 3, 20]),
)


@EXAMPLES
@given(case=CASES)
def test_columns(same: Same, case: Case) -> None:
    check(case, same)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind(same: Same, kind: tuple[str, str]) -> None:
    check(Case(kind=kind), same)


def test_every_build_of_cython(cython_build: Same) -> None:
    check(Case(items=70), cython_build)


def test_convergence_is_told(same: Same) -> None:
    assert isinstance(outcome := check(Case(sweeps=1), same), tuple)
    assert (np.asarray(outcome[2]) == -1).any()
    assert isinstance(outcome := check(Case(sweeps=500), same), tuple)
    assert (np.asarray(outcome[2]) > 0).all()


def test_no_items(kernel: Kernel) -> None:
    empty = sp.csr_array((0, 0), dtype=np.float64)
    result = kernel.item_item.columns(GramMatrix(empty), empty, Case().rule)
    assert not result.losses.size


def test_other_shapes_are_refused(kernel: Kernel) -> None:
    case = Case()
    with pytest.raises(ValueError, match="candidates of shape"):
        kernel.item_item.columns(case.gram, sp.csr_array((3, 3)), case.rule)
    with pytest.raises(ValueError, match="sweeps is 0"):
        kernel.item_item.columns(case.gram, case.starts, case.rule._replace(sweeps=0))
    with pytest.raises(ValueError, match="is square"):
        GramMatrix(sp.csr_array((3, 4)))
