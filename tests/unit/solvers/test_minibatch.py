"""SSI and SVDFeature: dense scores, numerical gradients, and which pairs are sampled."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from ranking import MatchingData, Ranker
from ranking.data.click_preferences import skip_above
from ranking.errors import DataError
from ranking.kernels.select import get_kernel
from ranking.models.factored_identity import FactoredIdentity

LOSSES = {
    "hinge": lambda z: np.maximum(0.0, 1.0 - z),
    "logistic": lambda z: np.log1p(np.exp(-z)),
    "pointwise-squared": lambda f, r: 0.5 * (r - f) ** 2,
    "pointwise-logistic": lambda f, r: np.log1p(np.exp(f)) - (r > 0) * f,
}


def clicks_of(seed: int) -> MatchingData:
    rng = np.random.default_rng(seed)
    queries = sp.random_array((6, 5), density=0.6, rng=rng, format="csr")
    documents = sp.random_array((8, 4), density=0.7, rng=rng, format="csr")
    shown = rng.random((6, 8)) < 0.5
    shown[:, 0] = True
    counts = np.where(rng.random((6, 8)) < 0.5, rng.integers(1, 5, (6, 8)), 0)
    counts[:, 0] = 3
    rows, columns = np.nonzero(shown)
    relevance = sp.csr_array(sp.coo_array((counts[rows, columns], (rows, columns)), shape=(6, 8)))
    names = ["a", "b", "c", "d", "e"], ["c", "a", "x", "y"]
    return MatchingData(
        queries,
        documents,
        relevance.astype(float),
        query_feature_ids=names[0],
        document_feature_ids=names[1],
    )


def identity_score(data: MatchingData) -> np.ndarray:
    """The inner product of the features with the same name."""
    rows = dict(zip(data.query_feature_ids.tolist(), data.query_rows.toarray().T, strict=True))
    other = dict(
        zip(data.document_feature_ids.tolist(), data.document_rows.toarray().T, strict=True)
    )
    return sum(np.outer(rows[name], other[name]) for name in rows.keys() & other.keys())


def test_scores_are_those_of_the_factors_plus_the_identity(seed):
    data, model = clicks_of(seed), FactoredIdentity(dimensions=3, biases=True, init_scale=1.0)
    kernel = get_kernel("auto")
    model.initialize(data, seed, kernel)
    model.document_biases[:] = [0.5, -1.0, 0.25, 2.0]
    factors = data.query_rows @ model.U @ (data.document_rows @ model.V).T
    expected = factors + data.document_rows @ model.document_biases + identity_score(data)
    np.testing.assert_allclose(model.scores(data, kernel), expected, rtol=1e-5, atol=1e-6)
    assert model.embedding(data, kernel) is None


def numerical(value, arrays):
    """The gradient of a function of a dictionary of float64 arrays."""
    gradients = {}
    for name, array in arrays.items():
        gradients[name] = np.zeros_like(array)
        for at in np.ndindex(array.shape):
            saved, array[at] = array[at], array[at] + 1e-5
            high = value(arrays)
            array[at] = saved - 1e-5
            gradients[name][at] = (high - value(arrays)) / 2e-5
            array[at] = saved
    return gradients


@pytest.mark.parametrize("loss", LOSSES)
def test_an_epoch_is_adagrad_along_numerical_gradients(loss, seed):
    from ranking_plugins.solvers.minibatch import _Training

    data = clicks_of(seed)
    model = "factored:dimensions=2,biases=true,init_scale=1"
    if not loss.startswith("pointwise"):
        model = model.replace("factored", "factored-identity")
    solver = "minibatch:epochs=1,batch_size=7,learning_rate=0.1"
    ranker = Ranker(model, loss, "l2:strength=0.01", solver, random_state=seed)
    trainer = ranker.plan().trainer(data)
    training = _Training(trainer.solver, trainer.problem())
    arrays = {name: array.astype(float) for name, array in training.arrays.items()}
    sums = {name: np.full_like(array, 1e-8) for name, array in arrays.items()}
    Q, D = data.query_rows.toarray(), data.document_rows.toarray()
    raw = identity_score(data)

    def scores(p):
        level = p["level"][0] + (Q @ p["level"][1:])[:, None]
        factored = (Q @ p["U"][:, :2]) @ (D @ p["V"][:, :2]).T + D @ p["biases"]
        return factored + (level if loss.startswith("pointwise") else raw)

    batches = list(training.sampler.batches(1, 7))
    for queries, first, last in batches:

        def value(p, queries=queries, first=first, last=last):
            f = scores(p)
            if loss.startswith("pointwise"):
                return LOSSES[loss](f[queries, first], last).mean()
            return LOSSES[loss](f[queries, first] - f[queries, last]).mean()

        for name, gradient in numerical(value, arrays).items():
            sums[name] += gradient**2
            arrays[name] -= 0.1 * gradient / np.sqrt(sums[name])
    for name in ("U", "V", "biases"):
        arrays[name] /= 1.0 + len(batches) * 0.1 * 0.01 / np.sqrt(sums[name])
    training.epoch(1)
    for name in ("U", "V", "biases"):
        np.testing.assert_allclose(training.arrays[name], arrays[name], rtol=2e-2, atol=2e-3)


def test_preferences_are_shown_documents_with_fewer_clicks(seed):
    from ranking_plugins.solvers.pair_samples import PairSampler, PreferenceSampler

    data = clicks_of(seed)
    grades = data.relevance.toarray()
    shown = sp.csr_array(
        (np.ones(data.relevance.nnz), data.relevance.indices, data.relevance.indptr),
        shape=grades.shape,
    ).toarray()
    ranker = Ranker("factored-identity:dimensions=2", "hinge", "none", "minibatch")
    problem = ranker.plan().trainer(data).problem()
    sampler = PreferenceSampler(data, "auto", problem)
    sampled = set()
    for epoch in range(40):
        for q, up, down in zip(*next(sampler.batches(epoch, 1000)), strict=True):
            assert grades[q, up] > 0
            lower = (shown[q] > 0) & (grades[q] < grades[q, up])
            assert lower[down] if lower.any() else not shown[q, down]
            sampled.add((int(q), int(up), int(down)))
    possible = {
        (q, up, down)
        for q in range(6)
        for up in np.flatnonzero(grades[q]).tolist()
        for down in np.flatnonzero((shown[q] > 0) & (grades[q] < grades[q, up])).tolist()
    }
    assert possible <= sampled
    queries, documents, responses = next(PairSampler(data, 2, problem).batches(3, 1000))
    observed = shown[queries, documents] > 0
    assert observed.sum() == data.relevance.nnz
    assert (responses[~observed] == 0).all()
    assert (responses == grades[queries, documents]).all()


def test_recipes_learn_what_was_clicked(make_tastes):
    data = make_tastes(1, 40, 50, share=0.4)
    for model, loss in (
        ("factored-identity:dimensions=8", "hinge"),
        ("factored:dimensions=8", "pointwise-squared"),
        ("factored:dimensions=8", "pointwise-logistic"),
    ):
        solver = "minibatch:epochs=30,learning_rate=0.1"
        ranker = Ranker(model, loss, "none", solver).fit(data)
        objectives = [row["objective"] for row in ranker.history_]
        assert objectives[-1] < 0.8 * objectives[0]
        assert ranker.score(data, metric="p@1") > 0.9


def test_a_resumed_run_has_the_same_bits(make_tastes, tmp_path):
    data = make_tastes(1, 30, 40, share=0.4)
    parts = ("factored:dimensions=4", "pointwise-squared", "l2:strength=0.001")
    whole = Ranker(*parts, "minibatch:epochs=6").fit(data)
    trainer = Ranker(*parts, "minibatch:epochs=6").plan().trainer(data)
    epochs = trainer.solver.run_epochs(trainer.problem())
    for _ in range(3):
        result = next(epochs)
    state = {name: array.copy() for name, array in result.state().items()}
    rest = list(trainer.solver.run_epochs(trainer.problem(state)))
    assert [one.epoch for one in rest] == [4, 5, 6]
    assert np.array_equal(trainer.model.U, whole.model_.U)


def test_skip_above_keeps_what_was_seen():
    clicks = sp.csr_array(([2.0, 0.0, 1.0, 0.0, 0.0], [0, 1, 2, 3, 1], [0, 4, 5]), shape=(2, 5))
    positions = clicks.copy()
    positions.data = np.array([4.0, 1.0, 2.0, 5.0, 1.0])
    seen = skip_above(clicks, positions)
    assert seen.indices.tolist() == [0, 1, 2]
    assert seen.data.tolist() == [2.0, 0.0, 1.0]
    assert seen.indptr.tolist() == [0, 3, 3]
    with pytest.raises(DataError, match="same pairs"):
        skip_above(clicks, positions[:, :4])
    positions.data[0] = 0.0
    with pytest.raises(DataError, match="start at 1"):
        skip_above(clicks, positions)


def test_data_that_cannot_be_learnt_from_are_refused():
    data = MatchingData(None, None, sp.csr_array((3, 4)))
    for loss, model in (("hinge", "factored-identity"), ("pointwise-squared", "factored")):
        with pytest.raises(DataError, match="nothing to learn from"):
            Ranker(f"{model}:dimensions=2", loss, "none", "minibatch").fit(data)
    same = MatchingData(None, None, np.eye(3))
    with pytest.raises(DataError, match="different clicks"):
        Ranker(
            "factored-identity:dimensions=2", "hinge", "none", "minibatch:preferences=shown"
        ).fit(same)
