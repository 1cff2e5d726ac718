"""Charts of reproduced tables as files: SVG, and PNG where matplotlib is installed."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from ranking.io import Output, encode_id

WIDTH, LEFT, RIGHT, STEP, TOP = 720, 240, 70, 30, 34
OURS, PAPERS = "#1b6ca8", "#b8451f"
STYLE = "text { font: 12px system-ui, sans-serif; fill: #333; }"


class Bar(NamedTuple):
    """A method: our value, half the width of its interval or NaN, and the paper's or NaN."""

    name: str
    value: float
    half: float
    paper: float


def write_bars(folder: Path, rows: Sequence[Any], quick: bool) -> list[Path]:
    """Write a chart for each data set and measure; return the paths."""
    written = []
    for dataset in dict.fromkeys(row.dataset for row in rows):
        mine = [row for row in rows if row.dataset == dataset]
        names = dict.fromkeys(name for row in mine for name in row.metrics)
        for name in names:
            bars = _bars(mine, name)
            if name.endswith(" ±") or len(bars) < 2:
                continue
            title = f"{dataset}: {name}" + (" (--quick)" if quick else "")
            stem = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
            folder.mkdir(parents=True, exist_ok=True)
            Output(folder / f"{stem}.svg").write_text(svg(title, bars))
            written.append(folder / f"{stem}.svg")
            if find_spec("matplotlib") is not None:
                _png(folder / f"{stem}.png", title, bars)
                written.append(folder / f"{stem}.png")
    return written


def _bars(rows: Sequence[Any], name: str) -> list[Bar]:
    """Return the methods that have the measure; not their folds, nor differences."""
    return [
        Bar(
            row.method,
            row.metrics.get(name, math.nan),
            row.metrics.get(f"{name} ±", math.nan),
            row.paper.get(name, math.nan),
        )
        for row in rows
        if (name in row.metrics or name in row.paper)
        and not re.search(r", (fold \d+|gain|difference)$", row.method)
    ]


def svg(title: str, bars: Sequence[Bar]) -> str:
    """Return a chart of horizontal bars, with intervals and the paper's values as diamonds."""
    ends = [
        value
        for bar in bars
        for value in (bar.value + _or_zero(bar.half), bar.paper)
        if math.isfinite(value)
    ]
    largest = max([*ends, 0.0]) or 1.0
    scale = (WIDTH - LEFT - RIGHT) / largest
    shapes = f'<text x="{LEFT}" y="18">{encode_id(title, "html")}</text>\n'
    for at, bar in enumerate(bars):
        y = TOP + at * STEP
        label = encode_id(bar.name, "html")
        shapes += f'<text x="{LEFT - 8}" y="{y + 13}" text-anchor="end">{label}</text>\n'
        if math.isfinite(bar.value):
            reach = max(bar.value * scale, 0.0)
            shapes += (
                f'<rect x="{LEFT}" y="{y}" width="{reach:.1f}" height="18" fill="{OURS}"/>\n'
                f'<text x="{LEFT + reach + _or_zero(bar.half) * scale + 8:.1f}" y="{y + 13}">'
                f"{bar.value:.4g}</text>\n"
            )
        if math.isfinite(bar.half):
            low, high = (LEFT + (bar.value + sign * bar.half) * scale for sign in (-1, 1))
            shapes += (
                f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y + 9}" y2="{y + 9}" stroke="#000"/>\n'
            )
        if math.isfinite(bar.paper):
            x = LEFT + bar.paper * scale
            shapes += f'<path d="M{x:.1f} {y + 2} l7 7 l-7 7 l-7 -7 z" fill="{PAPERS}"/>\n'
    bottom = TOP + len(bars) * STEP
    shapes += (
        f'<text x="{LEFT}" y="{bottom + 14}" fill="{OURS}">bars: here, lines: 95 % intervals; '
        "diamonds: the paper</text>\n"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 24}" '
        f'width="{WIDTH}" height="{bottom + 24}">\n<style>{STYLE}</style>\n'
        f'<rect width="100%" height="100%" fill="#fff"/>\n{shapes}</svg>\n'
    )


def _or_zero(value: float) -> float:
    return value if math.isfinite(value) else 0.0


def _png(path: Path, title: str, bars: Sequence[Bar]) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 1 + 0.35 * len(bars)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    places: Mapping[int, Bar] = dict(enumerate(reversed(bars)))
    axes.barh(list(places), [_or_zero(bar.value) for bar in places.values()], color=OURS)
    for place, bar in places.items():
        if math.isfinite(bar.half):
            axes.errorbar(bar.value, place, xerr=bar.half, color="black", capsize=3)
        if math.isfinite(bar.paper):
            axes.plot(bar.paper, place, "D", color=PAPERS)
    axes.set_yticks(list(places), [bar.name for bar in places.values()])
    axes.set_title(title)
    figure.savefig(path, dpi=150)
