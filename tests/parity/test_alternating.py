"""Half-steps of the alternating solver."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from parity_helpers import EXAMPLES, KINDS, SEEDS, THREADS, Outcome, Same, bits, csr

from ranking.kernels.alternating import AlternatingMatrix
from ranking.kernels.contract import SquaredRule
from ranking.kernels.kernel import Kernel

MORE_EXAMPLES = settings(EXAMPLES, max_examples=80)


@dataclasses.dataclass(frozen=True)
class Case:
    """M, embeddings of its columns, and the options of a half-step; hypothesis sets the fields."""

    seed: int = 0
    rows: int = 23
    columns: int = 17
    density: float = 0.3
    kind: tuple[str, str] = KINDS[0]
    width: int = 16
    filled: float = 0.5
    threshold: float = 0.3
    limit: float = 1.0

    @property
    def matrix(self) -> AlternatingMatrix:
        """M with rows and columns that are empty, and one row that is full."""
        rng = np.random.default_rng(self.seed)
        dense = rng.normal(size=(self.rows, self.columns))
        dense *= rng.random(dense.shape) < self.density
        dense[2::5] = 0.0
        dense[3:4] = rng.normal(size=self.columns)
        dense[:, 1::4] = 0.0
        return AlternatingMatrix(csr(dense, self.kind))

    @property
    def embeddings(self) -> NDArray[np.float32]:
        rng = np.random.default_rng(self.seed + 1)
        embeddings = rng.normal(size=(self.columns, self.width)).astype(np.float32)
        embeddings[rng.random(embeddings.shape) >= self.filled] = -0.0
        embeddings[:, self.width - self.width // 9 :] = 0.0
        return embeddings


def half_step(kernel: Kernel, case: Case, embeddings: Any, threads: int = 1) -> Outcome:
    out, gains = kernel.alternating.half_step(
        case.matrix, embeddings, threshold=case.threshold, limit=case.limit, threads=threads
    )
    if isinstance(out, sp.csr_array):
        return out.indptr, out.indices, out.data, gains
    return out, gains


def check(case: Case, same: Same) -> None:
    for embeddings in (case.embeddings, sp.csr_array(case.embeddings)):
        same(lambda k, threads, p=embeddings: half_step(k, case, p, threads))


CASES = st.builds(
    Case,
    seed=SEEDS,
    rows=st.integers(1, 40),
    columns=st.integers(1, 30),
    density=st.sampled_from([0.0, 0.1, 0.6]),
    kind=st.sampled_from(KINDS),
    width=st.sampled_from([8, 16, 40, 104, 112, 120, 128, 232]),
    filled=st.sampled_from([0.0, 0.05, 0.4, 1.0]),
    threshold=st.sampled_from([0.0, 1e-3, 0.5, 2.0, 1e6]),
    limit=st.sampled_from([0.0, 1e-3, 1.0, 7.0]),
)


@MORE_EXAMPLES
@given(case=CASES)
def test_half_step(same: Same, case: Case) -> None:
    check(case, same)


@pytest.mark.parametrize("width", [*range(8, 137, 8), 1000, 1024, 1136])
def test_every_width(same: Same, width: int) -> None:
    check(Case(width=width, filled=0.7), same)


@pytest.mark.parametrize("limit", [0.0, 1.0])
@pytest.mark.parametrize("threshold", [0.0, 0.4, 1e6])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind(same: Same, kind: tuple[str, str], threshold: float, limit: float) -> None:
    check(Case(kind=kind, width=104, threshold=threshold, limit=limit), same)


def test_every_build_of_cython(cython_build: Same) -> None:
    for width in (8, 104, 232):
        check(Case(width=width), cython_build)


@pytest.mark.parametrize(("rows", "columns"), [(0, 5), (5, 0), (0, 0)])
def test_empty_matrices(kernel: Kernel, rows: int, columns: int) -> None:
    matrix = AlternatingMatrix(sp.csr_array((rows, columns), dtype=np.float32))
    dense = np.ones((columns, 8), np.float32)
    for embeddings in (dense, sp.csr_array(dense)):
        for threads in THREADS:
            out, gains = kernel.alternating.half_step(
                matrix, embeddings, limit=1.0, threads=threads
            )
            assert out.shape == (rows, 8)
            assert not gains.any()


def test_many_rows(same: Same) -> None:
    # Some chunks for each thread, one of which has a single heavy row.
    check(Case(rows=700, columns=300, density=0.02, width=24), same)


@pytest.mark.parametrize("scale", [1e-44, 1e-30, 1e-22, 1e18])
@pytest.mark.parametrize("limit", [0.0, 1e-50, 1e-20, 1.0])
def test_tiny_and_huge(same: Same, scale: float, limit: float) -> None:
    # Squares that are 0, or subnormal; rows that are, once scaled; limits that are no float32.
    case = Case(threshold=0.0, limit=limit)
    embeddings = case.embeddings * np.float32(scale)
    dense, gains = same(lambda k, threads: half_step(k, case, embeddings, threads))
    for threads in THREADS:
        out, sparse_gains = same.kernel.alternating.half_step(
            case.matrix, sp.csr_array(embeddings), limit=limit, threads=threads
        )
        assert np.array_equal(out.toarray(), dense)
        assert bits(sparse_gains) == bits(gains)


@MORE_EXAMPLES
@given(case=CASES)
def test_sparse_equals_dense(kernel: Kernel, case: Case) -> None:
    dense, gains = half_step(kernel, case, case.embeddings)
    indptr, indices, data, sparse_gains = half_step(kernel, case, sp.csr_array(case.embeddings))
    assert (data != 0.0).all()
    sparse = sp.csr_array((data, indices, indptr), shape=dense.shape)
    assert sparse.has_canonical_format
    assert np.array_equal(sparse.toarray(), dense)
    assert bits(sparse_gains) == bits(gains)


def squared(kernel: Kernel, case: Case, rule: SquaredRule, threads: int) -> Outcome:
    others = case.embeddings
    gram = (others.T @ others).astype(np.float32)
    rng = np.random.default_rng(case.seed + 2)
    out = rng.normal(size=(case.rows, case.width)).astype(np.float32)
    ridges = rng.random(case.rows).astype(np.float32)
    gains = kernel.alternating.squared_half_step(
        case.matrix, others, gram, rule, ridges, out, threads
    )
    return out, gains


@MORE_EXAMPLES
@given(
    case=CASES,
    observed=st.sampled_from([0.0, 1.0, 40.0]),
    unobserved=st.sampled_from([0.0, 0.01, 1.0]),
    steps=st.sampled_from([0, 1, 3, 30]),
)
def test_squared_half_step(
    same: Same, case: Case, observed: float, unobserved: float, steps: int
) -> None:
    rule = SquaredRule(observed, unobserved, steps)
    same(lambda kernel, threads: squared(kernel, case, rule, threads))


@pytest.mark.parametrize("width", [*range(8, 137, 8), 256])
def test_squared_half_step_of_every_width(same: Same, width: int) -> None:
    case, rule = Case(width=width, filled=0.7), SquaredRule(1.0, 0.1, 3)
    same(lambda kernel, threads: squared(kernel, case, rule, threads))


def test_squared_half_step_of_every_build_of_cython(cython_build: Same) -> None:
    for width in (8, 104):
        case, rule = Case(width=width), SquaredRule(1.0, 0.1, 3)
        cython_build(lambda k, threads, case=case, rule=rule: squared(k, case, rule, threads))


def test_squared_half_step_refuses_other_shapes(kernel: Kernel) -> None:
    case = Case()
    others, out = case.embeddings, np.zeros((case.rows, case.width), np.float32)
    rule, ridges = SquaredRule(1.0, 0.1, 3), np.ones(case.rows, np.float32)
    for gram, mine in ((np.zeros((8, 8), np.float32), ridges), (others.T @ others, ridges[1:])):
        with pytest.raises(ValueError, match="expected shape"):
            kernel.alternating.squared_half_step(case.matrix, others, gram, rule, mine, out)
