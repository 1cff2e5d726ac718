"""What a plugin registers with: `hookimpl`, `Lazy` and the names of the hooks."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

import pluggy

PROJECT: Final = "ranking"
"""The name of the project for pluggy, and the group of entry points."""

hookimpl = pluggy.HookimplMarker(PROJECT)
"""Marks the hooks of a plugin."""

KINDS: Final[Mapping[str, str]] = {
    "model": "ranking_models",
    "loss": "ranking_losses",
    "regularizer": "ranking_regularizers",
    "solver": "ranking_solvers",
    "kernel": "ranking_kernels",
    "metric": "ranking_metrics",
    "reader": "ranking_readers",
    "recipe": "ranking_recipes",
    "callback": "ranking_callbacks",
    "engine": "ranking_engines",
}
"""Each kind of plugin and its hook."""


@dataclasses.dataclass(frozen=True)
class Lazy:
    """A class or function by its address, so that listing plugins imports nothing heavy.

    Attributes
    ----------
    target : str
        ``"package.module:name"``.
    help : str
        One line that says what it is.
    """

    target: str
    help: str

    def load(self) -> Any:
        """Import and return the class or function itself."""
        module, _, name = self.target.partition(":")
        return getattr(import_module(module), name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Import it and call it."""
        return self.load()(*args, **kwargs)
