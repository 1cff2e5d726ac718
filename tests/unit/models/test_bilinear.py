"""Bilinear models against q W d' in NumPy, and files that were tampered with."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from ranking import MatchingData
from ranking.errors import ModelFileError, PartError
from ranking.kernels.bilinear import BilinearWeights
from ranking.kernels.select import get_kernel
from ranking.models.bilinear import Bilinear, Diagonal


def data_of(rows, columns, seed=0, n_queries=4, n_documents=5, dtype=np.float32):
    """Data whose features have these ids."""
    rng = np.random.default_rng(seed)
    sides = [
        sp.csr_array(rng.normal(size=(n, len(ids))) * (rng.random((n, len(ids))) < 0.7))
        for n, ids in ((n_queries, rows), (n_documents, columns))
    ]
    return MatchingData(
        *(side.astype(dtype) for side in sides),
        np.eye(n_queries, n_documents),
        query_feature_ids=rows,
        document_feature_ids=columns,
    )


def started(data, model=None, seed=None):
    model = model or Bilinear()
    model.initialize(data, 0, get_kernel())
    if seed is not None:
        rng = np.random.default_rng(seed)
        dense = rng.normal(size=model.weights.shape) * (rng.random(model.weights.shape) < 0.6)
        if isinstance(model, Diagonal):
            dense = dense * (model.weights.toarray() != 0)
        model.weights = sp.csr_array(dense.astype(model.dtype))
    return model


# --- the first values ---------------------------------------------------------------------------


def test_the_identity_is_by_id():
    model = started(data_of([5, 7, 9], [9, 4, 5, 6]))
    expected = np.zeros((3, 4))
    expected[0, 2] = expected[2, 0] = 1.0
    assert np.array_equal(model.weights.toarray(), expected)
    assert model.density == 2 / 12
    assert model.weights.dtype == np.float32
    for initial in ("auto", "identity"):
        again = started(data_of([5, 7, 9], [9, 4, 5, 6]), Bilinear(initial, "float64"))
        assert np.array_equal(again.weights.toarray(), expected)
        assert again.weights.dtype == np.float64


def test_zero():
    model = started(data_of([1, 2], [1, 2]), Bilinear("zero"))
    assert model.weights.shape == (2, 2)
    assert model.weights.nnz == 0
    assert model.density == 0.0


@pytest.mark.parametrize("columns", [["a", "b"], [4, 5]], ids=["other kind", "none shared"])
def test_no_shared_features(columns):
    data = data_of([1, 2, 3], columns)
    assert started(data).weights.nnz == 0
    assert started(data, Bilinear("zero")).weights.shape == (3, 2)
    with pytest.raises(PartError, match=r"bilinear has initial=identity, but .* share no feature"):
        started(data, Bilinear("identity"))
    for initial in ("identity", "auto"):  # a diagonal without entries would never learn
        with pytest.raises(PartError, match=r"diagonal has .*share no feature"):
            started(data, Diagonal(initial))


def test_texts_as_ids():
    model = started(data_of(["wing", "heat"], ["heat", "flow", "wing"]))
    assert model.weights.toarray().tolist() == [[0, 0, 1], [1, 0, 0]]


@pytest.mark.parametrize("kind", [Bilinear, Diagonal])
def test_bad_parameters_are_refused(kind):
    with pytest.raises(PartError, match="auto, identity, zero"):
        kind("random")
    with pytest.raises(PartError, match="float32, float64"):
        kind(dtype="float16")
    with pytest.raises(PartError, match="float32, float64"):
        kind().set_params(dtype="int8")
    with pytest.raises(PartError, match="stay zero"):
        Diagonal("zero")
    assert kind().get_params() == {
        "initial": kind().initial,
        "dtype": "float32",
        "trainable": "all",
    }


# --- scores -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_scores_are_products(matching_kernel, dtype):
    data = data_of([1, 2, 3, 4], [11, 12, 13], n_queries=6)
    model = started(data, Bilinear(dtype=dtype), seed=1)
    q, w, d = (part.toarray().astype(np.float64) for part in parts(model, data))
    np.testing.assert_allclose(model.scores(data, matching_kernel), q @ w @ d.T, rtol=1e-12)
    scorer = model.scorer(data, matching_kernel)
    np.testing.assert_allclose(scorer(np.array([4, 0])), (q @ w @ d.T)[[4, 0]], rtol=1e-12)


def parts(model, data):
    return data.query_rows, model.weights, data.document_rows


def test_the_identity_is_the_cosine(matching_kernel, make_matching):
    data = make_matching(0, dtype=np.float64)
    scores = started(data).scores(data, matching_kernel)
    dense = data.query_rows.toarray(), data.document_rows.toarray()
    np.testing.assert_allclose(scores, dense[0] @ dense[1].T, atol=1e-14)
    assert scores.max() <= 1.0 + 1e-12


def test_features_are_matched_by_id(matching_kernel):
    data = data_of([1, 2, 3, 4], [11, 12, 13])
    model = started(data, seed=2)
    expected = model.scores(data, matching_kernel)
    # Other columns: permuted, one that the model does not know, one that is missing.
    rng = np.random.default_rng(0)
    sides, ids = [], []
    for rows, known in (
        (data.query_rows, data.query_feature_ids),
        (data.document_rows, data.document_feature_ids),
    ):
        order = rng.permutation(known.size)
        dense = np.column_stack((rows.toarray()[:, order], np.full(rows.shape[0], 9.0)))
        sides.append(dense)
        ids.append(np.append(known[order], 99))
    permuted = MatchingData(
        *sides, data.relevance, query_feature_ids=ids[0], document_feature_ids=ids[1]
    )
    np.testing.assert_allclose(model.scores(permuted, matching_kernel), expected, rtol=1e-6)
    missing = MatchingData(
        data.query_rows.toarray()[:, 1:],
        data.document_rows,
        data.relevance,
        query_feature_ids=[2, 3, 4],
        document_feature_ids=[11, 12, 13],
    )
    w = model.weights.toarray().astype(np.float64)
    by_hand = data.query_rows.toarray()[:, 1:] @ w[1:] @ data.document_rows.toarray().T
    np.testing.assert_allclose(model.scores(missing, matching_kernel), by_hand, rtol=1e-5)


def test_features_of_another_kind_are_unknown(matching_kernel):
    data = data_of([1, 2], [1, 2])
    other = data_of(["1", "2"], ["1", "2"])
    assert not started(data, seed=1).scores(other, matching_kernel).any()


def test_indicators_and_dense_rows(matching_kernel):
    relevance = np.eye(3, 4)
    data = MatchingData(None, None, relevance, query_ids=["u", "v", "w"], document_ids=list("abcd"))
    model = started(data, seed=4)
    np.testing.assert_allclose(model.scores(data, matching_kernel), model.weights.toarray())
    dense = MatchingData(
        np.eye(3),
        np.eye(4),
        relevance,
        query_feature_ids=["u", "v", "w"],
        document_feature_ids=list("abcd"),
    )
    assert np.array_equal(model.scores(dense, matching_kernel), model.scores(data, matching_kernel))


# --- files --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Bilinear, Diagonal])
@pytest.mark.parametrize("ids", [([1, 2, 3],) * 2, (["a", "b", "é"], ["é", "c"])])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tensors_there_and_back(kind, ids, dtype):
    model = started(data_of(*ids), kind(dtype=dtype), seed=3)
    back = kind(dtype=dtype)
    back.restore(model.tensors())
    assert back.weights.data.tobytes() == model.weights.data.tobytes()
    assert np.array_equal(back.weights.toarray(), model.weights.toarray())
    assert back.query_feature_ids.tolist() == list(ids[0])
    assert back.document_feature_ids.tolist() == list(ids[1])
    assert back.density == model.density
    names = set(model.tensors())
    assert any(name.startswith("document_feature_ids") for name in names) == (ids[0] != ids[1])


def test_an_empty_matrix_there_and_back():
    model = started(data_of([1, 2], ["a"]), Bilinear("zero"))
    back = Bilinear()
    back.restore(model.tensors())
    assert back.weights.shape == (2, 1)
    assert back.weights.nnz == 0


def damaged(name, change):
    return pytest.param(name, change, id=f"{name}-{change.__name__}")


def missing(array):
    return None


def two_dimensions(array):
    return array[:, None]


def another_type(array):
    return array.astype(np.float16 if array.dtype.kind == "f" else np.int16)


def shorter(array):
    return array[:-1]


def empty(array):
    return array[:0]


def longer(array):
    return np.append(array, array[-1:])


def negative(array):
    return np.where(np.arange(array.size) == 1, -1, array).astype(array.dtype)


def huge(array):
    return np.where(np.arange(array.size) == 1, 2**30, array).astype(array.dtype)


def offset(array):
    return array + 1


def infinite(array):
    return np.where(np.arange(array.size) == 0, np.inf, array).astype(array.dtype)


def undefined(array):
    return np.where(np.arange(array.size) == 0, np.nan, array).astype(array.dtype)


def backwards(array):
    return array[::-1].copy()


def repeated(array):
    return np.full_like(array, array[0])


DAMAGES = [
    *(damaged(name, change) for name in ("indptr", "indices", "weights") for change in
      (missing, two_dimensions, another_type, shorter, empty, longer)),
    *(damaged(name, change) for name in ("indptr", "indices") for change in
      (negative, huge, backwards, repeated)),
    damaged("indptr", offset),
    damaged("weights", infinite),
    damaged("weights", undefined),
    *(damaged("query_feature_ids", change) for change in
      (missing, two_dimensions, another_type, shorter, empty, longer, repeated)),
    *(damaged("document_feature_ids.offsets", change) for change in (missing, shorter, offset)),
    *(damaged("document_feature_ids.text", change) for change in (missing, shorter, longer)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change"), DAMAGES)
def test_damaged_files_are_refused(name, change):
    model = Bilinear("zero")
    model.initialize(data_of([3, 4, 5], ["a", "b", "c", "d"]), 0, get_kernel())
    dense = np.random.default_rng(0).random((3, 4)).astype(np.float32)
    dense[1, 2] = 0.0
    model.weights = sp.csr_array(dense)
    tensors = model.tensors()
    changed = change(tensors.pop(name))
    if changed is not None:
        tensors[name] = changed
    with pytest.raises(ModelFileError):
        Bilinear().restore(tensors)


def test_another_precision_is_refused():
    tensors = started(data_of([1], [1])).tensors()
    with pytest.raises(ModelFileError, match="`weights`, a vector of float64"):
        Bilinear(dtype="float64").restore(tensors)


def test_a_model_without_features_is_refused():
    tensors = {
        "indptr": np.zeros(1, np.int64),
        "indices": np.zeros(0, np.int32),
        "weights": np.zeros(0, np.float32),
        "query_feature_ids": np.zeros(0, np.int64),
    }
    with pytest.raises(ModelFileError, match="damaged"):
        Bilinear().restore(tensors)


def test_a_diagonal_with_other_entries_is_refused():
    model = started(data_of([1, 2], [2, 1]))
    full = Bilinear()
    full.restore(model.tensors())
    Diagonal().restore(model.tensors())
    full.weights = sp.csr_array(np.ones((2, 2), np.float32))
    with pytest.raises(ModelFileError, match="not diagonal"):
        Diagonal().restore(full.tensors())


def test_what_is_restored_can_be_changed_without_the_file():
    tensors = started(data_of([1, 2], [1, 2]), seed=1).tensors()
    model = Bilinear()
    model.restore(tensors)
    model.weights.data[:] = 7.0
    assert not (tensors["weights"] == 7.0).any()


# --- growth -------------------------------------------------------------------------------------


def test_widening_keeps_what_there_is():
    model = started(data_of([1, 2, 3], [2, 3]), seed=5)
    before = model.weights.toarray()
    model.add_features(data_of([4, 3, 9], [9, 1, 3, 7]), get_kernel())
    assert model.query_feature_ids.tolist() == [1, 2, 3, 4, 9]
    assert model.document_feature_ids.tolist() == [2, 3, 9, 1, 7]
    after = model.weights.toarray()
    assert np.array_equal(after[:3, :2], before)
    new = after.copy()
    new[:3, :2] = 0.0
    expected = np.zeros((5, 5))
    expected[4, 2] = expected[0, 3] = 1.0  # 9 and 9; 1 has been a row, and now is a column
    assert np.array_equal(new, expected)


def test_widening_from_zero_and_by_nothing():
    model = started(data_of([1, 2], [1, 2]), Bilinear("zero"))
    model.add_features(data_of([1, 3], [3]), get_kernel())
    assert model.weights.shape == (3, 3)
    assert model.weights.nnz == 0
    weights = model.weights
    model.add_features(data_of([3, 2], [2]), get_kernel())
    assert model.weights is weights
    with pytest.raises(PartError, match="called like 1 in the model"):
        model.add_features(data_of(["a"], [1]), get_kernel())
    assert model.weights is weights


def test_a_diagonal_stays_diagonal_as_it_widens():
    model = started(data_of([1, 2, 3], [1, 2, 3]), Diagonal())
    model.add_features(data_of([1, 4, 5], [4, 6]), get_kernel())
    rows, columns = model.weights.tocoo().coords
    assert np.array_equal(model.query_feature_ids[rows], model.document_feature_ids[columns])
    assert rows.size == 4


# --- following a training -----------------------------------------------------------------------


@pytest.mark.parametrize("transposed", [False, True])
def test_a_model_follows_a_training(matching_kernel, transposed):
    data = data_of([1, 2, 3], [1, 2, 3, 4], dtype=np.float64)
    model = started(data, Bilinear(dtype="float64"))
    w = model.weights.toarray()
    live = BilinearWeights(
        matching_kernel, sp.csr_array(w.T.copy()) if transposed else model.weights
    )
    inputs = model.inputs(data)
    model.follow(live, transposed)
    for tuples in ([[0, 0, 1]], [[1, 2, 3]]):
        live.update(
            inputs, np.array(tuples), np.array([-1.0]), np.array([0.5]), transposed=transposed
        )
        model.follow(live, transposed)
        query, positive, negative = tuples[0]
        q = data.query_rows.toarray()[query]
        d = data.document_rows.toarray()
        w = w + 0.5 * np.outer(q, d[positive] - d[negative])
        assert model.density == pytest.approx(np.count_nonzero(w) / w.size)
        np.testing.assert_allclose(model.weights.toarray(), w, rtol=1e-12, atol=1e-15)


def test_reading_the_weights_changes_nothing(matching_kernel, make_matching):
    """A property has no side effect: until `synchronize`, W follows the solver."""
    data = make_matching(0)
    model = started(data, seed=1)
    live = BilinearWeights(matching_kernel, model.weights)
    model.follow(live)
    before = dict(vars(model))
    assert model.weights.nnz == live.n_nonzero
    assert vars(model) == before
    model.synchronize()
    assert vars(model)["_live"] is None
