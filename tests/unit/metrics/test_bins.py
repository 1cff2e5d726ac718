"""Means by bins of clicks, against sums by hand."""

from __future__ import annotations

import numpy as np
import pytest

from ranking import MatchingData
from ranking.errors import DataError
from ranking.metrics.bins import by_bins, total_clicks


def test_clicks_are_summed_by_query(make_matching):
    log = MatchingData(None, None, [[3.0, 7.0], [-1.0, 2.0], [0.0, 0.0]], query_ids=[5, 6, 7])
    assert total_clicks(log, np.array(["6", "8", "5"])).tolist() == [2.0, 0.0, 10.0]
    classes = make_matching(0)
    result = total_clicks(classes, classes.query_ids)
    assert result.tolist() == [classes.relevant(q).size for q in range(classes.n_queries)]


def test_every_query_is_in_one_bin():
    values = {"ndcg": np.array([0.1, 0.2, 0.4, np.nan, 0.8])}
    result = by_bins(values, np.array([0.0, 10.0, 10.5, 100.0, 1000.0]), [10, 100])
    assert [one.label for one in result] == ["<= 10", "> 10, <= 100", "> 100"]
    assert [one.queries for one in result] == [2, 2, 1]
    assert [one.means["ndcg"] for one in result] == pytest.approx([0.15, 0.4, 0.8])
    empty = by_bins(values, np.zeros(5), [10])[1]
    assert empty.queries == 0
    assert np.isnan(empty.means["ndcg"])


@pytest.mark.parametrize("edges", [[], [10, 10], [100, 10], [np.inf]])
def test_edges_increase(edges):
    with pytest.raises(DataError, match="give increasing numbers"):
        by_bins({}, np.zeros(1), edges)
