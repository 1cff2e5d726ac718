"""Packages of parts: one table gives their classes, imported when first used, and their hook."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from ranking.contracts.hooks import Lazy

PartTable = Mapping[str, tuple[str, str, str]]
"""The name of each part: its module within the package, its class, and one line of help."""


def load_class(package: str, parts: PartTable, name: str) -> Any:
    """Import a class of a package: its module-level ``__getattr__``."""
    for module, part, _ in parts.values():
        if part == name:
            return getattr(import_module(f"{package}.{module}"), name)
    raise AttributeError(f"module {package!r} has no attribute {name!r}")


def lazy_parts(package: str, parts: PartTable) -> dict[str, Lazy]:
    """Return the parts of a package: what its hook returns."""
    return {
        name: Lazy(f"{package}.{module}:{part}", help=text)
        for name, (module, part, text) in parts.items()
    }
