"""Rows as a table, tab-separated values, JSON lines, Markdown or LaTeX."""

from __future__ import annotations

import json
import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import click

from ranking.io import encode_id

FORMATS = ("table", "tsv", "jsonl", "markdown", "latex")
READABLE = ("table", "markdown", "latex")
"""Formats for people: names are short, and numbers are rounded."""

WIDTH = 80
LEAST_WIDTH = 20
"""Columns below which the last column of a table is not wrapped."""

LATEX = {**{one: f"\\{one}" for one in "&%$#_{}"}, "\\": r"\textbackslash{}"}
LATEX |= {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}

format_option = click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="table",
    show_default=True,
    help="Format of the results.",
)


def render(rows: Sequence[dict[str, Any]], form: str) -> str:
    """Return rows as text; numbers have full precision, except in tables.

    A missing value is an empty cell; in JSON the key is left out.
    """
    if form == "jsonl":
        return "".join(json.dumps({k: _json(v) for k, v in row.items()}) + "\n" for row in rows)
    headers = list(dict.fromkeys(key for row in rows for key in row))
    rows = [{key: row.get(key, "") for key in headers} for row in rows]
    if form == "tsv":
        lines = [headers, *([_plain(row[key]) for key in headers] for row in rows)]
        lines = [[encode_id(cell, "tsv") for cell in line] for line in lines]
        return "".join("\t".join(line) + "\n" for line in lines)
    headers = [encode_id(key, "terminal") for key in headers]
    cells = [[encode_id(_short(value), "terminal") for value in row.values()] for row in rows]
    if form == "latex":
        return _latex(headers, cells, rows)
    if form == "markdown":
        lines = [[_escape_markdown(cell) for cell in line] for line in (headers, *cells)]
        lines.insert(1, ["---"] * len(headers))
        return "".join("| " + " | ".join(line) + " |\n" for line in lines)
    numeric = [
        all(isinstance(value, int | float) or value == "" for value in column)
        for column in zip(*(row.values() for row in rows), strict=True)
    ]
    if not numeric[-1]:
        cells = _wrap_last(headers, cells)
    widths = [max(map(len, column)) for column in zip(headers, *cells, strict=True)]
    text = ""
    for line in [headers, ["-" * width for width in widths], *cells]:
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ]
        text += "  ".join(padded).rstrip() + "\n"
    return text


def _wrap_last(headers: Sequence[str], cells: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return lines of cells in which the last column leaves no line longer than `WIDTH`."""
    columns = list(zip(headers, *cells, strict=True))[:-1]
    room = WIDTH - sum(max(map(len, column)) + 2 for column in columns)
    if room < max(LEAST_WIDTH, len(headers[-1])):
        return [list(line) for line in cells]
    lines = []
    for *others, last in cells:
        parts = textwrap.wrap(last, room, break_long_words=False, break_on_hyphens=False) or [""]
        lines.append([*others, parts[0]])
        lines += [[*([""] * len(others)), part] for part in parts[1:]]
    return lines


def _latex(headers: Sequence[str], cells: Sequence[Any], rows: Sequence[dict[str, Any]]) -> str:
    """Return a tabular environment; columns of numbers are aligned to the right."""
    columns = "".join(
        "r" if all(isinstance(row[key], int | float) for row in rows) else "l" for key in rows[0]
    )
    lines = [[_escape_latex(cell) for cell in line] for line in (headers, *cells)]
    body = [" & ".join(line) + r" \\" for line in lines]
    begin, line, end = rf"\begin{{tabular}}{{{columns}}}", r"\hline", r"\end{tabular}"
    return "\n".join([begin, line, body[0], line, *body[1:], line, end, ""])


def _escape_latex(text: str) -> str:
    return "".join(LATEX.get(one, one) for one in text)


def _escape_markdown(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|")


def short_names(names: Mapping[str, str]) -> dict[str, str]:
    """Return short names of metrics by their full ones.

    Parameters
    ----------
    names : mapping
        Full names by the names that were asked for. One that was asked for by its full name is
        shortened too, unless another metric has the same short name.
    """
    shortest: dict[str, str] = {}
    for short, full in names.items():
        plain = re.sub(r"\(.*\)$", "", short)
        taken = {re.sub(r"\(.*\)$", "", other) for other, at in names.items() if at != full}
        name = short if plain in taken and short != full else plain
        if plain in taken and short == full:
            name = full
        if full not in shortest or len(name) < len(shortest[full]):
            shortest[full] = name
    return shortest


def definitions(short: Mapping[str, str], form: str) -> str:
    """Return the full names of metrics, one after the other, as the text below a table."""
    mark = "% " if form == "latex" else ""
    text = "\n"
    for full, name in short.items():
        line = f"{name}: {full.replace(',', ', ')}"
        if name == full:
            continue
        text += textwrap.fill(
            line, WIDTH, initial_indent=mark, subsequent_indent=f"{mark}  ", break_long_words=False
        )
        text += "\n"
    return text if text != "\n" else ""


def _json(value: Any) -> Any:
    """Return a value for JSON, which has null instead of NaN."""
    return None if isinstance(value, float) and math.isnan(value) else value


def _plain(value: Any) -> str:
    return repr(value) if isinstance(value, float) else str(value)


def _short(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4f}" if isinstance(value, float) else str(value)
