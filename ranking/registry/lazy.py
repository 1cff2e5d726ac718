"""`Lazy`: the address of a factory, which is imported when it is used."""

from __future__ import annotations

import dataclasses
from importlib import import_module
from typing import Any


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
