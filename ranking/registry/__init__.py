"""The plugin registry: how built-ins and strangers' packages come in, by the same door.

A plugin is a module named in the entry-point group ``ranking``, with functions marked
`hookimpl`::

    from ranking.registry import Lazy, hookimpl

    @hookimpl
    def ranking_losses():
        return {"huber": Lazy("ranking_huber.loss:Huber", help="Huber's loss of the margin.")}
"""

from ranking.registry.hookspecs import KINDS, PROJECT, hookimpl
from ranking.registry.lazy import Lazy
from ranking.registry.manager import Entry, Problem, Registry, get_registry
from ranking.registry.spec import Spec, parse_spec

__all__ = [
    "KINDS",
    "PROJECT",
    "Entry",
    "Lazy",
    "Problem",
    "Registry",
    "Spec",
    "get_registry",
    "hookimpl",
    "parse_spec",
]
