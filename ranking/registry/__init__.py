"""The plugin registry: built-in and third-party plugins register in the same way.

A plugin is a module named in the entry-point group ``ranking``, with functions marked
`hookimpl`::

    from ranking.registry import Lazy, hookimpl

    @hookimpl
    def ranking_losses():
        return {"huber": Lazy("ranking_huber.loss:Huber", help="Huber's loss of the margin.")}
"""

from ranking.contracts.hooks import KINDS, PROJECT, Lazy, hookimpl
from ranking.registry.manager import Entry, Problem, Registry, default_engine, get_registry
from ranking.registry.spec import Spec, parse_spec

__all__ = [
    "KINDS",
    "PROJECT",
    "Entry",
    "Lazy",
    "Problem",
    "Registry",
    "Spec",
    "default_engine",
    "get_registry",
    "hookimpl",
    "parse_spec",
]
