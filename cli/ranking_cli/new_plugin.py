"""`ranking new-plugin`."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import NamedTuple

import click

from ranking.registry import KINDS, get_registry

NATIVE_KINDS = ("loss", "regularizer")
"""Kinds of parts that have a native interface."""


RESERVED = ("ranking-kit", "ranking-kit-rust", "ranking-plugins", "ranking-cli", "ranking-rust")
"""Distributions of this project, and names whose module would be a package of this project."""

LONGEST = 24
"""Letters of a name, such that no line of the package is too long."""


class Kind(NamedTuple):
    """What a package of a kind says about itself."""

    about: str
    help: str
    example: str


TRAIN = "ranking train DATA -o model.safetensors"
WHAT = {
    "loss": Kind(
        "The hinge of a margin, its corner rounded.",
        "The hinge, its corner rounded over a width.",
        f"{TRAIN} --loss $part:width=0.5 --solver sgd",
    ),
    "regularizer": Kind(
        "No entry of the parameters is beyond a limit.",
        "No entry is beyond a limit.",
        f"{TRAIN} --model factored --loss warp --regularizer $part:limit=0.5",
    ),
    "solver": Kind(
        "Proximal gradient descent on losses of lists.",
        "Proximal gradient descent on a loss of lists.",
        f"{TRAIN} --loss domination --regularizer l1 --solver $part",
    ),
    "metric": Kind(
        "The share of queries with a relevant document near the top.",
        "Whether a relevant document is among the first k.",
        "ranking eval model.safetensors DATA --metrics $part@3",
    ),
    "reader": Kind(
        "Judged rows as JSON, one a line.",
        "Judged rows as JSON, one a line.",
        "ranking data rows.jsonl --reader $part",
    ),
}

BUILD = {
    "python": ("python3 only", "Python"),
    "numba": ("numba, which it installs", "Python that numba compiles"),
    "cython": ("a C compiler", "Cython"),
    "rust": ("cargo", "Rust"),
}
"""By what a package is built: what that needs, and the language."""


@click.command()
@click.argument("name")
@click.option("--kind", required=True, type=click.Choice(list(WHAT)), help="What it brings.")
@click.option(
    "--native",
    type=click.Choice(["cython", "rust", "numba"]),
    help="In what the inner functions of a loss or regularizer are written; by default in Python.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="The folder to write, which must not exist; by default the package's name.",
)
def new_plugin(name: str, kind: str, native: str | None, output: Path | None) -> None:
    """Write a package with a plugin: code, tests, README; it installs and passes its tests at once.

    NAME is that of the part, such as smooth-hinge; the package is then ranking-smooth-hinge.

    \b
    ranking new-plugin smooth-hinge --kind loss --native cython
    pip install ./ranking-smooth-hinge
    ranking train train.txt -o model.safetensors --loss smooth-hinge --solver sgd
    """
    if native is not None and kind not in NATIVE_KINDS:
        raise click.UsageError(
            f"--native is for a {' or a '.join(NATIVE_KINDS)}, and a {kind} is written in Python; "
            "leave it out."
        )
    words = _words(name, kind, native or "python")
    folder = output or Path(words["distribution"])
    if folder.exists():
        raise click.UsageError(
            f"{folder} is there already; nothing is overwritten, so name another."
        )
    for path, text in _written(words, kind, native or "python").items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    click.echo(
        f"{folder} has the {kind} {words['part']!r}. Next:\n"
        f"  pip install {folder if folder.is_absolute() else f'./{folder}'}\n"
        f"  pytest {folder}",
        err=True,
    )


def _words(name: str, kind: str, build: str) -> dict[str, str]:
    """Return what the templates ask for; refuse a name that would not work."""
    part = name.removeprefix("ranking-")
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", part) or len(part) > LONGEST:
        raise click.UsageError(
            f"the name {name!r} does not work: write at most {LONGEST} small letters and digits, "
            "with hyphens between, such as smooth-hinge."
        )
    distribution = f"ranking-{part}"
    if distribution in RESERVED:
        raise click.UsageError(f"{distribution} is a package of ranking itself; take another name.")
    if part in get_registry().names(kind):
        entry = get_registry().find(kind, part)
        raise click.UsageError(
            f"there is a {kind} {part!r} already, of {entry.distribution} {entry.version}, and the "
            "first of a name wins; take another name."
        )
    module = distribution.replace("-", "_")
    package = f"python/{module}" if build == "rust" else f"src/{module}"
    what, (needs, language) = WHAT[kind], BUILD[build]
    native_code = {"cython": f"{package}/_native.pyx", "rust": "src/lib.rs"}
    dependencies = ["numba>=0.61", "ranking-kit"] if build == "numba" else ["ranking-kit"]
    words = {
        "part": part,
        "kind": kind,
        "distribution": distribution,
        "module": module,
        "package": package,
        "plugin": part,
        "hook": KINDS[kind],
        "class_name": "".join(word.capitalize() for word in (*part.split("-"), kind)),
        "check": f"check_{kind}",
        "about": what.about,
        "help": what.help,
        "example": Template(what.example).substitute(part=part),
        "needs": needs,
        "language": language,
        "code": native_code.get(build, f"{package}/{kind}.py"),
        "dependencies": ", ".join(f'"{word}"' for word in dependencies),
    }
    return words | {key: _filled(f"{key}.toml", words) for key in ("project", "tools")}


def _written(words: dict[str, str], kind: str, build: str) -> dict[str, str]:
    """Return the text of each file of the package."""
    package = words["package"]
    compiled = build in ("cython", "rust")
    templates = {
        "README.md": "README.md",
        "pyproject.toml": f"{build if compiled else 'python'}/pyproject.toml",
        f"{package}/__init__.py": "init.py",
        f"{package}/{kind}.py": f"{kind}/{'native' if compiled else build}.py",
        f"tests/test_{kind}.py": f"{kind}/test.py",
    }
    if build == "cython":
        templates |= {"setup.py": "cython/setup.py", f"{package}/_native.pyx": f"{kind}/native.pyx"}
    elif build == "rust":
        templates |= {"Cargo.toml": "rust/Cargo.toml", "src/lib.rs": f"{kind}/lib.rs"}
    return {path: _filled(template, words) for path, template in templates.items()}


def _filled(template: str, words: dict[str, str]) -> str:
    text = (files("ranking_cli") / "templates" / f"{template}.tmpl").read_text(encoding="utf-8")
    return Template(text).substitute(words)
