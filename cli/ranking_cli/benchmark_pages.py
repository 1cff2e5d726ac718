"""The results of `ranking benchmark` for the terminal, for LaTeX and as a page."""

from __future__ import annotations

import itertools
import platform
from collections.abc import Sequence
from datetime import date
from typing import Any

from ranking.io import encode_id
from ranking_cli.pages import page, table

WIDTH, BAR, LEFT = 720, 18, 170

LATEX = {"_": r"\_", "%": r"\%", "&": r"\&", "#": r"\#", "@": "@"}


def ranges(letters: str) -> str:
    """Return letters with runs of three or more shortened, such as ``c-f``.

    Examples
    --------
    >>> ranges("abdefg")
    'abd-g'
    """
    runs = itertools.groupby(enumerate(letters), lambda pair: ord(pair[1]) - pair[0])
    texts = ["".join(letter for _, letter in run) for _, run in runs]
    return "".join(f"{text[0]}-{text[-1]}" if len(text) > 2 else text for text in texts)


def short(metric: str) -> str:
    """Return the name of a metric without its settings."""
    return metric.partition("(")[0]


def columns_for_print(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the columns that fit 80 characters; the others are in the files."""
    names = list(rows[0])
    metrics = names[2 : names.index("low")]
    return [
        {
            "": row[""],
            "recipe": row["recipe"],
            short(metrics[0]): row[metrics[0]],
            "low": row["low"],
            "high": row["high"],
            "beats": ranges(row["better than"]),
            "train s": _digits(row["train s"]),
            "ms/query": _digits(row["rank ms"]),
            "peak MB": round(row["peak MB"]),
            "model MB": _digits(row["model MB"]),
        }
        for row in rows
    ]


def _digits(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def latex_table(report: Any) -> str:
    """Return a table with the letters as superscripts; it needs the package booktabs."""
    metrics = report.metrics
    heads = ["", *(short(metric) for metric in metrics), "train (s)", "rank (ms)"]
    heads += ["memory (MB)", "model (MB)"]
    lines = [
        r"\begin{tabular}{ll" + "r" * (len(heads) - 1) + "}",
        r"\toprule",
        " & " + " & ".join(_tex(head) for head in heads) + r" \\",
        r"\midrule",
    ]
    for one, row in zip(report.systems, report.rows(), strict=True):
        first = f"{row[metrics[0]]:.4f}"
        if one.better_than:
            first += f"$^{{{ranges(one.better_than)}}}$"
        cells = [one.letter, _tex(one.recipe), first]
        cells += [f"{row[metric]:.4f}" for metric in metrics[1:]]
        cells += [_digits(row["train s"]), _digits(row["rank ms"])]
        cells += [f"{row['peak MB']:.0f}", _digits(row["model MB"])]
        lines.append(" & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _tex(text: str) -> str:
    return "".join(LATEX.get(letter, letter) for letter in text)


def report_page(title: str, report: Any) -> str:
    """Return the page: a chart of the first metric with intervals, the table, what was left out."""
    facts = [[str(name), str(value)] for name, value in report.facts.items()]
    facts += [["date", date.today().isoformat()], ["machine", _machine()]]
    body = table(["", ""], facts) + _chart(report) + f"<p>{report.method}</p>\n"
    rows = report.rows()
    for row in rows:
        row["better than"] = ranges(row["better than"])
    body += table(list(rows[0]), [[_cell(value) for value in row.values()] for row in rows])
    if report.left_out:
        body += "<h2>Left out</h2>\n" + table(["recipe", "why"], list(report.left_out.items()))
    return page(title, body)


def _machine() -> str:
    return f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}"


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _chart(report: Any) -> str:
    """Draw the means of the first metric with their intervals."""
    metric = report.metrics[0]
    bars = [(one, one.test.mean(metric), one.interval(metric)) for one in report.systems]
    largest = max(interval.high for _, _, interval in bars) or 1.0
    scale = (WIDTH - LEFT - 60) / largest
    shapes = ""
    for at, (one, value, interval) in enumerate(bars):
        y = at * BAR + 4
        middle = y + (BAR - 6) / 2
        low, high = LEFT + interval.low * scale, LEFT + interval.high * scale
        shapes += (
            f'<text x="{LEFT - 6}" y="{y + 11}" text-anchor="end">'
            f"{one.letter} {encode_id(one.recipe, 'html')}</text>\n"
            f'<rect class="win" x="{LEFT}" y="{y}" width="{max(value * scale, 0):.1f}" '
            f'height="{BAR - 6}"/>\n<line class="axis" x1="{low:.1f}" x2="{high:.1f}" '
            f'y1="{middle}" y2="{middle}"/>\n'
            f'<text x="{high + 6:.1f}" y="{y + 11}">{value:.4f}</text>\n'
        )
    label = f"{metric} of {len(bars)} rankers, the best {bars[0][0].recipe}"
    return (
        f"<figure>\n<figcaption><code>{encode_id(metric, 'html')}</code></figcaption>\n"
        f'<svg viewBox="0 0 {WIDTH} {len(bars) * BAR + 8}" role="img" '
        f'aria-label="{encode_id(label, "html")}">\n{shapes}</svg>\n</figure>\n'
    )
