"""Splits: laws that hold for all data, and what leaks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from ranking.data.judged_lists import JudgedLists
from ranking.data.matching_data import MatchingData
from ranking.data.split import (
    METHODS,
    leakage,
    leave_one_out,
    query_kfold,
    split_by_time,
    split_data,
)
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


# --- one function for all -----------------------------------------------------------------------


def likes(seed=0, times=True):
    rng = np.random.default_rng(seed)
    relevance = sparse.csr_array(rng.random((30, 20)) < 0.3, dtype=float)
    moments = rng.permutation(relevance.nnz).astype(float) if times else None
    return MatchingData(None, None, relevance, times=moments)


def entries(data):
    rows = np.repeat(data.query_ids, np.diff(data.relevance.indptr)).tolist()
    return set(zip(rows, data.document_ids[data.relevance.indices].tolist(), strict=True))


@pytest.mark.parametrize("method", METHODS)
def test_every_split_partitions_the_entries(method):
    data = likes()
    train, test = split_data(data, method, seed=3)
    assert not entries(train) & entries(test)
    assert entries(train) | entries(test) == entries(data)
    assert train.relevance.nnz
    assert test.relevance.nnz
    assert not leakage(train, test).pairs
    if method == "by-query":
        assert not set(train.query_ids) & set(test.query_ids)
    else:  # all queries and documents stay, so that scores of both parts have the same places
        for part in (train, test):
            assert part.query_ids.tolist() == data.query_ids.tolist()
            assert part.document_ids.tolist() == data.document_ids.tolist()


@pytest.mark.parametrize("method", METHODS)
def test_every_split_depends_on_the_seed_alone(method):
    data = likes(times=method == "by-time")
    one, again, other = (entries(split_data(data, method, seed=seed)[1]) for seed in (3, 3, 4))
    assert one == again
    assert (one == other) == (method == "by-time")  # time leaves nothing to chance


@pytest.mark.parametrize("share", [0.001, 0.2, 0.5, 0.99])
def test_share_is_the_share_of_the_test_data(share):
    data = likes()
    for method, total in (("by-query", 30), ("by-time", None), ("random", None)):
        test = split_data(data, method, share=share)[1]
        size = test.n_queries if total else test.relevance.nnz
        total = total or data.relevance.nnz
        assert size == min(max(round(share * total), 1), total - 1)


def test_split_data_is_what_the_single_splits_are():
    data = likes()
    pairs = [
        (split_data(data, "leave-one-out", seed=5), leave_one_out(data, 5)),
        (split_data(data, "by-time", when=50.0), split_by_time(data, 50.0)),
        *zip(split_data(data, "by-query", folds=3, seed=5), query_kfold(data, 3, 5), strict=True),
    ]
    for one, other in pairs:
        assert [entries(part) for part in one] == [entries(part) for part in other]


def test_split_of_judged_lists_divides_no_query():
    train, test = split_data(judged([0, 0, 1, 1, 2, 3, 3, 4]), "by-query", share=0.4, seed=1)
    assert test.n_queries == 2
    assert not leakage(train, test)


def test_split_warns_of_what_both_parts_share_where_it_was_called():
    data = JudgedLists(np.ones((4, 1)), [0, 1, 0, 1], [0, 0, 1, 1])
    with pytest.warns(DataWarning, match="the split by query: training and test") as caught:
        split_data(data, "by-query")
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "kfold"}, "there is no split 'kfold'; it must be one of by-query, by-time, l"),
        ({"method": "random", "share": 1.0}, "share is 1.0; it must be above 0 and below 1"),
        ({"method": "random", "when": 3.0}, "when=3.0 is for the split by-time"),
        ({"method": "by-time", "folds": 3}, "folds=3 is for the split by-query"),
        ({"method": "by-query", "folds": 1}, "k=1 folds need"),
    ],
)
def test_split_refuses_what_it_cannot_do(arguments, message):
    with pytest.raises(DataError, match=message):
        split_data(likes(), **arguments)


def test_split_refuses_data_that_it_cannot_split():
    with pytest.raises(DataError, match="judged lists cannot be split random: the rows of a query"):
        split_data(judged([0, 1]), "random")
    with pytest.raises(DataError, match="cannot split a list; give JudgedLists"):
        split_data([1, 2], "random")
    with pytest.raises(DataError, match="needs at least two queries"):
        split_data(judged([0, 0]), "by-query")
    with pytest.raises(DataError, match="the data have no times"):
        split_data(likes(times=False), "by-time")
