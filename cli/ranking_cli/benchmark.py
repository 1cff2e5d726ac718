"""`ranking benchmark`."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import click

from ranking import Benchmark, find_reader
from ranking.io import Output
from ranking.registry import parse_spec
from ranking_cli.benchmark_pages import columns_for_print, latex_table, report_page
from ranking_cli.options import Resources, existing, resources_options
from ranking_cli.settings import check_shared_reader
from ranking_cli.tables import format_option, render


@dataclasses.dataclass(frozen=True)
class Sources:
    """Where training, validation and test data come from."""

    data: tuple[Path, ...]
    valid: tuple[Path, ...]
    test: tuple[Path, ...]

    def read(self, resources: Resources) -> tuple[Any, Any, Any]:
        """Return the three; None for what is to be split off.

        A BEIR folder brings its splits, unless the reader names one.
        """
        splits = self._splits(resources)
        if self.valid or self.test:
            check_shared_reader(resources.reader)
        return (
            resources.read(self.data, "beir:split=train" if splits else None),
            self._part(self.valid, "dev", splits, resources),
            self._part(self.test, "test", splits, resources),
        )

    def _part(
        self, paths: tuple[Path, ...], split: str, splits: list[str], resources: Resources
    ) -> Any:
        if paths:
            return resources.read(paths)
        return resources.read(self.data, f"beir:split={split}") if split in splits else None

    def _splits(self, resources: Resources) -> list[str]:
        """Return the splits of a BEIR folder that has one for training."""
        path = self.data[0]
        named = "split" in parse_spec(resources.reader).params
        if len(self.data) > 1 or not path.is_dir() or named:
            return []
        if find_reader(path, resources.reader).name != "beir":
            return []
        names = [file.name.partition(".")[0] for file in sorted((path / "qrels").glob("*.tsv*"))]
        return names if "train" in names else []


@click.command()
@click.argument("data", nargs=-1, required=True, type=existing)
@click.option(
    "--valid", multiple=True, type=existing, help="Validation data; by default split off from DATA."
)
@click.option(
    "--test", multiple=True, type=existing, help="Test data; by default split off from DATA."
)
@click.option(
    "--budget",
    default="10s",
    show_default=True,
    metavar="BUDGET",
    help="Tuning budget of each ranker: processor time, such as 60s, or 10trials.",
)
@click.option(
    "--recipe",
    "recipes",
    multiple=True,
    metavar="NAME",
    help="A recipe to compare; repeatable. By default all that support DATA.",
)
@click.option(
    "--metrics",
    metavar="LIST",
    help="Metrics; the first one decides. The default depends on the kind of data.",
)
@click.option("--seed", type=click.IntRange(0, 2**64 - 1), default=0, show_default=True)
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="A folder for index.html, table.tex, results.json and the models.",
)
@format_option
@resources_options
def benchmark(
    output: Path | None, form: str, resources: Resources, recipes: tuple[str, ...], **options: Any
) -> None:
    """Compare all rankers that support DATA, each tuned within the same budget.

    Each ranker is tuned on the validation data and evaluated once on the test data. Without --test
    and --valid, these data are split off by query, or by interaction for users and items; a BEIR
    folder defines its own splits. Prints quality with 95 % intervals, letters of the rankers that
    are significantly worse, processor time of training and ranking, peak memory and the size of
    the model file.

    \b
    ranking benchmark train.txt --valid valid.txt --test test.txt -o out
    ranking benchmark clicks.csv --budget 60s --recipe warp --recipe slim
    """
    sources = Sources(options["data"], options["valid"], options["test"])
    train, valid, test = sources.read(resources)
    report = Benchmark(
        budget=options["budget"],
        recipes=recipes or None,
        metrics=options["metrics"],
        kernel=resources.kernel,
        threads=resources.threads,
        random_state=options["seed"],
        folder=None if output is None else output / "models",
        tell=lambda text: click.echo(text, err=True),
    ).run(train, valid, test)
    rows = report.rows()
    click.echo(render(columns_for_print(rows) if form == "table" else rows, form), nl=False)
    for name, reason in report.left_out.items():
        click.echo(f"left out: {name}: {reason}", err=True)
    click.echo(report.method, err=True)
    if output is not None:
        title = f"Benchmark on {', '.join(path.name for path in sources.data)}"
        facts = {"facts": report.facts, "left out": report.left_out, "rows": rows}
        Output(output / "results.json").write_text(json.dumps(facts, indent=1))
        Output(output / "table.tex").write_text(latex_table(report))
        Output(output / "index.html").write_text(report_page(title, report))
        click.echo(f"wrote {output / 'index.html'}, table.tex, results.json and models", err=True)
