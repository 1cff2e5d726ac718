"""Details of reproductions: single topics, few weights, and charts of points."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from ranking import MatchingData
from ranking.models.bilinear import Bilinear
from ranking_cli.pages import line_chart
from ranking_plugins.reproductions import Options, corel, topic_details

QUICK = Options(Path(), True, "auto", 1, 0, lambda text: None)


def topics(seed: int) -> MatchingData:
    """Three topics of 6, 20 and 12 of 60 documents, each with a word of its own."""
    rng = np.random.default_rng(seed)
    relevance = np.zeros((3, 60))
    for topic, count in enumerate((6, 20, 12)):
        relevance[topic, rng.choice(60, count, replace=False)] = 1.0
    words = rng.random((60, 10)) * (rng.random((60, 10)) < 0.3)
    words[:, :3] += relevance.T * (rng.random((60, 3)) < 0.9)
    return MatchingData(None, sp.csr_array(words), relevance, query_ids=["a", "b", "c"])


def test_topics_are_in_the_order_of_their_frequency():
    precisions = {"pamir": np.array([0.1, 0.2, 0.3]), "induction": np.array([0.4, 0.1, 0.3])}
    rows = list(topic_details.by_topic(topics(0), precisions, ("pamir", "induction")))
    assert [row.method for row in rows] == ["b", "c", "a"]
    assert [row.metrics["documents"] for row in rows] == [20.0, 12.0, 6.0]
    assert [row.metrics["difference"] for row in rows] == pytest.approx([-0.1, 0.0, 0.3])
    both, difference, *others = topic_details.charts(rows)
    assert both.scatter
    assert sorted(both.lines["topics"]) == [(0.1, 0.4), (0.2, 0.1), (0.3, 0.3)]
    assert [x for x, _ in difference.lines["difference"]] == [1.0, 2.0, 3.0]
    assert not any(chart.lines for chart in others)


def test_the_topic_in_the_middle_loses_weights_with_the_strength():
    options = Options(Path(), False, "auto", 1, 0, lambda text: None)
    precision = np.array([0.9, 0.1, 0.5])
    rows = list(topic_details.one_topic(topics(1), topics(2), precision, options))
    assert {row.dataset for row in rows} == {"Reuters-21578, topic c"}
    l1 = [row for row in rows if row.method.startswith("l1")]
    weights = [row.metrics["weights"] for row in l1]
    assert weights == sorted(weights)  # from strong to weak
    assert weights[0] < weights[-1]
    for row in rows:
        assert len(row.history) == row.metrics["epochs"]
        assert row.history[-1]["map"] == row.metrics["map"]
    by_strength = {chart.name: chart for chart in topic_details.charts(rows)}
    assert len(by_strength["topic c: weights"].lines["l1"]) == len(topic_details.STRENGTHS["l1"])


def test_a_chart_of_points_has_no_lines():
    points = {"topics": [(0.0, 1.0), (1.0, 0.5)]}
    assert "<polyline" in line_chart("joined", "x", points)
    drawn = line_chart("apart", "x", points, scatter=True)
    assert "<polyline" not in drawn
    assert drawn.count("<circle") == 2


def test_the_largest_weights_of_each_label_are_kept():
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(4, 20))
    model = Bilinear()
    model.weights = sp.csr_array(weights)
    pruned_weights = corel.largest(corel.Chosen(model, 1.0), 0.1).model.weights.toarray()
    assert (np.count_nonzero(pruned_weights, axis=1) == 2).all()
    for row, pruned in zip(weights, pruned_weights, strict=True):
        remaining = np.flatnonzero(pruned)
        assert set(remaining) == set(np.argsort(-np.abs(row))[:2])
        assert np.array_equal(row[remaining], pruned[remaining])
    assert np.array_equal(model.weights.toarray(), weights)


def test_figure_8_is_the_mean_of_the_validation_and_the_test_part():
    data = topics(3)
    model = Bilinear()
    model.weights = sp.csr_array(np.random.default_rng(1).normal(size=(3, 10)))
    model.query_feature_ids = np.array(["a", "b", "c"])
    model.document_feature_ids = np.arange(10)
    other = topics(4)
    of_test = corel.measured(model, corel.Parts(data, data, data), QUICK)
    of_other = corel.measured(model, corel.Parts(data, other, other), QUICK)
    both = corel.measured(model, corel.Parts(data, other, data), QUICK)
    name = "easy, validation and test"
    for measure in ("map", "all-pairs error"):
        expected = 0.5 * (of_test["easy"][measure] + of_other["easy"][measure])
        assert both[name][measure] == pytest.approx(expected)
    assert both["easy"] == of_test["easy"]
