"""Embeddings of queries by their positives, against loops in double precision."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from ranking import MatchingData, Ranker
from ranking.contracts.callback import Callback
from ranking.errors import CombinationError, DataError
from ranking.kernels.select import get_kernel
from ranking_plugins.solvers import SGD
from ranking_plugins.solvers.query_histories import QueryHistories

TEMPERATURE = 0.3
EVERY = 1000  # more negatives than documents: all of them, each once
HISTORIES = ("mean", "mean-only")


def ranker(kernel, history, loss=f"softmax:temperature={TEMPERATURE}", callbacks=(), **options):
    score = options.pop("score", "cosine")
    settings = {"epochs": 3, "batch_size": 8, "n_negatives": 6, "learning_rate": 0.05, **options}
    return Ranker(
        f"factored:dimensions=5,score={score},init_scale=1,history={history}",
        loss,
        settings.pop("regularizer", "none"),
        SGD(**settings),
        kernel=kernel,
        callbacks=list(callbacks),
        random_state=3,
    )


def bits(trained):
    return {name: array.tobytes() for name, array in trained.model_.tensors().items()}


def dense(data):
    """Return the positives, and the features of documents."""
    return np.asarray((data.relevance > 0).todense()), np.asarray(data.document_rows.todense())


def full_loss(data, score, parameters):
    """Return the sum over all positives of the softmax against all other documents."""
    positive, features = dense(data)
    documents = features @ parameters["V"]
    total = 0.0
    for q, d in zip(*np.nonzero(positive), strict=True):
        others = np.flatnonzero(positive[q])
        others = others[others != d]
        u = parameters["U"][q] + (documents[others].mean(axis=0) if others.size else 0.0)
        v = documents
        if score == "cosine":
            length = np.linalg.norm(u)
            u, v = (
                u / (length if length > 0.0 else 1.0),
                v / np.linalg.norm(v, axis=1, keepdims=True),
            )
        scores = v @ u + features @ parameters["biases"]
        negatives = np.append(scores[~positive[q]], scores[d]) / TEMPERATURE
        total += logsumexp(negatives) - scores[d] / TEMPERATURE
    return total


def own(trained, data):
    """Return the parameters in double precision, without the means in U."""
    positive, features = dense(data)
    model = trained.model_
    V = model.V[:, : model.dimensions].astype(np.float64)
    shares = positive / np.maximum(positive.sum(axis=1, keepdims=True), 1)
    U = model.U[:, : model.dimensions].astype(np.float64) - shares @ (features @ V)
    return {"U": U, "V": V, "biases": model.document_biases.astype(np.float64)}


@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize("score", ["dot", "cosine"])
@pytest.mark.parametrize("features", ["none", "documents"])
def test_a_step_with_all_negatives_is_minus_the_full_gradient(
    fast_kernel, make_tastes, history, score, features
):
    data = make_tastes(1, n_queries=5, n_documents=7, features=features)
    options = {
        "schedule": "constant",
        "batch_size": int(data.n_relevant.sum()),
        "n_negatives": EVERY,
        "learning_rate": 0.01,
        "score": score,
    }
    before, after = (
        own(ranker(fast_kernel, history, epochs=epochs, **options).fit(data), data)
        for epochs in (0, 1)
    )
    if history == "mean-only":
        for one in (before, after):
            np.testing.assert_allclose(one["U"], 0.0, atol=1e-6)
    for name in {"V", "biases"} | ({"U"} if history == "mean" else set()):
        change, expected = (after[name] - before[name]) / -0.01, np.empty(before[name].shape)
        for place in np.ndindex(expected.shape):
            values = []
            for step in (1e-6, -1e-6):
                moved = {key: array.copy() for key, array in before.items()}
                moved[name][place] += step
                values.append(full_loss(data, score, moved))
            expected[place] = (values[0] - values[1]) / 2e-6
        size = np.abs(expected).max()
        np.testing.assert_allclose(change, expected, rtol=3e-3, atol=3e-4 * size)


def test_the_reported_loss_leaves_the_positive_out_of_its_history(fast_kernel, make_tastes):
    data = make_tastes(1)
    trained = ranker(fast_kernel, "mean", n_negatives=EVERY).fit(data)
    expected = full_loss(data, "cosine", own(trained, data)) / int(data.n_relevant.sum())
    assert trained.history_[-1]["loss"] == pytest.approx(expected, rel=1e-4)


def test_means_leave_one_document_out(make_tastes):
    data = make_tastes(2)
    positive, _ = dense(data)
    histories = QueryHistories(data.relevance)
    shares = positive / np.maximum(positive.sum(axis=1, keepdims=True), 1)
    np.testing.assert_allclose(histories.means(None).toarray(), shares, rtol=1e-6)
    queries, documents = (part.astype(np.int64) for part in np.nonzero(positive))
    rows = histories.without(queries, documents, None).toarray()
    for row, query, document in zip(rows, queries, documents, strict=True):
        others = positive[query].astype(np.float64)
        others[document] = 0.0
        np.testing.assert_allclose(row, others / max(others.sum(), 1.0), rtol=1e-6)


CASES = [
    {"history": "mean"},
    {"history": "mean-only", "score": "dot", "schedule": "adagrad"},
    {"history": "mean", "regularizer": "l2:strength=0.01", "negative_sampling": "popularity"},
    {"history": "mean", "loss": "ccl:margin=0.1,weight=3", "schedule": "inverse-sqrt"},
    {"history": "mean-only", "loss": "softmax-at-k:k=2,refresh=2,temperature=0.3"},
]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("features", ["none", "documents"])
def test_all_kernels_and_threads_train_the_same_bits(load_kernel, make_tastes, case, features):
    data = make_tastes(1, features=features)
    expected = ranker(get_kernel("reference"), **case).fit(data)
    assert np.isfinite(expected.model_.U).all()
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


@pytest.mark.parametrize("history", HISTORIES)
def test_partial_fit_in_two_calls_is_one_training(fast_kernel, make_tastes, history):
    data = make_tastes(1)
    whole = ranker(fast_kernel, history).partial_fit(data, steps=32)
    parts = ranker(fast_kernel, history).partial_fit(data, steps=16).partial_fit(data, steps=16)
    assert bits(parts) == bits(whole)


def test_partial_fit_adds_users_and_keeps_the_others(fast_kernel, make_tastes):
    small, large = make_tastes(1, n_queries=5), make_tastes(1, n_queries=12)
    grown = ranker(fast_kernel, "mean").partial_fit(large, steps=16)
    before = grown.model_.U.copy()
    few = large.select(np.arange(3))
    grown.partial_fit(few, steps=4)
    assert (grown.model_.U[5:] == before[5:]).all()
    assert (grown.model_.U[:3] != before[:3]).any()
    grown = ranker(fast_kernel, "mean").partial_fit(small, steps=16).partial_fit(large, steps=16)
    assert grown.model_.U.shape[0] == 12
    assert np.isfinite(grown.predict(large)).all()


def test_training_continues_from_a_saved_model(fast_kernel, make_tastes, tmp_path):
    data = make_tastes(1)
    trained = ranker(fast_kernel, "mean").fit(data)
    trained.save(tmp_path / "model.safetensors")
    loaded = Ranker.load(tmp_path / "model.safetensors")
    assert (loaded.predict(data) == trained.predict(data)).all()
    # Adam starts again, but not the embeddings: own ones are what is left without the means.
    loaded.partial_fit(data, steps=0)
    np.testing.assert_allclose(loaded.predict(data), trained.predict(data), atol=1e-6)


@pytest.mark.parametrize("features", ["none", "documents"])
def test_a_new_user_with_the_history_of_another_is_ranked_alike(fast_kernel, make_tastes, features):
    data = make_tastes(1, features=features)
    trained = ranker(fast_kernel, "mean-only").fit(data)
    scores = trained.predict(data)
    lists = {f"new {q}": data.document_ids[data.relevant(q)].tolist() for q in range(4)}
    for q, (name, items) in enumerate(lists.items()):
        folded = dict(trained.fold_in(data, {name: items}, data.n_documents)[name])
        assert set(folded) == set(data.document_ids.tolist()) - set(items)
        expected = {one: scores[q][data.document_ids == one][0] for one in folded}
        assert folded == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    "parts",
    [
        {"loss": "warp"},
        {"loss": "alignment", "regularizer": "orthonormal", "solver": "alternating"},
        {"loss": "bpr", "solver": "coordinate"},
        {"loss": "squared", "solver": "svd"},
    ],
    ids=str,
)
def test_training_of_own_embeddings_refuses_histories(make_tastes, parts):
    with pytest.raises(CombinationError, match="the model has history=mean; use history=ignored"):
        Ranker("factored:dimensions=5,history=mean", **parts).fit(make_tastes(1))


def test_features_of_users_and_labels_are_refused(fast_kernel, make_tastes):
    with pytest.raises(DataError, match="these data have features of queries"):
        ranker(fast_kernel, "mean").fit(make_tastes(1, features="both"))
    labelled = MatchingData(np.eye(4), np.eye(4), labels=([0, 1, 0, 1], [0, 1, 1, 0]))
    with pytest.raises(DataError, match="these data have labels"):
        ranker(fast_kernel, "mean").fit(labelled)
