"""`Target`: what is fuzzed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Target(NamedTuple):
    """What is fuzzed: the name of the file, its content, and what is done with the path."""

    name: str
    file: str
    content: bytes
    run: Callable[[Path], object]
    weight: int = 20
    """How many inputs of a round are for it: fewer where one takes long."""
