"""Training, embeddings, scores and top-k of the factored model."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from parity_helpers import (
    EXAMPLES,
    KINDS,
    SEEDS,
    THREADS,
    Outcome,
    Same,
    csr,
    differences,
    make_positive_lists,
    singles,
)

from ranking.kernels.contract import (
    BUILTIN_FORMS,
    EntryPenalty,
    Execution,
    FactoredSteps,
    Factors,
    PairwiseForm,
    RowPenalty,
    SampledTriplets,
    StepResults,
)
from ranking.kernels.factored import FactoredInputs, FactoredWeights
from ranking.kernels.kernel import Kernel
from ranking.kernels.listwise import ListTrainingLoss
from ranking.kernels.pairwise import TrainingLoss
from ranking.kernels.sampling import TripletSampler

WIDTHS = (8, 16, 40)


def make_rows(
    rng: np.random.Generator, n_rows: int, n_features: int, density: float, kind: Any
) -> sp.csr_array:
    """Return sparse features; some rows have none, and some features occur nowhere."""
    dense = rng.normal(size=(n_rows, n_features)) * (rng.random(n_features) < 0.9)
    dense *= rng.random(dense.shape) < density
    dense[2::5] = 0.0
    return csr(dense, kind)


@dataclasses.dataclass(frozen=True)
class Case:
    """A small problem and the options of its training; hypothesis sets the fields."""

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
    sampled: bool = False
    counts: bool = False
    member_weights: bool = False
    any_negative: bool = False
    own: bool = False
    trials: int = 1
    n_positives: int = 1
    positive_rank: int = 0
    form: PairwiseForm = PairwiseForm.HINGE
    rate: float = 0.1
    spread: float = 0.5
    max_norm: float = 0.0
    rowwise: bool = False
    batch_size: int = 3

    @property
    def inputs(self) -> FactoredInputs:
        rng = np.random.default_rng(self.seed)
        sides: list[Any] = []
        for n_rows, n_features, kind in (
            (self.n_queries, 9, self.query_kind),
            (self.n_documents, 13, self.document_kind),
        ):
            rows = make_rows(rng, n_rows, n_features, self.density, kind or KINDS[0])
            sides.append(rows if kind else n_rows)
        if self.context_kind is None:
            return FactoredInputs(*sides)
        n_features = 13 if self.document_kind else self.n_documents
        contexts = make_rows(rng, self.n_queries, n_features, self.density, self.context_kind)
        return FactoredInputs(*sides, contexts)

    def source(self, part: slice = slice(None)) -> NDArray[np.int64] | TripletSampler:
        first, stop, _ = part.indices(self.n_steps)
        if self.sampled:
            lists = make_positive_lists(
                self.seed + 3,
                self.n_queries,
                self.n_documents,
                counts=self.counts,
                weights=self.member_weights,
                any_negative=self.any_negative and self.n_positives == 1,
                own=self.own,
            )
            steps = (7 + first, stop - first)
            return TripletSampler(lists, 5, *steps, self.trials, self.n_positives)
        rng = np.random.default_rng(self.seed + 1)
        shape = (self.n_steps, 1 + self.n_positives + self.trials)
        triplets = rng.integers(0, self.n_documents, shape)
        triplets[:, 0] = rng.integers(0, self.n_queries, self.n_steps)
        return triplets[first:stop]  # d+ may be d-, and a batch may repeat a document

    @property
    def learning_rates(self) -> NDArray[np.float32]:
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
    def positives(self) -> dict[str, int]:
        """Return the number of positives, and which of them is used."""
        rank = self.positive_rank % self.n_positives
        return {"n_positives": self.n_positives, "positive_rank": rank}

    @property
    def penalty(self) -> RowPenalty:
        return RowPenalty(self.max_norm, self.rowwise)

    def weights(self, kernel: Kernel) -> FactoredWeights:
        rng, inputs = np.random.default_rng(self.seed + 2), self.inputs
        n_features = inputs.n_document_features
        shapes: list[tuple[int, ...]] = [
            (inputs.n_query_features, self.width),
            (n_features, self.width),
            (n_features * (self.context_kind is not None), self.width),
            (n_features * self.biases,),
        ]
        factors = Factors(*(np.float32(self.spread) * singles(rng, *shape) for shape in shapes))
        return FactoredWeights(kernel, factors, adagrad=self.adagrad)

    def sample(
        self, weights: FactoredWeights, source: Any = None, threads: int = 1
    ) -> SampledTriplets:
        return weights.sample(
            self.inputs,
            self.source() if source is None else source,
            rank_weights=self.rank_weights,
            threads=threads,
            **self.positives,
        )

    @np.errstate(over="ignore", invalid="ignore")  # if it overflows, it does in all kernels
    def train(
        self,
        weights: FactoredWeights,
        part: slice = slice(None),
        threads: int = 1,
        hogwild: bool = False,
    ) -> StepResults:
        return weights.train(
            self.inputs,
            self.source(part),
            self.learning_rates[part],
            loss=TrainingLoss(self.form, rank_weights=self.rank_weights),
            penalty=self.penalty,
            execution=Execution(self.batch_size, hogwild, threads),
            **self.positives,
        )

    @np.errstate(over="ignore", invalid="ignore")
    def train_lists(
        self, weights: FactoredWeights, part: slice = slice(None), threads: int = 1
    ) -> NDArray[np.float64]:
        """Take a step for each list of a positive and as many negatives as there are trials."""
        return weights.train_lists(
            self.inputs,
            self.source(part),
            self.learning_rates[part],
            loss=ListTrainingLoss(weight=1.5, margin=0.25),
            penalty=self.penalty,
            execution=Execution(self.batch_size, False, threads),
        )


def run_lists(case: Case, kernel: Kernel, threads: int = 1) -> Outcome:
    weights = case.weights(kernel)
    return {"losses": case.train_lists(weights, threads=threads), **weights.state()}


def run(case: Case, kernel: Kernel, threads: int = 1, hogwild: bool = False) -> Outcome:
    weights = case.weights(kernel)
    margins, violations = case.train(weights, threads=threads, hogwild=hogwild)
    return {"margins": margins, "violations": violations, **weights.state()}


def check(case: Case, same: Same) -> Outcome:
    return same(lambda k, threads: run(case, k, threads))


SIDES = st.sampled_from([None, *KINDS])
CASES = st.builds(
    Case,
    seed=SEEDS,
    n_queries=st.integers(1, 12),
    n_documents=st.integers(4, 30),
    query_kind=SIDES,
    document_kind=SIDES,
    context_kind=st.sampled_from([None, None, *KINDS]),
    density=st.sampled_from([0.0, 0.2, 1.0]),
    width=st.sampled_from(WIDTHS),
    biases=st.booleans(),
    adagrad=st.booleans(),
    sampled=st.booleans(),
    counts=st.booleans(),
    member_weights=st.booleans(),
    any_negative=st.booleans(),
    own=st.booleans(),
    trials=st.sampled_from([1, 2, 5]),
    n_positives=st.sampled_from([1, 1, 2, 4]),
    positive_rank=st.integers(0, 3),
    form=st.sampled_from(BUILTIN_FORMS),
    rate=st.sampled_from([1e-3, 0.1]),
    spread=st.sampled_from([0.0, 0.1, 0.7]),
    max_norm=st.sampled_from([0.0, 0.3, 1.0]),
    rowwise=st.booleans(),
    batch_size=st.sampled_from([1, 3, 256]),
)


# --- embeddings, scores and top-k ---------------------------------------------------------------


@EXAMPLES
@given(
    seed=SEEDS,
    n_rows=st.integers(0, 19),
    n_features=st.integers(1, 12),
    density=st.sampled_from([0.0, 0.3, 1.0]),
    kind=st.sampled_from(KINDS),
    width=st.sampled_from([*WIDTHS, 128]),
)
def test_embeddings(same: Same, seed, n_rows, n_features, density, kind, width) -> None:
    rng = np.random.default_rng(seed)
    rows = make_rows(rng, n_rows, n_features, density, kind)
    matrix = singles(rng, n_features, width)
    (embeddings,) = same(lambda k, threads: [k.factored.embeddings(rows, matrix, threads)])
    np.testing.assert_allclose(embeddings, rows.toarray() @ matrix, rtol=1e-4, atol=1e-4)


def make_embeddings(seed: int, n_queries: int, n_documents: int, width: int, biases: bool) -> Any:
    rng = np.random.default_rng(seed)
    sizes = ((n_queries, width), (n_documents, width), (n_documents * biases,))
    return [singles(rng, *size) for size in sizes]


# More documents than a tile holds, and numbers that do not fill the last one.
LARGE = [(8, 3, 1801, 40), (40, 37, 477, 10), (256, 2, 701, 1)]


@EXAMPLES
@given(
    seed=SEEDS,
    n_queries=st.integers(0, 19),
    n_documents=st.integers(0, 40),
    width=st.sampled_from([*WIDTHS, 128]),
    biases=st.booleans(),
)
def test_scores(same: Same, seed, n_queries, n_documents, width, biases) -> None:
    parts = make_embeddings(seed, n_queries, n_documents, width, biases)
    (scores,) = same(lambda k, threads: [k.factored.scores(*parts, threads)])
    plain = parts[0] @ parts[1].T + (parts[2] if biases else 0.0)
    np.testing.assert_allclose(scores, plain, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("width", "n_queries", "n_documents", "k"), LARGE)
def test_many_documents(same: Same, width: int, n_queries: int, n_documents: int, k: int) -> None:
    parts = make_embeddings(0, n_queries, n_documents, width, biases=True)
    exclusions = make_exclusions(0, n_queries, n_documents, 0.1)
    same(
        lambda kernel, threads: [
            kernel.factored.scores(*parts, threads),
            *kernel.factored.top_k(*parts, k, exclusions, threads),
        ]
    )


def make_exclusions(
    seed: int, n_queries: int, n_documents: int, share: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    excluded = np.random.default_rng(seed).random((n_queries, n_documents)) < share
    return np.concatenate(([0], np.cumsum(excluded.sum(axis=1)))), np.nonzero(excluded)[1].copy()


SIZES = st.tuples(st.integers(0, 19), st.integers(1, 40))
"""Numbers of queries and documents."""


@EXAMPLES
@given(
    seed=SEEDS,
    sizes=SIZES,
    k=st.sampled_from([1, 3, 10, 100]),
    width=st.sampled_from(WIDTHS),
    share=st.sampled_from([0.0, 0.3, 0.9, 1.0]),
    values=st.tuples(st.sampled_from(["normal", "few", "not finite"]), st.booleans()),
)
def test_top_k(same: Same, seed, sizes, k, width, share, values) -> None:
    kind, biases = values
    parts = make_embeddings(seed, *sizes, width, biases)
    if kind == "few":  # many scores are equal
        parts = [np.round(part / 2) for part in parts]
    if kind == "not finite":  # some scores are infinite, some NaN
        for part in parts[:2]:
            part[::3, 0], part[1::3, 0] = np.inf, -np.inf
            part[2::6, 1] = np.nan
    exclusions = make_exclusions(seed, *sizes, share)
    with np.errstate(invalid="ignore"):
        same(lambda kernel, threads: kernel.factored.top_k(*parts, k, exclusions, threads))


# --- sample and update --------------------------------------------------------------------------


@EXAMPLES
@given(case=CASES)
def test_sample(same: Same, case: Case) -> None:
    def sample(k: Kernel, threads: int) -> Outcome:
        weights = case.weights(k)
        before = weights.state()
        triplets = case.sample(weights, threads=threads)
        assert differences(weights.state(), before) == []
        return triplets

    same(sample)


@EXAMPLES
@given(case=CASES, longest=st.sampled_from([1, 2, 5]), n_steps=st.sampled_from([0, 1, 30]))
def test_update(same: Same, case: Case, longest: int, n_steps: int) -> None:
    rng = np.random.default_rng(case.seed + 4)
    step_ptr = np.concatenate(([0], np.cumsum(rng.integers(0, longest + 1, n_steps))))
    documents = rng.integers(0, case.n_documents, int(step_ptr[-1]))
    slopes = (singles(rng, documents.size) * (rng.random(documents.size) < 0.7)).astype(np.float32)
    queries = rng.integers(0, case.n_queries, n_steps)
    steps = FactoredSteps(queries, step_ptr, documents, slopes)

    def update(k: Kernel, threads: int) -> Outcome:
        weights = case.weights(k)
        options = {"learning_rate": case.rate, "penalty": case.penalty}
        weights.update(case.inputs, steps, threads=threads, **options)
        return weights.state()

    same(update)


@EXAMPLES
@given(case=CASES)
def test_sample_and_update_equal_a_batch(kernel: Kernel, case: Case) -> None:
    case = dataclasses.replace(case, batch_size=256, form=PairwiseForm.HINGE)
    weights = case.weights(kernel)
    triplets, margins, violations = case.sample(weights, threads=2)
    slopes = np.where(margins < 1.0, -violations, np.float32(0.0))
    if not case.adagrad:
        slopes = case.learning_rates * slopes
    steps = FactoredSteps(
        triplets[:, 0].copy(),
        2 * np.arange(case.n_steps + 1),
        triplets[:, 1:].ravel(),
        np.column_stack([slopes, -slopes]).ravel(),
    )
    rate = float(case.learning_rates[0])
    weights.update(case.inputs, steps, learning_rate=rate, penalty=case.penalty, threads=2)
    results = {"margins": margins, "violations": violations, **weights.state()}
    assert differences(results, run(case, kernel)) == []


# --- train --------------------------------------------------------------------------------------


@settings(EXAMPLES, max_examples=150)
@given(case=CASES)
def test_train(same: Same, case: Case) -> None:
    expected = check(case, same)
    hogwild = run(case, same.kernel, hogwild=True)  # one thread has an order
    assert differences(hogwild, expected) == []


@EXAMPLES
@given(case=CASES, cut=st.integers(0, 40))
def test_lists(same: Same, case: Case, cut: int) -> None:
    case = dataclasses.replace(case, n_positives=1, member_weights=False)
    whole = same(lambda k, threads: run_lists(case, k, threads))
    weights, cut = case.weights(same.kernel), cut - cut % case.batch_size
    losses = [case.train_lists(weights, part) for part in (slice(cut), slice(cut, None))]
    resumed = {"losses": np.concatenate(losses), **weights.state()}
    assert differences(resumed, whole) == []


def test_a_list_of_one_negative_is_the_logistic_loss(kernel: Kernel) -> None:
    case = Case(form=PairwiseForm.LOGISTIC, sampled=True, document_kind=KINDS[0])
    pairs, lists = case.weights(kernel), case.weights(kernel)
    margins = case.train(pairs).margins.astype(np.float64)
    losses = lists.train_lists(
        case.inputs, case.source(), case.learning_rates, execution=Execution(case.batch_size)
    )
    np.testing.assert_allclose(losses, np.log1p(np.exp(-margins)), rtol=1e-4)
    for one, other in zip(pairs.factors, lists.factors, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@EXAMPLES
@given(case=CASES)
def test_a_sampler_equals_sample_triplets(kernel: Kernel, case: Case) -> None:
    case = dataclasses.replace(case, sampled=True, member_weights=False)
    sampler = case.source()
    assert isinstance(sampler, TripletSampler)
    steps = (sampler.seed, sampler.first, sampler.count, sampler.max_trials, sampler.n_positives)
    triplets = kernel.sampling.sample_triplets(sampler.lists, *steps)
    weights = case.weights(kernel)
    assert differences(case.sample(weights, sampler), case.sample(weights, triplets)) == []


@pytest.mark.parametrize("batch_size", [1, 3, 256])
@pytest.mark.parametrize("adagrad", [False, True])
@pytest.mark.parametrize("form", BUILTIN_FORMS)
def test_every_form(same: Same, form: PairwiseForm, adagrad: bool, batch_size: int) -> None:
    case = Case(adagrad=adagrad, form=form, batch_size=batch_size, max_norm=0.8)
    for trials in (1, 5):
        for kinds in ((None, None), (KINDS[0], KINDS[3]), (None, KINDS[1]), (KINDS[2], None)):
            for context_kind in (None, KINDS[0]):
                case = dataclasses.replace(
                    case,
                    query_kind=kinds[0],
                    document_kind=kinds[1],
                    context_kind=context_kind,
                    trials=trials,
                )
                assert check(case, same)["violations"].any()


def long_case(features: bool, n_steps: int, batch_size: int, **more: Any) -> Case:
    """Sampled triplets with several trials, with or without features."""
    kind = KINDS[0] if features else None
    return Case(
        n_queries=40,
        n_documents=60,
        query_kind=kind,
        document_kind=kind,
        n_steps=n_steps,
        sampled=True,
        counts=True,
        trials=5,
        rate=0.05,
        batch_size=batch_size,
        **more,
    )


@pytest.mark.parametrize(
    ("width", "adagrad", "features"),
    # Every pair of two of the three.
    [
        (w, a, a ^ bool(i % 2))
        for i, w in enumerate((8, 24, 32, 64, 128, 136))
        for a in (False, True)
    ],
)
def test_longer_training(same: Same, width: int, adagrad: bool, features: bool) -> None:
    case = long_case(features, 700, 256, width=width, adagrad=adagrad, spread=0.2, max_norm=1.0)
    case = dataclasses.replace(case, rowwise=width % 16 == 0)
    violations = check(case, same)["violations"]
    assert 0 < np.count_nonzero(violations) <= case.n_steps


@pytest.mark.parametrize(("features", "batch_size"), [(False, 100), (True, 1000), (True, 10_000)])
def test_adaptive_parallelism(kernel: Kernel, features: bool, batch_size: int) -> None:
    # So many steps that a kernel measures which is faster, parallel or serial; with large batches
    # it stays parallel.
    case = long_case(features, 45_000, batch_size)
    expected = run(case, kernel)
    for threads in THREADS[1:]:
        assert differences(run(case, kernel, threads), expected) == [], threads


FEWER_THREADS = """
import numpy as np, scipy.sparse as sp
from ranking.kernels.contract import Execution, FactoredSteps
from ranking.kernels.factored import FactoredInputs, FactoredWeights
from ranking.kernels.select import get_kernel

rng = np.random.default_rng(0)
sides = [sp.random_array((30, 20), density=0.3, format="csr", rng=rng) for _ in range(2)]
triplets = rng.integers(0, 30, (500, 4))
results = []
for threads in (1, 3):
    first = np.random.default_rng(1).normal(size=(2, 20, 8)).astype(np.float32)
    factors = (first[0], first[1], np.zeros((0, 8), np.float32), np.zeros(0, np.float32))
    weights = FactoredWeights(get_kernel("cython"), factors, adagrad=True)
    inputs, rates = FactoredInputs(*sides), np.full(500, 0.1, np.float32)
    weights.train(inputs, triplets, rates, execution=Execution(100, False, threads))
    queries, documents = triplets[:100, 0].copy(), triplets[:100, 1].copy()
    steps = FactoredSteps(queries, np.arange(101), documents, rates[:100])
    weights.update(inputs, steps, learning_rate=0.1, threads=threads)
    results.append(b"".join(each.tobytes() for each in weights.factors))
assert results[0] == results[1]
"""


def test_fewer_threads_than_requested() -> None:
    environment = {**os.environ, "OMP_THREAD_LIMIT": "1"}
    subprocess.run([sys.executable, "-P", "-c", FEWER_THREADS], check=True, env=environment)


@pytest.mark.parametrize("n_documents", [30, 50, 5000])
def test_few_and_many_documents(same: Same, n_documents: int) -> None:
    # A kernel may compose all documents at once if there are few; the bits are the same.
    kinds = {"query_kind": KINDS[0], "document_kind": KINDS[0]}
    case = Case(n_documents=n_documents, n_steps=60, trials=5, batch_size=16, **kinds)
    check(case, same)


@EXAMPLES
@given(case=CASES, cut=st.integers(0, 13))
def test_training_can_be_resumed(same: Same, case: Case, cut: int) -> None:
    case = dataclasses.replace(case, batch_size=3)
    expected = run(case, same.kernel)
    for first, second in same.orders():
        weights = case.weights(first)
        head = case.train(weights, slice(0, 3 * cut), 2)
        # Parameters that are not finite cannot be restored.
        assume(all(np.isfinite(each).all() for each in weights.factors))
        squares = weights.squares if case.adagrad else None
        weights = FactoredWeights(second, weights.factors, adagrad=case.adagrad, squares=squares)
        tail = case.train(weights, slice(3 * cut, None))
        margins, violations = (np.concatenate(parts) for parts in zip(head, tail, strict=True))
        results = {"margins": margins, "violations": violations, **weights.state()}
        assert differences(results, expected) == [], (first.name, second.name)


@pytest.mark.parametrize("sampled", [False, True])
def test_no_steps(same: Same, sampled: bool) -> None:
    check(Case(n_steps=0, sampled=sampled), same)


def test_positives_whose_scores_are_nan(same: Same) -> None:
    # Squared hinge with a large rate: the embeddings overflow, and NaNs have no order.
    kind = ("float32", "int32")
    case = Case(
        n_queries=4,
        n_documents=4,
        document_kind=kind,
        context_kind=kind,
        density=1.0,
        width=16,
        adagrad=False,
        sampled=True,
        member_weights=True,
        trials=1,
        n_positives=3,
        positive_rank=1,
        form=PairwiseForm.SQUARED_HINGE,
        rate=3.0,
        spread=3.0,
        batch_size=3,
    )
    assert np.isnan(check(case, same)["margins"]).any()


def test_margins_that_are_not_finite(same: Same) -> None:
    # Scores overflow: a margin is infinite or NaN, which violates nothing.
    case = Case(spread=1e30, adagrad=False, trials=2, form=PairwiseForm.HINGE, n_steps=9)
    assert not np.isfinite(check(case, same)["margins"]).all()


def test_every_build_of_cython(cython_build: Same) -> None:
    for kind in (None, KINDS[0]):
        for adagrad in (False, True):
            kinds = {"query_kind": kind, "document_kind": kind, "context_kind": kind}
            case = Case(adagrad=adagrad, sampled=True, trials=5, width=40, **kinds)
            check(dataclasses.replace(case, max_norm=0.8), cython_build)
    parts = make_embeddings(0, 9, 150, 40, biases=True)
    cython_build(
        lambda k, threads: [k.factored.scores(*parts, threads), *k.factored.top_k(*parts, 7)]
    )


@EXAMPLES
@given(
    seed=SEEDS,
    n_rows=st.integers(0, 40),
    width=st.sampled_from(WIDTHS),
    adagrad=st.booleans(),
    rate=st.sampled_from([0.0, 0.3, 1e-30, 1e6]),
    l1=st.sampled_from([0.0, 0.5, 1e-38]),
    l2=st.sampled_from([0.0, 0.5, 1e30]),
)
def test_prox(same: Same, seed, n_rows, width, adagrad, rate, l1, l2) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(n_rows, width)).astype(np.float32)
    matrix[rng.random(matrix.shape) < 0.2] *= 0.0  # also -0
    squares = (1.0 + rng.random(matrix.shape)).astype(np.float32)
    squares = squares if adagrad else np.zeros((0, 0), np.float32)

    def prox(kernel: Kernel, threads: int) -> list[NDArray[np.float32]]:
        out, penalty = np.empty_like(matrix), EntryPenalty(l1, l2)
        kernel.factored.implementation.factored_prox(matrix, squares, rate, penalty, out, threads)
        return [out]

    (out,) = same(prox)
    assert not np.signbit(out[out == 0.0]).any()
