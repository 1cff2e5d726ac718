"""M against a naive double loop over queries and their documents."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from ranking import MatchingData
from ranking.data import click_matrix as module
from ranking.data.click_matrix import click_matrix, click_matrix_of_chunks
from ranking.errors import DataError


def naive(data, responses=lambda r: max(r, 0.0), per_query=True):
    """The definition, pair by pair."""
    left, right = data.query_rows.toarray(), data.document_rows.toarray()
    total = np.zeros((left.shape[1], right.shape[1]))
    n_x = 0
    for i in range(data.n_queries):
        if data.labels is not None:
            pairs = [(int(j), 1.0) for j in data.relevant(i)]
        else:
            row = data.relevance[[i]].tocoo()
            pairs = [(int(j), float(r)) for j, r in zip(row.coords[1], row.data, strict=True)]
            if data.itself is not None:
                pairs = [(j, r) for j, r in pairs if j != data.itself[i]]
        n_x += bool(pairs)
        for j, r in pairs:
            weight = responses(r) / (len(pairs) if per_query else 1)
            total += weight * np.outer(left[i].astype(float), right[j].astype(float))
    return total / n_x if per_query else total


@pytest.mark.parametrize("kind", ["labels", "relevance"])
@pytest.mark.parametrize("same_objects", [False, True])
@pytest.mark.parametrize("per_query", [False, True])
def test_it_is_the_double_loop(make_matching, seed, kind, same_objects, per_query):
    widths = None if same_objects else (9, 7)
    data = make_matching(seed, 30, 24, widths=widths, kind=kind, same_objects=same_objects)
    made = click_matrix(data, per_query=per_query)
    np.testing.assert_allclose(
        made.rows.toarray(), naive(data, per_query=per_query), rtol=1e-5, atol=1e-7
    )
    assert (made.columns.toarray() == made.rows.toarray().T).all()
    assert made.rows.dtype == made.columns.dtype == np.float32


def test_responses_are_of_the_callers_choosing(make_matching, seed):
    data = make_matching(seed, kind="relevance")
    made = click_matrix(data, lambda r: np.log1p(np.maximum(r, 0.0)))
    wanted = naive(data, lambda r: np.log1p(max(r, 0.0)))
    np.testing.assert_allclose(made.rows.toarray(), wanted, rtol=1e-5, atol=1e-7)


def test_a_zero_that_is_stored_is_a_document(seed):
    relevance = sp.csr_array(([4.0, 0.0], ([0, 0], [0, 1])), shape=(2, 3))
    made = click_matrix(MatchingData(None, None, relevance))
    # One query has documents, and it has two of them.
    assert made.rows.toarray().tolist() == [[2.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    assert made.n_queries == 1


def test_threads_and_chunks_change_nothing(make_matching, seed, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 8)
    data = make_matching(seed, 64, 24, kind="relevance")
    whole = click_matrix(data)
    for threads in (2, 3):
        again = click_matrix(data, threads=threads)
        assert again.rows.data.tobytes() == whole.rows.data.tobytes()
    parts = [data.select(np.arange(at, at + 16)) for at in range(0, 64, 16)]
    chunked = click_matrix_of_chunks(iter(parts), threads=2)
    assert chunked.rows.data.tobytes() == whole.rows.data.tobytes()
    assert chunked.n_queries == whole.n_queries


def test_it_is_data_by_itself(make_matching, seed):
    data = make_matching(seed, kind="relevance", widths=(9, 7))
    made = click_matrix(data)
    again = click_matrix(made.as_matching(), per_query=False)
    assert (again.rows.toarray() == made.rows.toarray()).all()
    assert (again.query_feature_ids == data.query_feature_ids).all()
    assert made.nbytes > 8 * made.rows.nnz


def test_what_cannot_be_summed_is_refused(make_matching, seed):
    data = make_matching(seed, kind="relevance")
    with pytest.raises(DataError, match="query 0 is in two chunks"):
        click_matrix_of_chunks([data, data])
    other = make_matching(seed, kind="relevance", widths=(9, 3))
    other = MatchingData(other.queries, other.documents, other.relevance, query_ids=range(100, 108))
    with pytest.raises(DataError, match="different document features: 3 here, 9"):
        click_matrix_of_chunks([data, other])
    with pytest.raises(DataError, match="no data"):
        click_matrix_of_chunks([])
