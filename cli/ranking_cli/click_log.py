"""`ranking data --propensities`: position bias of a log of clicks."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from pathlib import Path
from typing import Any

import click
import numpy as np

from ranking import estimate_position_bias
from ranking.errors import DataError
from ranking.io import Output
from ranking_cli.tables import render

COLUMNS = {
    "query": ("query", "query_id", "qid", "user", "user_id", "userid"),
    "document": ("document", "document_id", "docid", "item", "item_id", "itemid"),
    "position": ("position", "rank"),
    "click": ("click", "clicked", "clicks"),
}
"""Usual names of the columns of a log, in lower case."""

HEADER = ("user", "item", "propensity")


def write_propensities(path: Path, output: Path | None, form: str) -> None:
    """Show the propensity of each position, and write the clicks with theirs."""
    queries, documents, positions, clicks = _read(path)
    bias = estimate_position_bias(queries, documents, positions, clicks)
    shown = np.bincount(np.searchsorted(bias.positions, positions))
    clicked = np.bincount(np.searchsorted(bias.positions, positions), weights=clicks)
    names = ("position", "impressions", "clicks", "propensity")
    columns = (
        bias.positions.tolist(),
        shown.tolist(),
        clicked.astype(int).tolist(),
        bias.propensities.tolist(),
    )
    rows: list[dict[str, Any]] = [
        dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)
    ]
    click.echo(render(rows, form), nl=False)
    if output is None:
        return
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEADER)
    at = np.flatnonzero(clicks)
    for row, propensity in zip(at.tolist(), bias.at(positions[at]).tolist(), strict=True):
        writer.writerow((queries[row], documents[row], repr(propensity)))
    Output(output, [path]).write_text(text.getvalue())
    click.echo(f"{output} written: {at.size} clicks.", err=True)


def _read(path: Path) -> tuple[list[str], list[str], Any, Any]:
    """Return the columns of a CSV or TSV file with a header."""
    packed = path.suffix == ".gz"
    try:
        content = gzip.decompress(path.read_bytes()) if packed else path.read_bytes()
        lines = content.decode().splitlines()
        separator = "\t" if lines and "\t" in lines[0] else ","
        rows = list(csv.reader(lines, delimiter=separator, strict=True))
    except (csv.Error, UnicodeDecodeError, OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} is not a text file with columns: {error}.") from error
    names = [name.strip().lower() for name in rows[0]] if rows else []
    places = [_place(path, names, role) for role in COLUMNS]
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != len(names):
            raise DataError(
                f"{path}, line {number}: expected {len(names)} columns, got {len(row)}."
            )
    columns = [[row[place] for row in rows[1:]] for place in places]
    return columns[0], columns[1], _numbers(path, columns[2]), _numbers(path, columns[3])


def _place(path: Path, names: list[str], role: str) -> int:
    matches = [at for at, name in enumerate(names) if name in COLUMNS[role]]
    if len(matches) != 1:
        raise DataError(
            f"{path} needs one column for the {role}, called {' or '.join(COLUMNS[role])}; it has "
            f"{', '.join(names) or 'none'}."
        )
    return matches[0]


def _numbers(path: Path, texts: list[str]) -> Any:
    values = []
    for number, text in enumerate(texts, start=2):
        try:
            values.append(int(text))
        except ValueError as error:
            raise DataError(f"{path}, line {number}: {text!r} is not an integer.") from error
    return np.array(values, np.int64)
