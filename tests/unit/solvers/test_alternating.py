"""The alternating solver: every half-step is a maximum, and the methods are what they say."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import svds

from ranking import MatchingData, Ranker
from ranking.data.click_matrix import click_matrix
from ranking.errors import CombinationError, DataError, PartError
from ranking_plugins.recipes.matching import lsi
from ranking_plugins.regularizers import L1L2Row, L1Row
from ranking_plugins.solvers import Alternating

MODELS = ("factored:dimensions=5,biases=false,init_scale=1", "sparse-factored:dimensions=5")


def clicks(seed, n_queries=60, n_documents=40, widths=(30, 25)):
    """Clicks with features on both sides."""
    rng = np.random.default_rng(seed)
    sides = [
        sp.csr_array(rng.random((n, w)) * (rng.random((n, w)) < 0.15)).astype(np.float32)
        for n, w in zip((n_queries, n_documents), widths, strict=True)
    ]
    counts = rng.poisson(0.2, (n_queries, n_documents)) * rng.integers(1, 9, (1, n_documents))
    return MatchingData(*sides, sp.csr_array(counts.astype(float)))


def ranker(regularizer, model=MODELS[0], solver="alternating", **settings):
    return Ranker(model, "alignment", regularizer, solver, kernel="reference", **settings)


def scaled(data, d=5):
    """M as the solver has it."""
    M = click_matrix(data).rows.toarray().astype(float)
    return M * np.sqrt(d) * M.size**0.25 / np.linalg.norm(M)


@pytest.mark.parametrize("model", MODELS)
def test_rmls_never_increases_the_objective(seed, model):
    data = clicks(seed)
    fitted = ranker("l1l2-row:strength=0.2", model, "alternating:max_epochs=30,tolerance=0").fit(
        data
    )
    steps = [row[name] for row in fitted.history_[1:] for name in ("half objective", "objective")]
    assert all(after <= before + 1e-6 * abs(before) for before, after in itertools.pairwise(steps))
    U, V = (side[:, :5].astype(float) for side in (fitted.model_.U, fitted.model_.V))
    value = -np.sum(U * (scaled(data) @ V)) + 0.2 * (np.abs(U).sum() + np.abs(V).sum())
    assert value == pytest.approx(fitted.objective_, rel=1e-5)
    norms = np.linalg.norm(np.vstack((U, V)), axis=1)
    assert ((np.abs(norms - 1.0) < 1e-5) | (norms == 0.0)).all()


def test_a_half_step_is_the_maximum(seed):
    """No row of many tried does better than that of equation (5), for a strength and a limit."""
    rng = np.random.default_rng(seed)
    part = L1L2Row(strength=0.3, limit=2.0)
    gain = rng.normal(size=(20, 4)) * rng.random((20, 1))
    best = part.maximize(gain)
    value = (gain * best).sum(axis=1) - 0.3 * np.abs(best).sum(axis=1)
    sample = rng.normal(size=(20000, 4)) * (rng.random((20000, 4)) < 0.7)
    lengths = np.linalg.norm(sample, axis=1, keepdims=True)
    sample *= 2.0 * rng.random((20000, 1)) ** 0.1 / np.where(lengths > 0, lengths, 1.0)
    others = gain @ sample.T - 0.3 * np.abs(sample).sum(axis=1)
    assert (value >= others.max(axis=1) - 1e-12).all()
    assert (value - others.max(axis=1) < 0.1).all()


@pytest.mark.parametrize("d", [3, 8])
def test_pls_has_the_energy_of_the_singular_vectors(seed, d):
    data = clicks(seed)
    M = scaled(data, d)
    expected = svds(M, k=d, return_singular_vectors=False).sum()
    fitted = ranker(
        "orthonormal:scale=1",
        f"factored:dimensions={d},biases=false,init_scale=1",
        "alternating:max_epochs=300,tolerance=1e-8",
    ).fit(data)
    assert -fitted.objective_ == pytest.approx(expected, rel=1e-4)
    U, V = fitted.model_.U[:, :d].astype(float), fitted.model_.V[:, :d].astype(float)
    for side in (U, V):
        np.testing.assert_allclose(side.T @ side, np.eye(d), atol=1e-5)
    energy = np.linalg.norm(U.T @ M @ V) ** 2
    exact = (svds(M, k=d, return_singular_vectors=False) ** 2).sum()
    assert energy == pytest.approx(exact, rel=1e-4)


def test_lsi_is_pls_of_indicators(seed):
    """Scores of the rank-d approximation's directions, from the counts alone."""
    rng = np.random.default_rng(seed)
    counts = rng.poisson(0.3, (30, 20)).astype(float)
    data = MatchingData(None, None, sp.csr_array(counts))
    fitted = Ranker(
        "factored:dimensions=4,biases=false,init_scale=1",
        "alignment:per_query=false",
        "orthonormal:scale=1",
        "alternating:max_epochs=500,tolerance=1e-9,scale=1",
        kernel="reference",
    ).fit(data)
    left, values, right = svds(counts, k=4)
    assert -fitted.objective_ == pytest.approx(values.sum(), rel=1e-4)
    np.testing.assert_allclose(fitted.predict(data), left @ right, atol=2e-2)


def test_recipe_lsi_has_the_scores_of_the_truncated_decomposition(seed):
    counts = np.random.default_rng(seed).poisson(0.3, (30, 20)).astype(float)
    data = MatchingData(None, None, sp.csr_array(counts))
    parts = {**lsi().parts, "model": "factored:dimensions=4,biases=false"}
    del parts["features"]
    parts["solver"] = parts["solver"].replace("epochs=100,tolerance=1e-5", "epochs=500,tolerance=0")
    fitted = Ranker(**parts, kernel="reference").fit(data)
    left, values, right = svds(counts, k=4)
    np.testing.assert_allclose(fitted.predict(data), (left * values) @ right, atol=5e-2)
    U = fitted.model_.U[:, :4].astype(float)
    np.testing.assert_allclose(U.T @ U, np.eye(4), atol=1e-5)


def test_singular_values_without_orthonormal_are_refused(seed):
    with pytest.raises(CombinationError, match="singular_values=true is for loss alignment and"):
        ranker("max-norm", solver="alternating:singular_values=true").fit(clicks(seed))


@pytest.mark.parametrize("regularizer", ["l1l2-row:strength=0.5", "orthonormal", "max-norm"])
def test_a_resumed_run_has_the_same_bits(seed, regularizer):
    data = clicks(seed)
    solver = "alternating:max_epochs=6,tolerance=0"
    for model in MODELS:
        whole = ranker(regularizer, model, solver).plan().trainer(data)
        whole.train()
        begun = (
            ranker(regularizer, model, "alternating:max_epochs=3,tolerance=0").plan().trainer(data)
        )
        begun.train()
        snapshot = begun.snapshot()
        snapshot.facts["stopped"] = ""
        rest = ranker(regularizer, model, solver).plan().trainer(data)
        rest.train(snapshot)
        assert rest.history == whole.history
        for name, tensor in whole.model.tensors().items():
            assert rest.model.tensors()[name].tobytes() == tensor.tobytes()


@pytest.mark.filterwarnings("ignore:kernel 'reference' was built without threads")
@pytest.mark.parametrize("regularizer", ["l1l2-row:strength=0.5", "orthonormal", "max-norm"])
def test_kernels_and_threads_change_nothing(seed, regularizer, load_kernel):
    data = clicks(seed)
    expected = ranker(regularizer).fit(data).model_
    for name in ("reference", "cython", "rust"):
        kernel = load_kernel(name)
        for threads in (1, 2, 3):
            again = ranker(regularizer, threads=threads).set_params(kernel=kernel).fit(data).model_
            assert again.U.tobytes() == expected.U.tobytes()
            assert again.V.tobytes() == expected.V.tobytes()


@pytest.mark.slow
def test_sparse_embeddings_are_the_same_and_smaller(seed, tmp_path):
    data = clicks(seed, 200, 150, (150, 120))
    settings = ("l1l2-row:strength=1", "sparse-factored:dimensions=40")
    dense = ranker(*settings, "alternating:sparse_below=0").fit(data)
    light = ranker(*settings, "alternating:sparse_below=1").fit(data)
    assert dense.model_.U.tobytes() == light.model_.U.tobytes()
    assert dense.model_.density == light.model_.density < 0.3
    assert light.history_[-1]["megabytes"] < dense.history_[-1]["megabytes"]
    np.testing.assert_array_equal(dense.predict(data), light.predict(data))
    images = light.model_.embeddings(data, 0)
    assert sp.issparse(images)
    np.testing.assert_allclose(
        images.toarray(), data.query_rows @ light.model_.U, rtol=1e-5, atol=1e-6
    )
    for fitted in (dense, light):
        fitted.save(tmp_path / "model.safetensors")
        again = Ranker.load(tmp_path / "model.safetensors", kernel="reference")
        np.testing.assert_array_equal(again.predict(data), fitted.predict(data))
        assert sp.issparse(again.model_.matrix(0)) == sp.issparse(fitted.model_.matrix(0))


def test_it_trains_on_the_matrix_alone(seed):
    data = clicks(seed)
    settings = {"solver": "alternating:max_epochs=4"}
    expected = ranker("l1l2-row:strength=0.5", **settings).fit(data)
    alone = Ranker(
        MODELS[0],
        "alignment:per_query=false",
        "l1l2-row:strength=0.5",
        settings["solver"],
        kernel="reference",
    ).fit(click_matrix(data).as_matching())
    assert alone.model_.U.tobytes() == expected.model_.U.tobytes()
    np.testing.assert_array_equal(alone.predict(data), expected.predict(data))


def test_incompatible_parts_and_data_are_refused(seed):
    data = clicks(seed)
    for parts, reason in (
        (("sparse-factored", "squared", "max-norm"), "least-squares problem, and dense"),
        (("factored", "alignment", "l2"), "does not bound them"),
        (("bilinear", "alignment", "max-norm"), "two blocks of parameters"),
        (("structured", "alignment", "max-norm"), "two blocks of parameters"),
    ):
        with pytest.raises(CombinationError, match=reason):
            Ranker(*parts, "alternating", kernel="reference").fit(data)
    with pytest.raises(PartError, match="scale='much'"):
        Alternating(scale="much")
    with pytest.raises(PartError, match="max_epochs=0"):
        Alternating(max_epochs=0)
    with pytest.raises(PartError, match="tolerance=2"):
        Alternating(tolerance=2)
    with pytest.raises(PartError, match="25 features for 26 dimensions"):
        ranker("orthonormal", "factored:dimensions=26").fit(data)
    nothing = MatchingData(None, None, sp.csr_array((3, 4)))
    with pytest.raises(DataError, match="nothing to learn from"):
        ranker("max-norm").fit(nothing)


def test_a_strength_that_sets_all_embeddings_to_zero_warns(seed):
    with pytest.warns(UserWarning, match="sets all embeddings to 0"):
        fitted = ranker("l1l2-row:strength=100").fit(clicks(seed))
    assert fitted.model_.density == 0.0
    assert fitted.stopped_ == "converged"


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("regularizer", ["l1l2-row:strength=0.5", "max-norm", "orthonormal"])
def test_the_center_is_what_popularity_explains(seed, model, regularizer):
    """The objective is that of M less the product of its sums, made dense."""
    data = clicks(seed)
    M = click_matrix(data).rows.toarray().astype(float)
    M -= np.outer(M.sum(axis=1), M.sum(axis=0)) / M.sum()
    M *= np.sqrt(5) * M.size**0.25 / np.linalg.norm(M)
    solver = "alternating:center=true,tolerance=0,sparse_below=0.9"
    fitted = ranker(regularizer, model, solver).fit(data)
    U, V = (side[:, :5].astype(float) for side in (fitted.model_.U, fitted.model_.V))
    penalty = fitted.regularizer_.penalty
    expected = penalty(U) + penalty(V) - np.sum(U * (M @ V))
    assert fitted.objective_ == pytest.approx(expected, rel=1e-4)
    # Orthonormal half-steps have more columns than the model, which sees whole rounds only.
    names = ("objective",) if regularizer == "orthonormal" else ("half objective", "objective")
    steps = [row[name] for row in fitted.history_[1:] for name in names]
    assert all(after <= before + 1e-5 * abs(before) for before, after in itertools.pairwise(steps))


def test_without_centering_all_embeddings_converge_to_one_direction(seed):
    """M is not negative and connected, so the objective is largest if all point one way."""
    data = clicks(seed)
    fitted = ranker("max-norm", MODELS[0], "alternating:max_epochs=200,tolerance=0").fit(data)
    assert (fitted.model_.U @ fitted.model_.V.T).min() > 0.999
    fitted = ranker(
        "max-norm", MODELS[0], "alternating:max_epochs=200,tolerance=0,center=true"
    ).fit(data)
    assert (fitted.model_.U @ fitted.model_.V.T).min() < 0.0


def test_data_that_cannot_be_centered_are_refused():
    one = MatchingData(None, None, [[2.0, 4.0], [1.0, 2.0]])
    with pytest.raises(DataError, match="popularity explains all clicks"):
        Ranker(
            MODELS[0], "alignment:per_query=false", "max-norm", "alternating:center=true",
            kernel="reference",
        ).fit(one)  # fmt: skip
    minus = MatchingData([[-1.0, 0.0], [0.0, 1.0]], None, [[2.0, 4.0], [2.0, 4.0]])
    with pytest.raises(DataError, match="M sums to 0"):
        ranker("max-norm", MODELS[0], "alternating:center=true").fit(minus)


def test_l1_alone_degenerates_and_warns(seed):
    with pytest.warns(UserWarning, match="l1-row alone degenerates"):
        fitted = ranker("l1-row:limit=2", solver="alternating:max_epochs=50").fit(clicks(seed))
    U = fitted.model_.U
    assert (np.count_nonzero(U, axis=1) == 1).all()
    assert (np.abs(U).sum(axis=1) == 2.0).all()


def test_the_projection_of_l1_row_is_the_nearest(seed):
    rng = np.random.default_rng(seed)
    part, rows = L1Row(limit=1.0), rng.normal(size=(30, 4))
    near = part.prox(rows, 0.1)
    assert part.penalty(near) == 0.0
    sample = rng.normal(size=(5000, 4))
    sample /= np.maximum(np.abs(sample).sum(axis=1, keepdims=True), 1.0)
    distances = np.linalg.norm(rows[:, None] - sample[None], axis=2).min(axis=1)
    assert (np.linalg.norm(rows - near, axis=1) <= distances + 1e-12).all()
    inside = 0.1 * rows / np.abs(rows).sum(axis=1, keepdims=True)
    np.testing.assert_array_equal(part.prox(inside, 0.1), inside)


def energy(M, model, d):
    """The sum of squares of U'MV, for orthonormal columns."""
    U, V = model.U[:, :d].astype(float), model.V[:, :d].astype(float)
    for side in (U, V):
        np.testing.assert_allclose(side.T @ side, np.eye(d), atol=1e-4)
    return np.linalg.norm(U.T @ (M @ V)) ** 2


def flat(rng):
    """Singular values that lie close together, after the first."""
    return sp.random_array((1500, 1200), density=0.01, rng=rng)


def steep(rng):
    """Singular values that fall by a power, as those of clicks on few popular things do."""
    falling = [sp.diags_array(np.arange(1.0, n + 1.0) ** -0.7) for n in (1500, 1200)]
    return falling[0] @ flat(rng) @ falling[1]


def deficient(rng):
    """Fewer directions than are asked for, and rows and columns without any clicks."""
    matrix = rng.random((300, 30)) @ rng.random((30, 200))
    matrix[::3], matrix[:, ::4] = 0.0, 0.0
    return sp.csr_array(matrix)


@pytest.mark.slow
@pytest.mark.parametrize(("make", "threads"), [(flat, 1), (flat, 2), (steep, 2), (deficient, 1)])
def test_pls_captures_the_energy_of_svds(seed, make, threads, load_kernel):
    M = sp.csr_array(make(np.random.default_rng(seed)).astype(np.float32))
    d = 50
    fitted = Ranker(
        f"factored:dimensions={d},biases=false,init_scale=1",
        "alignment:per_query=false",
        "orthonormal:scale=1",
        "alternating:max_epochs=100,tolerance=1e-5",
        kernel=load_kernel("cython"),
        threads=threads,
    ).fit(MatchingData(None, None, M))
    exact = (np.linalg.svd(M.toarray().astype(float), compute_uv=False)[:d] ** 2).sum()
    assert (svds(M.astype(float), k=d, return_singular_vectors=False) ** 2).sum() == pytest.approx(
        exact
    )
    assert energy(M, fitted.model_, d) == pytest.approx(exact, rel=1e-4)
    assert fitted.stopped_ == "converged"


def test_pls_needs_fewer_rounds_than_the_power_method(seed):
    """The block power method with as many columns and rounds is further from the end."""
    M, d, rounds = sp.csr_array(flat(np.random.default_rng(seed)).astype(np.float32)), 20, 10
    fitted = Ranker(
        f"factored:dimensions={d},biases=false,init_scale=1",
        "alignment:per_query=false",
        "orthonormal:scale=1",
        f"alternating:max_epochs={rounds},tolerance=0,scale=1",
    ).fit(MatchingData(None, None, M))
    basis = np.random.default_rng(seed).normal(size=(M.shape[1], 32))
    for _ in range(rounds):
        left = np.linalg.qr(M @ basis)[0]
        basis = np.linalg.qr(M.T @ left)[0]
    plain = np.linalg.svd(M @ basis, compute_uv=False)[:d]
    exact = np.linalg.svd(M.toarray(), compute_uv=False)[:d].sum()
    assert exact + fitted.objective_ < 0.5 * (exact - plain.sum())


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("center", ["false", "true"])
def test_each_side_has_its_strength_and_its_limit(seed, model, center):
    data = clicks(seed)
    fitted = ranker(
        "l1l2-row:strength=0.2,limit=2,document_strength=0.6,document_limit=0.5",
        model,
        f"alternating:max_epochs=5,tolerance=0,sparse_below=0.9,center={center}",
    ).fit(data)
    M = click_matrix(data).rows.toarray().astype(float)
    if center == "true":
        M -= np.outer(M.sum(axis=1), M.sum(axis=0)) / M.sum()
    M *= np.sqrt(5) * M.size**0.25 / np.linalg.norm(M)
    U, V = (side[:, :5].astype(float) for side in (fitted.model_.U, fitted.model_.V))
    # The document side moved last: it is the maximum for its own strength and limit.
    np.testing.assert_allclose(V, L1L2Row(0.6, 0.5).maximize(M.T @ U), atol=1e-4)
    assert np.linalg.norm(U, axis=1).max() == pytest.approx(2.0, rel=1e-5)
    value = 0.2 * np.abs(U).sum() + 0.6 * np.abs(V).sum() - np.sum(U * (M @ V))
    assert fitted.objective_ == pytest.approx(value, rel=1e-4)


def test_strengths_of_a_side_are_checked():
    with pytest.raises(PartError, match="document_strength='x'"):
        L1L2Row(document_strength="x")
    with pytest.raises(PartError, match="document_limit=0"):
        L1L2Row(document_limit=0)
    part = L1L2Row(0.1, 2.0, document_limit=3.0)
    assert part.of_side(0) == L1L2Row(0.1, 2.0)
    assert part.of_side(1) == L1L2Row(0.1, 3.0)


def test_pls_on_centered_features_has_the_directions_of_their_covariance(seed):
    data = clicks(seed)
    fitted = Ranker(
        "factored:dimensions=3,biases=false,init_scale=1",
        "alignment",
        "orthonormal:scale=1",
        "alternating:max_epochs=200,tolerance=1e-9,center_features=true",
    ).fit(data)
    X, Y, r = data.query_rows.toarray(), data.document_rows.toarray(), data.relevance.toarray()
    shown = sp.csr_array(data.relevance)
    sizes = np.diff(shown.indptr)
    nonzero = sizes > 0
    mixed = (r @ Y)[nonzero] / sizes[nonzero, None]
    covariance = (
        (X[nonzero] - X[nonzero].mean(axis=0)).T @ (mixed - mixed.mean(axis=0)) / nonzero.sum()
    )
    U, V = (side[:, :3].astype(float) for side in (fitted.model_.U, fitted.model_.V))
    captured = (np.linalg.norm(U.T @ covariance @ V)) ** 2
    exact = np.linalg.svd(covariance, compute_uv=False)[:3]
    assert captured == pytest.approx((exact**2).sum(), rel=1e-3)
    with pytest.raises(PartError, match="set one of them"):
        Alternating(center=True, center_features=True)
    with pytest.raises(CombinationError, match="normalizes them by degrees"):
        Ranker(
            MODELS[0],
            "alignment:query_degree=0.5",
            "max-norm",
            "alternating:center_features=true",
            kernel="reference",
        ).fit(data)
