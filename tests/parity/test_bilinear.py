"""Drawing tuples, stepping W and scoring: every kernel has the bits of the reference."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ranking.kernels.bilinear import BilinearInputs, BilinearWeights
from ranking.kernels.contract import (
    BUILTIN_FORMS,
    REBASE_WINDOW,
    SMALLEST_SCALE,
    Clock,
    PairwiseForm,
)
from ranking.kernels.kernel import Kernel
from ranking.kernels.sampling import PositiveLists

THREADS = (1, 2, 3)
EXAMPLES = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
Outcome = dict[str, NDArray[Any]]


# --- what is compared ---------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Case:
    """A small problem and a way through it; hypothesis draws its fields."""

    seed: int = 0
    rows: int = 9
    columns: int = 7
    density: float = 0.4
    storage: str = "float64"
    features: str = "float64"
    index: str = "int32"
    start: str = "random"
    clock_step: int = 0
    n_steps: int = 40
    form: PairwiseForm = PairwiseForm.HINGE
    every: int = 3
    l1: float = 0.0
    l2: float = 0.0
    rate: float = 0.5
    decay: float = 0.0
    grow: bool = True
    transposed: bool = False
    batch: int = 1
    trials: int = 1
    group_size: int = 0

    @property
    def objects(self) -> BilinearInputs:
        rng = np.random.default_rng(self.seed)
        shape = (self.columns, self.rows) if self.transposed else (self.rows, self.columns)
        made = []
        for n_objects, n_features in ((6, shape[0]), (8, shape[1])):
            dense = rng.integers(-3, 4, (n_objects, n_features)) / 4.0  # so that differences cancel
            dense[1::2] *= rng.random((n_objects, n_features))[1::2] + 0.5
            dense *= rng.random(dense.shape) < self.density
            dense[2] = 0.0  # an object without features
            made.append(csr(dense, self.features, self.index))
        return BilinearInputs(*made)

    @property
    def w0(self) -> sp.csr_array:
        rng = np.random.default_rng(self.seed + 1)
        dense = {
            "zero": np.zeros((self.rows, self.columns)),
            "identity": np.eye(self.rows, self.columns),
            "random": rng.normal(size=(self.rows, self.columns))
            * (rng.random((self.rows, self.columns)) < 0.5),
        }[self.start]
        return csr(dense, self.storage, self.index)

    @property
    def tuples(self) -> NDArray[np.int64]:
        rng = np.random.default_rng(self.seed + 2)
        tuples = rng.integers(0, 8, (self.n_steps, 2 + self.trials))
        tuples[:, 0] = rng.integers(0, 6, self.n_steps)  # d+ may be d-: nothing is left of delta
        return tuples

    @property
    def rates(self) -> NDArray[np.float64]:
        steps = np.arange(self.clock_step + 1, self.clock_step + self.n_steps + 1.0)
        rates = self.rate * steps**-self.decay
        rates[:: max(7, self.n_steps // 3)] = 0.0  # a step that does not move
        return rates

    @property
    def rank_weights(self) -> NDArray[np.float64]:
        return np.cumsum(1.0 / np.arange(1.0, 6.0)) if self.trials > 1 else np.array([1.0])

    def weights(self, kernel: Kernel) -> BilinearWeights:
        groups = group_weights = None
        if self.group_size:
            groups = np.arange(self.rows) // self.group_size
            groups = np.random.default_rng(self.seed).permutation(groups)
            group_weights = np.sqrt(np.bincount(groups) + 0.5)
        made = BilinearWeights(kernel, self.w0, groups, group_weights)
        if self.clock_step:
            state = made.state()
            state["clock"][Clock.STEP] = self.clock_step
            made = BilinearWeights.restore(kernel, self.columns, state)
        return made

    def go(self, made: BilinearWeights, part: slice, threads: int = 1) -> tuple[Any, Any]:
        return made.steps(
            self.objects,
            self.tuples[part],
            self.rates[part],
            form=self.form,
            rank_weights=self.rank_weights,
            every=self.every,
            l1=self.l1,
            l2=self.l2,
            grow=self.grow,
            transposed=self.transposed,
            batch=self.batch,
            threads=threads,
        )


def csr(dense: NDArray[Any], dtype: str, index: str) -> sp.csr_array:
    made = sp.csr_array(dense.astype(dtype))
    made.indptr, made.indices = made.indptr.astype(index), made.indices.astype(index)
    return made


def outcome(made: BilinearWeights) -> Outcome:
    """Return all that can be seen of W."""
    w = made.weights()
    return {
        "indptr now": w.indptr,
        "indices now": w.indices,
        "weights now": w.data,
        "n_nonzero": np.array([made.n_nonzero]),
        **made.state(),
    }


def run(case: Case, kernel: Kernel, threads: int = 1) -> Outcome:
    made = case.weights(kernel)
    margins, weights = case.go(made, slice(None), threads)
    return {"margins": margins, "violations": weights, **outcome(made)}


def differing(got: Outcome, wanted: Outcome) -> list[str]:
    assert got.keys() == wanted.keys()
    return [
        name
        for name in wanted
        if got[name].dtype != wanted[name].dtype or got[name].tobytes() != wanted[name].tobytes()
    ]


CASES = st.builds(
    Case,
    seed=st.integers(0, 2**20),
    rows=st.integers(1, 20),
    columns=st.integers(1, 40),
    density=st.sampled_from([0.1, 0.5, 1.0]),
    storage=st.sampled_from(["float32", "float64"]),
    features=st.sampled_from(["float32", "float64"]),
    index=st.sampled_from(["int32", "int64"]),
    start=st.sampled_from(["zero", "identity", "random"]),
    clock_step=st.sampled_from([0, 0, REBASE_WINDOW - 20, 3 * REBASE_WINDOW - 2]),
    form=st.sampled_from(BUILTIN_FORMS),
    every=st.sampled_from([1, 3, 100]),
    l1=st.sampled_from([0.0, 1e-3, 0.03, 1.0]),
    l2=st.sampled_from([0.0, 1e-2, 50.0]),
    rate=st.sampled_from([1e-2, 0.3, 2.0]),
    decay=st.sampled_from([0.0, 0.5, 1.0]),
    grow=st.booleans(),
    transposed=st.booleans(),
    batch=st.sampled_from([1, 4, 64]),
    trials=st.sampled_from([1, 5]),
)


# --- tuples -------------------------------------------------------------------------------------


def positive_lists(
    seed: int, labels: bool, itself: bool, counts: bool = False, any_other: bool = False
) -> PositiveLists:
    """Lists of documents that have a query's label, or lists of their own."""
    rng = np.random.default_rng(seed)
    n_documents, n_queries = 40, 40 if itself else 15
    if labels:
        label = rng.integers(0, 4, n_documents)
        lists = [np.flatnonzero(label == one) for one in range(4)]
        list_of = label[:n_queries] if itself else rng.integers(0, 4, n_queries)
    else:
        lists = [
            np.flatnonzero((rng.random(n_documents) < 0.3) | (np.arange(n_documents) == one))
            for one in range(n_queries)
        ]
        list_of = np.arange(n_queries)
    own = np.arange(n_queries) if itself else np.full(n_queries, -1)
    size = np.array([one.size for one in lists])
    spare = size[list_of] - itself
    queries = np.flatnonzero((spare >= 1) & (size[list_of] < n_documents))
    query_sums = member_sums = np.zeros(0, np.int64)
    if counts:
        # Nobody may draw itself; so if lists are shared, none of their queries counts in them.
        drawn = np.ones(n_documents, bool)
        drawn[::2] = not labels
        each = [rng.integers(1, 6, one.size) * drawn[one] for one in lists]
        if itself:
            queries = queries[~drawn[queries]] if labels else queries
            own = np.where(drawn[:n_queries], -1, own) if labels else own
            if not labels:
                for query, members in enumerate(lists):
                    each[query][members == query] = 0
        totals = np.array([one.sum() for one in each])
        queries = queries[totals[list_of[queries]] > 0]
        query_sums = np.cumsum(totals[list_of[queries]])
        member_sums = np.concatenate([np.cumsum(one) for one in each])
    return PositiveLists(
        queries=queries,
        list_of=list_of,
        list_ptr=np.concatenate(([0], np.cumsum(size))),
        members=np.concatenate(lists),
        itself=own,
        n_documents=n_documents,
        query_sums=query_sums,
        member_sums=member_sums,
        any_negative=any_other,
    )


@EXAMPLES
@given(
    seed=st.integers(0, 2**64 - 1),
    first=st.integers(0, 2**63),
    labels=st.booleans(),
    itself=st.booleans(),
    counts=st.booleans(),
    any_negative=st.booleans(),
    trials=st.sampled_from([1, 2, 7]),
    positives=st.sampled_from([1, 1, 3]),
)
def test_draw_tuples(
    kernel: Kernel,
    reference: Kernel,
    seed: int,
    first: int,
    labels,
    itself,
    counts,
    any_other,
    trials,
    positives,
) -> None:
    lists = positive_lists(seed % 1000, labels, itself, counts, any_other)
    wanted = reference.sampling.sample_triplets(lists, seed, first, 50, trials, positives)
    got = kernel.sampling.sample_triplets(lists, seed, first, 50, trials, positives)
    assert got.tobytes() == wanted.tobytes()


def test_drawing_can_be_resumed(kernel: Kernel) -> None:
    lists = positive_lists(0, labels=True, itself=True)
    parts = [
        kernel.sampling.sample_triplets(lists, 3, 0, 7, 2),
        kernel.sampling.sample_triplets(lists, 3, 7, 13, 2),
    ]
    assert np.array_equal(
        kernel.sampling.sample_triplets(lists, 3, 0, 20, 2), np.concatenate(parts)
    )
    assert kernel.sampling.sample_triplets(lists, 3, 0, 0).shape == (0, 3)


# --- steps --------------------------------------------------------------------------------------


@EXAMPLES
@given(case=CASES)
def test_steps(kernel: Kernel, reference: Kernel, case: Case) -> None:
    wanted = run(case, reference)
    for threads in THREADS:
        assert differing(run(case, kernel, threads), wanted) == [], threads


@EXAMPLES
@given(case=CASES, group_size=st.sampled_from([1, 3, 50]))
def test_group_penalties(kernel: Kernel, reference: Kernel, case: Case, group_size: int) -> None:
    case = dataclasses.replace(case, l2=0.0, group_size=group_size)
    wanted = run(case, reference)
    for threads in THREADS:
        assert differing(run(case, kernel, threads), wanted) == [], threads


def test_a_group_that_grows_and_shrinks_is_summed_anew(kernel: Kernel, reference: Kernel) -> None:
    # Large weights that a few steps take away: N falls below RESUM of its largest.
    case = Case(start="random", group_size=3, every=2, l1=0.4, rate=0.3, n_steps=200, columns=30)
    state = run(case, reference)
    assert differing(run(case, kernel), state) == []
    large = dataclasses.replace(case, rate=1.0, form=PairwiseForm.SQUARED_HINGE, l1=0.1, n_steps=60)
    assert differing(run(large, kernel), run(large, reference)) == []


@pytest.mark.parametrize("storage", ["float32", "float64"])
@pytest.mark.parametrize("batch", [1, 16])
@pytest.mark.parametrize("transposed", [False, True])
def test_wide_rows(
    kernel: Kernel, reference: Kernel, storage: str, batch: int, transposed: bool
) -> None:
    # Rows go through every form of storage: they fill, die, and are filled again.
    for density in (0.03, 0.3):
        case = Case(
            rows=25,
            columns=900,
            density=density,
            storage=storage,
            features="float32",
            start="zero",
            n_steps=500,
            every=10,
            l1=0.01,
            rate=0.7,
            transposed=transposed,
            batch=batch,
        )
        wanted = run(case, reference)
        assert differing(run(case, kernel), wanted) == []
        assert differing(run(case, kernel, 2), wanted) == []
        plain = dataclasses.replace(case, l1=0.0, form=PairwiseForm.LOGISTIC)
        assert differing(run(plain, kernel), run(plain, reference)) == []


@pytest.mark.parametrize("storage", ["float32", "float64"])
def test_windows(kernel: Kernel, reference: Kernel, storage: str) -> None:
    case = Case(
        rows=6,
        columns=5,
        storage=storage,
        n_steps=2 * REBASE_WINDOW + 300,
        l1=1e-3,
        l2=1e-4,
        rate=0.05,
    )
    wanted = run(case, reference)
    assert wanted["row_state"][:, 2].max() == 2
    assert differing(run(case, kernel), wanted) == []
    batched = dataclasses.replace(case, batch=64)
    assert differing(run(batched, kernel, 2), run(batched, reference)) == []


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("storage", ["float32", "float64"])
def test_a_scale_that_becomes_small_starts_anew(
    kernel: Kernel, reference: Kernel, storage: str, batch: int
) -> None:
    case = Case(storage=storage, every=1, l1=1e-3, l2=1e3, rate=1.0, n_steps=50, batch=batch)
    wanted = run(case, reference)
    assert wanted["clock"][Clock.SCALE] > SMALLEST_SCALE
    assert np.log2(1e3) * 40 > 64  # so it has started anew
    for threads in THREADS:
        assert differing(run(case, kernel, threads), wanted) == []


@EXAMPLES
@given(case=CASES, group_size=st.sampled_from([0, 0, 2]), cut=st.integers(0, 40))
def test_a_run_that_is_broken_goes_on(
    kernel: Kernel, reference: Kernel, case: Case, group_size: int, cut: int
) -> None:
    case = dataclasses.replace(
        case, batch=1, group_size=group_size, l2=0.0 if group_size else case.l2
    )
    wanted = run(case, reference)
    del wanted["margins"], wanted["violations"]
    for first, second in ((kernel, kernel), (kernel, reference), (reference, kernel)):
        made = case.weights(first)
        case.go(made, slice(0, cut))
        made = BilinearWeights.restore(second, case.columns, made.state())
        case.go(made, slice(cut, None))
        assert differing(outcome(made), wanted) == [], (first.name, second.name)


def test_ten_parts_are_the_whole(kernel: Kernel) -> None:
    for case in (
        Case(n_steps=1000, l1=1e-2, every=7),
        Case(n_steps=1000, l1=1e-2, every=7, group_size=2, storage="float32"),
    ):
        made = case.weights(kernel)
        parts = [case.go(made, slice(100 * i, 100 * i + 100)) for i in range(10)]
        got = {
            "margins": np.concatenate([part[0] for part in parts]),
            "violations": np.concatenate([part[1] for part in parts]),
            **outcome(made),
        }
        assert differing(got, run(case, kernel)) == []


@EXAMPLES
@given(case=CASES, group_size=st.sampled_from([0, 0, 2]))
def test_margins_and_updates_are_steps(
    kernel: Kernel, reference: Kernel, case: Case, group_size: int
) -> None:
    l2 = 0.0 if group_size else case.l2
    case = dataclasses.replace(case, trials=1, batch=8, group_size=group_size, l2=l2)
    for checked in (kernel, reference):
        wanted = run(case, checked)
        made, margins = case.weights(checked), []
        for start in range(0, case.n_steps, case.batch):
            part = slice(start, start + case.batch)
            z = made.margins(case.objects, case.tuples[part], transposed=case.transposed, threads=2)
            margins.append(z)
            made.update(
                case.objects,
                case.tuples[part],
                slopes(case.form, z, checked),
                case.rates[part],
                every=case.every,
                l1=case.l1,
                l2=case.l2,
                grow=case.grow,
                transposed=case.transposed,
                threads=3,
            )
        got = {
            "margins": np.concatenate(margins),
            "violations": np.ones(case.n_steps),
            **outcome(made),
        }
        assert differing(got, wanted) == []


def slopes(form: PairwiseForm, z: NDArray[np.float64], kernel: Kernel) -> NDArray[np.float64]:
    if form == PairwiseForm.LOGISTIC:
        return -1.0 / (1.0 + kernel.random.exp(z))
    slope = -np.ones_like(z) if form == PairwiseForm.HINGE else -2.0 * (1.0 - z)
    return np.where(z < 1.0, slope, 0.0)


def test_no_steps(kernel: Kernel, reference: Kernel) -> None:
    case = Case(n_steps=0)
    assert differing(run(case, kernel), run(case, reference)) == []


def test_shrinking_alone(kernel: Kernel, reference: Kernel) -> None:
    # Margins far above 1: no step moves, all of W dies at last.
    case = Case(start="identity", n_steps=300, l1=0.05, every=100, rate=0.5)
    for penalty in ({}, {"group_size": 2}):
        shrunk = dataclasses.replace(case, **penalty)
        finished = []
        for checked in (kernel, reference):
            made = shrunk.weights(checked)
            made.update(
                shrunk.objects,
                shrunk.tuples,
                np.zeros(300),
                shrunk.rates,
                every=100,
                l1=shrunk.l1,
            )
            finished.append(outcome(made))
        assert finished[0]["n_nonzero"] == 0
        assert differing(*finished) == []


def test_a_store_says_how_much_it_takes(kernel: Kernel) -> None:
    case = Case(rows=50, columns=2000, density=0.2, start="zero", storage="float32", rate=1.0)
    made = case.weights(kernel)
    empty = made.store.memory()
    case.go(made, slice(None))
    assert empty < made.store.memory() < empty + 40 * max(made.n_nonzero, 1000)


# --- scores -------------------------------------------------------------------------------------


@EXAMPLES
@given(
    seed=st.integers(0, 2**20),
    n_queries=st.integers(0, 19),
    n_documents=st.integers(0, 30),
    shape=st.tuples(st.integers(1, 20), st.integers(1, 20)),
    density=st.sampled_from([0.0, 0.2, 1.0]),
    kinds=st.lists(
        st.tuples(st.sampled_from(["float32", "float64"]), st.sampled_from(["int32", "int64"])),
        min_size=3,
        max_size=3,
    ),
)
def test_scores(
    kernel: Kernel, reference: Kernel, seed, n_queries, n_documents, shape, density, kinds
) -> None:
    rng = np.random.default_rng(seed)
    sizes = ((n_queries, shape[0]), shape, (n_documents, shape[1]))
    parts = [
        csr(rng.normal(size=size) * (rng.random(size) < density), *kind)
        for size, kind in zip(sizes, kinds, strict=True)
    ]
    wanted = reference.bilinear.scores(*parts)
    for threads in THREADS:
        assert kernel.bilinear.scores(*parts, threads).tobytes() == wanted.tobytes()
    dense = parts[0].toarray().astype(float) @ parts[1].toarray() @ parts[2].toarray().T
    np.testing.assert_allclose(wanted, dense, rtol=1e-9, atol=1e-9)
