"""Figures 17 and 18 of the thesis on Domination Rank (Stevens, 2010): single topics.

Figure 18 has the average precision of each topic for PAMIR and for feature induction; figure 17 one
topic against the strength of the regularizer, and epoch by epoch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ranking import JudgedLists, MatchingData, Ranker
from ranking.models.linear import Linear
from ranking_plugins.callbacks import Curve
from ranking_plugins.recipes.domination import domination_induction
from ranking_plugins.reproductions import Chart, Options, Row

Values = NDArray[np.float64]
BY_TOPIC = "Reuters-21578, by topic"
STRENGTHS = {
    "l1": (0.3, 0.2, 0.1, 0.05, 0.03, 0.01, 0.003, 0.001),
    "l2": (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001),
}
KNOWN = ("rank", "documents", "difference")
METRICS = "map+p@10+domination-error+all-pairs-error"


def by_topic(
    train: MatchingData, precisions: dict[str, Values], methods: Sequence[str]
) -> Iterator[Row]:
    """Yield the average precision of each topic on the test part, most frequent topics first."""
    counts = np.diff(train.relevance.indptr)
    first, second = methods
    for rank, topic in enumerate(np.argsort(-counts, kind="stable").tolist(), start=1):
        values = {name: float(precisions[name][topic]) for name in methods}
        yield Row(
            BY_TOPIC,
            str(train.query_ids[topic]),
            {
                "rank": float(rank),
                "documents": float(counts[topic]),
                **values,
                "difference": values[second] - values[first],
            },
            {},
        )


def one_topic(
    train: MatchingData, valid: MatchingData, precision: Values, options: Options
) -> Iterator[Row]:
    """Yield one row per strength for the topic in the middle by its precision on `valid`."""
    topic = int(np.argsort(precision, kind="stable")[precision.size // 2])
    name = str(train.query_ids[topic])
    fitted, held_out = (_lists(part, topic) for part in (train, valid))
    for penalty, strengths in STRENGTHS.items():
        for strength in strengths[1:2] if options.quick else strengths:
            parts: dict[str, Any] = dict(domination_induction().parts)
            parts["regularizer"] = f"{penalty}:strength={strength}"
            curve = Curve(metrics=METRICS)
            ranker = Ranker(
                **parts, kernel=options.kernel, random_state=options.seed, callbacks=[curve]
            )
            options.tell(f"{name}: {parts['regularizer']}")
            ranker.fit(fitted, valid=held_out)
            yield _strength_row(name, penalty, strength, ranker)


def _lists(data: MatchingData, topic: int) -> JudgedLists:
    """Return the documents as one list, graded for one topic."""
    grades = data.relevance[[topic]].toarray()[0] > 0.0
    return JudgedLists(data.document_rows, grades.astype(np.int64), np.zeros(grades.size, np.int64))


def _strength_row(topic: str, penalty: str, strength: float, ranker: Ranker) -> Row:
    """Return the last values on the validation part, and the history."""
    names = METRICS.split("+")
    history = [{key.split("(")[0]: value for key, value in row.items()} for row in ranker.history_]
    last = history[-1]
    measured = {name: float(last[name]) for name in names}
    return Row(
        f"Reuters-21578, topic {topic}",
        f"{penalty}, {strength:g}",
        {
            **measured,
            "epochs": float(len(history)),
            "weights": float(last["density"]) * _size(ranker),
        },
        {},
        density=float(last["density"]),
        history=history,
    )


def _size(ranker: Ranker) -> float:
    return float(cast(Linear, ranker.model_).weights.size)


def charts(rows: Sequence[Row]) -> Iterator[Chart]:
    """Yield the two plots of figure 18, and those of figure 17 against the strength."""
    topics = [row.metrics for row in rows if row.dataset == BY_TOPIC]
    if topics:
        first, second = [name for name in topics[0] if name not in KNOWN]
        yield Chart(
            f"average precision by {second} and by {first}",
            first,
            {"topics": [(one[first], one[second]) for one in topics]},
            scatter=True,
        )
        yield Chart(
            f"average precision of {second}, less that of {first}",
            "topic, most frequent first",
            {"difference": [(one["rank"], one["difference"]) for one in topics]},
            scatter=True,
        )
    detail = [row for row in rows if row.dataset.startswith("Reuters-21578, topic ")]
    for column in ("map", "domination-error", "weights", "epochs"):
        lines: dict[str, list[tuple[float, float]]] = {}
        for row in detail:
            penalty, strength = row.method.split(", ")
            point = (float(np.log10(float(strength))), row.metrics[column])
            lines.setdefault(penalty, []).append(point)
        yield Chart(
            f"{detail[0].dataset.split(', ')[1]}: {column}" if detail else column,
            "log10 of the strength",
            {name: sorted(points) for name, points in lines.items()},
        )
