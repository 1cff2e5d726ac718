"""The engine of this process: functions run on the shards one after the other."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

from ranking.contracts.engine import Engine, Shards, address_of


class LocalShards(Shards):
    """Shards in this process."""

    def __init__(self, shards: Sequence[Any]) -> None:
        self.shards: list[tuple[Any, dict[str, Any]]] = [(shard, {}) for shard in shards]

    def run(self, function: Callable[..., Any], broadcast: tuple[Any, ...]) -> Iterator[Any]:
        """Yield the result of a function for each shard."""
        address_of(function)
        for shard, cache in self.shards:
            yield function(shard, cache, *broadcast)

    def checkpoint(self) -> None:
        """Clear the caches."""
        for _, cache in self.shards:
            cache.clear()

    def close(self) -> None:
        """Release the shards."""
        self.shards = []


@dataclasses.dataclass
class Local(Engine):
    """All work in this process, by the threads of the kernel."""

    name: ClassVar[str] = "local"
    here: ClassVar[bool] = True

    def n_parts(self) -> int:
        """Return 1: threads share the rows of a shard."""
        return 1

    def scatter(self, shards: Sequence[Any], threads: int = 1) -> LocalShards:
        """Keep the shards in this process."""
        return LocalShards(shards)
