"""`check_metric`: order is all that counts, the best order is the best, and names parse back."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.hooks import hookimpl
from ranking.contracts.metric import Metric
from ranking.data.judged_lists import JudgedLists
from ranking.errors import PartError
from ranking.metrics.parse import parse_metric
from ranking.registry.manager import Registry, Source, get_registry
from ranking.testing.common import check_numbers, check_part, ensure, small_judged

Array = NDArray[np.float64]


def check_metric(metric: Metric, *, seed: int = 0) -> None:
    """Check a metric of ranked lists.

    There is one value a query, NaN where there is nothing to measure, never infinite. The order of
    the rows in the data does not matter, nor a scaling of the scores. No scores are better than
    those that order by grade, and the reversed order is worse. Scores that are all tied are
    between the two. The spelled-out name parses back to the same metric.

    Parameters
    ----------
    metric : Metric
    seed : int
    """
    whose = check_part("metric", metric, Metric)
    rng = np.random.default_rng(seed)
    data = small_judged(seed, n_queries=30)
    noise = 1e-3 * rng.random(data.n_rows)
    perfect = _values(whose, metric, data, data.grades + noise)
    reverse = _values(whose, metric, data, -data.grades - noise)
    sign = 1.0 if metric.higher_is_better else -1.0
    _check_order(whose, metric, data, rng)
    for trial in range(20):
        scores = rng.normal(size=data.n_rows)
        values = _values(whose, metric, data, scores)
        better = sign * values > sign * perfect + 1e-12
        at = int(np.argmax(better))
        ensure(
            not better.any(),
            whose,
            "no order is better than that of the grades (higher_is_better says which way)",
            f"in trial {trial}, query {data.query_ids[at]} has {values[at]:.6g} and by its grades "
            f"{perfect[at]:.6g}",
        )
    ensure(
        (sign * reverse < sign * perfect - 1e-12).any(),
        whose,
        "the reversed order is worse for some query",
        f"it has {reverse.tolist()} and the order of grades {perfect.tolist()}",
    )
    tied = _values(whose, metric, data, np.zeros(data.n_rows))
    low, high = np.fmin(reverse, perfect), np.fmax(reverse, perfect)
    out = (tied < low - 1e-12) | (tied > high + 1e-12)
    ensure(
        not out.any(), whose, "ties are no worse than the worst, no better than the best", f"{tied}"
    )
    _values(whose, metric, JudgedLists(np.zeros((3, 1)), np.zeros(3), [1, 1, 2]), np.arange(3.0))
    again: object
    try:
        again = parse_metric(metric.spelled(), _registry(metric))
    except PartError as error:
        again = error
    ensure(again == metric, whose, "spelled() parses back to the same metric", f"gives {again!r}")


def _values(whose: str, metric: Metric, data: JudgedLists, scores: Array) -> Array:
    copy = scores.copy()
    values = metric.per_query(data, scores)
    check_numbers(whose, "per_query", values, (data.n_queries,))
    ensure(not np.isinf(values).any(), whose, "values are numbers or NaN", f"{values}")
    ensure(
        np.array_equal(scores, copy),
        whose,
        "per_query leaves the scores alone",
        "it changed them",
    )
    return values


def _check_order(whose: str, metric: Metric, data: JudgedLists, rng: np.random.Generator) -> None:
    scores = rng.permutation(data.n_rows).astype(np.float64)
    values = dict(zip(data.query_ids, _values(whose, metric, data, scores), strict=True))
    scaled = _values(whose, metric, data, 2.0 * scores - 7.0)
    ensure(
        np.allclose(list(values.values()), scaled, rtol=1e-12, atol=0.0, equal_nan=True),
        whose,
        "scores count by their order only",
        "it changes when they are scaled",
    )
    order = rng.permutation(data.n_rows)
    mixed = JudgedLists(
        np.asarray(data.features)[order],
        data.grades[order],
        data.query_ids[data.row_groups][order],
        doc_ids=data.doc_ids[order],
    )
    moved = _values(whose, metric, mixed, scores[order][mixed.row_order])
    for query, value in zip(mixed.query_ids, moved, strict=True):
        ensure(
            np.isclose(value, values[query], rtol=1e-12, atol=1e-12, equal_nan=True),
            whose,
            "the order of the rows in the data does not matter",
            f"query {query} has {values[query]:.9g}, and {value:.9g} after its rows were mixed",
        )


def _registry(metric: Metric) -> Registry:
    """Return what is installed, or a registry of this metric if it is not."""
    if metric.name in get_registry().names("metric"):
        return get_registry()
    plugin = SimpleNamespace(ranking_metrics=hookimpl(lambda: {metric.name: type(metric)}))
    return Registry([Source("checked", "checked", "0", lambda: plugin)], disabled=[])
