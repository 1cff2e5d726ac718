"""SGD on vectors against plain loops in double precision, and what it promises."""

from __future__ import annotations

import itertools
import pickle
from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

from ranking import MatchingData, Ranker
from ranking.contracts.callback import Callback
from ranking.data.triplets import positive_lists
from ranking.errors import CombinationError, DataError, DivergenceError, PartError
from ranking.kernels.select import get_kernel
from ranking.models.factored import Factored
from ranking_plugins.callbacks import EarlyStopping
from ranking_plugins.losses import (
    AUC,
    BPR,
    WARP,
    Domination,
    Hinge,
    KosWARP,
    Logistic,
    SquaredHinge,
)
from ranking_plugins.regularizers import L1, L2, Elastic, L1L2Row, MaxNorm, Orthonormal
from ranking_plugins.solvers import SGD
from ranking_plugins.solvers.factored_steps import (
    BLOCK,
    BLOCKS,
    FEATURE_BLOCK,
    FEATURE_BLOCKS,
)
from ranking_plugins.solvers.settings import sampling_lists
from ranking_plugins.solvers.steps import EVALUATION_SEED

SEED = 3
SIDES = ["none", "queries", "documents", "both"]


def ranker(kernel, loss="hinge", regularizer="none", callbacks=(), model=None, **solver):
    solver = {
        "max_steps": 70,
        "learning_rate": 0.2,
        "steps_per_epoch": 25,
        "prox_interval": 10,
        "batch_size": 8,
        **solver,
    }
    return Ranker(
        model or Factored(5, init_scale=1.0),
        loss,
        regularizer,
        SGD(**solver),
        kernel=kernel,
        random_state=SEED,
        callbacks=callbacks,
    )


def bits(fitted):
    model = getattr(fitted, "model_", None) or fitted.model
    return b"".join(tensor.tobytes() for _, tensor in sorted(model.tensors().items()))


# --- one training by hand -----------------------------------------------------------------------


class ByHand:
    """U, V and biases as dense matrices of double precision, one block of steps at a time."""

    def __init__(self, data, model, loss, *, adagrad, max_norm=0.0, rowwise=False):
        self.q = data.query_rows.toarray().astype(np.float64)
        self.d = data.document_rows.toarray().astype(np.float64)
        self.parts = [
            model.U[:, : model.dimensions].astype(np.float64),
            model.V[:, : model.dimensions].astype(np.float64),
            model.document_biases.astype(np.float64)[:, None],
        ]
        self.squares = [np.ones_like(part) for part in self.parts]
        self.loss, self.adagrad, self.max_norm = loss, adagrad, max_norm
        self.rowwise = rowwise or max_norm > 0.0

    def score(self, query, document):
        U, V, biases = self.parts
        own = float((self.d[document] @ biases).sum()) if biases.size else 0.0
        return float((self.q[query] @ U) @ (self.d[document] @ V)) + own

    def violation(self, query, *documents):
        """Return better, worse, margin and L."""
        n_positives, place = self.loss.positives
        positives = sorted(documents[:n_positives], key=lambda d: -self.score(query, d))
        better, negatives = positives[place], documents[n_positives:]
        for trial, worse in enumerate(negatives, start=1):
            margin = self.score(query, better) - self.score(query, worse)
            if len(negatives) == 1:
                return better, worse, margin, 1.0
            if margin < 1.0:
                rank = (self.d.shape[0] - 1) // trial
                return better, worse, margin, sum(1.0 / i for i in range(1, rank + 1))
        return better, worse, margin, 0.0

    def block(self, triplets, rates, importance=None):
        selection = [self.violation(*each) for each in triplets.tolist()]
        U, V, _ = self.parts
        totals = [np.zeros_like(part) for part in self.parts]
        squared = [np.zeros_like(part) for part in self.parts]
        touched = [set(), set()]
        for query, rate, (better, worse, margin, weight) in zip(
            triplets[:, 0].tolist(), rates, selection, strict=True
        ):
            weight *= 1.0 if importance is None else importance[query, better]
            margin = np.array([margin])
            slope = weight * self.loss.pairwise_slope(margin)[0] * (1.0 if self.adagrad else rate)
            if not slope:
                continue
            u = self.q[query] @ U
            pull = slope * ((self.d[better] - self.d[worse]) @ V)
            changes = [(0, self.q[query], pull)]
            for document, sign in ((better, 1.0), (worse, -1.0)):
                changes.append((1, self.d[document], sign * slope * u))
                changes.append((2, self.d[document], np.array([sign * slope])))
            for which, features, y in changes:
                if self.parts[which].size:
                    totals[which] += np.outer(features, y)
                    squared[which] += np.outer(features**2, y**2)
                if which < 2:
                    touched[which] |= set(np.flatnonzero(features))
        for part, squares, y, q in zip(self.parts, self.squares, totals, squared, strict=True):
            if self.adagrad:
                if self.rowwise and part.shape[1] > 1:  # the mean of a row, padded to eight numbers
                    q[...] = q.sum(axis=1, keepdims=True) / 8.0
                squares += q
                part -= rates[0] * y / np.sqrt(squares)
            else:
                part -= y
        for part, rows in zip(self.parts, touched, strict=False):
            for row in rows:
                norm = np.linalg.norm(part[row])
                if 0.0 < self.max_norm < norm:
                    part[row] *= self.max_norm / norm

    def reported(self, kernel, data, importance=None):
        """Return the mean loss at the current parameters, for triplets with a seed of their own."""
        lists = sampling_lists(data, SGD(), "positives")
        positives, _ = self.loss.positives
        seed, count = (SEED + EVALUATION_SEED) % 2**64, int(data.n_relevant.sum())
        triplets = kernel.sampling.sample_triplets(
            lists, seed, 0, count, self.loss.trials, positives
        )
        losses = []
        for triplet in triplets.tolist():
            better, _, margin, weight = self.violation(*triplet)
            value = weight * self.loss.pairwise_value(np.array([margin]))[0]
            if self.loss.trials > 1:
                value = self.integral(triplet[0], better, triplet[1 + positives :])
            losses.append(value * (1.0 if importance is None else importance[triplet[0], better]))
        return np.mean(losses)

    def integral(self, query, better, negatives):
        """Integrate L(x) / x from 1 to 1 + the sum of violations, in steps of whole numbers."""
        n_ranked, total, place, harmonic = self.d.shape[0] - 1, 0.0, 1, 1.0
        margins = [self.score(query, better) - self.score(query, worse) for worse in negatives]
        end = 1.0 + n_ranked * np.mean([max(0.0, 1.0 - margin) for margin in margins])
        while place < min(end, n_ranked):
            total += harmonic * np.log(min(end, place + 1.0) / place)
            place += 1
            harmonic += 1.0 / place
        return total + harmonic * np.log(max(end, place) / place)

    def train(self, triplets, rates, epoch, block, importance=None):
        """Blocks start again with each epoch."""
        for first in range(0, len(triplets), epoch):
            last = min(first + epoch, len(triplets))
            for start in range(first, last, block):
                part = slice(start, min(start + block, last))
                self.block(triplets[part], rates[part], importance)

    def assert_like(self, model, tolerance=2e-4):
        n = model.dimensions
        result = (model.U[:, :n], model.V[:, :n], model.document_biases[:, None])
        for actual, expected in zip(result, self.parts, strict=True):
            np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


def start_of(data, biases=True):
    model = Factored(5, biases, init_scale=1.0)
    model.initialize(data, SEED, get_kernel())
    return model


RATES = {
    "adagrad": lambda t: 0.2,
    "constant": lambda t: 0.2,
    "inverse-sqrt": lambda t: 0.2 / np.sqrt(t),
    "inverse": lambda t: 0.2 / t,
}


@pytest.mark.parametrize(
    "loss",
    [Hinge(), SquaredHinge(), Logistic(), WARP(4), KosWARP(3, k=2, n=3)],
    ids=lambda loss: loss.name,
)
@pytest.mark.parametrize("schedule", RATES)
def test_a_fit_is_the_plain_loop(factored_kernel, make_tastes, loss, schedule):
    data = make_tastes(1, features="both" if schedule in ("adagrad", "inverse-sqrt") else "none")
    fitted = ranker(factored_kernel, loss, schedule=schedule).fit(data)
    lists = sampling_lists(data, SGD(), "positives")
    positives, _ = loss.positives
    triplets = factored_kernel.sampling.sample_triplets(lists, SEED, 0, 70, loss.trials, positives)
    plain = ByHand(data, start_of(data), loss, adagrad=schedule == "adagrad")
    rates, epochs = [RATES[schedule](t) for t in range(1, 71)], []
    for start in (0, 25, 50):
        part = slice(start, min(start + 25, 70))
        plain.train(triplets[part], rates[part], 25, 8)
        epochs.append(plain.reported(factored_kernel, data))
    plain.assert_like(fitted.model_)
    assert [row["loss"] for row in fitted.history_] == pytest.approx(epochs, rel=1e-3)
    assert [row["objective"] for row in fitted.history_] == pytest.approx(epochs, rel=1e-3)
    assert [row["steps"] for row in fitted.history_] == [25, 50, 70]
    assert not fitted.model_.U[:, 5:].any()


@pytest.mark.parametrize("features", SIDES)
@pytest.mark.parametrize("biases", [True, False])
def test_the_maximal_norm_by_hand(factored_kernel, make_tastes, features, biases):
    data = make_tastes(1, features=features)
    model = Factored(5, biases, init_scale=1.0)
    fitted = ranker(factored_kernel, WARP(4), MaxNorm(0.9), model=model).fit(data)
    triplets = factored_kernel.sampling.sample_triplets(
        sampling_lists(data, SGD(), "positives"), SEED, 0, 70, 4
    )
    plain = ByHand(data, start_of(data, biases), WARP(4), adagrad=True, max_norm=0.9)
    plain.train(triplets, [0.2] * 70, 25, 8)
    plain.assert_like(fitted.model_)
    assert fitted.objective_ == fitted.history_[-1]["loss"]


@pytest.mark.parametrize("schedule", ["inverse-sqrt", "adagrad"])
@pytest.mark.parametrize(
    "regularizer", [L1(0.04), L2(0.3), Elastic(0.06, 0.7), L1L2Row(0.05, limit=0.8)], ids=str
)
def test_other_penalties_are_paid_at_boundaries(
    factored_kernel, make_tastes, schedule, regularizer
):
    """By hand: ten steps, then the prox for the sum of their rates; an epoch's end is one too."""
    data = make_tastes(1)
    fitted = ranker(factored_kernel, Logistic(), regularizer, schedule=schedule).fit(data)
    triplets = factored_kernel.sampling.sample_triplets(
        sampling_lists(data, SGD(), "positives"), SEED, 0, 70
    )
    rates = [RATES[schedule](t) for t in range(1, 71)]
    rowwise = regularizer.granularity == "row"
    plain = ByHand(data, start_of(data), Logistic(), adagrad=schedule == "adagrad", rowwise=rowwise)
    edges = [0, 10, 20, 25, 35, 45, 50, 60, 70]
    for start, stop in itertools.pairwise(edges):
        plain.train(triplets[start:stop], rates[start:stop], stop - start, 8)
        for which in (0, 1):
            scale = 1.0 / np.sqrt(plain.squares[which]) if plain.adagrad else 1.0
            due = sum(rates[start:stop]) * scale
            part = plain.parts[which]
            if rowwise:  # all entries of a row have the same step
                steps = np.broadcast_to(due, part.shape)[:, 0]
                rows = zip(part, steps, strict=True)
                part = np.vstack([regularizer.prox(row[None], step) for row, step in rows])
                plain.parts[which] = part
            else:
                plain.parts[which] = regularizer.prox(part, due)
    plain.assert_like(fitted.model_)
    for result, expected in zip(
        (fitted.model_.U[:, :5], fitted.model_.V[:, :5]), plain.parts[:2], strict=False
    ):
        assert np.array_equal(result == 0.0, expected == 0.0)
    penalty = sum(regularizer.penalty(part) for part in plain.parts[:2])
    assert penalty > 0.0
    assert fitted.objective_ - fitted.history_[-1]["loss"] == pytest.approx(penalty, rel=1e-3)


# --- losses of lists ----------------------------------------------------------------------------


def list_loss(data, parts, query, documents):
    """Domination of the first document over the others, as the paper has it."""
    q = data.query_rows.toarray().astype(np.float64)
    d = data.document_rows.toarray().astype(np.float64)
    U, V, biases = parts
    scores = (d[documents] @ V) @ (q[query] @ U) + (d[documents] @ biases).sum(axis=1)
    return np.log1p(np.exp(scores[1:] - scores[0]).sum())


@pytest.mark.parametrize("features", ["none", "both"])
def test_a_listwise_loss_follows_its_gradient(factored_kernel, make_tastes, features):
    """One step of one tuple against central differences, for each block of parameters."""
    data = make_tastes(4, 6, 8, features=features)
    options = {
        "schedule": "constant",
        "learning_rate": 0.1,
        "n_negatives": 3,
        "max_steps": 1,
        "steps_per_epoch": 1,
    }
    fitted = ranker(factored_kernel, Domination(), **options).fit(data)
    triplets = factored_kernel.sampling.sample_triplets(
        sampling_lists(data, SGD(), "positives"), SEED, 0, 1, 3
    )
    ((query, *documents),) = triplets.tolist()
    begun = start_of(data)
    parts = [begun.U[:, :5], begun.V[:, :5], begun.document_biases[:, None]]
    parts = [part.astype(np.float64) for part in parts]
    model = fitted.model_
    ends = (model.U[:, :5], model.V[:, :5], model.document_biases[:, None])
    evaluated = factored_kernel.sampling.sample_triplets(
        sampling_lists(data, SGD(), "positives"),
        (SEED + EVALUATION_SEED) % 2**64,
        0,
        max(int(data.n_relevant.sum()) // 3, 1),
        3,
    )
    losses = [list_loss(data, ends, row[0], row[1:]) for row in evaluated.tolist()]
    assert fitted.history_[0]["loss"] == pytest.approx(np.mean(losses), rel=1e-5)
    for part, end in zip(parts, ends, strict=True):
        change, h = part - end, 1e-5
        for at in np.ndindex(part.shape):
            own, values = part[at], []
            for moved in (own + h, own - h):
                part[at] = moved
                values.append(list_loss(data, parts, query, documents))
            part[at] = own
            slope = (values[0] - values[1]) / (2 * h)
            assert change[at] == pytest.approx(0.1 * slope, rel=1e-3, abs=2e-6)


@pytest.mark.parametrize("regularizer", ["none", MaxNorm(1.0), L1(0.01)], ids=str)
def test_a_listwise_loss_learns_and_is_resumed(factored_kernel, make_tastes, regularizer):
    data = make_tastes(1)
    options = {"n_negatives": 4, "max_steps": 150, "steps_per_epoch": 50, "prox_interval": 16}
    snapshots = Snapshots()
    whole = (
        ranker(factored_kernel, Domination(), regularizer, [snapshots], **options)
        .plan()
        .trainer(data)
    )
    whole.train()
    assert whole.history[-1]["loss"] < 0.8 * whole.history[0]["loss"]
    for snapshot in snapshots.snapshots:
        again = ranker(factored_kernel, Domination(), regularizer, **options).plan().trainer(data)
        again.train(snapshot)
        assert bits(again) == bits(whole)
        assert again.history == whole.history
    parts = ranker(
        factored_kernel, Domination(), regularizer, **{**options, "steps_per_epoch": 150}
    )
    for steps in (64, 86):
        parts.partial_fit(data, steps=steps)
    at_once = ranker(
        factored_kernel, Domination(), regularizer, **{**options, "steps_per_epoch": 150}
    )
    assert bits(parts) == bits(at_once.fit(data))


# --- what is sampled -----------------------------------------------------------------------------


def frequencies(sample, expected):
    """Compare how often each was drawn with how often it should be, by chi-square."""
    counts = Counter(map(tuple, sample.tolist()))
    assert set(counts) <= {key for key, share in expected.items() if share > 0.0}
    keys = [key for key, share in expected.items() if share > 0.0]
    total = sum(expected[key] for key in keys)
    target = np.array([expected[key] / total * len(sample) for key in keys])
    assert stats.chisquare([counts[key] for key in keys], target).pvalue > 1e-4


@pytest.mark.parametrize("sampling", ["queries", "positives", "weighted"])
def test_positives_are_sampled_as_requested(fast_kernel, make_tastes, sampling):
    data = make_tastes(4, 6, 9, counts=True)
    triplets = fast_kernel.sampling.sample_triplets(
        sampling_lists(data, SGD(), sampling), 1, 0, 6000
    )
    relevance = data.relevance.toarray()
    share = {
        "queries": (relevance > 0) / (relevance > 0).sum(axis=1, keepdims=True),
        "positives": (relevance > 0).astype(float),
        "weighted": relevance,
    }[sampling]
    frequencies(triplets[:, :2], {at: share[at] for at in np.ndindex(share.shape)})


@pytest.mark.parametrize("sampling", ["positives", "weighted"])
@pytest.mark.parametrize("kind", ["tastes", "same"])
def test_weighted_sampling_follows_the_relevance(
    fast_kernel, make_tastes, make_matching, sampling, kind
):
    data = (
        make_tastes(4, 6, 9, counts=True)
        if kind == "tastes"
        else make_matching(3, queries_are_documents=True, kind="grades")
    )
    lists = sampling_lists(data, SGD(), sampling)
    expected = np.maximum(data.relevance.toarray(), 0)
    if data.own_document is not None:
        np.fill_diagonal(expected, 0)
    expected[np.setdiff1d(np.arange(data.n_queries), lists.queries)] = 0
    expected = expected if sampling == "weighted" else (expected > 0).astype(float)
    size = int(expected.sum())
    passes = fast_kernel.sampling.sample_triplets(lists, 1, 0, 3 * size).reshape(3, size, 3)
    for one in passes:
        counts = np.zeros_like(expected)
        np.add.at(counts, (one[:, 0], one[:, 1]), 1)
        assert np.array_equal(counts, expected)
    # Each pass, and each seed, has an order of its own, and it is none that one would expect.
    other = fast_kernel.sampling.sample_triplets(lists, 2, 0, size)
    orders = [one[:, :2].tobytes() for one in (*passes, other)]
    assert len(set(orders)) == 4
    assert abs(stats.spearmanr(np.arange(size), passes[0][:, 0]).statistic) < 5 / np.sqrt(size)


@pytest.mark.parametrize("negatives", ["unobserved", "any"])
def test_negatives_are_sampled_as_requested(fast_kernel, make_tastes, negatives):
    data = make_tastes(4, 6, 9)
    solver = SGD(negatives=negatives)
    triplets = fast_kernel.sampling.sample_triplets(
        sampling_lists(data, solver, "positives"), 1, 0, 8000
    )
    matched = data.relevance.toarray() > 0
    query = int(np.argmax(matched.sum(axis=1) > 1))
    expected = {}
    for better, worse in np.ndindex(9, 9):
        excluded = matched[query, worse] if negatives == "unobserved" else worse == better
        expected[better, worse] = float(matched[query, better] and not excluded)
    frequencies(triplets[triplets[:, 0] == query][:, 1:], expected)
    met = matched[triplets[:, 0], triplets[:, 2]]
    assert met.any() == (negatives == "any")
    assert not (triplets[:, 1] == triplets[:, 2]).any()


def test_a_query_is_never_its_own_positive(fast_kernel, make_matching):
    data = make_matching(3, queries_are_documents=True, kind="grades")
    for negatives in ("unobserved", "any"):
        for sampling in ("queries", "positives"):
            lists = sampling_lists(data, SGD(negatives=negatives), sampling)
            triplets = fast_kernel.sampling.sample_triplets(lists, 1, 0, 3000, 3)
            assert not (triplets[:, 1:] == triplets[:, :1]).any()


@pytest.mark.parametrize("sampling", ["auto", "queries", "positives", "weighted"])
@pytest.mark.parametrize("negatives", ["unobserved", "any"])
def test_fit_trains_on_the_sampled_triplets(factored_kernel, make_tastes, sampling, negatives):
    data = make_tastes(4, counts=True)
    options = {"sampling": sampling, "negatives": negatives, "steps_per_epoch": 70}
    fitted = ranker(factored_kernel, WARP(3), **options).fit(data)
    lists = sampling_lists(
        data, SGD(negatives=negatives), "positives" if sampling == "auto" else sampling
    )
    triplets = factored_kernel.sampling.sample_triplets(lists, SEED, 0, 70, 3)
    result = ranker(factored_kernel, WARP(3), **options).partial_fit(data, triplets=triplets)
    assert bits(result) == bits(fitted)


@pytest.mark.parametrize("schedule", ["adagrad", "constant"])
def test_positives_are_weighted_by_relevance(factored_kernel, make_tastes, schedule):
    data = make_tastes(4, counts=True)
    fitted = ranker(factored_kernel, WARP(3), weighting="relevance", schedule=schedule).fit(data)
    triplets = factored_kernel.sampling.sample_triplets(
        sampling_lists(data, SGD(), "positives"), SEED, 0, 70, 3
    )
    plain = ByHand(data, start_of(data), WARP(3), adagrad=schedule == "adagrad")
    plain.train(triplets, [0.2] * 70, 25, 8, data.relevance.toarray())
    plain.assert_like(fitted.model_)
    assert bits(fitted) != bits(ranker(factored_kernel, WARP(3), schedule=schedule).fit(data))


def test_explicit_triplets_have_no_weights(factored_kernel, make_tastes):
    going = ranker(factored_kernel, WARP(3), weighting="relevance")
    with pytest.raises(CombinationError, match=r"sampled positives.*or give steps"):
        going.partial_fit(make_tastes(4, counts=True), triplets=[[0, 0, 1, 2, 4]])


def test_classes_have_no_grades(factored_kernel, make_matching):
    for options in ({"sampling": "weighted"}, {"weighting": "relevance"}):
        with pytest.raises(DataError, match=r"class.*leave out sampling=weighted and"):
            ranker(factored_kernel, **options).fit(make_matching(1))


def test_weighted_sampling_is_in_proportion_to_fractions(fast_kernel):
    relevance = np.array([[0.25, 0.0, 2.0], [0.0, 1.5, 0.0]])
    lists = sampling_lists(MatchingData(None, None, relevance), SGD(), "weighted")
    triplets = fast_kernel.sampling.sample_triplets(lists, 1, 0, 6000)
    frequencies(triplets[:, :2], {at: relevance[at] for at in np.ndindex(relevance.shape)})


def test_too_many_pairs_are_refused():
    """Classes of many: their pairs are never made, but they are counted."""
    labels = np.arange(70_000) // 69_998
    data = MatchingData(None, None, labels=(labels, labels))
    with pytest.raises(DataError, match=r"sampling=positives has \d{10} pairs.*sampling=queries"):
        sampling_lists(data, SGD(), "positives")
    assert sampling_lists(data, SGD(), "queries").queries.size == 70_000
    counts = MatchingData(None, None, [[2.0**31, 0], [2.0**31, 0]])
    with pytest.raises(DataError, match=r"sampling=weighted has 4294967296 .*sampling=queries"):
        sampling_lists(counts, SGD(), "weighted")


# --- what is left to the solver -----------------------------------------------------------------


def test_what_auto_is(fast_kernel, make_tastes):
    """Ten passes over the matches at a rate of 0.05, by Adagrad and blocks of a share each."""
    for features, blocks in (("none", BLOCKS), ("both", FEATURE_BLOCKS)):
        data = make_tastes(1, 40, 45, features=features)
        matches = int(data.n_relevant.sum())
        block = max(1, matches // blocks)
        left = Ranker(
            Factored(5, init_scale=1.0), "warp", solver="sgd", kernel=fast_kernel, random_state=SEED
        ).fit(data)
        result = ranker(
            fast_kernel,
            "warp",
            max_steps=10 * matches,
            steps_per_epoch=matches,
            learning_rate=0.05,
            schedule="adagrad",
            sampling="positives",
            batch_size=block,
        ).fit(data)
        assert bits(left) == bits(result)
        assert [row["steps"] for row in left.history_] == [matches * n for n in range(1, 11)]


@pytest.mark.parametrize(("features", "most"), [("none", BLOCK), ("both", FEATURE_BLOCK)])
def test_blocks_have_a_largest_size(fast_kernel, make_tastes, features: str, most: int):
    data = make_tastes(1, 40, 45, features=features)
    steps = {"max_steps": 2 * most, "steps_per_epoch": 1000 * most}
    left = ranker(fast_kernel, "warp", batch_size="auto", **steps).fit(data)
    result = ranker(fast_kernel, "warp", batch_size=most, **steps).fit(data)
    other = ranker(fast_kernel, "warp", batch_size=most // 2, **steps).fit(data)
    assert bits(left) == bits(result) != bits(other)


@pytest.mark.filterwarnings("ignore:.* sets all embeddings to 0")
def test_the_default_boundaries_are_sixteen_an_epoch(fast_kernel, make_tastes):
    data = make_tastes(1, 40, 45)
    matches = int(data.n_relevant.sum())
    left = ranker(
        fast_kernel,
        "warp",
        L1(0.05),
        prox_interval="auto",
        steps_per_epoch="auto",
        max_steps="auto",
    )
    model = ranker(
        fast_kernel,
        "warp",
        L1(0.05),
        prox_interval=-(-matches // 16),
        steps_per_epoch=matches,
        max_steps=10 * matches,
    )
    assert bits(left.fit(data)) == bits(model.fit(data))


def test_zero_epochs_leave_the_initial_model(factored_kernel, make_tastes):
    data = make_tastes(1)
    for regularizer in ("none", L1(0.1), MaxNorm(1.0), L1L2Row(), Orthonormal()):
        fitted = ranker(factored_kernel, "warp", regularizer, max_steps=0).fit(data)
        assert fitted.model_.U.tobytes() == start_of(data).U.tobytes()
        (row,) = fitted.history_
        assert (row["epoch"], row["steps"]) == (1, 0)
        assert row["loss"] > 0.0


@pytest.mark.parametrize("loss", [WARP(), AUC(), BPR(), KosWARP(5, k=1, n=2)], ids=str)
def test_it_learns_tastes(fast_kernel, make_tastes, loss):
    data = make_tastes(1, 20, 24, share=0.7)
    tastes = np.arange(20)[:, None] % 3 == np.arange(24)[None, :] % 3
    fitted = ranker(fast_kernel, loss, max_steps=1500, steps_per_epoch=500, model=Factored(8)).fit(
        data
    )
    scores = fitted.predict(data)
    # What was held back is found too: nearly all of one's taste is above all that is not.
    inside, outside = scores[tastes].reshape(20, 8), scores[~tastes].reshape(20, 16)
    assert (inside[:, :, None] > outside[:, None, :]).mean() > 0.97


# --- losses in Python, threads ------------------------------------------------------------------


class PythonHinge(Hinge):
    name = "python-hinge"
    form = None


class PythonSquaredHinge(SquaredHinge):
    name = "python-squared-hinge"
    form = None


class PythonWARP(WARP):
    name = "python-warp"
    form = None


class PythonKos(KosWARP):
    name = "python-kos"
    form = None


PYTHON = [
    (Hinge(), PythonHinge()),
    (SquaredHinge(), PythonSquaredHinge()),
    (WARP(4), PythonWARP(4)),
    (KosWARP(3, k=2, n=3), PythonKos(3, k=2, n=3)),
]


@pytest.mark.parametrize(("inlined", "python"), PYTHON, ids=lambda loss: loss.name)
@pytest.mark.parametrize("schedule", ["adagrad", "inverse-sqrt"])
@pytest.mark.parametrize("regularizer", [MaxNorm(0.9), L1(0.1)], ids=str)
def test_a_python_loss_equals_the_built_in_one(
    factored_kernel, make_tastes, inlined, python, schedule, regularizer
):
    data = make_tastes(1, features="both")
    one = ranker(factored_kernel, inlined, regularizer, schedule=schedule).fit(data)
    other = ranker(factored_kernel, python, regularizer, schedule=schedule).fit(data)
    assert bits(one) == bits(other)
    assert one.history_ == other.history_


@pytest.mark.parametrize("features", SIDES)
@pytest.mark.parametrize("loss", [WARP(4), PythonWARP(4), KosWARP(3, k=2, n=3)], ids=str)
def test_threads_change_nothing(factored_kernel, make_tastes, features, loss):
    if factored_kernel.describe()["threads"] == "none":
        pytest.skip("one thread only")
    data = make_tastes(1, 30, 33, features=features)
    result = set()
    for threads in (1, 2, 3):
        fitted = ranker(
            factored_kernel, loss, MaxNorm(1.0), max_steps=600, steps_per_epoch=200, batch_size=64
        )
        result.add(bits(fitted.set_params(threads=threads).fit(data)))
    assert len(result) == 1


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("features", ["none", "both"])
def test_hogwild_learns(factored_kernel, make_tastes, features, threads):
    if factored_kernel.describe()["threads"] == "none" and threads > 1:
        pytest.skip("one thread only")
    data = make_tastes(1, features=features)
    fitted = ranker(factored_kernel, "warp", max_steps=400, steps_per_epoch=200, mode="hogwild")
    fitted.set_params(threads=threads).fit(data)
    before = ranker(factored_kernel, "warp", max_steps=0).fit(data)
    assert fitted.score(data, metric="map") > before.score(data, metric="map") + 0.2


# --- going on -----------------------------------------------------------------------------------


class Snapshots(Callback):
    """Keeps a snapshot of every epoch."""

    name = "snapshots"

    def __init__(self):
        self.snapshots = []

    def on_epoch_end(self, run, result):
        self.snapshots.append(run.snapshot())
        return False


RESUMED = [
    {"loss": WARP(3)},
    {"loss": WARP(3), "schedule": "inverse-sqrt", "regularizer": L2(0.1)},
    {"loss": BPR(), "regularizer": MaxNorm(1.0), "negatives": "any"},
    {"loss": AUC(), "regularizer": L1(0.1), "prox_interval": 7},
    {"loss": AUC(), "regularizer": L1L2Row(0.1), "prox_interval": 7, "schedule": "inverse"},
    {"loss": KosWARP(3, k=1, n=2), "regularizer": Orthonormal()},
    {"loss": PythonWARP(3), "weighting": "relevance", "sampling": "queries"},
    {"max_steps": 0},
]


@pytest.mark.parametrize("parts", RESUMED, ids=lambda parts: str(sorted(map(str, parts.values()))))
@pytest.mark.parametrize("features", ["none", "both"])
def test_a_resumed_run_has_the_same_bits(factored_kernel, make_tastes, parts, features):
    data, valid = (make_tastes(seed, features=features, counts=True) for seed in (1, 2))
    snapshots = Snapshots()
    stopping = EarlyStopping(metric="map", patience=50)
    whole = (
        ranker(factored_kernel, callbacks=[stopping, snapshots], **parts)
        .plan()
        .trainer(data, valid)
    )
    whole.train()
    assert len(snapshots.snapshots) == len(whole.history) == (1 if "max_steps" in parts else 3)
    for snapshot in snapshots.snapshots:
        again = (
            ranker(factored_kernel, callbacks=[EarlyStopping(metric="map", patience=50)], **parts)
            .plan()
            .trainer(data, valid)
        )
        again.train(snapshot)
        assert again.history == whole.history
        assert bits(again) == bits(whole)
        assert again.stopped == whole.stopped


def test_early_stopping_keeps_the_best_epoch(factored_kernel, make_tastes):
    data, valid = make_tastes(1), make_tastes(2)
    stopping = EarlyStopping(metric="map", patience=2)
    options = {"learning_rate": 2.0, "steps_per_epoch": 16, "schedule": "constant"}
    fitted = ranker(factored_kernel, callbacks=[stopping], max_steps=640, **options)
    fitted.fit(data, valid=valid)
    (name,) = [key for key in fitted.history_[0] if key.startswith("map")]
    values = [row[name] for row in fitted.history_]
    assert fitted.stopped_ == "early-stopping"
    assert stopping.best_value == max(values) == fitted.score(valid, metric="map")
    assert stopping.best_epoch == 1 + int(np.argmax(values)) == len(values) - 2
    shorter = ranker(factored_kernel, max_steps=16 * stopping.best_epoch, **options).fit(data)
    assert bits(shorter) == bits(fitted)


# --- part by part -------------------------------------------------------------------------------

STREAMED = [
    {"loss": WARP(3)},
    {"loss": BPR(), "schedule": "inverse-sqrt", "regularizer": L2(0.1), "prox_interval": 16},
    {"loss": AUC(), "regularizer": L1(0.1), "prox_interval": 7, "batch_size": 1},
    {"loss": AUC(), "regularizer": Orthonormal(), "prox_interval": 16},
    {"loss": KosWARP(3, k=1, n=2), "regularizer": MaxNorm(1.0)},
]


@pytest.mark.filterwarnings("ignore:.* sets all embeddings to 0")
@pytest.mark.parametrize("parts", STREAMED, ids=lambda parts: str(sorted(map(str, parts.values()))))
@pytest.mark.parametrize("features", ["none", "both"])
def test_parts_are_the_whole(factored_kernel, make_tastes, parts, features):
    data = make_tastes(1, features=features)
    options = {**parts, "max_steps": 96, "steps_per_epoch": 96}
    whole = ranker(factored_kernel, **options).fit(data)
    assert bits(ranker(factored_kernel, **options).partial_fit(data)) == bits(whole)
    cut = ranker(factored_kernel, **options)
    for steps in (16, 32, 0, 48):  # whole blocks of 8
        cut.partial_fit(data, steps=steps)
        cut.predict(data)
    assert bits(cut) == bits(whole)
    assert [row["steps"] for row in cut.history_] == [16, 48, 48, 96]
    assert [row["epoch"] for row in cut.history_] == [1, 2, 3, 4]


def test_steps_one_by_one_can_be_cut_anywhere(factored_kernel, make_tastes):
    data = make_tastes(1)
    options = {"loss": WARP(3), "batch_size": 1, "max_steps": 50, "steps_per_epoch": 50}
    whole = ranker(factored_kernel, **options).fit(data)
    cut = ranker(factored_kernel, **options)
    for steps in (1, 30, 19):
        cut.partial_fit(data, steps=steps)
    assert bits(cut) == bits(whole)


@pytest.mark.parametrize("schedule", ["adagrad", "inverse-sqrt"])
def test_users_and_items_grow(factored_kernel, make_tastes, schedule):
    """New ones come with the vectors that they would have begun with."""
    every = make_tastes(1, 12, 15)
    old = MatchingData(
        None,
        None,
        every.relevance[:8, :10],
        query_ids=every.query_ids[:8],
        document_ids=every.document_ids[:10],
    )
    options = {"loss": WARP(3), "schedule": schedule}
    grown = ranker(factored_kernel, **options).partial_fit(old, steps=40)
    U, V, biases = (array.copy() for array in grown.model_.factors[:2] + grown.model_.factors[3:])
    grown.partial_fit(every, steps=0)
    begun = start_of(every)
    for now, before, first in (
        (grown.model_.U, U, begun.U),
        (grown.model_.V, V, begun.V),
        (grown.model_.document_biases, biases, begun.document_biases),
    ):
        assert now[: len(before)].tobytes() == before.tobytes()
        assert now[len(before) :].tobytes() == first[len(before) :].tobytes()
    grown.partial_fit(every, steps=80)
    assert not np.array_equal(grown.model_.U[8:], begun.U[8:])
    assert grown.predict(every).shape == (12, 15)
    # By hand: the second part takes the steps 40, 41, ... of all.
    plain = ByHand(every, begun, WARP(3), adagrad=schedule == "adagrad")
    rates = [RATES[schedule](t) for t in range(1, 121)]
    first = factored_kernel.sampling.sample_triplets(
        sampling_lists(old, SGD(), "positives"), SEED, 0, 40, 3
    )
    second = factored_kernel.sampling.sample_triplets(
        sampling_lists(every, SGD(), "positives"), SEED, 40, 80, 3
    )
    plain.d, wide = plain.d[:10], plain.d
    plain.train(first, rates[:40], 40, 8)
    plain.d = wide
    plain.train(second, rates[40:], 80, 8)
    plain.assert_like(grown.model_)


def test_features_grow(factored_kernel):
    def described(names, seed):
        rng = np.random.default_rng(seed)
        rows = sp.csr_array(rng.random((6, len(names))).astype(np.float32))
        labels = np.arange(6) % 2
        return MatchingData(
            rows,
            rows,
            labels=(labels, labels),
            query_feature_ids=names,
            document_feature_ids=names,
        )

    old, new = described(["a", "b"], 0), described(["b", "c", "d"], 1)
    grown = ranker(factored_kernel, WARP(3)).partial_fit(old, steps=24)
    scores = grown.predict(old)
    grown.partial_fit(new, steps=0)
    assert grown.model_.document_feature_ids.tolist() == ["a", "b", "c", "d"]
    np.testing.assert_allclose(grown.predict(old), scores, rtol=1e-6)
    before = grown.model_.U.copy()
    grown.partial_fit(new, steps=24)
    assert grown.model_.U[0].tobytes() == before[0].tobytes()  # "a" is not in the new data
    assert not np.array_equal(grown.model_.U[1:], before[1:])


@pytest.mark.parametrize("how", ["fit", "load", "pickle"])
def test_it_goes_on_after_a_fit_and_a_file(factored_kernel, make_tastes, tmp_path, how):
    """Steps and rates go on; without Adagrad, whose sums are not kept, so do the bits."""
    data = make_tastes(1)
    options = {"loss": WARP(3), "schedule": "inverse-sqrt", "steps_per_epoch": 40}
    other = ranker(factored_kernel, max_steps=40, **options).fit(data)
    if how == "load":
        other.save(tmp_path / "model")
        other = Ranker.load(tmp_path / "model", kernel=factored_kernel)
    elif how == "pickle":
        other.set_params(kernel=factored_kernel.name)
        del other.kernel_
        other = pickle.loads(pickle.dumps(other))
        other.kernel_ = factored_kernel
    other.partial_fit(data, steps=40)
    assert bits(other) == bits(ranker(factored_kernel, max_steps=80, **options).fit(data))
    assert [row["steps"] for row in other.history_] == [40, 80]


def test_bad_parts_are_refused(factored_kernel, make_tastes):
    data = make_tastes(1)
    loss = KosWARP(3, k=1, n=2)
    going = ranker(factored_kernel, loss).partial_fit(data, steps=16)
    twin = ranker(factored_kernel, loss).partial_fit(data, steps=16)
    for triplets in ([[0, 1, 2]], [[0, 1, 2, 3, 4, 15]], [[12, 1, 2, 3, 4, 5]], [[0.5] * 6]):
        with pytest.raises(DataError, match="triplets"):
            going.partial_fit(data, triplets=triplets)
    assert bits(going.partial_fit(data, steps=16)) == bits(twin.partial_fit(data, steps=16))


# --- constraints hold ---------------------------------------------------------------------------


def norms(matrix):
    return np.linalg.norm(matrix.astype(np.float64), axis=1)


def test_rows_stay_within_the_largest_norm(fast_kernel, make_tastes):
    data = make_tastes(1)
    free = ranker(fast_kernel, "warp", max_steps=500, steps_per_epoch=250).fit(data)
    limited = ranker(fast_kernel, "warp", MaxNorm(0.8), max_steps=500, steps_per_epoch=250).fit(
        data
    )
    for matrix in (limited.model_.U, limited.model_.V):
        assert norms(matrix).max() <= 0.8 * (1 + 1e-5)
        assert norms(matrix).max() >= 0.8 * (1 - 1e-5)
    assert norms(free.model_.U).max() > 0.9


def test_l2_shrinks(fast_kernel, make_tastes):
    data = make_tastes(1)
    sizes = [
        norms(ranker(fast_kernel, "warp", L2(strength), max_steps=500).fit(data).model_.U).sum()
        for strength in (0.0, 0.05, 0.5)
    ]
    assert sizes[0] > sizes[1] > sizes[2] > 0.0


@pytest.mark.filterwarnings("ignore:.* sets all embeddings to 0")
def test_l1_makes_zeros(fast_kernel, make_tastes):
    data = make_tastes(1)
    densities = []
    for strength in (0.0, 0.02, 100.0):
        fitted = ranker(fast_kernel, "warp", L1(strength), max_steps=200).fit(data)
        assert fitted.history_[-1]["density"] == fitted.model_.density
        densities.append(fitted.model_.density)
    assert densities[0] == 1.0 > densities[1] > densities[2]
    assert not fitted.model_.U.any()


def test_rows_are_sparse_and_bounded(fast_kernel, make_tastes):
    data = make_tastes(1)
    fitted = ranker(fast_kernel, "warp", L1L2Row(0.02, limit=0.7), max_steps=400).fit(data)
    for matrix in (fitted.model_.U[:, :5], fitted.model_.V[:, :5]):
        assert 0.0 < (matrix == 0.0).mean() < 1.0
        assert norms(matrix).max() <= 0.7 * (1 + 1e-5)
    assert np.isfinite([row["objective"] for row in fitted.history_]).all()


@pytest.mark.parametrize("scale", ["unit-rows", 1.0, 2.5])
@pytest.mark.parametrize("features", ["none", "both"])
def test_columns_are_orthogonal(factored_kernel, make_tastes, scale, features):
    data = make_tastes(1, features=features)
    fitted = ranker(factored_kernel, "bpr", Orthonormal(scale)).fit(data)
    for matrix in (fitted.model_.U[:, :5], fitted.model_.V[:, :5]):
        square = matrix.shape[0] / 5 if scale == "unit-rows" else scale**2
        gram = matrix.T.astype(np.float64) @ matrix
        np.testing.assert_allclose(gram, square * np.eye(5), atol=1e-5 * square)
    assert all(row["objective"] == row["loss"] for row in fitted.history_)


def test_too_many_dimensions_for_orthogonal_columns(factored_kernel, make_tastes):
    with pytest.raises(PartError, match=r"12 features for 13 dimensions; use fewer"):
        ranker(factored_kernel, "bpr", Orthonormal(), model=Factored(13)).fit(make_tastes(1))


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("loss", [SquaredHinge(), PythonSquaredHinge()], ids=str)
def test_divergence_is_reported_with_its_step(factored_kernel, make_tastes, loss):
    options = {"schedule": "constant", "learning_rate": 1e15, "batch_size": 2}
    with pytest.raises(
        DivergenceError,
        match=r"margin is \S+ and its loss \S+ at step \d+, in epoch 1; use a smaller.*1e\+15",
    ):
        ranker(factored_kernel, loss, **options).fit(make_tastes(1))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_epoch_of_a_divergence(factored_kernel, make_tastes):
    """Vectors that are made infinite after the second epoch are noticed in the third."""

    class Spoiler(Callback):
        name = "spoiler"

        def on_epoch_end(self, run, result):
            if result.epoch == 2:
                run.model.U[...] = np.nan
            return False

    with pytest.raises(DivergenceError, match=r"margin is nan .* at step 51, in epoch 3;"):
        ranker(factored_kernel, callbacks=[Spoiler()]).fit(make_tastes(1))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_last_step_may_diverge_too(factored_kernel, make_tastes):
    with pytest.raises(DivergenceError, match="infinite after step 1, in epoch 1; use a smaller"):
        ranker(
            factored_kernel, max_steps=1, schedule="constant", learning_rate=1e38, loss=Heavy()
        ).fit(make_tastes(1))
    going = ranker(factored_kernel, schedule="constant", learning_rate=1e38, loss=Heavy())
    with pytest.raises(DivergenceError, match="infinite after step 1, in epoch 1; use a smaller"):
        going.partial_fit(make_tastes(1), steps=1)


class Heavy(PythonHinge):
    """One that counts so much that a single step is too long."""

    name = "heavy"

    def rank_weight(self, rank):
        return np.full(rank.shape, 1e30)


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        (("factored", "hinge", "none", "sgd:refit=true"), "refit=true is not for embeddings"),
        (
            ("factored", "alignment", "max-norm", "sgd"),
            r"sum over positives.* Try solver alternating",
        ),
        (
            ("bilinear", "warp", "orthonormal", "sgd"),
            r"polar factor of a sparse matrix is dense.* Try regularizer max-norm",
        ),
        (
            ("bilinear", "warp", "none", "sgd:schedule=adagrad"),
            r"adagrad is for embeddings, and 'bilinear' has a matrix; use inverse-sqrt",
        ),
        (
            ("bilinear", "warp", "none", "sgd:weighting=relevance"),
            r"weighting=relevance is for embeddings; use sampling=weighted",
        ),
    ],
)
def test_parts_that_do_not_fit(make_tastes, parts, problem):
    with pytest.raises(CombinationError, match=problem):
        Ranker(*parts, kernel="reference").fit(make_tastes(1))


@pytest.mark.parametrize("loss", ["warp", "bpr"])
@pytest.mark.parametrize("density", [0.2, 0.6])
def test_a_target_density_of_embeddings(fast_kernel, make_tastes, loss, density):
    """Some embeddings drop to 0 together, so that the density has jumps."""
    data = make_tastes(1, 40, 50)
    parts = ("factored:dimensions=8", loss, f"l1:density={density}", "sgd:epochs=10")
    fitted = Ranker(*parts, kernel=fast_kernel, random_state=SEED).fit(data)
    assert abs(fitted.model_.density - density) < 0.1
    trials = fitted.description_["density search"]
    assert 1 <= len(trials) <= 10
    best = min(trials, key=lambda trial: abs(trial["density"] - density))
    assert fitted.regularizer_.strength == best["strength"]
    assert fitted.model_.density == pytest.approx(best["density"])


@pytest.mark.parametrize("regularizer", ["l1", "l2", "elastic", "l1l2-row"])
@pytest.mark.parametrize("loss", ["hinge", "warp", "bpr", "domination"])
def test_default_strengths_remove_nothing_and_have_an_effect(make_tastes, loss, regularizer):
    data = make_tastes(1, 60, 80)
    model = "factored:dimensions=8"
    fitted = Ranker(model, loss, regularizer, "sgd", random_state=SEED).fit(data)
    free = Ranker(model, loss, "none", "sgd", random_state=SEED).fit(data)
    assert fitted.model_.density > 0.9
    l2 = 0.001 if loss == "warp" else 0.1 / 140
    strengths = {"l2": l2, "l1l2-row": 0.002 / 140}
    assert fitted.regularizer_.strength == strengths.get(regularizer, 0.01 / 140)
    assert 0.0 < norms(fitted.model_.U).sum() < norms(free.model_.U).sum()
    assert f"{regularizer}:strength={fitted.regularizer_.strength}" in str(fitted.description_)


def test_l2_of_embeddings_is_minimized(fast_kernel, make_tastes):
    """The objective falls from epoch to epoch where it once rose, also with a large strength."""
    data = make_tastes(1, 60, 80)
    for strength in (1e-4, 1e-3, 1e-2):
        settings = (f"l2:strength={strength}", "sgd:epochs=40")
        fitted = Ranker("factored:dimensions=8", "logistic", *settings, kernel=fast_kernel).fit(
            data
        )
        result = [row["objective"] for row in fitted.history_]
        assert result[-1] == pytest.approx(min(result), rel=0.02)
        assert result[-1] < result[0]


def test_several_positives_and_any_other_negative(make_tastes):
    with pytest.raises((CombinationError, PartError), match="negatives"):
        Ranker("factored", "kos-warp:n=3,k=1", solver="sgd:negatives=any", kernel="reference").fit(
            make_tastes(1)
        )


@pytest.mark.parametrize(
    "params", [{"sampling": "all"}, {"negatives": "all"}, {"weighting": "counts"}]
)
def test_bad_words_are_refused(params):
    (name,) = params
    with pytest.raises(PartError, match=f"sgd has {name}=.*it must be one of"):
        SGD(**params)


def test_queries_with_only_positives_are_never_sampled(factored_kernel):
    data = MatchingData(None, None, [[1, 1, 1], [1, 0, 0]])
    lists = sampling_lists(data, SGD(), "positives")
    assert positive_lists(data).queries.tolist() == [1]
    assert set(factored_kernel.sampling.sample_triplets(lists, 0, 0, 50)[:, 0].tolist()) == {1}
