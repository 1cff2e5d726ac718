"""The factored loops: every kernel has the bits of the reference."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ranking.kernels.contract import BUILTIN_FORMS, PairwiseForm
from ranking.kernels.cython import instruction_sets, load_loops
from ranking.kernels.factored import (
    Draws,
    FactoredInputs,
    FactoredWeights,
    Rows,
    scores,
    top,
    vectors,
)
from ranking.kernels.kernel import Kernel
from ranking.kernels.sampling import PositiveLists

THREADS = (1, 2, 3)
WIDTHS = (8, 16, 40)
KINDS = [(data, index) for data in ("float32", "float64") for index in ("int32", "int64")]
EXAMPLES = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
Outcome = dict[str, NDArray[Any]]


# --- what is compared ---------------------------------------------------------------------------


def make_rows(
    rng: np.random.Generator, n_objects: int, n_features: int, density: float, kind: Any
) -> sp.csr_array:
    """Sparse features; some objects have none, and some features are nobody's."""
    dense = rng.normal(size=(n_objects, n_features)) * (rng.random(n_features) < 0.9)
    dense *= rng.random(dense.shape) < density
    dense[2::5] = 0.0
    made = sp.csr_array(dense.astype(kind[0]))
    made.indptr, made.indices = made.indptr.astype(kind[1]), made.indices.astype(kind[1])
    return made


def singles(rng: np.random.Generator, *shape: int) -> NDArray[np.float32]:
    return rng.normal(size=shape).astype(np.float32)


def make_lists(
    rng: np.random.Generator,
    n_queries: int,
    n_documents: int,
    *,
    sums: bool = False,
    weights: bool = False,
    any_other: bool = False,
    itself: bool = False,
) -> PositiveLists:
    """Every query has a list, of one document at least and two at most of them missing."""
    sizes = rng.integers(2, n_documents - 1, n_queries)
    own = [np.sort(rng.permutation(n_documents)[:size]) for size in sizes]
    passed = [int(rng.choice(each)) if itself and at % 2 else -1 for at, each in enumerate(own)]
    counts = [
        rng.integers(0, 4, each.size) * (each != me) + (each == each[each != me][0])
        for each, me in zip(own, passed, strict=True)
    ]
    return PositiveLists(
        queries=np.arange(n_queries),
        list_of=np.arange(n_queries),
        list_ptr=np.concatenate(([0], np.cumsum(sizes))),
        members=np.concatenate(own),
        itself=np.array(passed),
        n_documents=n_documents,
        query_sums=np.cumsum([each.sum() for each in counts]) if sums else np.zeros(0, np.int64),
        member_sums=np.concatenate([np.cumsum(each) for each in counts])
        if sums
        else np.zeros(0, np.int64),
        member_weights=(rng.random(int(sizes.sum())) + 0.5).astype(np.float32)
        if weights
        else np.zeros(0, np.float32),
        any_negative=any_other,
    )


@dataclasses.dataclass(frozen=True)
class Case:
    """A small problem and a way through it; hypothesis draws its fields."""

    seed: int = 0
    n_queries: int = 7
    n_documents: int = 11
    query_kind: tuple[str, str] | None = None
    document_kind: tuple[str, str] | None = None
    context_kind: tuple[str, str] | None = None
    density: float = 0.4
    width: int = 16
    biases: bool = True
    adagrad: bool = True
    n_steps: int = 40
    drawn: bool = False
    sums: bool = False
    match_weights: bool = False
    any_other: bool = False
    itself: bool = False
    trials: int = 1
    positives: int = 1
    place: int = 0
    form: PairwiseForm = PairwiseForm.HINGE
    rate: float = 0.1
    spread: float = 0.5
    max_norm: float = 0.0
    l2: float = 0.0
    block: int = 3

    @property
    def objects(self) -> FactoredInputs:
        rng = np.random.default_rng(self.seed)
        sides: list[Rows] = []
        for n_objects, n_features, kind in (
            (self.n_queries, 9, self.query_kind),
            (self.n_documents, 13, self.document_kind),
        ):
            made = make_rows(rng, n_objects, n_features, self.density, kind or KINDS[0])
            sides.append(made if kind else n_objects)
        if self.context_kind is None:
            return FactoredInputs(*sides)
        n_features = 13 if self.document_kind else self.n_documents
        contexts = make_rows(rng, self.n_queries, n_features, self.density, self.context_kind)
        return FactoredInputs(*sides, contexts)

    @property
    def lists(self) -> PositiveLists:
        return make_lists(
            np.random.default_rng(self.seed + 3),
            self.n_queries,
            self.n_documents,
            sums=self.sums,
            weights=self.match_weights,
            any_negative=self.any_other and self.positives == 1,
            itself=self.own_document,
        )

    def source(self, part: slice = slice(None)) -> NDArray[np.int64] | Draws:
        first, stop, _ = part.indices(self.n_steps)
        if self.drawn:
            return Draws(self.lists, 5, 7 + first, stop - first, self.trials, self.positives)
        rng = np.random.default_rng(self.seed + 1)
        shape = (self.n_steps, 1 + self.positives + self.trials)
        tuples = rng.integers(0, self.n_documents, shape)
        tuples[:, 0] = rng.integers(0, self.n_queries, self.n_steps)
        return tuples[first:stop]  # d+ may be d-, and a block may name an object often

    @property
    def rates(self) -> NDArray[np.float32]:
        # A squared loss has large slopes, and should not run away.
        rate = self.rate / 50 if self.form == PairwiseForm.SQUARED_HINGE else self.rate
        rates = np.linspace(rate, rate / 3, self.n_steps, dtype=np.float32)
        rates[5::7] = 0.0
        return rates

    @property
    def rank_weights(self) -> NDArray[np.float32] | None:
        ranks = np.cumsum(1.0 / np.arange(1.0, 7.0)).astype(np.float32)
        return ranks if self.trials > 1 else None

    @property
    def looks(self) -> dict[str, Any]:
        """What a search is asked for besides the tuples."""
        return {
            "rank_weights": self.rank_weights,
            "positives": self.positives,
            "place": self.place % self.positives,
        }

    def weights(self, kernel: Kernel) -> FactoredWeights:
        rng, objects = np.random.default_rng(self.seed + 2), self.objects
        n_features = objects.n_document_features
        shapes: list[tuple[int, ...]] = [
            (objects.n_query_features, self.width),
            (n_features, self.width),
            (n_features * (self.context_kind is not None), self.width),
            (n_features * self.biases,),
        ]
        made = [np.float32(self.init_scale) * singles(rng, *shape) for shape in shapes]
        factors = (made[0], made[1], made[2], made[3])
        return FactoredWeights(kernel, factors, adagrad=self.adagrad)

    @np.errstate(over="ignore", invalid="ignore")  # if it does, kernels run away alike
    def go(
        self, made: FactoredWeights, part: slice = slice(None), threads: int = 1, **more: Any
    ) -> tuple[Any, Any]:
        return made.steps(
            self.objects,
            self.source(part),
            self.rates[part],
            form=self.form,
            max_norm=self.max_norm,
            l2=self.l2,
            block=self.block,
            threads=threads,
            **self.looks,
            **more,
        )


def run(case: Case, kernel: Kernel, threads: int = 1, **more: Any) -> Outcome:
    made = case.weights(kernel)
    margins, weights = case.go(made, threads=threads, **more)
    return {"margins": margins, "violations": weights, **made.state()}


def differing(got: Outcome, wanted: Outcome) -> list[str]:
    assert got.keys() == wanted.keys()
    return [
        name
        for name in wanted
        if got[name].dtype != wanted[name].dtype or bits(got[name]) != bits(wanted[name])
    ]


def bits(array: NDArray[Any]) -> bytes:
    """Return all bits, those of a NaN aside: which one an operation makes is nowhere fixed."""
    return np.where(np.isnan(array), np.nan, array).astype(array.dtype).tobytes()


SIDES = st.sampled_from([None, *KINDS])
CASES = st.builds(
    Case,
    seed=st.integers(0, 2**20),
    n_queries=st.integers(1, 12),
    n_documents=st.integers(4, 30),
    query_kind=SIDES,
    document_kind=SIDES,
    context_kind=st.sampled_from([None, None, *KINDS]),
    density=st.sampled_from([0.0, 0.2, 1.0]),
    width=st.sampled_from(WIDTHS),
    biases=st.booleans(),
    adagrad=st.booleans(),
    drawn=st.booleans(),
    sums=st.booleans(),
    match_weights=st.booleans(),
    any_negative=st.booleans(),
    itself=st.booleans(),
    trials=st.sampled_from([1, 2, 5]),
    positives=st.sampled_from([1, 1, 2, 4]),
    place=st.integers(0, 3),
    form=st.sampled_from(BUILTIN_FORMS),
    rate=st.sampled_from([1e-3, 0.1]),
    spread=st.sampled_from([0.0, 0.1, 0.7]),
    max_norm=st.sampled_from([0.0, 0.3, 1.0]),
    l2=st.sampled_from([0.0, 0.5]),
    block=st.sampled_from([1, 3, 256]),
)


# --- vectors and scores -------------------------------------------------------------------------


@EXAMPLES
@given(
    seed=st.integers(0, 2**20),
    n_objects=st.integers(0, 19),
    n_features=st.integers(1, 12),
    density=st.sampled_from([0.0, 0.3, 1.0]),
    kind=st.sampled_from(KINDS),
    width=st.sampled_from([*WIDTHS, 128]),
)
def test_vectors(
    kernel: Kernel, reference: Kernel, seed, n_objects, n_features, density, kind, width
) -> None:
    rng = np.random.default_rng(seed)
    rows = make_rows(rng, n_objects, n_features, density, kind)
    matrix = singles(rng, n_features, width)
    wanted = vectors(reference, rows, matrix)
    for threads in THREADS:
        assert kernel.factored.embeddings(rows, matrix, threads).tobytes() == wanted.tobytes()
    np.testing.assert_allclose(wanted, rows.toarray() @ matrix, rtol=1e-4, atol=1e-4)


@EXAMPLES
@given(
    seed=st.integers(0, 2**20),
    n_queries=st.integers(0, 19),
    n_documents=st.integers(0, 40),
    width=st.sampled_from([*WIDTHS, 128]),
    biases=st.booleans(),
)
def test_scores(
    kernel: Kernel, reference: Kernel, seed, n_queries, n_documents, width, biases
) -> None:
    rng = np.random.default_rng(seed)
    parts = (
        singles(rng, n_queries, width),
        singles(rng, n_documents, width),
        singles(rng, n_documents if biases else 0),
    )
    wanted = scores(reference, *parts)
    for threads in THREADS:
        assert kernel.factored.scores(*parts, threads).tobytes() == wanted.tobytes()
    plain = parts[0] @ parts[1].T + (parts[2] if biases else 0.0)
    np.testing.assert_allclose(wanted, plain, rtol=1e-4, atol=1e-4)


def test_many_scores(kernel: Kernel, reference: Kernel) -> None:
    # More documents than a tile holds, and numbers that do not fill the last one.
    rng = np.random.default_rng(0)
    for width, n_queries, n_documents in ((8, 3, 1801), (40, 5, 477), (256, 2, 101)):
        parts = (
            singles(rng, n_queries, width),
            singles(rng, n_documents, width),
            singles(rng, n_documents),
        )
        wanted = scores(reference, *parts)
        for threads in THREADS:
            assert kernel.factored.scores(*parts, threads).tobytes() == wanted.tobytes()


# --- the best -----------------------------------------------------------------------------------


def barred_for(
    rng: np.random.Generator, n_queries: int, n_documents: int, share: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    each = rng.random((n_queries, n_documents)) < share
    return np.concatenate(([0], np.cumsum(each.sum(axis=1)))), np.nonzero(each)[1].copy()


@EXAMPLES
@given(
    seed=st.integers(0, 2**20),
    n_queries=st.integers(0, 19),
    n_documents=st.integers(1, 40),
    k=st.sampled_from([1, 3, 10, 100]),
    width=st.sampled_from(WIDTHS),
    biases=st.booleans(),
    share=st.sampled_from([0.0, 0.3, 0.9, 1.0]),
    values=st.sampled_from(["normal", "few", "odd"]),
)
def test_top(
    kernel: Kernel, reference: Kernel, seed, n_queries, n_documents, k, width, biases, share, values
) -> None:
    rng = np.random.default_rng(seed)
    parts = [
        singles(rng, n_queries, width),
        singles(rng, n_documents, width),
        singles(rng, n_documents if biases else 0),
    ]
    if values == "few":  # many scores are equal
        parts = [np.round(part / 2) for part in parts]
    if values == "odd":  # some are infinite, some no numbers
        for part in parts[:2]:
            part[::3, 0], part[1::3, 0] = np.inf, -np.inf
            part[2::6, 1] = np.nan
    barred = barred_for(rng, n_queries, n_documents, share)
    with np.errstate(invalid="ignore"):
        wanted = top(reference, *parts, k, barred)
    for threads in THREADS:
        got = kernel.factored.top_k(*parts, k, barred, threads)
        assert [array.tobytes() for array in got] == [array.tobytes() for array in wanted]


def test_top_of_many(kernel: Kernel, reference: Kernel) -> None:
    # More documents than a tile holds, and numbers that do not fill the last one.
    rng = np.random.default_rng(0)
    for width, n_queries, n_documents, k in ((8, 3, 1801, 40), (40, 37, 477, 10), (256, 2, 701, 1)):
        parts = [singles(rng, n, width) for n in (n_queries, n_documents)]
        parts.append(singles(rng, n_documents))
        barred = barred_for(rng, n_queries, n_documents, 0.1)
        wanted = top(reference, *parts, k, barred)
        for threads in THREADS:
            got = kernel.factored.top_k(*parts, k, barred, threads)
            assert [array.tobytes() for array in got] == [array.tobytes() for array in wanted]


# --- search and update --------------------------------------------------------------------------


@EXAMPLES
@given(case=CASES)
def test_search(kernel: Kernel, reference: Kernel, case: Case) -> None:
    wanted = case.weights(reference).search(case.objects, case.source(), **case.looks)
    for threads in THREADS:
        made = case.weights(kernel)
        before = made.state()
        got = made.search(case.objects, case.source(), threads=threads, **case.looks)
        assert [array.tobytes() for array in got] == [array.tobytes() for array in wanted]
        assert differing(made.state(), before) == []


@EXAMPLES
@given(case=CASES, longest=st.sampled_from([1, 2, 5]), n_steps=st.sampled_from([0, 1, 30]))
def test_update(kernel: Kernel, reference: Kernel, case: Case, longest: int, n_steps: int) -> None:
    rng = np.random.default_rng(case.seed + 4)
    step_ptr = np.concatenate(([0], np.cumsum(rng.integers(0, longest + 1, n_steps))))
    documents = rng.integers(0, case.n_documents, int(step_ptr[-1]))
    slopes = singles(rng, documents.size) * (rng.random(documents.size) < 0.7)
    queries = rng.integers(0, case.n_queries, n_steps)

    def updated(own: Kernel, threads: int) -> Outcome:
        made = case.weights(own)
        made.update(
            case.objects,
            queries,
            step_ptr,
            documents,
            slopes.astype(np.float32),
            rate=case.rate,
            max_norm=case.max_norm,
            l2=case.l2,
            threads=threads,
        )
        return made.state()

    wanted = updated(reference, 1)
    for threads in THREADS:
        assert differing(updated(kernel, threads), wanted) == [], threads


@EXAMPLES
@given(case=CASES)
def test_search_and_update_are_a_block_of_steps(kernel: Kernel, case: Case) -> None:
    case = dataclasses.replace(case, block=256, form=PairwiseForm.HINGE)
    made = case.weights(kernel)
    chosen, margins, weights = made.search(case.objects, case.source(), threads=2, **case.looks)
    slopes = np.where(margins < 1.0, -weights, np.float32(0.0))
    if not case.adagrad:
        slopes = case.rates * slopes
    made.update(
        case.objects,
        chosen[:, 0].copy(),
        2 * np.arange(case.n_steps + 1),
        chosen[:, 1:].ravel(),
        np.column_stack([slopes, -slopes]).ravel(),
        rate=float(case.rates[0]),
        max_norm=case.max_norm,
        l2=case.l2,
        threads=2,
    )
    got = {"margins": margins, "violations": weights, **made.state()}
    assert differing(got, run(case, kernel)) == []


# --- steps --------------------------------------------------------------------------------------


@settings(EXAMPLES, max_examples=150)
@given(case=CASES)
def test_steps(kernel: Kernel, reference: Kernel, case: Case) -> None:
    wanted = run(case, reference)
    for threads in THREADS:
        assert differing(run(case, kernel, threads), wanted) == [], threads
    assert differing(run(case, kernel, hogwild=True), wanted) == []  # alone it has an order


@EXAMPLES
@given(case=CASES)
def test_tuples_that_are_drawn_are_those_of_draw_tuples(kernel: Kernel, case: Case) -> None:
    case = dataclasses.replace(case, drawn=True, match_weights=False)
    draws = case.source()
    assert isinstance(draws, Draws)
    given_tuples = kernel.sampling.sample_triplets(
        draws.lists, draws.seed, draws.first, draws.count, draws.trials, draws.positives
    )
    made = case.weights(kernel)
    wanted = made.search(case.objects, given_tuples, **case.looks)
    got = made.search(case.objects, draws, **case.looks)
    assert [array.tobytes() for array in got] == [array.tobytes() for array in wanted]


@pytest.mark.parametrize("block", [1, 3, 256])
@pytest.mark.parametrize("adagrad", [False, True])
@pytest.mark.parametrize("form", BUILTIN_FORMS)
def test_every_form(
    kernel: Kernel, reference: Kernel, form: PairwiseForm, adagrad: bool, block: int
) -> None:
    for trials in (1, 5):
        for kinds in ((None, None), (KINDS[0], KINDS[3]), (None, KINDS[1]), (KINDS[2], None)):
            for context_kind in (None, KINDS[0]):
                case = Case(
                    query_kind=kinds[0],
                    document_kind=kinds[1],
                    context_kind=context_kind,
                    adagrad=adagrad,
                    trials=trials,
                    form=form,
                    block=block,
                    max_norm=0.8,
                    l2=0.1,
                )
                wanted = run(case, reference)
                assert wanted["violations"].any()
                for threads in THREADS:
                    assert differing(run(case, kernel, threads), wanted) == [], (kinds, threads)


def long_case(features: bool, n_steps: int, block: int, **more: Any) -> Case:
    """Tuples that are drawn from lists, some trials each, of objects with features or without."""
    kind = KINDS[0] if features else None
    return Case(
        n_queries=40,
        n_documents=60,
        query_kind=kind,
        document_kind=kind,
        n_steps=n_steps,
        drawn=True,
        sums=True,
        trials=5,
        rate=0.05,
        block=block,
        **more,
    )


@pytest.mark.parametrize("features", [False, True])
@pytest.mark.parametrize("adagrad", [False, True])
@pytest.mark.parametrize("width", [8, 24, 32, 64, 128, 136])
def test_longer_runs(
    kernel: Kernel, reference: Kernel, width: int, adagrad: bool, features: bool
) -> None:
    case = long_case(features, 700, 256, width=width, adagrad=adagrad, spread=0.2, max_norm=1.0)
    wanted = run(case, reference)
    assert 0 < np.count_nonzero(wanted["violations"]) <= case.n_steps
    for threads in THREADS:
        assert differing(run(case, kernel, threads), wanted) == [], threads


@pytest.mark.parametrize(("features", "block"), [(False, 100), (True, 1000), (True, 10_000)])
def test_threads_that_part_and_meet(kernel: Kernel, features: bool, block: int) -> None:
    # So many steps that threads try who is faster, all together or one alone; with large blocks
    # they stay together.
    case = long_case(features, 45_000, block)
    wanted = run(case, kernel)
    for threads in THREADS[1:]:
        assert differing(run(case, kernel, threads), wanted) == [], threads


FEWER_THREADS = """
import numpy as np, scipy.sparse as sp
from ranking.kernels.factored import FactoredInputs, FactoredWeights
from ranking.kernels.select import get_kernel

rng = np.random.default_rng(0)
sides = [sp.random_array((30, 20), density=0.3, format="csr", rng=rng) for _ in range(2)]
tuples = rng.integers(0, 30, (500, 4))
found = []
for threads in (1, 3):
    first = np.random.default_rng(1).normal(size=(2, 20, 8)).astype(np.float32)
    factors = (first[0], first[1], np.zeros((0, 8), np.float32), np.zeros(0, np.float32))
    made = FactoredWeights(get_kernel("cython"), factors, adagrad=True)
    objects = FactoredInputs(*sides)
    made.steps(objects, tuples, np.full(500, 0.1, np.float32), block=100, threads=threads)
    queries, documents = tuples[:100, 0], tuples[:100, 1]
    slopes = np.full(100, 0.1, np.float32)
    steps = (queries.copy(), np.arange(101), documents.copy(), slopes)
    made.update(objects, *steps, rate=0.1, threads=threads)
    found.append(b"".join(each.tobytes() for each in made.factors))
assert found[0] == found[1]
"""


def test_fewer_threads_than_were_asked_for() -> None:
    surroundings = {**os.environ, "OMP_THREAD_LIMIT": "1"}
    subprocess.run([sys.executable, "-P", "-c", FEWER_THREADS], check=True, env=surroundings)


@pytest.mark.parametrize("n_documents", [30, 50, 5000])
def test_few_and_many_documents(kernel: Kernel, reference: Kernel, n_documents: int) -> None:
    # A kernel may compose all documents at once if there are few; the bits are the same.
    case = Case(
        n_documents=n_documents,
        query_kind=KINDS[0],
        document_kind=KINDS[0],
        n_steps=60,
        trials=5,
        block=16,
    )
    wanted = run(case, reference)
    for threads in THREADS:
        assert differing(run(case, kernel, threads), wanted) == [], threads


@EXAMPLES
@given(case=CASES, cut=st.integers(0, 13))
def test_a_run_that_is_broken_goes_on(
    kernel: Kernel, reference: Kernel, case: Case, cut: int
) -> None:
    case = dataclasses.replace(case, block=3)
    wanted = run(case, kernel)
    for first, second in ((kernel, kernel), (kernel, reference), (reference, kernel)):
        made = case.weights(first)
        head = case.go(made, slice(0, 3 * cut), 2)
        # What has run away is not taken up again.
        assume(all(np.isfinite(each).all() for each in made.factors))
        squares = made.squares if case.adagrad else None
        made = FactoredWeights(second, made.factors, adagrad=case.adagrad, squares=squares)
        tail = case.go(made, slice(3 * cut, None))
        joined = [np.concatenate(parts) for parts in zip(head, tail, strict=True)]
        got = {"margins": joined[0], "violations": joined[1], **made.state()}
        assert differing(got, wanted) == [], (first.name, second.name)


def test_no_steps(kernel: Kernel, reference: Kernel) -> None:
    for drawn in (False, True):
        case = Case(n_steps=0, drawn=drawn)
        for threads in THREADS:
            assert differing(run(case, kernel, threads), run(case, reference)) == []


def test_positives_whose_scores_are_not_numbers(kernel: Kernel, reference: Kernel) -> None:
    # Squared hinge with a large rate: the vectors overflow, and NaNs have no order.
    kind = ("float32", "int32")
    case = Case(
        n_queries=4,
        n_documents=4,
        document_kind=kind,
        context_kind=kind,
        density=1.0,
        width=16,
        adagrad=False,
        drawn=True,
        match_weights=True,
        trials=1,
        positives=3,
        place=1,
        form=PairwiseForm.SQUARED_HINGE,
        rate=0.3,
        spread=0.7,
        block=3,
    )
    wanted = run(case, reference)
    assert np.isnan(wanted["margins"]).any()
    for threads in THREADS:
        assert differing(run(case, kernel, threads), wanted) == [], threads


def test_margins_that_are_not_finite(kernel: Kernel, reference: Kernel) -> None:
    # Scores overflow: a margin is infinite or not a number, which violates nothing.
    case = Case(spread=1e30, adagrad=False, trials=2, form=PairwiseForm.HINGE, n_steps=9)
    wanted = run(case, reference)
    assert not np.isfinite(wanted["margins"]).all()
    for threads in THREADS:
        assert differing(run(case, kernel, threads), wanted) == []


@pytest.mark.parametrize("instructions", instruction_sets())
def test_every_instruction_set(reference: Kernel, instructions: str) -> None:
    built = Kernel("cython", load_loops(instructions), "0")
    for kind in (None, KINDS[0]):
        for adagrad in (False, True):
            case = Case(
                query_kind=kind,
                document_kind=kind,
                context_kind=kind,
                adagrad=adagrad,
                drawn=True,
                trials=5,
                width=40,
                max_norm=0.8,
                l2=0.1,
            )
            assert differing(run(case, built, 2), run(case, reference)) == []
    rng = np.random.default_rng(0)
    parts = (singles(rng, 9, 40), singles(rng, 150, 40), singles(rng, 150))
    assert scores(built, *parts).tobytes() == scores(reference, *parts).tobytes()
    for got, wanted in zip(top(built, *parts, 7), top(reference, *parts, 7), strict=True):
        assert got.tobytes() == wanted.tobytes()
