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
            if data.own_document is not None:
                pairs = [(j, r) for j, r in pairs if j != data.own_document[i]]
        n_x += bool(pairs)
        for j, r in pairs:
            weight = responses(r) / (len(pairs) if per_query else 1)
            total += weight * np.outer(left[i].astype(float), right[j].astype(float))
    return total / n_x if per_query else total


@pytest.mark.parametrize("kind", ["labels", "relevance"])
@pytest.mark.parametrize("queries_are_documents", [False, True])
@pytest.mark.parametrize("per_query", [False, True])
def test_click_matrix_matches_a_double_loop(
    make_matching, seed, kind, queries_are_documents, per_query
):
    widths = None if queries_are_documents else (9, 7)
    data = make_matching(
        seed, 30, 24, widths=widths, kind=kind, queries_are_documents=queries_are_documents
    )
    result = click_matrix(data, per_query=per_query)
    np.testing.assert_allclose(
        result.rows.toarray(), naive(data, per_query=per_query), rtol=1e-5, atol=1e-7
    )
    assert (result.columns.toarray() == result.rows.toarray().T).all()
    assert result.rows.dtype == result.columns.dtype == np.float32


def test_custom_responses(make_matching, seed):
    data = make_matching(seed, kind="relevance")
    result = click_matrix(data, lambda r: np.log1p(np.maximum(r, 0.0)))
    expected = naive(data, lambda r: np.log1p(max(r, 0.0)))
    np.testing.assert_allclose(result.rows.toarray(), expected, rtol=1e-5, atol=1e-7)


def test_stored_zero_counts_as_a_document(seed):
    relevance = sp.csr_array(([4.0, 0.0], ([0, 0], [0, 1])), shape=(2, 3))
    result = click_matrix(MatchingData(None, None, relevance))
    # One query has documents, and it has two of them.
    assert result.rows.toarray().tolist() == [[2.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    assert result.n_queries == 1


def test_result_does_not_depend_on_threads_and_chunks(make_matching, seed, monkeypatch):
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


def test_click_matrix_as_matching_data(make_matching, seed):
    data = make_matching(seed, kind="relevance", widths=(9, 7))
    result = click_matrix(data)
    again = click_matrix(result.as_matching(), per_query=False)
    assert (again.rows.toarray() == result.rows.toarray()).all()
    assert (again.query_feature_ids == data.query_feature_ids).all()
    assert result.nbytes > 8 * result.rows.nnz


def test_invalid_chunks_raise(make_matching, seed):
    data = make_matching(seed, kind="relevance")
    with pytest.raises(DataError, match="query 0 is in two chunks"):
        click_matrix_of_chunks([data, data])
    other = make_matching(seed, kind="relevance", widths=(9, 3))
    other = MatchingData(other.queries, other.documents, other.relevance, query_ids=range(100, 108))
    with pytest.raises(DataError, match="different document features: 3 here, 9"):
        click_matrix_of_chunks([data, other])
    with pytest.raises(DataError, match="no data"):
        click_matrix_of_chunks([])
