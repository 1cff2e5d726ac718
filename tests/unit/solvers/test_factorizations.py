"""SVD against LAPACK, NMF against scikit-learn and the conditions of its minimum."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition import non_negative_factorization

from ranking import MatchingData, Ranker
from ranking.contracts.callback import Callback
from ranking.errors import CombinationError, DataError, DataWarning, PartError
from ranking.kernels.select import get_kernel
from ranking.models.factored import Factored
from ranking_plugins.losses import Squared
from ranking_plugins.solvers import NMF

DIMENSIONS = 4


def make_counts(seed: int = 0, shape: tuple[int, int] = (23, 17)) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    return sp.csr_array(rng.poisson(2.0, shape) * (rng.random(shape) < 0.4), dtype=np.float64)


def fitted(counts, solver, dimensions=DIMENSIONS, loss="squared", **options):
    model = f"factored:dimensions={dimensions},biases=false"
    return Ranker(model, loss, "none", solver, **options).fit(MatchingData(None, None, counts))


def sides(ranker):
    width = ranker.model_.dimensions
    return ranker.model_.U[:, :width], ranker.model_.V[:, :width]


def brute_force(counts, queries, documents):
    error = counts.toarray() - queries.astype(float) @ documents.astype(float).T
    return (error**2).sum()


@pytest.mark.parametrize("shape", [(23, 17), (9, 31)])
def test_svd_is_lapacks(shape):
    counts = make_counts(1, shape)
    ranker = fitted(counts, "svd")
    left, values, right = np.linalg.svd(counts.toarray())
    best = (left[:, :DIMENSIONS] * values[:DIMENSIONS]) @ right[:DIMENSIONS]
    queries, documents = sides(ranker)
    np.testing.assert_allclose(queries @ documents.T, best, atol=1e-5)
    np.testing.assert_allclose((queries**2).sum(axis=0), values[:DIMENSIONS], rtol=1e-5)
    np.testing.assert_allclose((documents**2).sum(axis=0), values[:DIMENSIONS], rtol=1e-5)
    assert (np.take_along_axis(queries, np.abs(queries).argmax(axis=0)[None], 0) > 0).all()
    assert ranker.objective_ == pytest.approx((values[DIMENSIONS:] ** 2).sum())
    assert ranker.stopped_ == "converged"


def test_svd_does_not_depend_on_the_seed_and_takes_negative_grades():
    counts = make_counts()
    counts.data[::3] *= -1.0
    one, other = (fitted(counts, "svd", random_state=seed) for seed in (0, 1))
    np.testing.assert_array_equal(one.model_.U, other.model_.U)
    np.testing.assert_array_equal(one.model_.V, other.model_.V)


def test_the_squared_loss_is_the_sum_over_all_pairs():
    counts = make_counts()
    rng = np.random.default_rng(3)
    queries, documents = rng.normal(size=(23, 3)), rng.normal(size=(17, 3))
    value = Squared().factored_value(counts, queries, documents)
    assert value == pytest.approx(brute_force(counts, queries, documents))


def test_nmf_never_increases_the_objective_and_converges():
    counts = make_counts(2)
    ranker = fitted(counts, NMF(max_epochs=2000, tolerance=1e-12))
    objectives = [row["objective"] for row in ranker.history_]
    assert all(after <= before for before, after in itertools.pairwise(objectives))
    queries, documents = (side.astype(float) for side in sides(ranker))
    assert min(queries.min(), documents.min()) >= 0.0
    assert ranker.objective_ == pytest.approx(brute_force(counts, queries, documents), rel=1e-5)
    # At a minimum the gradient is 0 where a number is above 0, and at least 0 elsewhere.
    error = queries @ documents.T - counts.toarray()
    for side, gradient in ((queries, error @ documents), (documents, error.T @ queries)):
        assert gradient.min() > -1e-3
        np.testing.assert_allclose(gradient[side > 1e-4], 0.0, atol=1e-3)


def test_nmf_takes_the_steps_of_scikit_learns_coordinate_descent():
    counts = make_counts(4)
    model = Factored(dimensions=DIMENSIONS, biases=False)
    model.initialize(MatchingData(None, None, counts), 0, get_kernel())
    queries, documents = (np.abs(s[:, :DIMENSIONS]).astype(float) for s in (model.U, model.V))
    product = queries @ documents.T
    scale = np.sqrt((product * counts.toarray()).sum() / (product**2).sum())
    W, H, _ = non_negative_factorization(
        counts.toarray(),
        W=queries * scale,
        H=np.ascontiguousarray(documents.T * scale),
        n_components=DIMENSIONS,
        init="custom",
        solver="cd",
        max_iter=1,
        tol=0.0,
    )
    mine = sides(fitted(counts, NMF(max_epochs=1)))
    np.testing.assert_allclose(mine[0], W, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(mine[1], H.T, rtol=1e-4, atol=1e-5)


class StopAfter(Callback):
    """Keeps a snapshot of an epoch, and stops."""

    name = "stop-after"

    def __init__(self, epoch):
        self.epoch, self.snapshot = epoch, None

    def on_epoch_end(self, run, result):
        if result.epoch == self.epoch:
            self.snapshot = run.snapshot()
        return result.epoch == self.epoch


def test_a_resumed_nmf_has_the_same_bits():
    data = MatchingData(None, None, make_counts(5))
    parts = ("factored:dimensions=4,biases=false", "squared", "none", NMF(max_epochs=12))
    whole = Ranker(*parts).fit(data)
    stop = StopAfter(5)
    Ranker(*parts, callbacks=[stop]).fit(data)
    stop.snapshot.facts["stopped"] = ""
    run = Ranker(*parts).plan().trainer(data)
    run.train(resume=stop.snapshot)
    assert len(run.history) == len(whole.history_)
    np.testing.assert_array_equal(run.model.U, whole.model_.U)
    np.testing.assert_array_equal(run.model.V, whole.model_.V)


def test_a_dimension_that_dies_stays_harmless():
    counts = sp.csr_array(np.outer([1.0, 2.0, 0.0], [3.0, 0.0, 1.0]))
    ranker = fitted(counts, NMF(max_epochs=500, tolerance=0.0), dimensions=3)
    assert ranker.objective_ == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("solver", ["svd", "nmf"])
def test_features_classes_and_empty_matrices_are_refused(solver, make_matching):
    def fit(data):
        Ranker("factored:dimensions=2", "squared", "none", solver).fit(data)

    both = make_matching(kind="grades")
    with pytest.warns(DataWarning, match=f"{solver} knows queries .* by id only"):
        fit(both._replace(relevance=abs(both.relevance)))
    with pytest.raises(DataError, match="labelled by class"):
        fit(MatchingData(None, None, labels=([0, 1, 0], [0, 0, 1])))
    with pytest.raises(DataError, match="all relevance is 0"):
        fit(MatchingData(None, None, sp.csr_array((5, 4))))


def test_limits_of_svd_and_nmf_are_reported():
    counts = make_counts()
    with pytest.raises(DataError, match="at most 16"):
        fitted(counts, "svd", dimensions=17)
    counts.data[5] = -1.0
    with pytest.raises(DataError, match=r"nmf needs relevance from 0: query \d+, document \d+"):
        fitted(counts, "nmf")
    with pytest.raises(
        CombinationError, match=r"optimal only for the squared error.* Try solver sgd"
    ):
        fitted(counts, "svd", loss="hinge")
    with pytest.raises(
        CombinationError, match=r"optimal only without a penalty.* Try solver alternating"
    ):
        Ranker("factored", "squared", "l2", "svd").fit(MatchingData(None, None, counts))
    with pytest.raises(CombinationError, match=r"two thin matrices.* Try model factored"):
        Ranker("bilinear", "squared", "none", "nmf").fit(MatchingData(None, None, counts))
    for parameter in ({"max_epochs": 0}, {"tolerance": 1.0}):
        with pytest.raises(PartError, match=next(iter(parameter))):
            NMF(**parameter)


def test_a_factorisation_is_saved_and_ranks(tmp_path):
    counts = make_counts()
    ranker = fitted(counts, "svd")
    ranker.save(tmp_path / "svd.safetensors")
    again = Ranker.load(tmp_path / "svd.safetensors")
    data = MatchingData(None, None, counts)
    np.testing.assert_array_equal(ranker.predict(data), again.predict(data))
    assert dataclasses.asdict(again.model_)["dimensions"] == DIMENSIONS


def test_latent_semantic_indexing_scores_by_the_best_approximation_of_the_documents(seed):
    rng = np.random.default_rng(seed)
    documents, queries = rng.random((12, 9)), rng.random((5, 9))
    relevance = sp.csr_array((rng.random((5, 12)) < 0.3).astype(float))
    data = MatchingData(queries, documents, relevance)
    model = "factored:dimensions=4,biases=false"
    ranker = Ranker.from_recipe("lsi-documents", model=model).fit(data)
    left, values, right = np.linalg.svd(documents)
    best = (left[:, :4] * values[:4]) @ right[:4]
    np.testing.assert_allclose(ranker.predict(data), queries @ best.T, rtol=1e-4, atol=1e-5)
    assert ranker.objective_ == pytest.approx((values[4:] ** 2).sum())


def test_latent_semantic_indexing_needs_features_that_both_sides_share():
    counts = make_counts()
    with pytest.raises(DataError, match="and these have none; give texts or features"):
        Ranker.from_recipe("lsi-documents").fit(MatchingData(None, None, counts))
    disjoint = MatchingData(
        np.eye(23, 30), np.eye(17, 30), counts, query_feature_ids=np.arange(30) + 100
    )
    with pytest.raises(DataError, match="they share no feature id"):
        Ranker.from_recipe("lsi-documents", model="factored:dimensions=4").fit(disjoint)
