"""Self-contained HTML reports: the page, tables and line charts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ranking.io import encode_id

WIDTH, HEIGHT = 720, 260
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 14, 34
COLOURS = ("#1b6ca8", "#b8451f", "#3c7a3a", "#7d4a94", "#8a6d1f", "#4a4a4a")

PLOT_STYLE = """
.grid { stroke: #ddd; } .line { fill: none; stroke-width: 2; }
text { font: 12px system-ui, sans-serif; fill: #333; }
"""

STYLE = (
    """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: #1c1c1c; background: #fff; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { padding: .25rem .75rem; text-align: right; border-bottom: 1px solid #ddd; }
th:first-child, td:first-child { text-align: left; }
code { font-size: .9em; overflow-wrap: anywhere; }
svg { width: 100%; height: auto; }
.win { fill: #1b6ca8; } .loss { fill: #b8451f; } .axis { stroke: #555; fill: none; }
"""
    + PLOT_STYLE
)

Points = Sequence[tuple[float, float]]


def _escape(text: str) -> str:
    return encode_id(text, "html")


def page(title: str, body: str) -> str:
    """Return a whole page."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{_escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{_escape(title)}</h1>\n{body}</body>\n</html>\n"
    )


def table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of texts."""
    head = "".join(f"<th>{_escape(cell)}</th>" for cell in headers)
    body = "".join(
        "<tr>" + "".join(f"<td>{_escape(cell)}</td>" for cell in row) + "</tr>\n" for row in rows
    )
    return f"<table>\n<tr>{head}</tr>\n{body}</table>\n"


def line_chart(title: str, across: str, lines: Mapping[str, Points], scatter: bool = False) -> str:
    """Draw lines, or points only, in one chart; points that are not finite are left out."""
    curves = {
        name: [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]
        for name, points in lines.items()
    }
    every = [point for points in curves.values() for point in points]
    if not every:
        return ""
    x_low, x_high = _span([x for x, _ in every])
    y_low, y_high = _span([y for _, y in every])

    def at(x: float, y: float) -> tuple[float, float]:
        return (
            LEFT + (x - x_low) / (x_high - x_low) * (WIDTH - LEFT - RIGHT),
            HEIGHT - BOTTOM - (y - y_low) / (y_high - y_low) * (HEIGHT - TOP - BOTTOM),
        )

    shapes = "".join(
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at(0, y)[1]:.1f}" '
        f'y2="{at(0, y)[1]:.1f}"/>\n<text x="{LEFT - 6}" y="{at(0, y)[1] + 4:.1f}" '
        f'text-anchor="end">{y:.3g}</text>\n'
        for y in (y_low, (y_low + y_high) / 2, y_high)
    )
    shapes += "".join(
        f'<text x="{at(x, 0)[0]:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">'
        f"{x:g}</text>\n"
        for x in (x_low, x_high)
    )
    for (name, points), colour in zip(curves.items(), _colours(len(curves)), strict=True):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*point) for point in points))
        if not scatter:
            shapes += f'<polyline class="line" stroke="{colour}" points="{path}"/>\n'
        shapes += "".join(
            f'<circle cx="{at(x, y)[0]:.1f}" cy="{at(x, y)[1]:.1f}" r="3" fill="{colour}">'
            f"<title>{_escape(name)}: {y:.6g} at {x:g}</title></circle>\n"
            for x, y in points
        )
    key = " ".join(
        f'<span style="color:{colour}">&#9632;</span> {_escape(name)}'
        for name, colour in zip(curves, _colours(len(curves)), strict=True)
    )
    label = f"{title} against {across}: " + ", ".join(
        f"{name} ends at {points[-1][1]:.4g}" for name, points in curves.items() if points
    )
    return (
        f"<figure>\n<figcaption><code>{_escape(title)}</code> {key}</figcaption>\n"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{_escape(label)}">\n{shapes}'
        f'<text x="{WIDTH / 2:g}" y="{HEIGHT - 2}" text-anchor="middle">{_escape(across)}</text>\n'
        "</svg>\n</figure>\n"
    )


def bar_chart(title: str, bars: Sequence[tuple[str, float]]) -> str:
    """Draw signed bars to both sides of a line, one below the other."""
    finite = [(name, value) for name, value in bars if math.isfinite(value)]
    largest = max((abs(value) for _, value in finite), default=0.0)
    if not largest:
        return ""
    middle, reach, height = WIDTH * 0.65, WIDTH * 0.25, 22
    shapes = ""
    for at, (name, value) in enumerate(finite):
        length = abs(value) / largest * reach
        x = middle if value >= 0 else middle - length
        shapes += (
            f'<rect class="{"win" if value >= 0 else "loss"}" x="{x:.1f}" y="{at * height + 3}" '
            f'width="{length:.1f}" height="{height - 6}"/>\n'
            f'<text x="0" y="{at * height + 16}">{_escape(name[:56])}</text>\n'
            f'<text x="{WIDTH}" y="{at * height + 16}" text-anchor="end">{value:+.4g}</text>\n'
        )
    label = f"{title}: " + ", ".join(f"{name} {value:+.3g}" for name, value in finite[:5])
    return (
        f"<figure>\n<figcaption>{_escape(title)}</figcaption>\n"
        f'<svg viewBox="0 0 {WIDTH} {len(finite) * height}" role="img" '
        f'aria-label="{_escape(label)}">\n{shapes}</svg>\n</figure>\n'
    )


def _span(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (low, high) if low < high else (low - 0.5, high + 0.5)


def _colours(count: int) -> list[str]:
    return [COLOURS[at % len(COLOURS)] for at in range(count)]
