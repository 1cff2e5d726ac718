"""Write docs/parameters.md and the tables of parts.md and combinations.md from the code.

Usage: ``python tools/write_parameters.py``, also after a merge that conflicts in these pages. A
test fails if they are not what this would write.
"""

from __future__ import annotations

from pathlib import Path

from ranking.registry import describe_part, get_registry
from ranking.registry.compatibility import Grid
from ranking.registry.manager import Entry, Registry, installed_sources
from ranking.registry.names import PARAMETERS, PARTS
from ranking.registry.part_description import Parameter, PartDescription

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE, NAMES, COMBINATIONS = DOCS / "parameters.md", DOCS / "parts.md", DOCS / "combinations.md"
OURS = ("ranking-kit", "ranking-kit-rust")
KINDS = {
    "recipe": "Recipes",
    "model": "Models",
    "loss": "Losses",
    "regularizer": "Regularizers",
    "solver": "Solvers",
    "callback": "Callbacks",
    "engine": "Engines",
    "kernel": "Kernels",
    "metric": "Metrics",
    "reader": "Readers",
}
LETTERS = {
    "sgd": "S",
    "coordinate": "C",
    "lbfgs": "L",
    "alternating": "A",
    "passive-aggressive": "P",
}
MODELS = ("linear", "diagonal", "bilinear", "factored")
"""The solvers and models of the table of combinations; others go with few parts."""
UNRELEASED = {
    *("against", "batch", "begin", "draw", "draws", "epoch", "every", "max_draws", "rate"),
    *("refit_rate", "spread", "start", "turns", "observer"),
}
"""Earlier names of this project, which no other library uses."""

HEAD = """# Parameters

<!-- Written by tools/write_parameters.py from the code. Do not edit. -->

For users who know which part they want to configure. At the end you know the default, the range
and the meaning of every parameter, and what other libraries call it. `ranking plugins NAME` prints
the same for one part, also for third-party parts.

Give a parameter in a spec, `--solver sgd:epochs=20,learning_rate=0.1`, or to the class of the part,
`SGD(epochs=20, learning_rate=0.1)`. Parts given together with a recipe replace the parts of the
recipe. "auto" depends on the data and on the other parts; the model file records the value.
"""


def cell(text: str) -> str:
    """Return a text for a cell of a table."""
    return text.replace("``", "`").replace("|", "\\|").replace("\n", " ")


def other_names(kind: str, parameter: str, known: list[str]) -> str:
    """Return what other libraries call a parameter."""
    names = []
    for name, targets in PARAMETERS.get(kind, {}).items():
        here = [target for target in targets if target in known]
        if here[:1] == [parameter] and name not in UNRELEASED and name not in known:
            names.append(f"`{name}`")
    return ", ".join(sorted(names))


def recipes(parts: list[tuple[PartDescription, list[str]]]) -> list[str]:
    """Return the table of recipes: one row each, with their parts and what is searched."""
    kinds = ("model", "loss", "regularizer", "solver")
    head = ["| recipe | " + " | ".join(kinds) + " | searched | |", "|---" * (len(kinds) + 3) + "|"]
    rows = []
    for part, names in parts:
        specs = {parameter.name: parameter for parameter in part.parameters}
        words = [f"`{specs[kind].default}`" if kind in specs else "" for kind in kinds]
        search = specs.get("search")
        searched = cell(f"{search.default}: {search.allowed}") if search else ""
        names_here = ", ".join(f"`{name}`" for name in names)
        rows.append(f"| {names_here} | {' | '.join(words)} | {searched} | {cell(part.help)} |")
    return [*head, *rows, ""]


def table(kind: str, parameters: list[Parameter]) -> list[str]:
    """Return the rows about the parameters of a part."""
    known = [parameter.name for parameter in parameters]
    others = [other_names(kind, name, known) for name in known]
    head = ["| parameter | default | values | meaning |", "|---|---|---|---|"]
    rows = []
    for parameter, also in zip(parameters, others, strict=True):
        meaning = cell(parameter.meaning) + (f" Elsewhere: {also}." if also else "")
        default = f"`{parameter.default}`" if parameter.default else ""
        rows.append(f"| `{parameter.name}` | {default} | {cell(parameter.allowed)} | {meaning} |")
    return [*head, *rows]


def section(part: PartDescription, names: list[str]) -> list[str]:
    """Return the section of a part."""
    foreign = sorted(
        name
        for name, spec in PARTS.get(part.kind, {}).items()
        if spec.partition(":")[0] in names and name not in UNRELEASED
    )
    lines = [f"### {part.kind} {', '.join(names)}", "", cell(part.help)]
    if foreign:
        lines[-1] += f" Elsewhere: {', '.join(f'`{name}`' for name in foreign)}."
    if part.parameters:
        lines += ["", *table(part.kind, part.parameters)]
    return [*lines, ""]


def write_names(page: str) -> str:
    """Return the page of names with the table of today; the text around it stays."""
    rows = ["| kind | names |", "|---|---|"]
    for kind in KINDS:
        names = sorted(e.name for e in get_registry().entries() if e.kind == kind and ours(e))
        rows.append(f"| {kind} | {', '.join(f'`{name}`' for name in names)} |")
    before, _, rest = page.partition("| kind | names |\n")
    return before + "\n".join(rows) + "\n\n" + rest.partition("\n\n")[2]


def write_combinations(page: str) -> str:
    """Return the page of combinations with the table of today; the text around it stays."""
    before, _, rest = page.partition("<!-- grid -->\n")
    after = rest.partition("<!-- /grid -->")[2]
    return f"{before}<!-- grid -->\n{combinations()}\n<!-- /grid -->{after}"


def combinations() -> str:
    """Return the table of combinations: solvers by model and loss, for each regularizer."""
    sources = [source for source in installed_sources() if source.distribution == OURS[0]]
    grid = Grid(Registry(sources))
    works = {str(one) for one in grid.cells() if one.compatibility().works}
    regularizers = [
        "none",
        *(part.name for part in grid.parts["regularizer"] if part.name != "none"),
    ]
    letters = ", ".join(f"{letter} `{solver}`" for solver, letter in LETTERS.items())
    header = " | ".join(f"`{name}`" for name in regularizers)
    lines = [letters.replace(" ", " is ", 1) + ".", "", f"| model | loss | {header} |"]
    lines.append("|---" * (2 + len(regularizers)) + "|")
    for model in MODELS:
        for loss in (part.name for part in grid.parts["loss"]):
            cells = [
                " ".join(
                    letter
                    for solver, letter in LETTERS.items()
                    if " x ".join((model, loss, regularizer, solver)) in works
                )
                for regularizer in regularizers
            ]
            if any(cells):
                words = " | ".join(cell or "-" for cell in cells)
                lines.append(f"| `{model}` | `{loss}` | {words} |")
    return "\n".join(lines)


def ours(entry: Entry) -> bool:
    """Return whether a part is built in."""
    return entry.distribution in OURS


def write() -> str:
    """Return the page."""
    entries = [entry for entry in get_registry().entries() if ours(entry)]
    lines = [HEAD]
    for kind, title in KINDS.items():
        lines += [f"## {title}", ""]
        described: dict[tuple[object, ...], tuple[PartDescription, list[str]]] = {}
        for entry in sorted((e for e in entries if e.kind == kind), key=lambda e: e.name):
            part = next(p for p in describe_part(entry.name) if p.kind == kind)
            key = (part.help, *part.parameters)
            described.setdefault(key, (part, []))[1].append(entry.name)
        if kind == "recipe":
            lines += recipes(list(described.values()))
            continue
        for part, names in described.values():
            lines += section(part, names)
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(write(), encoding="utf-8")
    for page, change in ((NAMES, write_names), (COMBINATIONS, write_combinations)):
        page.write_text(change(page.read_text(encoding="utf-8")), encoding="utf-8")
