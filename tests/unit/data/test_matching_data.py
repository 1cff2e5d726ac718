"""MatchingData: what it stores, what it answers and what it refuses."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from ranking.data.matching_data import FeatureTable, MatchingData
from ranking.data.text_collection import TextCollection
from ranking.errors import DataError, DataWarning

RELEVANCE = sparse.csr_array(np.array([[1.0, 0, 2], [0, 3, 0]]))


def test_features_of_different_widths():
    queries, documents = np.ones((2, 4), np.float32), sparse.eye_array(3, 5, format="csc")
    data = MatchingData(queries, documents, RELEVANCE, query_ids=["a", "b"], document_ids=[7, 8, 9])
    assert (data.n_query_features, data.n_document_features) == (4, 5)
    assert np.shares_memory(data.queries, queries)
    assert np.shares_memory(data.relevance.data, RELEVANCE.data)
    assert data.documents.format == "csr"
    assert data.query_feature_ids.tolist() == [1, 2, 3, 4]
    assert repr(data) == "MatchingData(2 queries x 3 documents, 3 judged pairs, features 4 x 5)"


def test_everything_is_read_only():
    data = MatchingData(np.ones((2, 1)), None, RELEVANCE)
    for array in (data.queries, data.relevance.data, data.query_ids, data.document_ids):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(AttributeError):
        data.queries = None
    RELEVANCE.data[0] = 1  # the caller's own stays as it was


def test_identity_features_take_no_memory():
    data = MatchingData(None, None, sparse.csr_array((1, 10**6)))
    assert data.documents is None
    assert data.n_document_features == 10**6
    assert np.shares_memory(data.document_feature_ids, data.document_ids)


def test_identity_keeps_its_columns_when_queries_are_selected():
    data = MatchingData(None, None, RELEVANCE, query_ids=["a", "b"]).select([1])
    assert data.queries.toarray().tolist() == [[0, 1]]
    assert data.query_feature_ids.tolist() == ["a", "b"]
    assert data.relevant(0).tolist() == [1]


def test_a_stored_zero_is_a_judgement_and_not_relevant():
    entries = sparse.csr_array(([2.0, 0.0, -1.0], [2, 0, 1], [0, 3]), shape=(1, 4))
    data = MatchingData(None, None, entries)
    assert data.relevance.nnz == 3
    assert data.relevance.indices.tolist() == [0, 1, 2]
    assert data.relevant(0).tolist() == [2]
    assert data.relevant(0).dtype == np.int64
    assert data.is_relevant(0, [3, 2, 1, 0]).tolist() == [False, True, False, False]
    assert data.n_relevant.tolist() == [1]


def test_times_follow_their_entries():
    matrix = sparse.csr_array(([1.0, 2, 3], [2, 0, 1], [0, 2, 3]), shape=(2, 3))
    data = MatchingData(None, None, matrix, times=[20, 10, 30])
    assert data.relevance.indices.tolist() == [0, 2, 1]
    assert data.times.tolist() == [10, 20, 30]
    assert data.select([1, 0]).times.tolist() == [30, 10, 20]
    days = np.array(["1970-01-02", "1970-01-03", "1970-01-04"], "datetime64[D]")
    assert MatchingData(None, None, matrix, times=days).times.tolist() == [172800, 86400, 259200]


def test_own_document_is_not_relevant():
    labels = np.array(["x", "y", "x"])
    data = MatchingData(np.eye(3), np.eye(3), labels=(labels, labels), queries_are_documents=True)
    assert [data.relevant(query).tolist() for query in range(3)] == [[2], [], [0]]
    assert data.n_relevant.tolist() == [1, 0, 1]
    assert data.select([2]).relevant(0).tolist() == [0]
    assert data.select([2]).is_relevant(0, [0, 1, 2]).tolist() == [True, False, False]
    graded = MatchingData(None, None, np.ones((2, 2)), queries_are_documents=True)
    assert graded.relevant(1).tolist() == [0]
    assert graded.n_relevant.tolist() == [1, 1]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 3), min_size=1), st.lists(st.integers(0, 3), min_size=1))
def test_classes_equal_the_dense_relevance_matrix(one, other):
    data = MatchingData(None, None, labels=(one, other))
    want = np.equal.outer(one, other)
    for query in range(len(one)):
        np.testing.assert_array_equal(data.relevant(query), np.flatnonzero(want[query]))
        actual = data.is_relevant(query, np.arange(len(other)))
        np.testing.assert_array_equal(actual, want[query])
    np.testing.assert_array_equal(data.n_relevant, want.sum(axis=1))


def test_many_labelled_rows_need_little_memory():
    labels = np.arange(10**6) % 10
    data = MatchingData(None, None, labels=(labels, labels))
    assert data.relevant(3).size == 10**5
    assert int(data.n_relevant.sum()) == 10**11


damaged = sparse.csr_array(RELEVANCE, copy=True)
damaged.indices = np.array([0, 9, 1])

REFUSED = {
    "transposed": (
        (np.ones((6040, 1)), np.ones((3706, 1)), sparse.csr_array((3706, 6040))),
        {},
        r"shape \(3706, 6040\), but there are 6040 queries and 3706 documents: transpose it",
    ),
    "wrong size": (
        (np.ones((2, 1)), np.ones((4, 1)), RELEVANCE),
        {},
        r"\(2, 3\), but there are 2 queries and 4 documents: pass one row per query",
    ),
    "neither": ((None, None), {}, "there are no queries"),
    "both": ((None, None, RELEVANCE), {"labels": ([1, 1], [1, 1, 1])}, "pass either relevance"),
    "damaged": ((None, None, damaged), {}, r"relevance: an index is outside 0\.\.2"),
    "NaN": ((None, None, [[np.nan]]), {}, "relevance must not be NaN or inf: query 0, document 0"),
    "text": ((None, None, [["a"]]), {}, "relevance must be a matrix of numbers"),
    "vector": ((np.ones((1, 1)), np.ones((1, 1)), [1]), {}, "it has 1 dimensions"),
    "infinite feature": (
        ([[1.0], [np.inf]], None, RELEVANCE),
        {"query_ids": ["a", "b"]},
        r"queries must not be NaN or inf: row 1 \(query b\), feature 1",
    ),
    "document features": (
        (None, [[1.0], [1], [np.nan]], RELEVANCE),
        {},
        r"documents must not be NaN or inf: row 2 \(document 2\)",
    ),
    "ids twice": (
        (None, None, RELEVANCE),
        {"document_ids": ["a", "b", "a"]},
        "document_ids: documents 0 and 2 are both a",
    ),
    "too few ids": (
        (None, None, RELEVANCE),
        {"query_ids": [1]},
        "query_ids has 1 entries and queries 2 rows",
    ),
    "feature names twice": (
        (np.ones((2, 2)), None, RELEVANCE),
        {"query_feature_ids": ["x", "x"]},
        "query_feature_ids: columns 0 and 1 are both x",
    ),
    "times": ((None, None, RELEVANCE), {"times": [1, 2]}, r"times has shape \(2,\).* 3 entries"),
    "NaN in times": ((None, None, RELEVANCE), {"times": [1, np.nan, 2]}, "entry 1 is not finite"),
    "times of a dense matrix": ((None, None, [[1]]), {"times": [1]}, "CSR or COO"),
    "times of labels": (
        (None, None),
        {"labels": ([1], [1]), "times": [1]},
        "labels have no entries",
    ),
    "labels": ((None, None), {"labels": ([1], ["a"])}, "both as numbers or both as text"),
    "one side": ((np.ones((1, 1)), np.ones((1, 1))), {"labels": [1]}, "labels must be a pair"),
    "queries are documents": (
        (None, None, RELEVANCE),
        {"queries_are_documents": True},
        "2 queries and 3 documents",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_invalid_input_raises_data_error(case):
    value, named, message = REFUSED[case]
    with pytest.raises(DataError, match=message):
        MatchingData(*value, **named)


def test_positions_are_checked():
    data = MatchingData(None, None, RELEVANCE)
    for call in (
        lambda: data.relevant(2),
        lambda: data.is_relevant(0, [3]),
        lambda: data.is_relevant(0, [0.5]),
        lambda: data.select([]),
        lambda: data.select([0, 0]),
        lambda: data.select([5]),
    ):
        with pytest.raises(DataError, match="position"):
            call()


def test_interactions_of_any_ids():
    data = MatchingData.from_interactions([5, -1, 5], ["b", "a", "a"], [1.0, 2, 3], [7, 8, 9])
    assert data.query_ids.tolist() == [-1, 5]
    assert data.document_ids.tolist() == ["a", "b"]
    assert data.relevance.toarray().tolist() == [[2, 0], [3, 1]]
    assert data.times.tolist() == [8, 9, 7]
    assert data.queries is data.documents is None


@pytest.mark.parametrize(("how", "value"), [("sum", 6), ("max", 3), ("last", 1)])
def test_duplicates_are_merged_with_a_warning(how, value):
    with pytest.warns(DataWarning, match=f"2 of 3 interactions repeat .*{how}"):
        data = MatchingData.from_interactions("uuu", "iii", [3, 2, 1], [1, 2, 3], duplicates=how)
    assert data.relevance.toarray().tolist() == [[value]]
    assert data.times.tolist() == [3]


def test_the_last_without_times_is_the_last_row():
    with pytest.warns(DataWarning, match="repeat"):
        data = MatchingData.from_interactions("uuu", "iii", [1, 3, 2], duplicates="last")
    assert data.relevance.data.tolist() == [2]


@pytest.mark.filterwarnings("ignore::ranking.errors.DataWarning")
@settings(deadline=None, max_examples=50)
@given(st.data(), st.sampled_from(["sum", "max", "last"]))
def test_the_order_of_interactions_does_not_matter(data, how):
    row = st.tuples(st.integers(0, 3), st.sampled_from("abc"), st.floats(-9, 9), st.integers(0, 3))
    rows = data.draw(st.lists(row, min_size=1))
    shuffled = data.draw(st.permutations(rows))
    one, other = (
        MatchingData.from_interactions(*zip(*value, strict=True), duplicates=how)
        for value in (rows, shuffled)
    )
    np.testing.assert_array_equal(one.relevance.toarray(), other.relevance.toarray())
    np.testing.assert_array_equal(one.times, other.times)
    np.testing.assert_array_equal(one.query_ids, other.query_ids)


def test_feature_tables_are_ordered_by_id():
    table = FeatureTable(np.array(["z", "a"]), np.array([[1.0], [2.0]]), np.array(["age"]))
    with pytest.warns(DataWarning, match=r"1 of 3 users are not in their table .*first is m"):
        data = MatchingData.from_interactions(["m", "a"], [1, 1], user_features=table)
    assert data.query_ids.tolist() == ["a", "m", "z"]
    assert data.queries.toarray().tolist() == [[2], [0], [1]]
    assert data.query_feature_ids.tolist() == ["age"]
    assert data.n_relevant.tolist() == [1, 1, 0]


def test_feature_tables_are_checked():
    broken = sparse.csr_array(np.eye(2))
    broken.indices = np.array([0, 9])
    for table, message in (
        (FeatureTable(["a", "b"], broken, ["x", "y"]), "features of users: an index is outside"),
        (FeatureTable(["a", "a"], np.eye(2), ["x", "y"]), "rows 0 and 1 are both a"),
        (FeatureTable(["a", "b"], np.eye(2), ["x"]), "query_feature_ids has 1 entries"),
        (FeatureTable([1, 2], np.eye(2), ["x", "y"]), "all of one type"),
    ):
        with pytest.raises(DataError, match=message):
            MatchingData.from_interactions(["a", "b"], [1, 1], user_features=table)


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (([], []), {}, "users is empty"),
        (([1, "a"], [1, 1]), {}, "all of one type"),
        (([1.5], [1]), {}, "whole numbers"),
        (([1], [1, 2]), {}, "1 users and 2 items"),
        (([1], [1], [np.nan]), {}, "values: interaction 0 is nan"),
        (([1], [1], [1, 2]), {}, "1 interactions"),
        (([1], [1]), {"duplicates": "mean"}, "sum or max or last"),
    ],
)
def test_invalid_interactions_raise(columns, options, message):
    with pytest.raises(DataError, match=message):
        MatchingData.from_interactions(*columns, **options)


def test_text_collection_with_features_is_matching_data():
    labels = ["x", "y", "x"]
    texts = TextCollection(
        [1, 2, 3], labels, [1, 2, 3], labels, labels=(labels, labels), queries_are_documents=True
    )
    part = texts.select([2, 0])
    assert part.query_texts == ("x", "x")
    data = part.with_features(np.ones((2, 1)), np.ones((3, 1)), query_feature_ids=["w"])
    assert data.relevant(0).tolist() == [0]
    assert data.classes.tolist() == ["x", "y"]
    assert repr(texts) == "TextCollection(3 queries x 3 documents, 2 classes)"


@pytest.mark.parametrize("texts", [[], "abc", [1]])
def test_invalid_texts_raise(texts):
    with pytest.raises(DataError, match="query_texts"):
        TextCollection(["a"], texts, ["b"], ["text"], [[1]])


# --- an indicator besides the features ----------------------------------------------------------


def test_with_indicators_adds_one_feature_per_row():
    data = MatchingData(
        np.array([[0.5, 0.0], [1.0, 2.0]]),
        sparse.csr_array(np.array([[3.0], [0.0], [1.0]])),
        [[1, 0, 0], [0, 1, 1]],
        query_ids=["a", "b"],
        document_ids=[7, 8, 9],
        document_feature_ids=["red"],
    )
    both = data.with_indicators()
    assert both.query_rows.toarray().tolist() == [[0.5, 0.0, 1.0, 0.0], [1.0, 2.0, 0.0, 1.0]]
    assert both.query_feature_ids.tolist() == ["1", "2", "query:a", "query:b"]
    assert both.document_rows.toarray().tolist() == [[3, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 1]]
    assert both.document_feature_ids.tolist() == ["red", "document:7", "document:8", "document:9"]
    assert both.relevance.toarray().tolist() == data.relevance.toarray().tolist()
    assert (both.n_query_features, both.n_document_features) == (4, 4)
    # Rows without features are indicators already.
    plain = MatchingData(None, np.ones((2, 1)), np.eye(2)).with_indicators()
    assert plain.queries is None
    assert plain.n_document_features == 3


def test_users_and_items_are_names_of_queries_and_documents():
    users, items = np.ones((2, 4)), np.ones((3, 5))
    names = {
        "user_ids": ["u", "v"],
        "item_ids": [7, 8, 9],
        "user_feature_ids": ["a", "b", "c", "d"],
        "item_feature_ids": [1, 2, 3, 4, 5],
    }
    data = MatchingData(users=users, items=items, relevance=RELEVANCE, **names)
    other = MatchingData(
        users,
        items,
        RELEVANCE,
        query_ids=["u", "v"],
        document_ids=[7, 8, 9],
        query_feature_ids=["a", "b", "c", "d"],
    )
    assert data.query_ids.tolist() == data.user_ids.tolist() == ["u", "v"]
    assert data.document_ids.tolist() == data.item_ids.tolist() == [7, 8, 9]
    assert (data.n_users, data.n_items) == (data.n_queries, data.n_documents) == (2, 3)
    assert data.queries is not None
    assert data.query_feature_ids.tolist() == other.query_feature_ids.tolist()
    np.testing.assert_array_equal(data.documents, other.documents)


def test_names_are_unique_and_known():
    with pytest.raises(DataError, match="user_ids is another name of query_ids; pass one"):
        MatchingData(relevance=RELEVANCE, query_ids=["a", "b"], user_ids=["a", "b"])
    with pytest.raises(DataError, match="items is another name of documents"):
        MatchingData(None, np.ones((3, 1)), RELEVANCE, items=np.ones((3, 1)))
    with pytest.raises(TypeError, match="no parameter 'user'; ids are passed as query_ids"):
        MatchingData(relevance=RELEVANCE, user=[1, 2])
