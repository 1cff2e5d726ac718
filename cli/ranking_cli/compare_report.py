"""The report of `ranking compare`: one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ranking.io import encode_id
from ranking_cli.pages import page

WIDTH, HEIGHT = 720, 220
MOST_BARS = 600
"""More queries than this are drawn as one step line: bars would be thinner than a pixel."""


def _escape(text: str) -> str:
    return encode_id(text, "html")


def report(comparisons: Sequence[Any], data: str) -> str:
    """Return the page.

    Parameters
    ----------
    comparisons : sequence of Comparison
        As `ranking.compare` returns them.
    data : str
        What the systems were measured on.
    """
    sections = "".join(_section(one) for one in comparisons)
    return page(
        f"Comparison on {data}",
        f"<p>{_escape(comparisons[0].method)} Holm: corrected for {len(comparisons)} "
        f"comparisons.</p>\n{sections}",
    )


def _section(one: Any) -> str:
    better = "higher" if one.higher_is_better else "lower"
    cells = {
        "mean A": _number(one.mean_a),
        "mean B": _number(one.mean_b),
        "B − A": _number(one.difference),
        "95 % interval": f"{_number(one.interval.low)} to {_number(one.interval.high)}",
        "p": _number(one.p_randomisation),
        "p, Holm": _number(one.p_randomisation_holm),
        "p, t-test": _number(one.p_t),
        "p, t-test, Holm": _number(one.p_t_holm),
        "wins / ties / losses of B": f"{one.wins} / {one.ties} / {one.losses}",
    }
    rows = "".join(f"<tr><td>{name}</td><td>{cell}</td></tr>\n" for name, cell in cells.items())
    return (
        f"<section>\n<h2>A: {_escape(one.a)}, B: {_escape(one.b)}</h2>\n"
        f"<p><code>{_escape(one.metric)}</code>, {better} is better</p>\n"
        f"<table>\n{rows}</table>\n{_chart(one)}</section>\n"
    )


def _chart(one: Any) -> str:
    """Draw the gain of B on each query, sorted: wins above the line, losses below."""
    if not one.gains.size:
        return "<p>No query has a value for both.</p>\n"
    order = np.argsort(-one.gains, kind="stable")
    gains = one.gains[order].tolist()
    largest = max(abs(gains[0]), abs(gains[-1])) or 1.0
    middle, reach = HEIGHT / 2, HEIGHT / 2 - 20
    step = WIDTH / len(gains)
    if len(gains) > MOST_BARS:
        shapes = _areas(gains, largest, middle, reach, step)
    else:
        shapes = "".join(
            _bar(at * step, step, gain, gain / largest * reach, middle, str(one.queries[row]))
            for at, (gain, row) in enumerate(zip(gains, order.tolist(), strict=True))
        )
    label = (
        f"Sorted differences of {len(gains)} queries: B wins {one.wins}, ties {one.ties}, "
        f"loses {one.losses}; {_range(gains)}."
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{_escape(label)}">\n{shapes}'
        f'<line class="axis" x1="0" x2="{WIDTH}" y1="{middle:g}" y2="{middle:g}"/>\n'
        f'<text x="0" y="12">B better by up to {max(gains[0], 0.0):.4g}</text>\n'
        f'<text x="{WIDTH}" y="{HEIGHT - 4}" text-anchor="end">B worse by up to '
        f"{max(-gains[-1], 0.0):.4g}</text>\n</svg>\n"
    )


def _range(gains: list[float]) -> str:
    """Return the largest gain and the largest loss, of gains sorted from the largest."""
    gain, loss = max(gains[0], 0.0), max(-gains[-1], 0.0)
    return f"the largest gain is {gain:.4g} and the largest loss {loss:.4g}"


def _bar(x: float, width: float, gain: float, height: float, middle: float, query: str) -> str:
    kind = "win" if gain > 0 else "loss"
    top = middle - max(height, 0.0)
    return (
        f'<rect class="{kind}" x="{x:.2f}" y="{top:.2f}" width="{max(width * 0.9, 0.5):.2f}" '
        f'height="{abs(height):.2f}"><title>{_escape(query)}: {gain:+.4f}</title></rect>\n'
    )


def _areas(gains: list[float], largest: float, middle: float, reach: float, step: float) -> str:
    shapes = ""
    for kind, sign in (("win", 1.0), ("loss", -1.0)):
        points = [
            f"{at * step:.2f},{middle - max(gain * sign, 0.0) * sign / largest * reach:.2f}"
            for at, gain in enumerate(gains)
        ]
        line = " ".join([f"0,{middle:g}", *points, f"{WIDTH},{middle:g}"])
        shapes += f'<polygon class="{kind}" points="{line}"/>\n'
    return shapes


def _number(value: float) -> str:
    return "none" if np.isnan(value) else f"{value:.4f}"
