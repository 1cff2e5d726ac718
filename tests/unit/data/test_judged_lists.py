"""JudgedLists: what it refuses, how it gathers, and that it never changes what it was given."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from ranking.data.judged_lists import JudgedLists
from ranking.errors import DataError, DataWarning

X = np.arange(12.0).reshape(6, 2)
GRADES = [0, 1, 2, 0, 1, 2]
QIDS = ["b", "a", "b", "c", "a", "b"]


def judged(**changes):
    value = {"features": X, "grades": GRADES, "qids": QIDS, **changes}
    return JudgedLists(value.pop("features"), value.pop("grades"), value.pop("qids"), **value)


def test_rows_are_grouped_in_order_of_first_appearance():
    data = judged(doc_ids=list("uvwxyz"))
    assert data.query_ids.tolist() == ["b", "a", "c"]
    assert data.group_ptr.tolist() == [0, 3, 5, 6]
    assert data.row_order.tolist() == [0, 2, 5, 1, 4, 3]
    assert data.doc_ids.tolist() == ["u", "w", "z", "v", "y", "x"]
    np.testing.assert_array_equal(data.features, X[data.row_order])
    np.testing.assert_array_equal(data.grades, np.array(GRADES)[data.row_order])
    assert (data.n_rows, data.n_queries, data.n_features) == (6, 3, 2)
    assert repr(data) == "JudgedLists(6 rows, 3 queries, 2 features)"


def test_row_order_restores_the_input_order():
    data = judged()
    array = np.empty(6)
    array[data.row_order] = data.features[:, 0]
    np.testing.assert_array_equal(array, X[:, 0])


def test_defaults():
    data = judged()
    assert data.doc_ids.tolist() == ["0", "1", "2", "0", "1", "0"]
    assert data.feature_ids.tolist() == [1, 2]
    assert data.grades.dtype == np.float64


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_adjacent_rows_are_not_copied_and_inputs_stay_writeable(dtype):
    features, grades = X.astype(dtype), np.array(GRADES, dtype=np.float64)
    data = JudgedLists(features, grades, [1, 1, 2, 2, 3, 3])
    assert np.shares_memory(data.features, features)
    assert np.shares_memory(data.grades, grades)
    assert data.features.dtype == dtype
    assert features.flags.writeable
    assert grades.flags.writeable


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_arrays_are_read_only(make):
    data = judged(features=make(X), doc_ids=list("uvwxyz"))
    for name in ("grades", "query_ids", "group_ptr", "feature_ids", "row_order", "doc_ids"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(data, name)[0] = getattr(data, name)[1]
    arrays = [data.features]
    if sparse.issparse(data.features):
        arrays = [data.features.data, data.features.indices, data.features.indptr]
    assert not any(array.flags.writeable for array in arrays)
    with pytest.raises(AttributeError):
        data.grades = data.grades


@pytest.mark.parametrize("dtype", [np.int32, np.float16, np.bool_, ">f8", np.longdouble, object])
def test_other_types_become_float64(dtype):
    data = judged(features=X.astype(dtype))
    assert data.features.dtype == np.float64
    assert data.features.flags.c_contiguous


def test_fortran_order_becomes_c_order():
    data = JudgedLists(np.asfortranarray(X), GRADES, [1] * 6)
    assert data.features.flags.c_contiguous
    np.testing.assert_array_equal(data.features, X)


@pytest.mark.parametrize("make", ["bsr", "coo", "csc", "csr", "dia", "dok", "lil"])
@pytest.mark.parametrize("container", ["array", "matrix"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8])
def test_any_sparse_format_becomes_csr(make, container, dtype):
    data = judged(features=getattr(sparse, f"{make}_{container}")(X.astype(dtype)))
    assert isinstance(data.features, sparse.csr_array)
    assert data.features.dtype == (np.float64 if dtype is np.int8 else dtype)
    np.testing.assert_array_equal(data.features.toarray(), X[data.row_order])


@pytest.mark.parametrize("width", [np.int32, np.int64])
def test_both_index_widths_are_kept(width):
    matrix = sparse.csr_array(X)
    parts = (matrix.data, matrix.indices.astype(width), matrix.indptr.astype(width))
    data = JudgedLists(sparse.csr_array(parts, shape=X.shape), GRADES, [1] * 6)
    assert data.features.indices.dtype == width
    np.testing.assert_array_equal(data.features.toarray(), X)


def test_unsorted_indices_are_sorted_in_a_copy():
    matrix = sparse.csr_array((np.array([2.0, 1.0]), [1, 0], [0, 2]), shape=(1, 2))
    data = JudgedLists(matrix, [1], [1])
    assert data.features.indices.tolist() == [0, 1]
    assert data.features.data.tolist() == [1, 2]
    assert matrix.indices.tolist() == [1, 0]


def damaged(**parts):
    matrix = sparse.csr_array(np.ones((2, 3)))
    for name, value in parts.items():
        setattr(matrix, name, np.array(value))
    return matrix


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (damaged(indptr=[0, 3]), "indptr has 2 entries and should have 3"),
        (damaged(indptr=[1, 3, 6]), "indptr starts with 1"),
        (damaged(indptr=[0, 7, 6]), "indptr decreases after entry 1"),
        (damaged(indptr=[0, 3, 5]), "indptr ends with 5, and there are 6 values"),
        (damaged(indptr=[0, 3, 9]), "indptr ends with 9"),
        (damaged(data=[1.0] * 5), "5 values and 6 indices"),
        (damaged(indices=[0, 1, 2, 0, 1, 3]), r"an index is outside 0\.\.2"),
        (damaged(indices=[0, 1, 2, 0, 1, -1]), r"an index is outside 0\.\.2"),
        (damaged(indices=[0, 1, 2, 2, 1, 2]), "row 1 has column 2 twice"),
        (damaged(indices=[0, 1, 2, 0, 1, 3]).T, r"an index is outside 0\.\.2"),
        (sparse.coo_array(([1.0, 2.0], ([0, 0], [1, 1])), shape=(2, 2)), "1 entries are stored"),
    ],
)
def test_damaged_sparse_features_raise(features, message):
    n = features.shape[0]
    with pytest.raises(DataError, match=message):
        JudgedLists(features, [0] * n, [1] * n)


def test_damaged_coordinates_raise():
    matrix = sparse.coo_array(([1.0], ([0], [1])), shape=(2, 2))
    matrix.coords = (np.array([5]), np.array([1]))
    with pytest.raises(DataError, match=r"a row index is outside 0\.\.1"):
        JudgedLists(matrix, [0, 0], [1, 1])


BAD = X.copy()
BAD[3, 1] = np.nan


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"features": X[:, 0]}, r"shape \(6,\). Reshape your data"),
        ({"features": np.ones((2, 2, 2))}, "2 dimensions"),
        ({"features": np.ones((0, 2))}, "no rows"),
        ({"features": np.ones((6, 0))}, r"0 feature\(s\) \(shape=\(6, 0\)\) while a minimum of 1"),
        ({"features": BAD}, r"row 3 \(query c\), feature 2 is nan; fill in"),
        ({"features": sparse.csr_array(BAD)}, r"row 3 \(query c\), feature 2 is nan; fill in"),
        ({"features": BAD, "feature_ids": [4, 9]}, "feature 9 is nan"),
        ({"features": X * 1j}, "Complex data not supported"),
        ({"features": X.astype(str)}, "features are text"),
        ({"features": [[1, 2], [3]]}, "not an array of numbers"),
        ({"grades": [0, 1]}, "grades has 2 entries and features 6 rows"),
        ({"grades": [0, 1, np.inf, 0, 1, 2]}, r"row 2 \(query b\) is inf"),
        ({"grades": ["a"] * 6}, "grades are not real numbers"),
        ({"grades": np.ones((6, 1))}, r"pass grades.ravel\(\)"),
        ({"qids": QIDS[:5]}, "qids has 5 entries and features 6 rows"),
        ({"qids": [QIDS]}, r"qids must have 1 dimension"),
        ({"qids": "aabbcc"}, "qids is one text"),
        ({"qids": [1.0] * 6}, r"qids: row 0 is 1.0; ids are whole numbers"),
        ({"qids": [True] * 6}, "qids: row 0 is True"),
        ({"qids": [1, "1", 1, 1, 1, 1]}, "rows 0 and 1 are 1 and '1'"),
        ({"qids": [2**63] * 6}, "64 bits or text"),
        ({"qids": [None] * 6}, "row 0 is None"),
        ({"doc_ids": list("uvuxyz")}, "rows 0 and 2 of query b are both document 'u'"),
        ({"doc_ids": [1]}, "doc_ids has 1 entries"),
        ({"feature_ids": [1]}, "feature_ids has 1 entries and the data 2 columns"),
        ({"feature_ids": [1, 1]}, "feature_ids has 1 twice"),
        ({"feature_ids": [-1, 1]}, "not be negative"),
        ({"feature_ids": [0.5, 1]}, "whole numbers"),
    ],
)
def test_invalid_input_raises(changes, message):
    with pytest.raises(DataError, match=message):
        judged(**changes)


@pytest.mark.parametrize(
    "qids",
    [
        [7, -7, 7],
        np.array([7, -7, 7], dtype=np.int8),
        np.array([7, 2, 7], dtype=np.uint64),
        np.array(["x", "y", "x"], dtype=object),
        np.array([2**62, 0, 2**62]),
        ("x", "ÿ", "x"),
    ],
)
def test_types_of_query_ids(qids):
    data = JudgedLists(np.eye(3), [0, 0, 0], qids)
    assert data.query_ids.tolist() == list(qids[:2])
    assert data.row_order.tolist() == [0, 2, 1]


def test_whole_number_doc_ids_become_text():
    assert judged(doc_ids=np.arange(6)).doc_ids.tolist() == ["0", "2", "5", "1", "4", "3"]


def test_doc_ranks_compare_as_bytes():
    data = JudgedLists(np.ones((12, 1)), np.zeros(12), np.zeros(12, int))
    ids = data.doc_ids.tolist()
    by_bytes = sorted(ids, key=str.encode)
    assert [ids[row] for row in np.argsort(data.doc_ranks)] == by_bytes
    named = JudgedLists(np.ones((12, 1)), np.zeros(12), np.zeros(12, int), doc_ids=ids)
    np.testing.assert_array_equal(named.doc_ranks, data.doc_ranks)
    accents = ["é", "z", "😀", "￿", "a"]
    data = JudgedLists(np.ones((5, 1)), np.zeros(5), np.zeros(5, int), doc_ids=accents)
    assert [accents[row] for row in np.argsort(data.doc_ranks)] == sorted(accents, key=str.encode)


def test_equal_feature_ids_return_the_same_array():
    data = judged()
    assert data.aligned_features([1, 2]) is data.features


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_aligned_features_warn_of_missing_and_unknown(make):
    data = JudgedLists(make(X), GRADES, [1] * 6, feature_ids=[5, 3])
    with pytest.warns(DataWarning, match=r"1 of the model's 2 .* first is 9.*; 1 of the data's 2"):
        aligned = data.aligned_features([9, 3])
    dense = aligned.toarray() if sparse.issparse(aligned) else aligned
    np.testing.assert_array_equal(dense, np.column_stack([np.zeros(6), X[:, 1]]))
    swapped = data.aligned_features([3, 5])
    dense = swapped.toarray() if sparse.issparse(swapped) else swapped
    np.testing.assert_array_equal(dense, X[:, ::-1])


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("positions", [[0], [2, 0], [1, 2], [0, 1, 2]])
def test_select_keeps_queries_whole(make, positions):
    data = judged(features=make(X), doc_ids=list("uvwxyz"))
    part = data.select(positions)
    rows = [r for q in positions for r in range(data.group_ptr[q], data.group_ptr[q + 1])]
    assert part.query_ids.tolist() == data.query_ids[positions].tolist()
    assert part.doc_ids.tolist() == data.doc_ids[rows].tolist()
    assert part.row_order.tolist() == data.row_order[rows].tolist()
    assert np.diff(part.group_ptr).tolist() == np.diff(data.group_ptr)[positions].tolist()
    dense = part.features.toarray() if sparse.issparse(part.features) else part.features
    np.testing.assert_array_equal(dense, X[part.row_order])


def test_adjacent_queries_are_selected_without_a_copy():
    data = judged()
    assert np.shares_memory(data.select([1, 2]).features, data.features)


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        ([], "at least one"),
        ([3], "no query at position 3; positions run from 0 to 2"),
        ([-1], "position -1"),
        ([1, 1], "twice"),
        ([True, False, True], "positions"),
    ],
)
def test_select_raises(positions, message):
    with pytest.raises(DataError, match=message):
        judged().select(positions)


def test_concatenate_merges_columns_and_raises_for_a_common_query():
    one = JudgedLists([[1.0]], [1], ["a"], feature_ids=[2])
    two = JudgedLists(sparse.csr_array([[3.0, 4.0]]), [2], ["b"], feature_ids=[1, 2], doc_ids=["x"])
    both = JudgedLists.concatenate([one, two])
    assert both.feature_ids.tolist() == [1, 2]
    np.testing.assert_array_equal(both.features.toarray(), [[0, 1], [3, 4]])
    assert both.doc_ids.tolist() == ["0", "x"]
    assert both.row_order.tolist() == [0, 1]
    with pytest.raises(DataError, match="query a is in two"):
        JudgedLists.concatenate([one, one])


@st.composite
def lists(draw):
    qids = draw(st.lists(st.integers(0, 5), min_size=1, max_size=30))
    grades = draw(st.lists(st.integers(0, 3), min_size=len(qids), max_size=len(qids)))
    return np.arange(2.0 * len(qids)).reshape(-1, 2), grades, qids


@settings(deadline=None)
@given(lists(), st.data())
def test_select_never_divides_a_query(rows, more):
    data = JudgedLists(*rows)
    positions = more.draw(st.permutations(range(data.n_queries)))
    positions = positions[: more.draw(st.integers(1, data.n_queries))]
    part = data.select(positions)
    qids = np.array(rows[2])
    for q, name in enumerate(part.query_ids):
        inside = part.row_order[part.group_ptr[q] : part.group_ptr[q + 1]]
        assert inside.tolist() == np.flatnonzero(qids == name).tolist()
    np.testing.assert_array_equal(part.features, rows[0][part.row_order])


def test_finite_features_with_infinite_sum_are_accepted():
    X = np.full((3, 2), np.finfo(np.float32).max)
    np.testing.assert_array_equal(JudgedLists(X, [0, 1, 2], [1, 1, 1]).features, X)


def test_with_grades_replaces_the_grades():
    data = JudgedLists([[0.1], [0.7], [0.3]], [0, 2, 1], ["b", "a", "b"], doc_ids=["x", "y", "z"])
    other = data.with_grades([5.0, 6.0, 7.0])  # of the rows as they are stored: b, b, a
    assert other.grades.tolist() == [5.0, 6.0, 7.0]
    assert data.grades.tolist() == [0.0, 1.0, 2.0]
    assert np.shares_memory(other.features, data.features)
    assert other.doc_ids.tolist() == ["x", "z", "y"]
    with pytest.raises(DataError, match="grades"):
        data.with_grades([1.0, 2.0])
    with pytest.raises(DataError, match="NaN or inf"):
        data.with_grades([1.0, 2.0, np.nan])
