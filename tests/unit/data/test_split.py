"""Splits: laws that hold for all data, and what leaks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from ranking.data.judged_lists import JudgedLists
from ranking.data.matching_data import MatchingData
from ranking.data.split import leakage, leave_one_out, query_kfold, split_by_time
from ranking.data.text_collection import TextCollection
from ranking.errors import DataError, DataWarning


def judged(qids, shift=0):
    return JudgedLists(np.arange(len(qids))[:, None] + 1.0 + shift, np.arange(len(qids)) % 3, qids)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 9), min_size=2), st.integers(2, 5), st.integers(0, 2**64 - 1))
def test_folds_partition_the_queries(qids, k, seed):
    data = judged(qids)
    if data.n_queries < k:
        with pytest.raises(DataError, match=f"there are {data.n_queries};"):
            query_kfold(data, k, seed)
        return
    folds = query_kfold(data, k, seed)
    tested = np.concatenate([test.query_ids for _, test in folds])
    assert sorted(tested) == sorted(data.query_ids)
    sizes = [test.n_queries for _, test in folds]
    assert max(sizes) - min(sizes) <= 1
    for train, test in folds:
        assert not set(train.query_ids) & set(test.query_ids)
        assert train.n_rows + test.n_rows == data.n_rows
        for part in (train, test):
            for query, size in zip(part.query_ids, np.diff(part.group_ptr), strict=True):
                assert size == qids.count(query)


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_folds_do_not_depend_on_the_order_of_rows(data):
    qids = data.draw(st.lists(st.integers(0, 9), min_size=2).filter(lambda q: len(set(q)) > 1))
    shuffled = data.draw(st.permutations(qids))
    for (_, one), (_, other) in zip(
        query_kfold(judged(qids), 2, 7), query_kfold(judged(shuffled), 2, 7), strict=True
    ):
        assert set(one.query_ids) == set(other.query_ids)


def test_seeds_give_different_folds():
    data = judged(list(range(50)))
    folds = {tuple(query_kfold(data, 5, seed)[0][1].query_ids) for seed in range(5)}
    assert len(folds) == 5


def test_folds_of_matching_keep_all_documents():
    data = MatchingData(None, None, labels=([0, 1, 0, 1], [1, 0]))
    for train, test in query_kfold(data, 2):
        assert train.n_documents == test.n_documents == 2
        assert train.n_query_features == 4
        assert np.concatenate((train.query_ids, test.query_ids)).size == 4


@st.composite
def interactions(draw):
    row = st.tuples(st.integers(0, 4), st.integers(0, 6), st.integers(0, 9))
    rows = draw(st.lists(row, min_size=2, unique_by=lambda row: row[:2]))
    users, items, times = zip(*rows, strict=True)
    return MatchingData.from_interactions(users, items, None, times)


@settings(deadline=None, max_examples=50)
@given(interactions(), st.floats(0.05, 0.95))
def test_no_test_entry_is_before_a_training_entry(data, share):
    moment = np.sort(data.times)[min(round(data.times.size * (1 - share)), data.times.size - 1)]
    if moment == data.times.min():  # and what is of one moment is not cut
        with pytest.raises(DataError, match="on one side"):
            split_by_time(data, share=share)
        return
    train, test = split_by_time(data, share=share)
    assert train.times.max() < test.times.min()
    total = train.relevance.toarray() + test.relevance.toarray()
    np.testing.assert_array_equal(total, data.relevance.toarray())
    assert train.query_ids.tolist() == test.query_ids.tolist() == data.query_ids.tolist()


def test_split_by_time_at_a_given_time():
    data = MatchingData.from_interactions([1, 1, 2], [1, 2, 2], None, [1, 5, 9])
    train, test = split_by_time(data, 5)
    assert (train.times.tolist(), test.times.tolist()) == ([1], [5, 9])
    for named in ({}, {"when": 1, "share": 0.5}, {"share": 1.5}):
        with pytest.raises(DataError, match="share"):
            split_by_time(data, **named)
    with pytest.raises(DataError, match="no times"):
        split_by_time(MatchingData(None, None, [[1]]), 5)


@settings(deadline=None, max_examples=50)
@given(interactions(), st.integers(0, 99))
def test_leave_one_out_holds_out_the_last_positive_of_each_user(data, seed):
    counts = np.diff(data.relevance.indptr)
    if counts.max() < 2:
        with pytest.raises(DataError, match="two relevant"):
            leave_one_out(data, seed)
        return
    train, test = leave_one_out(data, seed)
    np.testing.assert_array_equal(np.diff(test.relevance.indptr), counts > 1)
    total = train.relevance.toarray() + test.relevance.toarray()
    np.testing.assert_array_equal(total, data.relevance.toarray())
    for user in np.flatnonzero(counts > 1):
        before = train.times[slice(*train.relevance.indptr[user : user + 2])]
        after = test.times[slice(*test.relevance.indptr[user : user + 2])]
        assert before.max() <= after[0]
    again = leave_one_out(data, seed)[1]
    np.testing.assert_array_equal(again.relevance.indices, test.relevance.indices)


def test_leave_one_out_without_times_holds_out_a_random_positive():
    data = MatchingData(None, None, sparse.csr_array(np.array([[1.0, 2, -1, 3]])))
    left = {leave_one_out(data, seed)[1].relevance.indices[0] for seed in range(30)}
    assert left == {0, 1, 3}
    with pytest.raises(DataError, match="by-query"):
        leave_one_out(MatchingData(None, None, labels=([1], [1])))


def test_leakage_of_judged_lists():
    one = JudgedLists([[1.0], [2], [0]], [0, 1, 0], ["a", "a", "b"], doc_ids=["x", "y", "z"])
    other = JudgedLists([[2.0], [0], [5]], [0, 1, 0], ["a", "c", "c"], doc_ids=["y", "q", "r"])
    shared = leakage(one, other)
    assert shared.pairs == [("a", "y")]
    assert shared.queries == ["a"]
    assert shared.rows == 1  # rows of zeros are not counted
    assert "1 pairs of query and document (as ('a', 'y')) and 1 queries" in str(shared)
    assert not leakage(judged([1, 1]), judged([2], shift=9))


def test_leakage_ignores_numbered_documents():
    assert leakage(judged([1, 1]), judged([1], shift=9)).pairs == []


def test_leakage_of_matching():
    features = sparse.csr_array(np.array([[1.0, 0], [1, 0], [0, 2]]))
    data = MatchingData(features, None, np.eye(3), query_ids=["a", "b", "c"])
    with pytest.warns(
        DataWarning, match=r"share 1 rows of features or texts; remove the duplicates"
    ):
        query_kfold(data, 3)
    query_kfold(data, 3, check=False)
    shared = leakage(data, data)
    assert len(shared.pairs) == len(shared.queries) == 3
    assert shared.rows == 2
    with pytest.raises(DataError, match="different types"):
        leakage(data, judged([1]))


def test_leakage_of_texts():
    one = TextCollection(["a"], ["same"], ["d"], ["text"], [[1]])
    other = TextCollection(["b", "c"], ["same", "new"], ["d"], ["text"], [[1], [1]])
    shared = leakage(one, other)
    assert (shared.pairs, shared.queries, shared.rows) == ([], [], 1)
