"""`ranking reproduce`."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import shutil
from pathlib import Path
from typing import Any

import click

from ranking.io import Output
from ranking_cli.bars import write_bars
from ranking_cli.options import kernel_option, threads_option
from ranking_cli.pages import line_chart, page, table
from ranking_cli.plots import write_plots
from ranking_cli.tables import format_option, render
from ranking_plugins.reproductions import REPRODUCTIONS, Chart, Options, Progress, Row, load


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
    help="A folder for results.json, index.html and plots; an interrupted run continues there.",
)
@click.option("--seed", type=click.IntRange(0, 2**64 - 1), default=0, show_default=True)
@format_option
@kernel_option
@threads_option
def reproduce(
    name: str,
    data: Path | None,
    quick: bool,
    output: Path | None,
    seed: int,
    form: str,
    kernel: str,
    threads: int,
) -> None:
    """Repeat the tables of a paper on your data, next to the values of the paper.

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
    options = Options(folder, quick, kernel, threads, seed, _tell)
    if quick:
        _tell(QUICK)
    run = Run(name, module, options, output)
    rows = run.measure()
    # One table per data set for people, one table in all for programs.
    parts = list(_by_dataset(rows).values()) if form in ("table", "markdown") else [rows]
    missing = math.nan if form == "jsonl" else ""
    click.echo("\n".join(render(_lines(part, missing), form) for part in parts), nl=False)
    if output is not None:
        click.echo(f"wrote {output / 'results.json'} and {output / 'index.html'}", err=True)


QUICK = "quick run: a small part of the data and of the settings; the numbers mean nothing."


def _tell(text: str) -> None:
    click.echo(text, err=True)


class Run:
    """One run of a reproduction, which continues what a killed run left in the folder."""

    def __init__(self, name: str, module: Any, options: Options, output: Path | None) -> None:
        self.name, self.module, self.output = name, module, output
        self.settings = {"name": name, "quick": options.quick, "seed": options.seed}
        finished: dict[tuple[str, str], Row] = {}
        scratch = None
        if output is not None:
            scratch = output / "partial"
            finished = self._finished(output / "results.json")
            if not finished and not self._continues(scratch):
                shutil.rmtree(scratch, ignore_errors=True)
        self.options = dataclasses.replace(options, scratch=scratch, finished=finished)

    def measure(self) -> list[Row]:
        """Return all rows, which are written after each of them."""
        rows: list[Row] = []
        if self.options.scratch is not None:
            self.options.scratch.mkdir(exist_ok=True)
            marker = Output(self.options.scratch / "settings.json")
            marker.write_text(json.dumps(self.settings))
        count = getattr(self.module, "count_rows", None)
        progress = Progress(count(self.options), _tell) if count else None
        for row in self.module.rows(self.options):
            rows.append(row)
            if progress is not None:
                known = (row.dataset, row.method) in self.options.finished
                progress.step(f"{row.dataset}, {row.method}", known)
            self._write(rows, complete=False)
        self._write(rows, complete=True)
        if self.options.scratch is not None:
            shutil.rmtree(self.options.scratch)
        return rows

    def _continues(self, scratch: Path) -> bool:
        """Return whether the folder has partial results of the same settings."""
        path = scratch / "settings.json"
        return path.exists() and json.loads(path.read_text()) == self.settings

    def _finished(self, path: Path) -> dict[tuple[str, str], Row]:
        """Return the rows of a run with the same settings that was killed."""
        if not path.exists():
            return {}
        try:
            facts = json.loads(path.read_text())
        except ValueError:
            return {}
        same = facts.get("settings") == self.settings and facts.get("complete") is False
        if not same:
            return {}
        rows = [_row(one) for one in facts["rows"]]
        _tell(f"continuing a run that was stopped after {len(rows)} rows")
        return {(row.dataset, row.method): row for row in rows}

    def _write(self, rows: list[Row], complete: bool) -> None:
        if self.output is None:
            return
        facts = {
            "name": self.name,
            "settings": self.settings,
            "complete": complete,
            "notes": self.module.notes,
            "rows": [_json(row) for row in rows],
        }
        Output(self.output / "results.json").write_text(json.dumps(facts, indent=1))
        charts = _charts(self.module, rows)
        if complete:
            write_plots(self.output / "plots", charts)
            write_bars(self.output / "plots", rows, self.options.quick)
        Output(self.output / "index.html").write_text(
            _page(self.module, rows, charts, self.settings)
        )


def _row(facts: dict[str, Any]) -> Row:
    """Return the row that `_json` wrote."""
    known: dict[str, Any] = {
        name: math.nan if value is None else value for name, value in facts.items()
    }
    return Row(**known)


def _charts(module: Any, rows: list[Row]) -> list[Chart]:
    """Return the charts of the module, and the learning curves of each data set."""
    charts: list[Chart] = list(module.charts(rows)) if hasattr(module, "charts") else []
    for dataset, mine in _by_dataset(rows).items():
        columns = dict.fromkeys(key for row in mine for line in row.history for key in line)
        for column in columns:
            if column in ("epoch", "steps", "objective"):
                continue
            curves = {
                row.method: [
                    (line.get("steps") or line["epoch"], line[column])
                    for line in row.history
                    if line.get(column) is not None
                ]
                for row in mine
                if len(row.history) > 1
            }
            charts.append(Chart(f"{dataset}: {column}", "steps", curves))
    return charts


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
        **row.texts,
        **row.metrics,
        **{f"paper {name}": value for name, value in row.paper.items()},
        **row.texts,
        "seconds": round(row.seconds, 2),
        "megabytes": round(row.model_bytes / 1e6, 3),
        "density": row.density,
    }


def _page(module: Any, rows: list[Row], charts: list[Chart], settings: dict[str, Any]) -> str:
    body = f"<p><strong>{QUICK}</strong></p>\n" if settings["quick"] else ""
    quick = " --quick" if settings["quick"] else ""
    command = f"ranking reproduce {settings['name']} --seed {settings['seed']}{quick}"
    body += f"<p>{module.notes}</p>\n<p>Every row: <code>{command}</code></p>\n"
    for dataset, mine in _by_dataset(rows).items():
        lines = _lines(mine, "")
        headers = [key for key in lines[0] if key != "dataset"]
        # A column in which no row has a value takes room only.
        headers = [key for key in headers if any(line[key] != "" for line in lines)]
        cells = [[_cell(line[key]) for key in headers] for line in lines]
        body += f"<h2>{dataset}</h2>\n" + table(headers, cells)
    for chart in charts:
        body += line_chart(*chart)
    return page(f"{module.title}{' (quick)' if settings['quick'] else ''}", body)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)
