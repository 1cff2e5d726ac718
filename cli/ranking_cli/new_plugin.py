"""`ranking new-plugin`."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import NamedTuple

import click

from ranking.contracts import KINDS
from ranking.registry import get_registry

NATIVE_KINDS = ("loss", "regularizer")
"""Kinds of parts that have a native interface."""


RESERVED = ("ranking-kit", "ranking-kit-rust", "ranking-plugins", "ranking-cli", "ranking-rust")
"""Distributions of this project, and names whose module would be a package of this project."""

LONGEST = 24
"""Letters of a name at most, so that no line of the package is too long."""


class Kind(NamedTuple):
    """The texts of a package, by the kind of its part."""

    about: str
    help: str
    example: str


TRAIN = "ranking train DATA -o model.safetensors"
KINDS_OF_PLUGINS = {
    "loss": Kind(
        "A hinge loss with a rounded corner.",
        "Hinge with its corner rounded over a width.",
        f"{TRAIN} --loss $part:width=0.5 --solver sgd",
    ),
    "regularizer": Kind(
        "A limit on the absolute value of every parameter.",
        "Limits the absolute value of every entry.",
        f"{TRAIN} --model factored --loss warp --regularizer $part:limit=0.5",
    ),
    "solver": Kind(
        "Proximal gradient descent for listwise losses.",
        "Proximal gradient descent for a listwise loss.",
        f"{TRAIN} --loss domination --regularizer l1 --solver $part",
    ),
    "metric": Kind(
        "The share of queries with a relevant document near the top.",
        "Whether a relevant document is among the first k.",
        "ranking eval model.safetensors DATA --metrics $part@3",
    ),
    "reader": Kind(
        "Judged rows as JSON lines.",
        "Judged rows as JSON lines.",
        "ranking data rows.jsonl --reader $part",
    ),
}

BUILD = {
    "python": ("python3 only", "Python"),
    "numba": ("numba, which it installs", "Python that numba compiles"),
    "cython": ("a C compiler", "Cython"),
    "rust": ("cargo", "Rust"),
}
"""What building a package needs, and its language, by the value of --native."""


@click.command()
@click.argument("name")
@click.option(
    "--kind", required=True, type=click.Choice(list(KINDS_OF_PLUGINS)), help="The kind of part."
)
@click.option(
    "--native",
    type=click.Choice(["cython", "rust", "numba"]),
    help="Language of the inner functions of a loss or regularizer; by default Python.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="The folder to write, which must not exist; by default the package's name.",
)
def new_plugin(name: str, kind: str, native: str | None, output: Path | None) -> None:
    """Write a package with a plugin: code, tests and README, ready to install and to test.

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
            f"{folder} exists already; nothing is overwritten, so give another folder."
        )
    for path, text in _render(words, kind, native or "python").items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    click.echo(
        f"{folder} has the {kind} {words['part']!r}. Next:\n"
        f"  pip install {folder if folder.is_absolute() else f'./{folder}'}\n"
        f"  pytest {folder}",
        err=True,
    )


def _words(name: str, kind: str, build: str) -> dict[str, str]:
    """Return the values of the templates' placeholders; refuse a name that does not work."""
    part = name.removeprefix("ranking-")
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", part) or len(part) > LONGEST:
        raise click.UsageError(
            f"the name {name!r} does not work: use at most {LONGEST} lower-case letters and "
            "digits, with hyphens between, such as smooth-hinge."
        )
    distribution = f"ranking-{part}"
    if distribution in RESERVED:
        raise click.UsageError(f"{distribution} is a package of this project; choose another name.")
    if part in get_registry().names(kind):
        entry = get_registry().find(kind, part)
        raise click.UsageError(
            f"there is a {kind} {part!r} already, of {entry.distribution} {entry.version}, and the "
            "first of a name wins; choose another name."
        )
    module = distribution.replace("-", "_")
    package = f"python/{module}" if build == "rust" else f"src/{module}"
    texts, (needs, language) = KINDS_OF_PLUGINS[kind], BUILD[build]
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
        "about": texts.about,
        "help": texts.help,
        "example": Template(texts.example).substitute(part=part),
        "needs": needs,
        "language": language,
        "code": native_code.get(build, f"{package}/{kind}.py"),
        "dependencies": ", ".join(f'"{word}"' for word in dependencies),
    }
    return words | {key: _fill(f"{key}.toml", words) for key in ("project", "tools")}


def _render(words: dict[str, str], kind: str, build: str) -> dict[str, str]:
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
    return {path: _fill(template, words) for path, template in templates.items()}


def _fill(template: str, words: dict[str, str]) -> str:
    text = (files("ranking_cli") / "templates" / f"{template}.tmpl").read_text(encoding="utf-8")
    return Template(text).substitute(words)
