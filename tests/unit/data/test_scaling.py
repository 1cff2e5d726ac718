"""Scaling of features: against scikit-learn's scalers, and as a part of the model."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler

from ranking import JudgedLists, MatchingData, Ranker
from ranking.data.scale import find_scales
from ranking.data.scaling import METHODS, ScaledLists, Scaling
from ranking.errors import DataError, DataWarning, ModelFileError, PartError

SCALERS = {"standard": StandardScaler, "min-max": MinMaxScaler, "robust": RobustScaler}


def lists(seed: int = 0, n_rows: int = 60) -> JudgedLists:
    """Return judged rows whose features differ by orders of magnitude; one is constant."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 5)) * [1.0, 1e3, 1e-3, 10.0, 0.0] + [0.0, 5e3, 0.0, -20.0, 7.0]
    grades = rng.integers(0, 3, size=n_rows)
    return JudgedLists(X, grades, np.arange(n_rows) % 6)


def sparse_lists() -> JudgedLists:
    data = lists()
    keep = np.random.default_rng(1).random(data.features.shape) < 0.4
    X = sparse.csr_array(np.where(keep, data.features, 0.0))
    return JudgedLists(X, data.grades, data.query_ids[data.row_groups])


@pytest.mark.parametrize("method", SCALERS)
def test_dense_features_are_scaled_as_scikit_learn_scales_them(method):
    train, test = lists(), lists(seed=1)
    scaled = Scaling.fit(method, train).transform(test)
    expected = SCALERS[method]().fit(train.features).transform(test.features)
    np.testing.assert_allclose(scaled.features, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("method", ["standard", "robust"])
def test_sparse_features_are_divided_and_stay_sparse(method):
    data = sparse_lists()
    dense = data.features.toarray()
    scaler = SCALERS[method]().fit(dense)
    scaled = Scaling.fit(method, data).transform(data)
    assert sparse.issparse(scaled.features)
    np.testing.assert_allclose(scaled.features.toarray(), dense / scaler.scale_, rtol=1e-9)


def test_query_min_max_is_min_max_of_each_query():
    data = lists()
    scaled = Scaling.fit("query-min-max", data).transform(data)
    for start, stop in zip(data.group_ptr[:-1], data.group_ptr[1:], strict=True):
        expected = MinMaxScaler().fit_transform(data.features[start:stop])
        np.testing.assert_allclose(scaled.features[start:stop], expected, atol=1e-12)


def test_query_min_max_of_sparse_features_counts_their_zeros():
    data = sparse_lists()
    scaled = Scaling.fit("query-min-max", data).transform(data).features.toarray()
    for start, stop in zip(data.group_ptr[:-1], data.group_ptr[1:], strict=True):
        rows = data.features[start:stop].toarray()
        width = np.ptp(rows, axis=0)
        np.testing.assert_allclose(scaled[start:stop], rows / np.where(width > 0, width, 1.0))


def test_log_keeps_signs():
    data = JudgedLists([[-3.0], [0.0], [np.e - 1.0]], [0, 1, 2], [1, 1, 1])
    scaled = Scaling.fit("log", data).transform(data)
    np.testing.assert_allclose(scaled.features.ravel(), [-np.log(4.0), 0.0, 1.0])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_a_ranker_with_scale_equals_one_on_scaled_data(method, kind, tmp_path):
    data = lists() if kind == "dense" else sparse_lists()
    scaled = Scaling.fit(method, data).transform(data)
    options = {"loss": "domination", "regularizer": "l2:strength=0.1"}
    ranker = Ranker(**options, scale=method).fit(data)
    plain = Ranker(**options).fit(scaled)
    assert ranker.model_.weights.tobytes() == plain.model_.weights.tobytes()
    np.testing.assert_array_equal(ranker.score_rows(data), plain.score_rows(scaled))
    assert ranker.score(data) == plain.score(scaled)
    ranker.save(tmp_path / "model.safetensors")
    loaded = Ranker.load(tmp_path / "model.safetensors")
    assert loaded.scale == method
    np.testing.assert_array_equal(loaded.predict(data), ranker.predict(data))


def test_data_of_the_model_are_not_scaled_twice():
    data = lists()
    ranker = Ranker(loss="domination", scale="standard").fit(data)
    prepared = ranker.to_model_data(data)
    assert isinstance(prepared, ScaledLists)
    assert isinstance(prepared.select([1, 2]), ScaledLists)
    assert ranker.rank(prepared, 3).to_trec() == ranker.rank(data, 3).to_trec()


def test_validation_data_are_scaled_as_training_data():
    train, valid = lists(), lists(seed=3)
    ranker = Ranker(loss="domination", scale="standard", callbacks=["early-stopping"])
    prepared = ranker.prepare_data(train, valid=valid)
    expected = Scaling.fit("standard", train).transform(valid)
    np.testing.assert_array_equal(prepared.valid.features, expected.features)


def test_features_are_matched_by_id_before_they_are_scaled():
    data = lists()
    ranker = Ranker(loss="domination", scale="standard").fit(data)
    order = [3, 0, 4, 2, 1]
    other = JudgedLists(
        data.features[:, order],
        data.grades,
        data.query_ids[data.row_groups],
        feature_ids=data.feature_ids[order],
    )
    np.testing.assert_array_equal(ranker.score_rows(other), ranker.score_rows(data))


def test_an_array_is_refused_where_queries_matter():
    data = lists()
    ranker = Ranker(loss="domination", scale="query-min-max").fit(data)
    with pytest.raises(DataError, match="within each query"):
        ranker.predict(data.features)


def test_queries_and_documents_have_no_scale():
    data = MatchingData.from_interactions(["a", "b"], ["x", "y"])
    with pytest.raises(PartError, match="judged rows"):
        Ranker.from_recipe("warp", scale="standard").fit(data)


def test_an_unknown_method_names_the_known_ones():
    with pytest.raises(PartError, match="standard, min-max"):
        Ranker(loss="domination", scale="z-score").fit(lists())


def test_features_of_different_magnitude_warn_unless_they_are_scaled(recwarn):
    data = lists()
    assert (find_scales(data).of_largest, find_scales(data).of_smallest) == (2, 3)
    with pytest.warns(DataWarning, match="scale='standard'"):
        Ranker(loss="domination").fit(data)
    recwarn.clear()
    Ranker(loss="domination", scale="standard").fit(data)
    assert not [one for one in recwarn if issubclass(one.category, DataWarning)]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("width", np.zeros(5)),
        ("center", np.full(5, np.nan)),
        ("center", np.zeros(4)),
        ("feature_ids", np.ones(5, np.int64)),
    ],
)
def test_a_damaged_scaling_is_refused(name, value):
    tensors = Scaling.fit("standard", lists()).tensors() | {name: value}
    with pytest.raises(ModelFileError, match="scaling"):
        Scaling.restore("standard", tensors)


def test_an_outstanding_feature_of_items_warns():
    """A year beside indicators of genres makes up the whole dot product."""
    rng = np.random.default_rng(0)
    genres = (rng.random((6, 4)) < 0.5).astype(float)
    years = np.arange(2000.0, 2006.0)[:, None]
    relevance = (rng.random((9, 6)) < 0.5).astype(float)
    ranker = Ranker("factored", "warp", solver="sgd:epochs=1")
    for features in (np.hstack((genres, years)), sparse.csr_array(np.hstack((genres, years)))):
        with pytest.warns(DataWarning, match="document feature 5 has values up to 2e"):
            ranker.fit(MatchingData(None, features, relevance))
    ranker.fit(MatchingData(None, np.hstack((genres, years / 2000.0)), relevance))
