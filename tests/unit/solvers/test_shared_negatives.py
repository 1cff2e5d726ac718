"""Losses whose positives share negatives, against the full softmax and plain loops."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.special import logsumexp

from ranking import Ranker
from ranking.contracts.callback import Callback
from ranking.data.triplets import positive_lists
from ranking.errors import CombinationError
from ranking.kernels.select import get_kernel
from ranking_plugins.losses import BCE, CCL, Softmax, SoftmaxAtK
from ranking_plugins.solvers import SGD
from ranking_plugins.solvers.row_optimizers import BETA_1, BETA_2, EPSILON, Adam
from ranking_plugins.solvers.shared_negatives import Excluder, SharedSampler

LOSSES = [Softmax(temperature=0.3), CCL(margin=0.1, weight=2.0), BCE(weight=3.0)]
AT_K = SoftmaxAtK(temperature=0.3, k=2, weight_temperature=0.5, refresh=1)
EVERY = 1000  # more negatives than documents: all of them, each once


def ranker(kernel, loss="softmax", regularizer="none", callbacks=(), score="cosine", **solver):
    settings = {"epochs": 3, "batch_size": 8, "n_negatives": 6, "learning_rate": 0.05, **solver}
    model = f"factored:dimensions=5,score={score},init_scale=1"
    return Ranker(
        model,
        loss,
        regularizer,
        SGD(**settings),
        kernel=kernel,
        callbacks=list(callbacks),
        random_state=3,
    )


def bits(trained):
    return {name: array.tobytes() for name, array in trained.model_.tensors().items()}


# --- oracles ----------------------------------------------------------------


def full_scores(data, score, parameters):
    """Return all scores in float64."""
    queries, documents = (
        np.asarray(rows.todense()) for rows in (data.query_rows, data.document_rows)
    )
    u, v = queries @ parameters["U"], documents @ parameters["V"]
    if score == "cosine":
        u, v = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (u, v))
    return u @ v.T + documents @ parameters["biases"]


def full_loss(data, loss, score, parameters, weights=None):
    """Return the sum over all positives of the loss against all other documents, in float64.

    Positives of the query are no negatives.
    """
    scores = full_scores(data, score, parameters)
    positive = np.asarray((data.relevance > 0).todense())
    total = 0.0
    for q, d in zip(*np.nonzero(positive), strict=True):
        others = scores[q][~positive[q]]
        if loss.name == "softmax-at-k":
            t = loss.temperature
            value = logsumexp(np.append(others, scores[q, d]) / t) - scores[q, d] / t
            total += weights[q, d] * value
        elif loss.name == "softmax":
            t = loss.temperature
            total += logsumexp(np.append(others, scores[q, d]) / t) - scores[q, d] / t
        elif loss.name == "ccl":
            excess = np.maximum(others - loss.margin, 0.0).sum() / positive.shape[1]
            total += 1.0 - scores[q, d] + loss.weight * excess
        else:
            below = np.logaddexp(0.0, others).sum() / positive.shape[1]
            total += np.logaddexp(0.0, -scores[q, d]) + loss.weight * below
    return total


def start(model):
    """Return copies of the parameters in double precision."""
    return {
        "U": model.U[:, : model.dimensions].astype(np.float64),
        "V": model.V[:, : model.dimensions].astype(np.float64),
        "biases": model.document_biases.astype(np.float64),
    }


def top_k_weights(data, loss, score, parameters):
    """Return the weights of all pairs by sorting all scores."""
    if loss.name != "softmax-at-k":
        return None
    scores = full_scores(data, score, parameters)
    thresholds = np.sort(scores, axis=1)[:, -loss.k]
    return 1.0 / (1.0 + np.exp(-(scores - thresholds[:, None]) / loss.weight_temperature))


@pytest.mark.parametrize("loss", [*LOSSES, AT_K], ids=lambda loss: loss.name)
@pytest.mark.parametrize("score", ["dot", "cosine"])
@pytest.mark.parametrize("features", ["none", "both"])
def test_a_step_with_all_negatives_is_minus_the_full_gradient(
    fast_kernel, make_tastes, loss, score, features
):
    data = make_tastes(1, n_queries=5, n_documents=7, features=features)
    count = int(data.n_relevant.sum())
    options = {
        "schedule": "constant",
        "batch_size": count,
        "n_negatives": EVERY,
        "learning_rate": 0.01,
    }
    before = ranker(fast_kernel, loss, score=score, epochs=0, **options).fit(data)
    after = ranker(fast_kernel, loss, score=score, epochs=1, **options).fit(data)
    old, new = start(before.model_), start(after.model_)
    weights = top_k_weights(data, loss, score, old)
    for name, parameter in old.items():
        change, expected = (new[name] - parameter) / -0.01, np.empty(parameter.shape)
        for place in np.ndindex(parameter.shape):
            values = []
            for step in (1e-6, -1e-6):
                moved = {key: array.copy() for key, array in old.items()}
                moved[name][place] += step
                values.append(full_loss(data, loss, score, moved, weights))
            expected[place] = (values[0] - values[1]) / 2e-6
        size = np.abs(expected).max()
        np.testing.assert_allclose(change, expected, rtol=2e-3, atol=2e-4 * size)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("score", ["dot", "cosine"])
def test_the_reported_loss_is_the_mean_over_positives(fast_kernel, make_tastes, loss, score):
    data = make_tastes(1, features="documents")
    trained = ranker(fast_kernel, loss, score=score, n_negatives=EVERY).fit(data)
    # The evaluated positives are those of one pass, each once.
    expected = full_loss(data, loss, score, start(trained.model_)) / int(data.n_relevant.sum())
    assert trained.history_[-1]["loss"] == pytest.approx(expected, rel=1e-5)


def test_full_batches_reach_a_minimum_of_the_full_softmax(fast_kernel, make_tastes):
    data = make_tastes(1)
    loss = Softmax(temperature=0.5)
    options = {
        "batch_size": EVERY,
        "n_negatives": EVERY,
        "schedule": "constant",
        "learning_rate": 0.02,
    }
    trained = ranker(fast_kernel, loss, epochs=1500, **options).fit(data)
    losses = [row["loss"] for row in trained.history_]
    assert losses[-1] < 0.7 * losses[0]
    assert all(np.diff(losses) < 1e-6)  # a gradient descent, so it never rises
    at = start(trained.model_)
    value = full_loss(data, loss, "cosine", at)
    rng = np.random.default_rng(0)
    for _ in range(5):
        step = {name: 1e-4 * rng.normal(size=array.shape) for name, array in at.items()}
        moved = [
            full_loss(data, loss, "cosine", {n: a + sign * step[n] for n, a in at.items()})
            for sign in (1.0, -1.0)
        ]
        slope = (moved[0] - moved[1]) / 2.0
        assert abs(slope) < 2e-3 * value * 1e-4 * 5**0.5 * 30


# --- negatives ----------------------------------------------------------------


@pytest.mark.parametrize("any_negative", [False, True])
def test_excluded_negatives_are_the_positives_of_the_query(make_tastes, any_negative):
    data = make_tastes(2)
    lists = dataclasses.replace(positive_lists(data), any_negative=any_negative)
    rng = np.random.default_rng(0)
    positive = np.asarray((data.relevance > 0).todense())
    queries, positives = (part[::2] for part in np.nonzero(positive))
    negatives = rng.integers(0, data.n_documents, 40)
    result = Excluder(lists).find(queries, positives, negatives)
    for row, (query, own) in enumerate(zip(queries, positives, strict=True)):
        mask = negatives == own if any_negative else positive[query, negatives]
        part = result.documents[result.indptr[row] : result.indptr[row + 1]]
        assert part.tolist() == np.flatnonzero(mask).tolist()


@pytest.mark.parametrize("how", ["popularity", "in-batch"])
def test_weights_correct_for_popularity(fast_kernel, make_tastes, how):
    data = make_tastes(3, n_queries=60, n_documents=20)
    lists, n = positive_lists(data), 8
    sampler = SharedSampler(fast_kernel, lists, how, n, seed=5)
    values = np.random.default_rng(1).normal(size=data.n_documents)
    counts = np.bincount(lists.members, minlength=data.n_documents)
    sums = []
    for block in range(4000):
        positives = np.random.default_rng(block).choice(lists.members, n)
        result = sampler.sample(block * n, positives)
        sums.append((np.exp(result.log_weights) * values[result.documents]).mean())
    # In-batch negatives come by the counts themselves, without the one more.
    share = counts / counts.sum() if how == "in-batch" else (counts + 1.0) / (counts + 1.0).sum()
    smoothed = (counts + 1.0) / (counts + 1.0).sum()
    expected = (share / smoothed * values).mean()
    assert np.mean(sums) == pytest.approx(expected, abs=4.0 * np.std(sums) / 4000**0.5)
    if how == "popularity":
        assert expected == pytest.approx(values.mean())


def test_negatives_of_blocks_differ_and_do_not_depend_on_the_kernel(make_tastes):
    lists = positive_lists(make_tastes(1))
    samplers = [
        SharedSampler(get_kernel(name), lists, "uniform", 5, 1) for name in ("reference", "cython")
    ]
    samples = [[s.sample(first, None).documents.tolist() for first in (0, 8)] for s in samplers]
    assert samples[0] == samples[1]
    assert samples[0][0] != samples[0][1]


# --- Adam ----------------------------------------------------------------


def test_adam_counts_the_steps_of_each_row():
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(6, 8)).astype(np.float32)
    expected = matrix.astype(np.float64)
    first, second, steps = np.zeros((6, 8)), np.zeros((6, 8)), np.zeros(6)
    adam = Adam(matrix)
    for _ in range(200):
        rows = np.sort(rng.choice(6, 3, replace=False))
        gradient = rng.normal(size=(3, 8)).astype(np.float32)
        adam.step(matrix, rows, gradient, 0.1)
        for row, g in zip(rows, gradient.astype(np.float64), strict=True):
            steps[row] += 1
            first[row] = BETA_1 * first[row] + (1.0 - BETA_1) * g
            second[row] = BETA_2 * second[row] + (1.0 - BETA_2) * g**2
            unbiased = second[row] / (1.0 - BETA_2 ** steps[row])
            rate = 0.1 / (1.0 - BETA_1 ** steps[row])
            expected[row] -= rate * first[row] / (np.sqrt(unbiased) + EPSILON)
    np.testing.assert_allclose(matrix, expected, rtol=1e-3, atol=1e-4)
    unbiased = second / (1.0 - BETA_2**steps)[:, None]
    np.testing.assert_allclose(adam.metric(), unbiased, rtol=1e-3)


def test_rows_without_a_step_have_an_infinite_metric():
    adam = Adam(np.zeros((2, 8), np.float32))
    adam.step(np.zeros((2, 8), np.float32), np.array([1]), np.ones((1, 8), np.float32), 0.1)
    assert np.isinf(adam.metric()[0]).all()
    assert np.isfinite(adam.metric()[1]).all()


# --- bits ----------------------------------------------------------------

CASES = [
    {"loss": "softmax"},
    {"loss": "softmax", "score": "dot", "schedule": "adagrad", "negative_sampling": "popularity"},
    {"loss": "softmax", "negative_sampling": "in-batch", "regularizer": "l2:strength=0.01"},
    {"loss": "ccl:margin=0.1,weight=3", "schedule": "inverse-sqrt"},
    {"loss": "bce", "regularizer": "max-norm:limit=0.8", "negatives": "any"},
    {"loss": "softmax", "score": "dot", "regularizer": "l1l2-row:strength=0.001"},
    {"loss": "softmax-at-k:k=2,refresh=2,temperature=0.3", "negative_sampling": "popularity"},
]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("features", ["none", "both"])
def test_all_kernels_and_threads_train_the_same_bits(load_kernel, make_tastes, case, features):
    data = make_tastes(1, features=features)
    expected = ranker(get_kernel("reference"), **case).fit(data)
    assert expected.history_[-1]["loss"] < expected.history_[0]["loss"]
    for name in ("cython", "rust"):
        for threads in (1, 2):
            other = ranker(load_kernel(name), **case)
            other.threads = threads
            other.fit(data)
            assert bits(other) == bits(expected)
            assert other.history_ == expected.history_


class Snapshots(Callback):
    """Keeps a snapshot of every epoch."""

    name = "snapshots"

    def __init__(self):
        self.snapshots = []

    def on_epoch_end(self, run, result):
        self.snapshots.append(run.snapshot())
        return False


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_resumed_run_has_the_same_bits(fast_kernel, make_tastes, case):
    data, recorder = make_tastes(1, features="documents"), Snapshots()
    whole = ranker(fast_kernel, callbacks=[recorder], **case).plan().trainer(data)
    whole.train()
    assert len(recorder.snapshots) == 3
    for snapshot in recorder.snapshots:
        again = ranker(fast_kernel, **case).plan().trainer(data)
        again.train(snapshot)
        assert again.history == whole.history
        tensors = (x.model.tensors() for x in (again, whole))
        first, second = ({n: a.tobytes() for n, a in each.items()} for each in tensors)
        assert first == second


def test_partial_fit_in_two_calls_is_one_training(fast_kernel, make_tastes):
    data = make_tastes(1)
    whole = ranker(fast_kernel).partial_fit(data, steps=32)
    parts = ranker(fast_kernel).partial_fit(data, steps=16).partial_fit(data, steps=16)
    assert bits(parts) == bits(whole)


def test_weights_of_the_top_k_are_refreshed_every_few_epochs(fast_kernel, make_tastes):
    data = make_tastes(1)
    plan = ranker(fast_kernel, dataclasses.replace(AT_K, refresh=2), epochs=5).plan()
    trainer, periods, values = plan.trainer(data), [], []
    for result in trainer.solver.run_epochs(trainer.problem()):
        state = result.state()
        periods.append(int(state["weights/thresholds/period"][0]))
        values.append(state["weights/thresholds/values"])
    assert periods == [0, 0, 1, 1, 2]
    assert (values[0] == values[1]).all()
    assert (values[1] != values[2]).any()


def test_a_softmax_for_the_top_k_in_parts_is_one_training(fast_kernel, make_tastes):
    data = make_tastes(1)
    whole = ranker(fast_kernel, AT_K).partial_fit(data, steps=32)
    parts = ranker(fast_kernel, AT_K).partial_fit(data, steps=16).partial_fit(data, steps=16)
    assert bits(parts) == bits(whole)


def test_the_smaller_the_temperature_of_weights_the_fewer_positives_count():
    own, thresholds = np.array([0.9, 0.5, 0.1]), np.full(3, 0.5)
    soft, hard = (
        SoftmaxAtK(weight_temperature=t).top_k_weights(own, thresholds) for t in (1, 0.01)
    )
    assert soft[1] == hard[1] == 0.5
    assert soft[2] > 0.3
    assert hard[0] > 0.999 > 0.001 > hard[2]


def test_partial_fit_adds_embeddings_and_moments(fast_kernel, make_tastes):
    small, large = make_tastes(1, n_queries=5), make_tastes(1, n_queries=12)
    grown = ranker(fast_kernel).partial_fit(small, steps=16).partial_fit(large, steps=16)
    assert grown.model_.U.shape[0] == 12
    assert np.isfinite(grown.predict(large)).all()


# --- cosines ----------------------------------------------------------------


def test_cosines_are_those_of_the_embeddings(fast_kernel, make_tastes, tmp_path):
    data = make_tastes(1, features="documents")
    trained = ranker(fast_kernel).fit(data)
    model = trained.model_
    u = np.asarray(data.query_rows @ model.U)
    v = np.asarray(data.document_rows @ model.V)
    expected = (u / np.linalg.norm(u, axis=1)[:, None]) @ (
        v / np.linalg.norm(v, axis=1)[:, None]
    ).T + data.document_rows @ model.document_biases
    np.testing.assert_allclose(trained.predict(data), expected, atol=1e-5)
    trained.save(tmp_path / "model.safetensors")
    loaded = Ranker.load(tmp_path / "model.safetensors")
    assert loaded.model_.score == "cosine"
    assert (loaded.predict(data) == trained.predict(data)).all()
    queries, documents, _ = model.embedding(data, trained.kernel_)
    np.testing.assert_allclose(np.linalg.norm(queries, axis=1), 1.0, rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(documents, axis=1), 1.0, rtol=1e-5)
    best = trained.rank(data, k=1)
    assert [one[0][0] for _, one in best] == data.document_ids[expected.argmax(axis=1)].tolist()


# --- refusals ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "hogwild"}, "mode=hogwild is not for loss 'softmax'"),
        ({"loss": "ccl", "negative_sampling": "popularity"}, "use negative_sampling=uniform"),
        ({"loss": "warp"}, "the model has score=cosine; use score=dot"),
        ({"loss": "warp", "score": "dot", "schedule": "adam"}, "schedule=adam is for losses"),
    ],
)
def test_combinations_without_a_gradient_are_refused(fast_kernel, make_tastes, options, message):
    with pytest.raises(CombinationError, match=message):
        ranker(fast_kernel, **options).fit(make_tastes(1))


@pytest.mark.parametrize(
    "parts",
    [
        {"loss": "alignment", "regularizer": "orthonormal", "solver": "alternating"},
        {"loss": "bpr", "solver": "coordinate"},
        {"loss": "squared", "solver": "svd"},
    ],
    ids=lambda parts: parts["solver"],
)
def test_solvers_of_dot_products_refuse_cosines(make_tastes, parts):
    with pytest.raises(CombinationError, match="the model has score=cosine"):
        Ranker("factored:dimensions=5,score=cosine", **parts).fit(make_tastes(1))


def test_triplets_are_refused(fast_kernel, make_tastes):
    with pytest.raises(CombinationError, match="give partial_fit steps, not triplets"):
        ranker(fast_kernel).partial_fit(make_tastes(1), triplets=np.zeros((1, 8), np.int64))
