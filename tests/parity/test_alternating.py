"""The half-steps of the alternating solver: every kernel has the bits of the reference."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ranking.kernels.alternating import AlternatingMatrix
from ranking.kernels.cython import instruction_sets, load_loops
from ranking.kernels.kernel import Kernel

THREADS = (1, 2, 3)
KINDS = [(data, index) for data in ("float32", "float64") for index in ("int32", "int64")]
EXAMPLES = settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.too_slow])
Outcome = tuple[NDArray[Any], ...]


@dataclasses.dataclass(frozen=True)
class Case:
    """M, vectors of its columns and what is done with them; hypothesis draws the fields."""

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
    def matched(self) -> AlternatingMatrix:
        """M with rows and columns that are empty, and one row that is full."""
        rng = np.random.default_rng(self.seed)
        dense = rng.normal(size=(self.rows, self.columns))
        dense *= rng.random(dense.shape) < self.density
        dense[2::5] = 0.0
        dense[3:4] = rng.normal(size=self.columns)
        dense[:, 1::4] = 0.0
        made = sp.csr_array(dense.astype(self.kind[0]))
        made.indptr = made.indptr.astype(self.kind[1])
        made.indices = made.indices.astype(self.kind[1])
        return AlternatingMatrix(made)

    @property
    def vectors(self) -> NDArray[np.float32]:
        rng = np.random.default_rng(self.seed + 1)
        made = rng.normal(size=(self.columns, self.width)).astype(np.float32)
        made[rng.random(made.shape) >= self.filled] = -0.0
        made[:, self.width - self.width // 9 :] = 0.0
        return made


def run(case: Case, kernel: Kernel, threads: int = 1) -> Outcome:
    out, gains = kernel.alternating.half_step(case.matched,
        case.vectors,
        threshold=case.threshold,
        limit=case.limit,
        threads=threads,
    )
    return np.asarray(out), gains


def run_sparse(case: Case, kernel: Kernel, threads: int = 1) -> Outcome:
    out, gains = kernel.alternating.half_step(case.matched,
        sp.csr_array(case.vectors),
        threshold=case.threshold,
        limit=case.limit,
        threads=threads,
    )
    assert isinstance(out, sp.csr_array)
    return out.indptr, out.indices, out.data, gains


def bits(outcome: Outcome) -> list[tuple[str, bytes]]:
    return [(str(array.dtype), array.tobytes()) for array in outcome]


def check(case: Case, kernel: Kernel, reference: Kernel) -> None:
    wanted, wanted_sparse = run(case, reference), run_sparse(case, reference)
    for threads in THREADS:
        assert bits(run(case, kernel, threads)) == bits(wanted), threads
        assert bits(run_sparse(case, kernel, threads)) == bits(wanted_sparse), threads


CASES = st.builds(
    Case,
    seed=st.integers(0, 2**20),
    rows=st.integers(1, 40),
    columns=st.integers(1, 30),
    density=st.sampled_from([0.0, 0.1, 0.6]),
    kind=st.sampled_from(KINDS),
    width=st.sampled_from([8, 16, 40, 104, 112, 120, 128, 232]),
    filled=st.sampled_from([0.0, 0.05, 0.4, 1.0]),
    threshold=st.sampled_from([0.0, 1e-3, 0.5, 2.0, 1e6]),
    limit=st.sampled_from([0.0, 1e-3, 1.0, 7.0]),
)


@EXAMPLES
@given(case=CASES)
def test_half_step(kernel: Kernel, reference: Kernel, case: Case) -> None:
    check(case, kernel, reference)


@pytest.mark.parametrize("width", [*range(8, 137, 8), 1000, 1024, 1136])
def test_every_width(kernel: Kernel, reference: Kernel, width: int) -> None:
    check(Case(width=width, filled=0.7), kernel, reference)


@pytest.mark.parametrize("limit", [0.0, 1.0])
@pytest.mark.parametrize("threshold", [0.0, 0.4, 1e6])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind(
    kernel: Kernel, reference: Kernel, kind: tuple[str, str], threshold: float, limit: float
) -> None:
    check(Case(kind=kind, width=104, threshold=threshold, limit=limit), kernel, reference)


@pytest.mark.parametrize("instructions", instruction_sets())
def test_every_instruction_set(instructions: str, reference: Kernel) -> None:
    kernel = Kernel("cython", load_loops(instructions), "0")
    for width in (8, 104, 232):
        check(Case(width=width), kernel, reference)


@pytest.mark.parametrize(("rows", "columns"), [(0, 5), (5, 0), (0, 0)])
def test_nothing(kernel: Kernel, reference: Kernel, rows: int, columns: int) -> None:
    matched = AlternatingMatrix(sp.csr_array((rows, columns), dtype=np.float32))
    dense = np.ones((columns, 8), np.float32)
    for vectors in (dense, sp.csr_array(dense)):
        for threads in THREADS:
            out, gains = kernel.alternating.half_step(matched, vectors, limit=1.0, threads=threads)
            assert out.shape == (rows, 8)
            assert not gains.any()


def test_many_rows(kernel: Kernel, reference: Kernel) -> None:
    # Some chunks for each thread, one of which has a single heavy row.
    check(Case(rows=700, columns=300, density=0.02, width=24), kernel, reference)


@pytest.mark.parametrize("scale", [1e-44, 1e-30, 1e-22, 1e18])
@pytest.mark.parametrize("limit", [0.0, 1e-50, 1e-20, 1.0])
def test_tiny_and_huge(kernel: Kernel, reference: Kernel, scale: float, limit: float) -> None:
    # Squares that are 0, or subnormal; rows that are, once scaled; limits that are no float32.
    case = Case(threshold=0.0, limit=limit)
    vectors = case.vectors * np.float32(scale)
    wanted = [np.asarray(part) for part in half_step(reference, case.matched, vectors, limit=limit)]
    for threads in THREADS:
        got = kernel.alternating.half_step(case.matched, vectors, limit=limit, threads=threads)
        assert bits((np.asarray(got[0]), got[1])) == bits(tuple(wanted))
        out, gains = kernel.alternating.half_step(case.matched, sp.csr_array(vectors), limit=limit, threads=threads
        )
        assert isinstance(out, sp.csr_array)
        assert np.array_equal(out.toarray(), wanted[0])
        assert gains.tobytes() == wanted[1].tobytes()


@EXAMPLES
@given(case=CASES)
def test_sparse_equals_dense(kernel: Kernel, case: Case) -> None:
    dense, gains = run(case, kernel)
    indptr, indices, values, sparse_gains = run_sparse(case, kernel)
    assert (values != 0.0).all()
    made = sp.csr_array((values, indices, indptr), shape=dense.shape)
    assert made.has_canonical_format
    assert np.array_equal(made.toarray(), dense)
    assert sparse_gains.tobytes() == gains.tobytes()
