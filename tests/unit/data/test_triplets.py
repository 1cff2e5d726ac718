"""Lists of positives compared with sets, and the frequencies of sampled triplets."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import chisquare

from ranking import MatchingData
from ranking.data.triplets import positive_lists
from ranking.errors import DataError

KINDS = [
    ("labels", False),
    ("labels", True),
    ("relevance", False),
    ("relevance", True),
]


def by_query(lists):
    """Return the positives and the negatives of each query that is sampled."""
    sets = {}
    for query in lists.queries.tolist():
        at = lists.list_of[query]
        own = set(lists.members[lists.member_ptr[at] : lists.member_ptr[at + 1]].tolist())
        positives = own - {int(lists.own_document[query])}
        sets[query] = (positives, set(range(lists.n_documents)) - own)
    return sets


def expected_positives(data):
    """The same from what the data say, document by document; without who has not both."""
    sets = {}
    for query in range(data.n_queries):
        itself = None if data.own_document is None else int(data.own_document[query])
        others = [d for d in range(data.n_documents) if d != itself]
        positives = {d for d in others if data.is_relevant(query, [d])[0]}
        if positives and len(positives) < len(others):
            sets[query] = (positives, set(others) - positives)
    return sets


@pytest.mark.parametrize(("kind", "queries_are_documents"), KINDS)
def test_lists_hold_the_positives(make_matching, kind, queries_are_documents):
    data = make_matching(1, kind=kind, queries_are_documents=queries_are_documents)
    assert by_query(positive_lists(data)) == expected_positives(data)
    some = data.select([5, 0, 3])
    assert by_query(positive_lists(some)) == expected_positives(some)


def test_judged_zeros_and_negative_grades_are_negatives():
    relevance = sp.csr_array((np.array([1.0, 0.0, -1.0, 2.0]), [0, 1, 2, 3], [0, 4]), shape=(1, 5))
    assert by_query(positive_lists(MatchingData(None, None, relevance))) == {0: ({0, 3}, {1, 2, 4})}


def test_queries_without_positives_or_negatives_are_not_sampled():
    relevance = [[0, 0, 0], [1, 1, 1], [0, 1, 0], [-1, 0, 0]]
    lists = positive_lists(MatchingData(None, None, relevance))
    assert lists.queries.tolist() == [2]
    labels = (["a", "b", "nobody"], ["a", "a", "b"])
    assert positive_lists(MatchingData(None, None, labels=labels)).queries.tolist() == [0, 1]
    alone = (["a", "b", "b", "b"],) * 2
    lists = positive_lists(MatchingData(None, None, labels=alone, queries_are_documents=True))
    assert lists.queries.tolist() == [1, 2, 3]  # no other document is of class a


def test_own_document_is_neither_positive_nor_negative():
    # Query 1 has itself only; to query 2 all others are relevant; query 0 says that it is its own.
    relevance = [[1, 1, 0], [0, 1, 0], [1, 1, 0]]
    lists = positive_lists(MatchingData(None, None, relevance, queries_are_documents=True))
    assert by_query(lists) == {0: ({1}, {2})}


def test_own_document_of_another_class_is_not_sampled():
    labels = (["a", "a", "b", "b"], ["b", "a", "a", "b"])
    data = MatchingData(None, None, labels=labels, queries_are_documents=True)
    assert by_query(positive_lists(data)) == expected_positives(data)
    assert 0 not in by_query(positive_lists(data))[0][1]


@pytest.mark.parametrize(
    "fields",
    [
        {"relevance": [[0, 0], [1, 1]]},
        {"labels": (["a", "b"], ["c", "c"])},
        {"labels": (["a"], ["a"]), "queries_are_documents": True},
        {"relevance": [[1]], "queries_are_documents": True},
    ],
)
def test_nothing_to_learn_from(fields):
    with pytest.raises(DataError, match="nothing to learn from"):
        positive_lists(MatchingData(None, None, **fields))


@pytest.mark.parametrize(("kind", "queries_are_documents"), KINDS)
def test_triplets_are_valid_and_uniform(
    matching_kernel, make_matching, kind, queries_are_documents
):
    data = make_matching(
        2, n_queries=4, n_documents=7, kind=kind, queries_are_documents=queries_are_documents
    )
    lists = positive_lists(data)
    allowed = expected_positives(data)
    triplets = matching_kernel.sampling.sample_triplets(lists, 11, 0, 3000, 2)
    assert triplets.shape == (3000, 4)
    for query, positive, *negatives in triplets.tolist():
        assert positive in allowed[query][0]
        assert set(negatives) <= allowed[query][1]
    assert set(triplets[:, 0].tolist()) == set(allowed)
    counts = Counter(triplets[:, 0].tolist())
    assert chisquare([counts[query] for query in allowed]).pvalue > 1e-4
    for query, (positives, negatives) in allowed.items():
        own = triplets[triplets[:, 0] == query]
        for column, among in ((1, positives), (2, negatives), (3, negatives)):
            counts = Counter(own[:, column].tolist())
            if len(among) > 1:
                assert chisquare([counts[one] for one in among]).pvalue > 1e-5


def test_triplets_depend_on_step_and_seed_only(matching_kernel, make_matching):
    lists = positive_lists(make_matching(2))
    whole = matching_kernel.sampling.sample_triplets(lists, 5, 0, 40)
    assert np.array_equal(whole[13:], matching_kernel.sampling.sample_triplets(lists, 5, 13, 27))
    assert not np.array_equal(whole, matching_kernel.sampling.sample_triplets(lists, 6, 0, 40))
