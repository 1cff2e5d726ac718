"""The engine that needs nothing: parts are taken one after the other, in this process."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

from ranking.contracts.engine import Engine, Shards, address_of


class LocalShards(Shards):
    """Parts in this process."""

    def __init__(self, parts: Sequence[Any]) -> None:
        self.held: list[tuple[Any, dict[str, Any]]] = [(part, {}) for part in parts]

    def run(self, function: Callable[..., Any], broadcast: tuple[Any, ...]) -> Iterator[Any]:
        """Yield what a function makes of each part."""
        address_of(function)
        for part, kept in self.held:
            yield function(part, kept, *broadcast)

    def checkpoint(self) -> None:
        """Forget what functions have kept."""
        for _, kept in self.held:
            kept.clear()

    def close(self) -> None:
        """Let the parts go."""
        self.held = []


@dataclasses.dataclass
class Local(Engine):
    """All work in this process; the kernel's threads share it."""

    name: ClassVar[str] = "local"
    here: ClassVar[bool] = True

    def n_parts(self) -> int:
        """Return 1: threads share the rows of a part."""
        return 1

    def scatter(self, parts: Sequence[Any], threads: int = 1) -> LocalShards:
        """Keep the parts here."""
        return LocalShards(parts)
