"""The factored family against derivatives and plain loops, and its input validation."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from parity_helpers import refuses

from ranking.kernels.contract import (
    BUILTIN_FORMS,
    Execution,
    FactoredSteps,
    Factors,
    PairwiseForm,
    RowPenalty,
    StepResults,
)
from ranking.kernels.factored import NAMES, FactoredInputs, FactoredWeights, FeatureRows
from ranking.kernels.kernel import Kernel
from ranking.kernels.pairwise import TrainingLoss
from ranking.kernels.sampling import PositiveLists, TripletSampler

WIDTH = 8
LOSSES: dict[PairwiseForm, Callable[[float], float]] = {
    PairwiseForm.HINGE: lambda z: max(0.0, 1.0 - z),
    PairwiseForm.SQUARED_HINGE: lambda z: max(0.0, 1.0 - z) ** 2,
    PairwiseForm.LOGISTIC: lambda z: float(np.log1p(np.exp(-z))),
}
Dense = NDArray[np.float64]


def make_inputs(seed: int = 0, *, contexts: bool = False) -> FactoredInputs:
    rng = np.random.default_rng(seed)
    result = []
    for n_rows, n_features in ((5, 6), (7, 9), (5, 9)):
        dense = rng.normal(size=(n_rows, n_features))
        result.append(sp.csr_array(dense * (rng.random(dense.shape) < 0.6)))
    return FactoredInputs(result[0], result[1], result[2] if contexts else None)


def make_factors(
    inputs: FactoredInputs, seed: int = 1, *, biases: bool = True, scale: float = 0.3
) -> Factors:
    rng = np.random.default_rng(seed)
    n_features, contexts = inputs.n_document_features, inputs.features.contexts is not None
    result = [
        rng.normal(scale=scale, size=shape).astype(np.float32)
        for shape in (
            (inputs.n_query_features, WIDTH),
            (n_features, WIDTH),
            (n_features * contexts, WIDTH),
            (n_features * biases,),
        )
    ]
    return Factors(*result)


def no_contexts(U: Any, V: Any, biases: Any = None) -> Factors:
    empty = np.zeros(0, np.float32) if biases is None else biases
    return Factors(U, V, np.zeros((0, U.shape[1]), np.float32), empty)


def make_weights(kernel: Kernel, factors: Factors, *, adagrad: bool = False) -> FactoredWeights:
    copies = Factors(*(array.copy() for array in factors))
    return FactoredWeights(kernel, copies, adagrad=adagrad)


def train(
    weights: FactoredWeights,
    inputs: FactoredInputs,
    triplets: Any,
    rates: Any,
    *,
    n_positives: int = 1,
    positive_rank: int = 0,
    **options: Any,
) -> StepResults:
    """Train with the fields of the loss, the penalty and the execution as options."""
    loss, penalty, execution = (
        {name: options.pop(name) for name in fields if name in options}
        for fields in (("form", "rank_weights"), RowPenalty._fields, Execution._fields)
    )
    assert not options
    return weights.train(
        inputs,
        triplets,
        rates,
        loss=TrainingLoss(**loss),
        n_positives=n_positives,
        positive_rank=positive_rank,
        penalty=RowPenalty(**penalty),
        execution=Execution(**({"batch_size": 256} | execution)),
    )


def make_triplets(inputs: FactoredInputs, n: int, trials: int = 1) -> NDArray[np.int64]:
    rng = np.random.default_rng(2)
    triplets = rng.integers(0, inputs.n_documents, (n, 2 + trials))
    triplets[:, 0] = rng.integers(0, inputs.n_queries, n)
    return triplets


def full(n: int, value: float) -> NDArray[np.float32]:
    return np.full(n, value, np.float32)


def dense_side(csr: Any, n_rows: int, n_features: int) -> Dense:
    if csr is None:
        return np.eye(n_rows)
    indptr, indices, data = csr
    rows: Dense = sp.csr_array((data, indices, indptr), shape=(n_rows, n_features)).toarray()
    return rows


class Plain:
    """The model by dense matrices in double precision."""

    def __init__(self, inputs: FactoredInputs, factors: Factors) -> None:
        queries, documents, contexts = inputs.features
        self.q = dense_side(queries, inputs.n_queries, inputs.n_query_features)
        self.d = dense_side(documents, inputs.n_documents, inputs.n_document_features)
        self.c = np.zeros((inputs.n_queries, self.d.shape[1]))
        if contexts is not None:
            self.c = dense_side(contexts, *self.c.shape)
        self.arrays = [array.astype(np.float64) for array in factors]

    def score(self, query: int, document: int) -> float:
        U, V, S, biases = self.arrays
        q, c, d = self.q[query], self.c[query], self.d[document]
        total = (q @ U) @ (d @ V)
        if S.size:
            total += (c @ S) @ (d @ S)
        return float(total + (d @ biases if biases.size else 0.0))

    def margin(self, query: int, better: int, worse: int) -> float:
        return self.score(query, better) - self.score(query, worse)


def numerical(value: Callable[[], float], at: Dense, h: float = 1e-4) -> Dense:
    """Return the derivatives of a value by what is in an array, by central differences."""
    out = np.empty_like(at)
    for place in np.ndindex(at.shape):
        own = at[place]
        at[place] = own + h
        above = value()
        at[place] = own - h
        out[place] = (above - value()) / (2 * h)
        at[place] = own
    return out


# --- a step -------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", BUILTIN_FORMS)
@pytest.mark.parametrize("which", range(4), ids=NAMES)
def test_a_step_follows_the_gradient(kernel: Kernel, form: PairwiseForm, which: int) -> None:
    inputs = make_inputs(contexts=True)
    factors = make_factors(inputs)
    ranks, moved = np.array([0.5, 1.5], np.float32), 0
    for selection in make_triplets(inputs, 12):
        model_weights = make_weights(kernel, factors)
        margins, weights = train(
            model_weights,
            inputs,
            selection[None],
            full(1, 1.0),
            form=form,
            rank_weights=ranks,
            batch_size=1,
        )
        plain = Plain(inputs, factors)
        assert margins[0] == pytest.approx(plain.margin(*selection), abs=1e-5)
        assert weights[0] == 1.5

        def loss(plain: Plain = plain, triplet: Any = selection) -> float:
            return 1.5 * LOSSES[form](plain.margin(*triplet))

        if abs(plain.margin(*selection) - 1.0) < 1e-2:
            continue  # a kink has no derivative
        change = factors[which].astype(float) - model_weights.factors[which]
        expected = numerical(loss, plain.arrays[which])
        np.testing.assert_allclose(change, expected, rtol=1e-3, atol=1e-5)
        moved += bool(np.any(change))
    assert moved >= 3


@pytest.mark.parametrize("contexts", [False, True])
@pytest.mark.parametrize("which", range(4), ids=NAMES)
def test_a_list_of_documents_follows_the_gradient(
    kernel: Kernel, which: int, contexts: bool
) -> None:
    # Any loss of a list has slopes: here it is a weighted sum of scores.
    inputs = make_inputs(contexts=contexts)
    factors = make_factors(inputs)
    rng = np.random.default_rng(3)
    for n_documents in (1, 2, 3, 5):
        documents = rng.integers(0, inputs.n_documents, n_documents)
        slopes = rng.normal(size=n_documents).astype(np.float32)
        weights = make_weights(kernel, factors)
        queries = np.array([n_documents % inputs.n_queries])
        steps = FactoredSteps(queries, np.array([0, n_documents]), documents, slopes)
        weights.update(inputs, steps, learning_rate=1.0)
        plain = Plain(inputs, factors)

        def loss(plain: Plain = plain, own: Any = (queries[0], documents, slopes)) -> float:
            return float(own[2].astype(float) @ [plain.score(own[0], d) for d in own[1]])

        change = factors[which].astype(float) - weights.factors[which]
        expected = numerical(loss, plain.arrays[which])
        np.testing.assert_allclose(change, expected, rtol=1e-3, atol=1e-5)


def test_the_first_violation_is_taken_and_weighted_by_its_trial(kernel: Kernel) -> None:
    inputs = FactoredInputs(1, 6)
    U, V = np.zeros((1, WIDTH), np.float32), np.zeros((6, WIDTH), np.float32)
    U[0, 0], V[:, 0] = 1.0, [5.0, 1.0, 2.0, 4.5, 4.25, 0.0]
    ranks = np.arange(10.0, 16.0, dtype=np.float32)
    model_weights = make_weights(kernel, no_contexts(U, V))
    triplets = np.array([[0, 0, 1, 2, 3, 4], [0, 0, 1, 2, 5, 5]])
    selection, margins, weights = model_weights.sample(inputs, triplets, rank_weights=ranks)
    assert selection.tolist() == [[0, 0, 3], [0, 0, 5]]
    assert margins.tolist() == [0.5, 5.0]
    assert weights.tolist() == [10.0 + 5 // 3, 0.0]
    train(model_weights, inputs, triplets, full(2, 0.5), rank_weights=ranks)
    changed = np.flatnonzero(np.any(model_weights.factors[1] != V, axis=1))
    assert changed.tolist() == [0, 3]


def test_the_positive_is_the_one_of_its_rank(kernel: Kernel) -> None:
    inputs = FactoredInputs(1, 6)
    U, V = np.zeros((1, WIDTH), np.float32), np.zeros((6, WIDTH), np.float32)
    U[0, 0], V[:, 0] = 1.0, [1.0, 3.0, 2.0, 3.0, 0.5, 0.0]
    weights = make_weights(kernel, no_contexts(U, V))
    triplets = np.array([[0, 0, 1, 2, 3, 5]])
    for place, better in enumerate([1, 3, 2, 0]):  # 1 and 3 are equal, and 1 was sampled first
        selection, margins, _ = weights.sample(inputs, triplets, n_positives=4, positive_rank=place)
        assert selection.tolist() == [[0, better, 5]]
        assert margins.tolist() == [V[better, 0]]


# --- sampled triplets -----------------------------------------------------------------------------


def lists_for(n_queries: int, n_documents: int, **more: Any) -> PositiveLists:
    """Query i has the documents i and i + 1."""
    own = [np.array([i, i + 1]) for i in range(n_queries)]
    return PositiveLists(
        queries=np.arange(n_queries),
        list_of=np.arange(n_queries),
        member_ptr=2 * np.arange(n_queries + 1),
        members=np.concatenate(own),
        own_document=np.full(n_queries, -1),
        n_documents=n_documents,
        **more,
    )


def test_member_weights_are_those_of_the_positive(kernel: Kernel) -> None:
    inputs = FactoredInputs(4, 6)
    matches = np.arange(1.0, 9.0, dtype=np.float32)
    lists = lists_for(4, 6, member_weights=matches)
    model_weights = make_weights(kernel, make_factors(inputs))
    selection, _, weights = model_weights.sample(inputs, TripletSampler(lists, 1, 0, 50))
    # Query i has the documents i and i + 1 at the places 2 i and 2 i + 1.
    expected = matches[2 * selection[:, 0] + (selection[:, 1] - selection[:, 0])]
    assert weights.tolist() == expected.tolist()
    assert len(set(weights.tolist())) == 8


def test_the_sampled_rank_has_the_expectation_of_its_distribution(kernel: Kernel) -> None:
    # Of 40 documents, 9 of 39 violate: the trial N is geometric, and the rank is 39 // N.
    n_documents, max_trials, n = 40, 6, 1500
    V = np.zeros((n_documents, WIDTH), np.float32)
    V[0, 0] = 2.0
    V[1:, 0] = np.random.default_rng(1).permutation(np.where(np.arange(39) < 9, 1.5, 0.0))
    U = np.eye(1, WIDTH, dtype=np.float32)
    lists = PositiveLists(
        np.array([0]), np.array([0]), np.array([0, 1]), np.array([0]), np.array([-1]), n_documents
    )
    weights = make_weights(kernel, no_contexts(U, V))
    ranks = np.arange(n_documents, dtype=np.float32)
    inputs = FactoredInputs(1, n_documents)
    _, _, result = weights.sample(
        inputs, TripletSampler(lists, 3, 0, n, max_trials), rank_weights=ranks
    )
    share = 9 / 39
    chance = [share * (1 - share) ** (trial - 1) for trial in range(1, max_trials + 1)]
    rank = (n_documents - 1) // np.arange(1, max_trials + 1)
    mean = float(np.dot(chance, rank))
    deviation = np.sqrt(np.dot(chance, rank**2) - mean**2)
    assert abs(result.mean() - mean) < 4 * deviation / np.sqrt(n)
    assert set(result.tolist()) == {0.0, *rank.astype(float)}


# --- a block ------------------------------------------------------------------------------------


def test_identity_features_are_no_features(kernel: Kernel) -> None:
    none = FactoredInputs(5, 7)
    factors = make_factors(none)
    triplets, finished = make_triplets(none, 60, 3), []
    sides: list[tuple[FeatureRows, FeatureRows]] = [
        (5, 7),
        (sp.csr_array(np.eye(5)), 7),
        (5, sp.csr_array(np.eye(7, dtype=np.float32))),
        (sp.csr_array(np.eye(5)), sp.csr_array(np.eye(7))),
    ]
    for side in sides:
        weights = make_weights(kernel, factors, adagrad=True)
        parts = train(
            weights,
            FactoredInputs(*side),
            triplets,
            full(60, 0.1),
            max_norm=0.7,
            batch_size=8,
            threads=2,
        )
        finished.append(b"".join(array.tobytes() for array in (*parts, *weights.state().values())))
    assert len(set(finished)) == 1


class PlainBlock:
    """Sums of gradients, by object and then by feature, in double precision."""

    def __init__(self, plain: Plain) -> None:
        self.plain = plain
        self.gradients = [np.zeros_like(array) for array in plain.arrays]
        self.squares = [np.zeros_like(array) for array in plain.arrays]

    def add(self, which: int, features: Dense, steps: list[Any]) -> None:
        """Add one object's steps: its gradients, and their squares, times its features."""
        if steps and self.plain.arrays[which].size:
            total, squares = np.sum(steps, axis=0), np.sum(np.square(steps), axis=0)
            self.gradients[which] += np.multiply.outer(features, total)
            self.squares[which] += np.multiply.outer(features**2, squares)

    def sum_up(self, triplets: NDArray[np.int64], slopes: list[float]) -> None:
        q, c, d = self.plain.q, self.plain.c, self.plain.d
        U, V, S, _ = self.plain.arrays
        steps = list(zip(triplets.tolist(), slopes, strict=True))
        for query in range(q.shape[0]):
            differences = [s * (d[b] - d[w]) for (own, b, w), s in steps if own == query]
            self.add(0, q[query], [each @ V for each in differences])
            if S.size:
                self.add(2, c[query], [each @ S for each in differences])
        for document in range(d.shape[0]):
            pulls = [(own, s) for (own, b, _), s in steps if b == document]
            pulls += [(own, -s) for (own, _, w), s in steps if w == document]
            self.add(1, d[document], [s * (q[own] @ U) for own, s in pulls])
            if S.size:
                self.add(2, d[document], [s * (c[own] @ S) for own, s in pulls])
            self.add(3, d[document], [s for _, s in pulls])


@pytest.mark.parametrize("sides", ["none", "features", "contexts"])
@pytest.mark.parametrize("adagrad", [False, True])
@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("block", [1, 4, 64])
def test_training_matches_a_loop_in_numpy(
    kernel: Kernel, sides: str, adagrad: bool, biases: bool, block: int
) -> None:
    # Double precision, dense, sums by masks: the same model to a few digits.
    inputs = FactoredInputs(5, 7) if sides == "none" else make_inputs(contexts=sides == "contexts")
    factors = make_factors(inputs, biases=biases)
    triplets, rate, max_norm = make_triplets(inputs, 20), 0.2, 0.9
    weights = make_weights(kernel, factors, adagrad=adagrad)
    train(
        weights,
        inputs,
        triplets,
        full(20, rate),
        form=PairwiseForm.LOGISTIC,
        max_norm=max_norm,
        batch_size=block,
        threads=2,
    )
    plain = Plain(inputs, factors)
    G = [np.ones_like(array) for array in plain.arrays]
    for start in range(0, 20, block):
        selection = triplets[start : start + block]
        sums = PlainBlock(plain)
        sums.sum_up(selection, [-1.0 / (1.0 + np.exp(plain.margin(*one))) for one in selection])
        for which, array in enumerate(plain.arrays):
            G[which] += sums.squares[which]
            array -= rate * sums.gradients[which] / (np.sqrt(G[which]) if adagrad else 1.0)
        named = np.zeros(plain.d.shape[0], bool)
        named[selection[:, 1:]] = True
        by_documents = np.any(plain.d[named], axis=0)
        by_contexts = np.any(plain.c[selection[:, 0]], axis=0)
        touched = (
            np.any(plain.q[selection[:, 0]], axis=0),
            by_documents,
            by_documents | by_contexts,
        )
        for array, rows in zip(plain.arrays, touched, strict=False):
            for row in np.flatnonzero(rows) if array.size else ():
                array[row] *= min(1.0, max_norm / np.linalg.norm(array[row]))
    for actual, expected in zip(weights.factors, plain.arrays, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=2e-4, atol=2e-5)
    if adagrad:
        for actual, expected in zip(weights.squares, G, strict=True):
            np.testing.assert_allclose(actual, expected, rtol=2e-4, atol=2e-5)


def test_rows_are_shrunk_only_if_a_step_changed_them(kernel: Kernel) -> None:
    inputs = FactoredInputs(3, 4)
    U, V = full(3 * WIDTH, 2.0).reshape(3, -1), full(4 * WIDTH, 2.0).reshape(4, -1)
    V[3] = -2.0  # far below the others: no violation
    weights = make_weights(kernel, no_contexts(U, V))
    triplets = np.array([[0, 0, 1], [1, 2, 3], [0, 1, 0]])
    margins, _ = train(weights, inputs, triplets, full(3, 0.25), max_norm=1.0)
    assert margins.tolist() == [0.0, 64.0, 0.0]
    norms = [np.linalg.norm(array, axis=1) for array in weights.factors[:2]]
    selection = np.sqrt(4.0 * WIDTH)
    np.testing.assert_allclose(norms[0], [1.0, selection, selection], rtol=1e-6)
    np.testing.assert_allclose(norms[1], [1.0, 1.0, selection, selection], rtol=1e-6)


def test_zeros_on_the_right_stay_and_change_nothing(kernel: Kernel) -> None:
    inputs = make_inputs()
    factors = make_factors(inputs)
    padded = [np.pad(array, ((0, 0), (0, 16))) for array in factors[:3]]
    triplets, states = make_triplets(inputs, 30, 2), []
    for own in (factors, (padded[0], padded[1], padded[2], factors[3])):
        weights = make_weights(kernel, own, adagrad=True)
        train(weights, inputs, triplets, full(30, 0.1), max_norm=0.6, batch_size=7)
        states.append(weights.factors)
    for narrow, wide in zip(states[0][:2], states[1][:2], strict=True):
        assert np.array_equal(narrow, wide[:, :WIDTH])
        assert not wide[:, WIDTH:].any()
    assert np.array_equal(states[0][3], states[1][3])


# --- hogwild ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_hogwild_learns(kernel: Kernel) -> None:
    # Four groups of queries, each with its own documents: a matched document should win.
    n_queries, n_documents, n = 80, 60, 12_000
    group, kind = np.arange(n_queries) % 4, np.arange(n_documents) % 4
    own = [np.flatnonzero(kind == one) for one in group]
    lists = PositiveLists(
        np.arange(n_queries),
        np.arange(n_queries),
        np.concatenate(([0], np.cumsum([each.size for each in own]))),
        np.concatenate(own),
        np.full(n_queries, -1),
        n_documents,
    )
    inputs = FactoredInputs(n_queries, n_documents)
    weights = make_weights(kernel, make_factors(inputs, scale=0.05), adagrad=True)
    start = weights.sample(inputs, TripletSampler(lists, 2, 0, 2000))[1]
    margins, _ = train(
        weights,
        inputs,
        TripletSampler(lists, 1, 0, n, 5),
        full(n, 0.2),
        batch_size=64,
        hogwild=True,
        threads=3,
    )
    assert np.isfinite(margins).all()
    assert all(np.isfinite(array).all() for array in weights.state().values())
    _, margins, _ = weights.sample(inputs, TripletSampler(lists, 2, 0, 2000))
    assert np.mean(start > 0.0) < 0.7
    assert np.mean(margins > 0.0) > 0.97


# --- embeddings, scores and top-k ---------------------------------------------------------------


def test_embeddings_and_scores(kernel: Kernel) -> None:
    inputs = make_inputs()
    factors = make_factors(inputs)
    plain = Plain(inputs, factors)
    sides = [sp.csr_array(plain.q), sp.csr_array(plain.d)]
    Q, D = (kernel.factored.embeddings(side, factors[at], 2) for at, side in enumerate(sides))
    np.testing.assert_allclose(Q, plain.q @ plain.arrays[0], rtol=1e-5, atol=1e-6)
    scores = kernel.factored.scores(Q, D, (plain.d @ plain.arrays[3]).astype(np.float32), 2)
    for query in range(inputs.n_queries):
        for document in range(inputs.n_documents):
            expected = plain.score(query, document)
            assert scores[query, document] == pytest.approx(expected, abs=1e-5)
    assert kernel.factored.embeddings(factors[0].shape[0], factors[0]) is factors[0]


@pytest.mark.parametrize("k", [1, 4, 10, 300, 1000])
@pytest.mark.parametrize("ties", [False, True])
def test_top_k_is_the_head_of_a_full_sort(kernel: Kernel, k: int, ties: bool) -> None:
    rng = np.random.default_rng(0)
    Q, D = (rng.normal(size=(n, WIDTH)).astype(np.float32) for n in (9, 400))
    biases = rng.normal(size=400).astype(np.float32)
    if ties:
        Q, D, biases = (np.round(array) for array in (Q, D, biases))
    D[7::50] = np.nan
    excluded = [np.sort(rng.permutation(400)[: 100 * (query % 5)]) for query in range(9)]
    ptr = np.concatenate(([0], np.cumsum([each.size for each in excluded])))
    every = kernel.factored.scores(Q, D, biases)
    result, best = kernel.factored.top_k(Q, D, biases, k, (ptr, np.concatenate(excluded)), 2)
    assert result.shape == best.shape == (9, min(k, 400))
    for query in range(9):
        left = [
            (-score, document)
            for document, score in enumerate(every[query].tolist())
            if not np.isnan(score) and document not in set(excluded[query].tolist())
        ]
        expected = sorted(left)[:k]
        n = len(expected)
        assert result[query, :n].tolist() == [document for _, document in expected]
        assert best[query, :n].tolist() == [-score for score, _ in expected]
        assert (result[query, n:] == -1).all()
        assert np.isneginf(best[query, n:]).all()


def test_top_k_has_documents_of_infinite_scores(kernel: Kernel) -> None:
    Q, D = np.ones((1, WIDTH), np.float32), np.zeros((4, WIDTH), np.float32)
    biases = np.array([-np.inf, 1.0, np.inf, -np.inf], np.float32)
    result, best = kernel.factored.top_k(Q, D, biases, 3)
    assert result.tolist() == [[2, 1, 0]]
    assert best.tolist() == [[np.inf, 1.0, -np.inf]]


# --- input validation ----------------------------------------------------------------------------


def step(kernel: Kernel, **changed: Any) -> None:
    """Take a valid step, one argument changed."""
    inputs = changed.pop("inputs", FactoredInputs(2, 3))
    arguments = {"triplets": np.array([[0, 1, 2], [1, 0, 2]]), "rates": full(2, 0.1)} | changed
    weights = make_weights(kernel, make_factors(FactoredInputs(2, 3)))
    train(weights, inputs, arguments.pop("triplets"), arguments.pop("rates"), **arguments)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"inputs": FactoredInputs(2, 4)}, "documents 4 features"),
        ({"inputs": FactoredInputs(3, 3)}, "queries 3"),
        (
            {"inputs": FactoredInputs(2, 3, sp.csr_array(np.ones((2, 3))))},
            "S has rows if, and only if",
        ),
        ({"triplets": np.array([[0, 1]])}, "at least one negative"),
        ({"n_positives": 2}, "at least one negative"),
        ({"positive_rank": 1}, "positive_rank is 1"),
        ({"triplets": np.zeros((2, 3), np.int32)}, "TypeError: triplets has dtype int32"),
        ({"triplets": np.array([[2, 0, 1], [0, 0, 1]])}, r"queries run from 0 to 2"),
        ({"triplets": np.array([[0, 0, 3], [0, 0, 1]])}, r"must lie in 0\.\.2"),
        ({"triplets": np.array([[0, -1, 1], [0, 0, 1]])}, "documents run from -1"),
        ({"triplets": TripletSampler(lists_for(2, 4), 1, 0, 2)}, "lists are for 2 queries and 4"),
        ({"triplets": TripletSampler(lists_for(1, 3), 1, 0, 2)}, "lists are for 1 queries"),
        (
            {"triplets": TripletSampler(lists_for(2, 3), 1, 0, 2, n_positives=2)},
            "2 positives are sampled, not 1",
        ),
        ({"rates": full(3, 0.1)}, "learning_rates: expected shape"),
        ({"rates": np.full(2, 0.1)}, "TypeError: rates has dtype float64"),
        ({"rates": full(2, np.nan)}, "rates must be finite"),
        ({"rates": full(2, -0.1)}, "rates must be finite"),
        ({"rank_weights": full(0, 0.1)}, "rank_weights must be finite, and at least one"),
        ({"rank_weights": full(1, np.inf)}, "rank_weights must be finite"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"max_norm": -1.0}, "max_norm is -1.0"),
        ({"max_norm": np.nan}, "max_norm is nan"),
        ({"form": 7}, "7"),
        ({"threads": 0}, "threads is 0"),
    ],
)
def test_invalid_training_calls(kernel: Kernel, changed: dict[str, Any], message: str) -> None:
    step(kernel)
    with refuses(message):
        step(kernel, **changed)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"queries": np.array([2])}, "queries run from 2 to 2"),
        ({"documents": np.array([0, 3])}, "documents run from 0 to 3"),
        ({"step_ptr": np.array([0, 1])}, "step_ptr must rise from 0 to 2"),
        ({"step_ptr": np.array([0, 1, 2])}, "step_ptr: expected shape"),
        ({"slopes": full(1, 0.1)}, "slopes: expected shape"),
        ({"slopes": np.ones(2)}, "TypeError: slopes has dtype float64"),
        ({"learning_rate": -1.0}, "learning_rate is -1.0"),
        ({"max_norm": np.inf}, "max_norm is inf"),
    ],
)
def test_invalid_updates(kernel: Kernel, changed: dict[str, Any], message: str) -> None:
    arguments = {
        "queries": np.array([0]),
        "step_ptr": np.array([0, 2]),
        "documents": np.array([0, 1]),
        "slopes": full(2, 0.5),
        "learning_rate": 0.1,
        "max_norm": 0.0,
    }
    weights = make_weights(kernel, make_factors(FactoredInputs(2, 3)))
    for change in ({}, changed):
        every = arguments | change
        penalty = RowPenalty(every.pop("max_norm"))
        rate, steps = every.pop("learning_rate"), FactoredSteps(**every)
        with refuses(message) if change else contextlib.nullcontext():
            weights.update(FactoredInputs(2, 3), steps, learning_rate=rate, penalty=penalty)


def test_invalid_samplers() -> None:
    lists = lists_for(2, 4)
    TripletSampler(lists, 1, 0, 3, 2, 2)
    for changed, message in (
        ({"seed": -1}, "seed is -1"),
        ({"first": 2**64}, "first is"),
        ({"count": -1}, "count is -1"),
        ({"max_trials": 0}, "max_trials is 0"),
        ({"n_positives": 0}, "n_positives is 0"),
        ({"lists": lists_for(2, 4, any_negative=True), "n_positives": 2}, "with several positives"),
    ):
        with refuses(message):
            TripletSampler(**({"lists": lists, "seed": 1, "first": 0, "count": 3} | changed))


def weights_with(kernel: Kernel, **changed: Any) -> FactoredWeights:
    arguments = dict(zip(NAMES, make_factors(FactoredInputs(2, 3)), strict=True)) | changed
    factors = tuple(arguments.pop(name) for name in NAMES)
    return FactoredWeights(kernel, factors, **arguments)


def read_only(array: NDArray[np.float32]) -> NDArray[np.float32]:
    array.flags.writeable = False
    return array


def ones(*shapes: tuple[int, ...]) -> tuple[NDArray[np.float32], ...]:
    return tuple(np.ones(shape, np.float32) for shape in shapes)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"U": full(16, 0.1)}, "U: expected shape"),
        ({"U": np.zeros((2, 8))}, "TypeError: U has dtype float64"),
        ({"U": np.asfortranarray(np.ones((2, 8), np.float32))}, "C-contiguous"),
        ({"U": np.full((2, 8), np.nan, np.float32)}, "must be finite"),
        ({"U": read_only(np.ones((2, 8), np.float32))}, "U is read-only"),
        ({"U": np.ones((2, 16), np.float32)}, "V: expected shape"),
        ({"V": np.full((3, 8), np.inf, np.float32)}, "must be finite"),
        ({"V": read_only(np.ones((3, 8), np.float32))}, "V is read-only"),
        ({"S": np.ones((2, 8), np.float32)}, "S: expected shape"),
        ({"S": np.ones((3, 16), np.float32)}, "S: expected shape"),
        ({"biases": full(2, 0.1)}, "biases: expected shape"),
        ({"biases": read_only(full(3, 0.1))}, "biases is read-only"),
        (
            {"adagrad": True, "squares": ones((2, 8), (2, 8), (0, 8), (3,))},
            "squares of V: expected shape",
        ),
        (
            {
                "adagrad": True,
                "squares": (np.zeros((2, 8), np.float32), *ones((3, 8), (0, 8), (3,))),
            },
            "squares of U must be positive",
        ),
        ({"U": np.ones((2, 7), np.float32)}, "multiple of 8"),
        ({"U": np.ones((2, 0), np.float32)}, "multiple of 8"),
    ],
)
def test_invalid_factors(kernel: Kernel, changed: dict[str, Any], message: str) -> None:
    weights_with(kernel)
    with refuses(message):
        weights_with(kernel, **changed)


def test_weights_must_not_overlap(kernel: Kernel) -> None:
    both = np.ones((5, 8), np.float32)
    with refuses("overlap"):
        weights_with(kernel, U=both[:3], V=both[2:])


def test_invalid_inputs() -> None:
    with refuses("give at least one"):
        FactoredInputs(0, 3)
    with refuses("TypeError: csr_array or their number"):
        FactoredInputs(2, np.ones((2, 3)))  # type: ignore[arg-type]
    wrong = sp.csr_array(np.ones((2, 3)))
    wrong.indices = wrong.indices[::-1].copy()
    with refuses("not sorted"):
        FactoredInputs(2, wrong)
    with refuses("contexts: expected one row per query"):
        FactoredInputs(2, 3, sp.csr_array(np.ones((2, 4))))
    with refuses("must be finite"):
        FactoredInputs(sp.csr_array(np.array([[np.nan]])), 3)


def test_embeddings_and_scores_refuse(kernel: Kernel) -> None:
    ones = np.ones((3, 8), np.float32)
    none = full(0, 0.0)
    with refuses("have embeddings"):
        kernel.factored.embeddings(sp.csr_array(np.ones((2, 4))), ones)
    with refuses("documents: expected shape"):
        kernel.factored.scores(ones, np.ones((3, 16), np.float32), none)
    with refuses("biases: expected shape"):
        kernel.factored.scores(ones, ones, full(2, 0.0))
    with refuses("pad them"):
        kernel.factored.scores(ones[:, :4].copy(), ones[:, :4].copy(), none)
    with refuses("k is 0"):
        kernel.factored.top_k(ones, ones, none, 0)
    for ptr, excluded, message in (
        ([0, 1, 1], [0], "indptr: expected shape"),
        ([0, 1, 1, 1], [3], "indices run from 3"),
        ([0, 2, 2, 2], [1, 0], "not sorted"),
    ):
        with refuses(message):
            kernel.factored.top_k(ones, ones, none, 1, (np.array(ptr), np.array(excluded)))


def test_inputs_may_be_read_only(kernel: Kernel) -> None:
    rows = sp.csr_array(np.eye(3))
    for array in (rows.indptr, rows.indices, rows.data):
        array.flags.writeable = False
    triplets, rates = np.array([[0, 1, 2], [1, 0, 2]]), full(2, 0.1)
    triplets.flags.writeable = rates.flags.writeable = False
    lists = lists_for(2, 3)
    for array in lists.arrays[:8]:
        array.flags.writeable = False  # type: ignore[union-attr]
    weights = make_weights(kernel, make_factors(FactoredInputs(2, 3)))
    for source in (triplets, TripletSampler(lists, 1, 0, 2)):
        train(weights, FactoredInputs(2, rows), source, rates, rank_weights=read_only(full(1, 1.0)))
        weights.sample(FactoredInputs(2, rows), source)
    U, V, _, biases = (read_only(array.copy()) for array in weights.factors)
    assert kernel.factored.scores(U, V, biases).shape == (2, 3)
    assert kernel.factored.top_k(U, V, biases, 2)[0].shape == (2, 2)
    assert kernel.factored.embeddings(rows, V).shape == (3, WIDTH)
