"""The public surface as text, and ``python tests/api/surface.py``, which writes the snapshot.

The snapshot is `public_api.txt`. Write it again after an intended change, and review the diff.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

SNAPSHOT = Path(__file__).with_name("public_api.txt")

MODULES = (
    "ranking",
    "ranking.contracts",
    "ranking.errors",
    "ranking.io",
    "ranking.native",
    "ranking.registry",
    "ranking.testing",
    "ranking_plugins.callbacks",
    "ranking_plugins.losses",
    "ranking_plugins.regularizers",
    "ranking_plugins.solvers",
)


def surface() -> str:
    """Return the public names of all public modules, one line each."""
    return "".join(f"{line}\n" for module in MODULES for line in _lines(module))


def _lines(name: str) -> Iterator[str]:
    module = import_module(name)
    yield f"# {name}"
    for each in sorted(module.__all__):
        value = getattr(module, each)
        if inspect.isclass(value):
            yield f"{each}{_base(value)}"
            yield from (f"    {line}" for line in _members(value))
        elif callable(value):
            yield f"{each}{_signature(value)}"
        else:
            yield f"{each}: {type(value).__name__}"
    yield ""


def _base(value: type) -> str:
    if issubclass(value, Exception):
        return f"({', '.join(base.__name__ for base in value.__bases__)})"
    if issubclass(value, tuple) or dataclasses.is_dataclass(value):
        return _signature(value)
    init = value.__init__
    return _signature(value) if inspect.isfunction(init) else ""


def _members(value: type) -> Iterator[str]:
    """Yield the methods, properties and class attributes that a class of this project defines."""
    if issubclass(value, Exception):
        return
    own = [
        base for base in value.__mro__ if base.__module__.partition(".")[0].startswith("ranking")
    ]
    names = sorted(
        {name for base in own for name in vars(base) if not re.match(r"_|set_\w+_request$", name)}
    )
    fields = (
        {field.name for field in dataclasses.fields(value)}
        if dataclasses.is_dataclass(value)
        else set()
    )
    for name in names:
        member = inspect.getattr_static(value, name)
        if isinstance(member, classmethod | staticmethod):
            yield f"{name}{_signature(getattr(value, name))}  # {type(member).__name__}"
        elif inspect.isfunction(member):
            yield f"{name}{_signature(member)}"
        elif isinstance(member, property) or type(member).__name__ == "cached_property":
            yield f"{name}  # property"
        elif name not in fields and type(member).__name__ != "_tuplegetter":
            yield f"{name}  # attribute"


def _signature(value: Any) -> str:
    try:
        text = str(inspect.signature(value))
    except (TypeError, ValueError):
        return "(...)"
    # Defaults that are objects differ from process to process, and modules are not public.
    text = re.sub(r"<factory>|<[^<>]* at 0x[0-9a-f]+>", "...", text)
    text = re.sub(r"<function ([\w.]+)[^>]*>", r"\1", text)
    # Named tuples have references to their annotations, until Python 3.14.
    text = re.sub(r"ForwardRef\('([^']*)'\)", r"\1", text)
    return text.replace("'", "")


if __name__ == "__main__":
    SNAPSHOT.write_text(surface(), encoding="utf-8")
