"""What is installed, and which parts work together, as rows for people and programs."""

from __future__ import annotations

from typing import Any, NamedTuple

from ranking.registry.compatibility import Grid
from ranking.registry.manager import Registry, Source, installed_sources
from ranking.registry.security import PluginSecurity


class Listing(NamedTuple):
    """Rows, and the plugins or parts that are not among them, with the reason."""

    rows: list[dict[str, Any]]
    problems: list[str]


def list_plugins(*, load: bool = False) -> Listing:
    """Return one row per installed part: kind, name, origin, version, help.

    Parameters
    ----------
    load : bool
        Whether to import third-party plugins. By default each of their entry points is one row of
        the kind ``"plugin"``, from the metadata of its distribution.
    """
    sources = installed_sources()
    registry = Registry(sources if load else [source for source in sources if source.ours])
    rows = [
        {
            "kind": entry.kind,
            "name": entry.name,
            "origin": entry.distribution,
            "version": entry.version,
            "help": entry.help,
        }
        for entry in registry.entries()
    ]
    listing = Listing(rows, [str(problem) for problem in registry.problems])
    if not load:
        for source in sources:
            if not source.ours:
                _add_unloaded(source, listing)
    return listing


def _add_unloaded(source: Source, listing: Listing) -> None:
    """Add the row of a third-party entry point, or the reason why it may not be loaded."""
    reason = PluginSecurity().blocked_reason(source.distribution, source.name, source.module)
    if reason:
        origin = f"{source.distribution} {source.version}"
        listing.problems.append(f"{origin}, plugin {source.name}: {reason}")
        return
    listing.rows.append(
        {
            "kind": "plugin",
            "name": source.name,
            "origin": source.distribution,
            "version": source.version,
            "help": f"{source.module}, not imported: --load lists its parts",
        }
    )


def compatibility_matrix() -> Listing:
    """Return one row per combination of parts: whether it works, or why not and what to change."""
    registry = Registry()
    grid = Grid(registry)
    rows = []
    for cell in grid.cells():
        compatibility = cell.compatibility()
        rows.append(
            {
                **cell.names(),
                "works": compatibility.works,
                "reason": compatibility.reason,
                "instead": "" if compatibility.works else grid.remedy(cell),
            }
        )
    return Listing(rows, [*map(str, registry.problems), *grid.problems])
