"""Dominated and generalized error against definitions in loops, and against other metrics."""

from __future__ import annotations

import numpy as np
import pytest

from ranking import JudgedLists
from ranking.errors import DataError
from ranking.metrics.parse import parse_metric
from ranking.metrics.preference_graph import GRAPHS, graph_error
from ranking.testing import check_metric


def lists(seed: int) -> tuple[JudgedLists, np.ndarray]:
    rng = np.random.default_rng(seed)
    n = 200
    data = JudgedLists(np.ones((n, 1)), rng.integers(0, 4, n), rng.integers(0, 25, n))
    return data, rng.integers(0, 30, n) / 4.0 + 3.0 * data.grades


def by_loops(data: JudgedLists, scores: np.ndarray, graphs: str) -> list[float]:
    values = []
    for start, stop in zip(data.group_ptr[:-1], data.group_ptr[1:], strict=True):
        wrong: dict[object, bool] = {}
        for i in range(start, stop):
            for j in range(start, stop):
                if data.grades[i] > data.grades[j]:
                    keys = {"dominating": i, "dominated": j, "pairs": (i, j), "list": 0}
                    key = keys[graphs]
                    wrong[key] = wrong.get(key, False) or bool(scores[i] <= scores[j])
        values.append(float(np.mean(list(wrong.values()))) if wrong else np.nan)
    return values


@pytest.mark.parametrize("graphs", GRAPHS)
def test_the_error_is_the_share_of_broken_subgraphs(graphs: str):
    data, scores = lists(1)
    metric = parse_metric(f"generalized-error(graphs={graphs})")
    values = metric.per_query(data, scores)
    assert values == pytest.approx(by_loops(data, scores, graphs), nan_ok=True)
    assert 0.0 < np.nanmean(values) < 1.0


@pytest.mark.parametrize(
    ("graphs", "name"),
    [("dominating", "domination-error"), ("pairs", "pair-error"), ("dominated", "dominated-error")],
)
def test_known_errors_are_special_cases(graphs: str, name: str):
    data, scores = lists(2)
    general = parse_metric(f"generalized-error(graphs={graphs})").per_query(data, scores)
    assert general == pytest.approx(parse_metric(name).per_query(data, scores), nan_ok=True)


def test_dominated_error_is_domination_error_upside_down():
    data, scores = lists(3)
    ids = data.query_ids[data.row_groups]
    flipped = JudgedLists(np.ones((data.n_rows, 1)), 3 - data.grades, ids)
    expected = parse_metric("domination-error").per_query(flipped, -scores)
    values = parse_metric("dominated-error").per_query(data, scores)
    assert values == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("name", ["generalized-error", "dominated-error"])
def test_the_metrics_pass_the_checks_of_plugins(name: str):
    check_metric(parse_metric(name))
    assert parse_metric(parse_metric(name).spelled()) == parse_metric(name)


def test_figure_1_of_the_thesis():
    """Five labels in the order 1 > 2 > 3 > 4 > 5, two of whose subgraphs are not satisfied.

    The figure divides by 5; equation 1 divides by the vertices with outgoing edges, which are 4.
    """
    edges = np.array([(i, j) for i in range(5) for j in range(i + 1, 5)])
    scores = [5.0, 2.0, 4.0, 1.0, 3.0]  # 1 > 3 > 5 > 2 > 4: 2 and 4 are below what they dominate
    assert graph_error(scores, edges, edges[:, 0]) == pytest.approx(2 / 4)
    assert graph_error(scores, edges, edges[:, 1]) == pytest.approx(2 / 4)
    assert graph_error(scores, edges, np.zeros(len(edges))) == 1.0
    assert graph_error([1.0, 1.0], [[0, 1]], [0]) == 1.0
    assert graph_error([1.0, 1.0], [[0, 1]], [0], ties=False) == 0.0


@pytest.mark.parametrize(
    ("edges", "subgraphs", "message"),
    [([[0, 5]], [0], "positions"), ([[0, 1]], [0, 1], "shape"), ([[0.0, 1.0]], [0], "positions")],
)
def test_damaged_graphs_are_refused(edges: list, subgraphs: list, message: str):
    with pytest.raises(DataError, match=message):
        graph_error([1.0, 2.0], edges, subgraphs)
