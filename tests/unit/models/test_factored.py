"""The factored model: where it begins, dense products, files, growth and cold starts."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from ranking import MatchingData, Ranker
from ranking.errors import DataError, ModelFileError, PartError
from ranking.kernels.select import get_kernel
from ranking.models.factored import MAX_DIMENSIONS, Factored
from ranking.registry import get_registry
from ranking.training.plan import TrainingPlan

SIDES = ["none", "queries", "documents", "both"]


def started(data, seed=0, dimensions=5, biases=True):
    model = Factored(dimensions, biases, init_scale=1.0)
    model.initialize(data, seed, get_kernel())
    if biases:  # they begin at 0, which would hide them
        rng = np.random.default_rng(7)
        model.document_biases = rng.normal(size=data.n_document_features).astype(np.float32)
    return model


def by_dense_products(model, data):
    """(U q) . (V d) + b d, in double precision."""
    n = model.dimensions
    u = data.query_rows.toarray().astype(np.float64) @ model.U[:, :n].astype(np.float64)
    rows = data.document_rows.toarray().astype(np.float64)
    scores = u @ (rows @ model.V[:, :n].astype(np.float64)).T
    if model.biases:
        scores = scores + rows @ model.document_biases.astype(np.float64)
    return scores


# --- where it begins ----------------------------------------------------------------------------


@pytest.mark.parametrize("dimensions", [1, 7, 8, 50])
def test_initial_embeddings_are_normal(dimensions):
    data = MatchingData(None, None, sp.csr_array((3000, 2000)))
    model = started(data, 3, dimensions)
    for matrix, rows in ((model.U, 3000), (model.V, 2000)):
        assert matrix.dtype == np.float32
        assert matrix.shape == (rows, -(-dimensions // 8) * 8)
        assert not matrix[:, dimensions:].any()
        sample = matrix[:, :dimensions].astype(np.float64) * np.sqrt(dimensions)
        n = sample.size
        # Moments of a standard normal, within five standard errors.
        for power, expected, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
            assert abs((sample**power).mean() - expected) < 5 * np.sqrt(variance / n)
        assert abs((np.abs(sample) < 0.6744897501960817).mean() - 0.5) < 5 * np.sqrt(0.25 / n)
        if dimensions > 1:  # columns, and neighbours in a column, have nothing to do with another
            assert abs((sample[:, 0] * sample[:, 1]).mean()) < 5 / np.sqrt(rows)
        assert abs((sample[1:, 0] * sample[:-1, 0]).mean()) < 5 / np.sqrt(rows)
    assert abs((model.U[:2000, 0] * model.V[:, 0]).mean() * dimensions) < 5 / np.sqrt(2000)


def test_init_scale_scales_the_initial_embeddings():
    data = MatchingData(None, None, np.eye(9))
    plain, small = Factored(5, init_scale=1.0), Factored(5, init_scale=0.125)
    for model in (plain, small):
        model.initialize(data, 3, get_kernel())
    assert np.array_equal(small.U, 0.125 * plain.U)
    small.add_features(MatchingData(None, None, np.eye(12)), get_kernel())
    plain.add_features(MatchingData(None, None, np.eye(12)), get_kernel())
    assert np.array_equal(small.V, 0.125 * plain.V)
    for spread in (0.0, -1.0, float("nan"), float("inf"), "wide", None):
        with pytest.raises(PartError, match="factored has init_scale="):
            Factored(init_scale=spread)


def test_biases_begin_at_zero(make_tastes):
    model = Factored(4)
    model.initialize(make_tastes(), 0, get_kernel())
    assert model.document_biases.tolist() == [0.0] * 15
    assert model.document_biases.dtype == np.float32
    without = Factored(4, biases=False)
    without.initialize(make_tastes(), 0, get_kernel())
    assert without.document_biases.size == 0


def test_seeds_and_sides_have_numbers_of_their_own():
    data = MatchingData(None, None, np.eye(9))
    one, again, other = (started(data, seed) for seed in (3, 3, 4))
    assert one.U.tobytes() == again.U.tobytes()
    assert one.V.tobytes() == again.V.tobytes()
    sample = [matrix[:, :5].ravel() for matrix in (one.U, one.V, other.U, other.V)]
    assert np.unique(np.concatenate(sample)).size == 4 * 45


def test_a_row_does_not_depend_on_when_it_is_added():
    small, large = (MatchingData(None, None, np.eye(size)) for size in (3, 10))
    grown, whole = started(small, 5), started(large, 5)
    for size in (4, 10):
        grown.add_features(MatchingData(None, None, np.eye(size)), get_kernel())
    assert grown.U.tobytes() == whole.U.tobytes()
    assert grown.V.tobytes() == whole.V.tobytes()
    assert grown.query_feature_ids.tolist() == list(range(10))
    # Also after it was kept in a file in between.
    selection = Factored(5, init_scale=1.0)
    selection.restore(started(small, 5).tensors())
    selection.add_features(large, get_kernel())
    assert selection.U.tobytes() == whole.U.tobytes()


def test_starting_again_forgets():
    model = started(MatchingData(None, None, np.eye(9)), 1)
    model.initialize(MatchingData(None, None, np.eye(4)), 2, get_kernel())
    assert model.U.tobytes() == started(MatchingData(None, None, np.eye(4)), 2).U.tobytes()
    assert model.document_biases.tolist() == [0.0] * 4


# --- scores -------------------------------------------------------------------------------------


@pytest.mark.parametrize("features", SIDES)
@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("threads", [1, 3])
def test_scores_are_dense_products(factored_kernel, make_tastes, features, biases, threads):
    data = make_tastes(2, features=features)
    for dimensions in (3, 8, 19):
        model = started(data, 1, dimensions, biases)
        scores = model.scores(data, factored_kernel, threads)
        assert scores.dtype == np.float64
        np.testing.assert_allclose(scores, by_dense_products(model, data), rtol=1e-5, atol=1e-6)
        selection = np.array([5, 0, 5])
        some = model.scorer(data, factored_kernel, threads)(selection)
        assert some.tobytes() == scores[selection].tobytes()


@pytest.mark.parametrize("features", SIDES)
def test_the_embedding_is_the_score(factored_kernel, make_tastes, features):
    data = make_tastes(2, features=features)
    model = started(data)
    queries, documents, biases = model.embedding(data, factored_kernel)
    assert queries.shape == (data.n_queries, 8)
    assert documents.shape == (data.n_documents, 8)
    products = queries.astype(np.float64) @ documents.T.astype(np.float64) + biases
    np.testing.assert_allclose(products, by_dense_products(model, data), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("features", ["none", "both"])
def test_rows_in_another_order_are_matched_by_id(factored_kernel, make_tastes, features):
    data = make_tastes(2, features=features)
    model = started(data)
    scores = model.scores(data, factored_kernel)
    rng = np.random.default_rng(0)
    if features == "none":
        users, items = rng.permutation(12)[:7], rng.permutation(15)[:9]
        other = MatchingData(
            None,
            None,
            data.relevance[users][:, items],
            query_ids=data.query_ids[users],
            document_ids=data.document_ids[items],
        )
        expected = scores[np.ix_(users, items)]
    else:
        columns = rng.permutation(data.n_document_features)
        other = MatchingData(
            data.queries,
            data.documents[:, columns],
            data.relevance,
            document_feature_ids=data.document_feature_ids[columns],
        )
        expected = scores
    np.testing.assert_allclose(model.scores(other, factored_kernel), expected, rtol=1e-5, atol=1e-6)


def test_unknown_ids_have_no_embedding(factored_kernel, make_tastes):
    model = started(make_tastes(2))
    other = MatchingData(None, None, np.eye(2), query_ids=["u3", "new"], document_ids=["i4", "i99"])
    scores = model.scores(other, factored_kernel)
    u, v = model.U[3].astype(float), model.V[4].astype(float)
    assert scores[0, 0] == pytest.approx(u @ v + model.document_biases[4], rel=1e-5)
    # A user who is new has what is popular; an item that is new has nothing.
    assert scores[1].tolist() == [pytest.approx(model.document_biases[4], rel=1e-6), 0.0]
    assert scores[0, 1] == 0.0
    with pytest.raises(DataError, match="share no query feature"):
        Ranker("factored", "warp", solver="sgd:max_steps=0", kernel=factored_kernel).fit(
            make_tastes(2)
        ).predict(MatchingData(None, None, np.eye(15)))


def test_unknown_features_are_ignored(factored_kernel):
    """A cold start: a new item is scored by those of its features that are known."""
    train = MatchingData(
        np.eye(2),
        np.array([[1.0, 0.5], [0.0, 2.0]]),
        np.eye(2),
        query_feature_ids=["a", "b"],
        document_feature_ids=["x", "y"],
    )
    model = started(train)
    new = MatchingData(
        np.array([[1.0, 3.0]]),
        np.array([[9.0, 2.0, 0.25], [9.0, 0.0, 0.0]]),
        np.zeros((1, 2)),
        query_feature_ids=["b", "?"],
        document_feature_ids=["new", "x", "y"],
    )
    u = model.U[1].astype(float)
    v = 2.0 * model.V[0].astype(float) + 0.25 * model.V[1]
    bias = 2.0 * model.document_biases[0] + 0.25 * model.document_biases[1]
    np.testing.assert_allclose(
        model.scores(new, factored_kernel), [[u @ v + bias, 0.0]], rtol=1e-5, atol=1e-7
    )


# --- growing ------------------------------------------------------------------------------------


def test_widening_keeps_what_is_there(make_tastes):
    data = make_tastes(2)
    model = started(data)
    U, V, biases = model.U.copy(), model.V.copy(), model.document_biases.copy()
    scores = model.scores(data, get_kernel("reference"))
    new = MatchingData(
        None, None, np.eye(2), query_ids=["u1", "anna"], document_ids=["apple", "i0"]
    )
    model.add_features(new, get_kernel())
    assert model.query_feature_ids.tolist() == [*data.query_ids.tolist(), "anna"]
    assert model.document_feature_ids.tolist() == [*data.document_ids.tolist(), "apple"]
    assert model.U[:12].tobytes() == U.tobytes()
    assert model.V[:15].tobytes() == V.tobytes()
    assert model.document_biases.tolist() == [*biases.tolist(), 0.0]
    assert model.U[12, :5].all()
    assert model.scores(data, get_kernel("reference")).tobytes() == scores.tobytes()
    model.add_features(new, get_kernel())  # nothing is new now
    assert (model.U.shape, model.V.shape) == ((13, 8), (16, 8))
    with pytest.raises(PartError, match="called like"):
        model.add_features(MatchingData(None, None, np.eye(2)), get_kernel())


# --- files --------------------------------------------------------------------------------------


@pytest.mark.parametrize("features", SIDES)
@pytest.mark.parametrize("biases", [True, False])
def test_a_model_survives_its_tensors(make_tastes, features, biases):
    data = make_tastes(2, features=features)
    model = started(data, 2**64 - 1, 5, biases)
    tensors = model.tensors()
    assert tensors["U"].shape == (data.n_query_features, 5)
    other = Factored(5, biases)
    other.restore(tensors)
    kernel = get_kernel("reference")
    assert other.scores(data, kernel).tobytes() == model.scores(data, kernel).tobytes()
    for name, tensor in other.tensors().items():
        assert tensor.tobytes() == tensors[name].tobytes()
    # What is trained on does not reach into what was kept.
    other.U += 1.0
    other.document_biases += 1.0
    assert not np.shares_memory(other.U, tensors["U"])
    assert model.scores(data, kernel).tobytes() != other.scores(data, kernel).tobytes()
    assert model.tensors()["biases"].tobytes() == tensors["biases"].tobytes()


def broken(name, value):
    return pytest.param(name, value, id=f"{name}-{value.dtype}{value.shape}")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        broken("U", np.zeros((4, 5))),
        broken("U", np.zeros((4, 8), np.float32)),
        broken("U", np.zeros((3, 5), np.float32)),
        broken("U", np.full((4, 5), np.nan, np.float32)),
        broken("V", np.full((4, 5), np.inf, np.float32)),
        broken("V", np.zeros(20, np.float32)),
        broken("biases", np.zeros(0, np.float32)),
        broken("biases", np.zeros((4, 1), np.float32)),
        broken("biases", np.full(4, np.nan, np.float32)),
        broken("seed", np.zeros(1, np.int64)),
        broken("seed", np.zeros(2, np.uint64)),
        broken("query_feature_ids", np.zeros(4, np.int64)),
        broken("query_feature_ids", np.zeros((2, 2), np.int64)),
        broken("document_feature_ids", np.arange(5)),
    ],
)
def test_damaged_tensors_are_refused(name, value):
    model = started(MatchingData(None, None, np.eye(4)))
    tensors = model.tensors()
    for damaged in ({**tensors, name: value}, {k: v for k, v in tensors.items() if k != name}):
        fresh = Factored(5)
        with pytest.raises(ModelFileError):
            fresh.restore(damaged)
        assert fresh.U.size == 0


def test_a_ranker_survives_its_file(factored_kernel, make_tastes, tmp_path):
    data = make_tastes(3)
    fitted = Ranker(
        "factored:dimensions=5,biases=false",
        "warp",
        solver="sgd:max_steps=60,steps_per_epoch=30",
        kernel=factored_kernel,
    ).fit(data)
    fitted.save(tmp_path / "model")
    loaded = Ranker.load(tmp_path / "model", kernel=factored_kernel)
    assert loaded.model_.spec() == "factored:dimensions=5,biases=False,init_scale=0.1"
    assert loaded.predict(data).tobytes() == fitted.predict(data).tobytes()
    assert loaded.history_ == fitted.history_


# --- parameters ---------------------------------------------------------------------------------


def test_density_counts_what_is_not_zero():
    model = started(MatchingData(None, None, np.eye(4)))
    assert model.density == 1.0
    model.U[:] = 0.0
    assert model.density == 24 / 44
    model.V[:] = 0.0
    model.document_biases[:2] = 0.0
    assert model.density == 2 / 44
    assert Factored().density == 0.0


@pytest.mark.parametrize("dimensions", [0, -1, 2.5, MAX_DIMENSIONS + 1, "many", None])
def test_bad_dimensions_are_refused(dimensions):
    with pytest.raises(PartError, match=r"factored has dimensions=.*an integer in"):
        Factored(dimensions)


@pytest.mark.parametrize("biases", [0, "no", None])
def test_bad_biases_are_refused(biases):
    with pytest.raises(PartError, match=r"factored has biases=.*true or false"):
        Factored(biases=biases)


def test_it_is_registered():
    model = get_registry().create("model", "factored:dimensions=64,biases=false")
    assert model == Factored(64, biases=False)
    assert (model.takes, model.form, model.stage) == ("matching", "factors", 0)


def test_embeddings_are_sampled_by_the_kernel_of_the_plan(make_tastes, monkeypatch):
    """No other kernel is looked up when a model is initialized or grows."""
    data, kernel = make_tastes(), get_kernel("reference")
    plan = TrainingPlan("factored", "warp", solver="sgd:max_steps=0", kernel=kernel)

    def fail(*names):
        raise AssertionError("another kernel was requested")

    monkeypatch.setattr("ranking.kernels.select.get_kernel", fail)
    model = plan.trainer(data).model
    more = make_tastes(1)
    model.add_features(more, kernel)
    assert model.U.any()
