"""The plugin registry: find, list and create the installed parts.

Built-in and third-party plugins register in the same way: with an entry point of the group
``ranking`` and the hooks of :mod:`ranking.contracts`. Modules are imported when a name is first
used, so that listing plugins imports nothing heavy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ranking.registry.listing import list_combinations, list_plugins
    from ranking.registry.manager import Registry, Source, get_registry
    from ranking.registry.part_description import describe_part
    from ranking.registry.spec import parse_spec

__all__ = [
    "Registry",
    "Source",
    "describe_part",
    "get_registry",
    "list_combinations",
    "list_plugins",
    "parse_spec",
]

_MODULES = {
    "Registry": "manager",
    "Source": "manager",
    "describe_part": "part_description",
    "get_registry": "manager",
    "list_combinations": "listing",
    "list_plugins": "listing",
    "parse_spec": "spec",
}


if not TYPE_CHECKING:  # type checkers know the names from the imports above

    def __getattr__(name: str) -> Any:
        """Import a name when it is first used."""
        if name in _MODULES:
            return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
