"""Rows as a table, tab-separated values, JSON lines or Markdown."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import click

from ranking.io import encode_id

FORMATS = ("table", "tsv", "jsonl", "markdown")

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
    if form == "markdown":
        lines = [headers, ["---"] * len(headers), *cells]
        return "".join("| " + " | ".join(line) + " |\n" for line in lines)
    widths = [max(map(len, column)) for column in zip(headers, *cells, strict=True)]
    numeric = [
        all(isinstance(value, int | float) or value == "" for value in column)
        for column in zip(*(row.values() for row in rows), strict=True)
    ]
    text = ""
    for line in [headers, ["-" * width for width in widths], *cells]:
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ]
        text += "  ".join(padded).rstrip() + "\n"
    return text


def _json(value: Any) -> Any:
    """Return a value for JSON, which has null instead of NaN."""
    return None if isinstance(value, float) and math.isnan(value) else value


def _plain(value: Any) -> str:
    return repr(value) if isinstance(value, float) else str(value)


def _short(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4f}" if isinstance(value, float) else str(value)
