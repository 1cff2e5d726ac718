"""Plots as files: SVG always, PNG where matplotlib is installed (the extra `plots`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from ranking.io import Output
from ranking_cli.pages import PLOT_STYLE, line_chart
from ranking_plugins.reproductions import Chart


def write_plots(folder: Path, charts: Sequence[Chart]) -> list[Path]:
    """Write each chart that has points; return the files."""
    files: list[Path] = []
    for chart in charts:
        figure = line_chart(*chart)
        if not figure:
            continue
        folder.mkdir(exist_ok=True)
        stem = re.sub("[^a-z0-9]+", "-", chart.name.lower()).strip("-")
        path = folder / f"{stem}.svg"
        Output(path).write_text(_standalone(figure))
        files.append(path)
        if find_spec("matplotlib") is not None:
            files.append(_png(chart, folder / f"{stem}.png"))
    return files


def _standalone(figure: str) -> str:
    """Return the drawing of a figure as a file of its own."""
    start, stop = figure.index("<svg "), figure.index("</svg>") + len("</svg>")
    drawing = figure[start:stop].replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    head, rest = drawing.split(">", 1)
    return f"{head}>\n<style>{PLOT_STYLE}</style>{rest}\n"


def _png(chart: Chart, path: Path) -> Path:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for name, points in chart.lines.items():
        if points:
            axes.plot(*zip(*points, strict=True), "o" if chart.scatter else "o-", label=name)
    axes.set(xlabel=chart.across, title=chart.name)
    axes.legend()
    figure.savefig(path, dpi=120)
    return path
