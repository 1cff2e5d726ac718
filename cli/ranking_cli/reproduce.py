"""`ranking reproduce`."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from pathlib import Path
from typing import Any

import click

from ranking.errors import DataError
from ranking.io import Output
from ranking_cli.options import kernel_option, threads_option
from ranking_cli.pages import line_chart, page, table
from ranking_cli.tables import format_option, render
from ranking_plugins.reproductions import REPRODUCTIONS, Options, Row, load


@click.command()
@click.argument("name", type=click.Choice(list(REPRODUCTIONS)))
@click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The folder of data sets; by default that of the variable RANKING_DATA.",
)
@click.option("--quick", is_flag=True, help="Run a small part, as a smoke test.")
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="A folder for results.json and index.html.",
)
@click.option(
    "--resume",
    is_flag=True,
    help="Keep the rows that an interrupted run with the same options left in the folder of -o.",
)
@click.option("--seed", type=click.IntRange(0, 2**64 - 1), default=0, show_default=True)
@format_option
@kernel_option
@threads_option
def reproduce(
    name: str, data: Path | None, output: Path | None, form: str, resume: bool, **run: Any
) -> None:
    """Measure the tables of a paper again, beside the values of the paper.

    \b
    ranking reproduce sparse-preference --data data -o out
    ranking reproduce letor --data data -o out
    """
    folder = data or Path(os.environ.get("RANKING_DATA", ""))
    if data is None and not os.environ.get("RANKING_DATA"):
        raise click.UsageError("say where the data sets are: --data FOLDER.")
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
    module = load(name)
    settings = {"seed": run["seed"], "quick": run["quick"]}
    finished = _finished(output, name, module, settings) if resume else []

    def tell(text: str) -> None:
        click.echo(text, err=True)

    options = Options(folder, tell=tell, finished=finished, **run)
    rows: list[Row] = []
    for row in module.rows(options):
        rows.append(row)
        if output is not None:  # after each row, so that an interruption loses nothing
            _write(output, name, module, rows, settings)
    # One table per data set for people, one table in all for programs.
    parts = list(_by_dataset(rows).values()) if form in ("table", "markdown") else [rows]
    missing = math.nan if form == "jsonl" else ""
    click.echo("\n".join(render(_lines(part, missing), form) for part in parts), nl=False)
    if output is not None:
        click.echo(f"wrote {output / 'results.json'} and {output / 'index.html'}", err=True)


def _finished(folder: Path | None, name: str, module: Any, settings: dict[str, Any]) -> list[Row]:
    """Return the rows of an earlier run, or refuse to continue it."""
    if folder is None or not getattr(module, "resumes", False):
        raise click.UsageError(
            f"--resume needs the folder of an earlier run (-o), and {name} has to keep rows; "
            "reproduction leaderboards does."
        )
    path = folder / "results.json"
    if not path.exists():
        return []
    try:
        facts = json.loads(path.read_text())
        rows = [Row(**_numbers(row)) for row in facts["rows"]]
        before = {"seed": facts["seed"], "quick": facts["quick"]}
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise DataError(f"{path} is damaged ({error}); delete it, or omit --resume.") from error
    if facts.get("name") != name or before != settings:
        raise DataError(
            f"{path} has reproduction {facts.get('name')} with {before}, and this one is {name} "
            f"with {settings}; omit --resume, or choose another folder."
        )
    return rows


def _numbers(row: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a row; the NaN of numbers is null in JSON."""
    numbers = ("seconds", "model_bytes", "density")
    return {key: math.nan if key in numbers and row[key] is None else row[key] for key in row}


def _write(folder: Path, name: str, module: Any, rows: list[Row], settings: dict[str, Any]) -> None:
    facts = {
        "name": name,
        **settings,
        "command": _command(name, settings),
        "notes": module.notes,
        "rows": [_json(row) for row in rows],
    }
    Output(folder / "results.json").write_text(json.dumps(facts, indent=1))
    Output(folder / "index.html").write_text(_page(module, rows, facts["command"]))


def _command(name: str, settings: dict[str, Any]) -> str:
    """Return the command without the folders, which differ from machine to machine."""
    quick = " --quick" if settings["quick"] else ""
    return f"ranking reproduce {name} --data FOLDER -o FOLDER --seed {settings['seed']}{quick}"


def _json(row: Row) -> dict[str, Any]:
    """Return a row for JSON, which has null instead of NaN."""
    row_facts = dataclasses.asdict(row)
    return {name: None if value != value else value for name, value in row_facts.items()}


def _by_dataset(rows: list[Row]) -> dict[str, list[Row]]:
    names = dict.fromkeys(row.dataset for row in rows)
    return {name: [row for row in rows if row.dataset == name] for name in names}


def _lines(rows: list[Row], missing: float | str) -> list[dict[str, Any]]:
    """Return one line per row, all with the same columns, filled with `missing`."""
    lines = [_line(row) for row in rows]
    # Measured columns first, then the paper's, as in the first line that has them.
    columns = dict.fromkeys(name for line in lines for name in line)
    ends = ("seconds", "megabytes", "density")
    order = [*(name for name in columns if name not in ends), *ends]
    return [{name: _or(line.get(name), missing) for name in order} for line in lines]


def _or(value: Any, missing: float | str) -> Any:
    return missing if value is None or value != value else value


def _line(row: Row) -> dict[str, Any]:
    return {
        "dataset": row.dataset,
        "method": row.method,
        **row.metrics,
        **{f"paper {name}": value for name, value in row.paper.items()},
        "seconds": round(row.seconds, 2),
        "megabytes": round(row.model_bytes / 1e6, 3),
        "density": row.density,
    }


def _page(module: Any, rows: list[Row], command: str) -> str:
    body = f"<p>{module.notes}</p>\n<p><code>{command}</code></p>\n"
    for dataset, mine in _by_dataset(rows).items():
        lines = _lines(mine, "")
        headers = [key for key in lines[0] if key != "dataset"]
        cells = [[_cell(line[key]) for key in headers] for line in lines]
        body += f"<h2>{dataset}</h2>\n" + table(headers, cells)
        columns = dict.fromkeys(key for row in mine for line in row.history for key in line)
        for column in columns:
            if column in ("epoch", "steps", "objective"):
                continue
            curves = {
                row.method: [
                    (line.get("steps") or line["epoch"], line[column])
                    for line in row.history
                    if column in line
                ]
                for row in mine
                if len(row.history) > 1
            }
            body += line_chart(column, "steps", curves)
    return page(module.title, body)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)
