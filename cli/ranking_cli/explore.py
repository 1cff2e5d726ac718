"""`ranking explore`."""

from __future__ import annotations

import json
import tempfile
import webbrowser
from pathlib import Path
from typing import Any

import click

from ranking_cli.files import output_of
from ranking_cli.options import Resources, existing, resources_options

TEMPLATE = Path(__file__).parent / "exploring" / "page.html"
PLACE = "/*CONTENT*/null"


@click.command()
@click.argument("files", nargs=-1, required=True, type=existing, metavar="MODEL [MODEL] DATA")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The HTML file; by default a temporary file, which is opened in a browser.",
)
@click.option("--metric", default="ndcg@10", show_default=True, help="Metric for the comparison.")
@click.option(
    "-k", type=click.IntRange(1, 100), default=10, show_default=True, help="Length of the lists."
)
@click.option(
    "--queries",
    type=click.IntRange(1, 2000),
    default=200,
    show_default=True,
    help="Maximum number of queries on the page: those with the largest differences.",
)
@click.option(
    "--titles", type=existing, help="Titles of documents: lines of an id, a tab and the title."
)
@resources_options
def explore(
    files: tuple[Path, ...], output: Path | None, resources: Resources, **options: Any
) -> None:
    """Show the lists of one or two models in an HTML page, which works offline.

    Choose a query or user and see both lists with grades and movements, and why each document is
    there; wins and losses by query; rare, new and long queries; a map of the documents. Judge by
    click or key, and download the judgements. The page is one file and requests nothing.

    \b
    ranking explore model.safetensors test.txt
    ranking explore old.safetensors new.safetensors test.txt -o explore.html
    """
    from ranking_cli.exploring.content import Shown, explorer_content

    if not 2 <= len(files) <= 3:
        raise click.UsageError("give one or two models, then DATA.")
    *models, data = files
    if len(set(models)) < len(models):
        raise click.UsageError("both models are the same file.")
    target = None if output is None else output_of(output, files, resources.reader)
    rows = resources.read([data])
    if not hasattr(rows, "select"):
        raise click.UsageError(f"{data} has no queries to rank; give data, not a run or qrels.")
    rankers = {_name(path, models): resources.load(path) for path in models}
    shown = Shown(
        options["metric"], options["k"], options["queries"], _read_titles(options["titles"])
    )
    content = explorer_content(rankers, rows, shown)
    page = render_page(content)
    if target is not None:
        target.write_text(page)
        click.echo(f"wrote {output}", err=True)
        return
    with tempfile.NamedTemporaryFile(
        "w", suffix=".html", prefix="ranking-", delete=False, encoding="utf-8"
    ) as stream:
        stream.write(page)
    click.echo(f"wrote {stream.name}", err=True)
    webbrowser.open(Path(stream.name).as_uri())


def render_page(content: dict[str, Any]) -> str:
    """Return the page with its content; no text in it can end the script."""
    text = json.dumps(content, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    text = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return TEMPLATE.read_text(encoding="utf-8").replace(PLACE, text)


def _name(path: Path, models: list[Path]) -> str:
    """Return the name of a model's file, or its path if two have the same name."""
    stems = [one.stem for one in models]
    return path.stem if stems.count(path.stem) == 1 else str(path)


def _read_titles(path: Path | None) -> dict[str, str]:
    if path is None:
        return {}
    pairs = (line.partition("\t") for line in path.read_text(encoding="utf-8").splitlines())
    return {name: title.strip()[:160] for name, _, title in pairs if title}
