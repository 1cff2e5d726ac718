"""The origin of a part: its distribution and version, or its module."""

from __future__ import annotations

from typing import Any

from ranking.contracts.part import Part
from ranking.registry.manager import get_registry, installed_sources


def described(kind: str, part: Part) -> str:
    """Describe a part by its kind, its name and its distribution or module."""
    distribution, version = origin(kind, part)
    home = f"{distribution} {version}" if version else f"module {distribution}"
    return f"{kind} {part.name!r} of {home}"


def origin(kind: str, part: Part) -> tuple[str, str]:
    """Return the distribution and version of a part, or its module and an empty string."""
    registry = get_registry()
    home = package_of(type(part))
    if part.name in registry.names(kind):
        entry = registry.find(kind, part.name)
        if home == package_of(entry.load()):
            return entry.distribution, entry.version
    for source in installed_sources():  # installed, but registered under another name
        if source.module.partition(":")[0].partition(".")[0] == home:
            return source.distribution, source.version
    return type(part).__module__, ""


def package_of(of: Any) -> str:
    """Return the package in which a class, function or object was defined."""
    return str(getattr(of, "__module__", "")).partition(".")[0]
