"""The plugin registry: find, list and create the installed parts.

Built-in and third-party plugins register in the same way: with an entry point of the group
``ranking`` and the hooks of :mod:`ranking.contracts`.
"""

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
