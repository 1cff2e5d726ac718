"""The contract of an engine: holds shards of the data and runs functions on them."""

from __future__ import annotations

import dataclasses
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any, ClassVar, Self, TypeVar

from ranking.contracts.part import Part

Total = TypeVar("Total")


class Shards(ABC):
    """Shards of the data, each with a worker.

    A function that runs on a shard is called as ``function(shard, cache, *broadcast)``. It must be
    a function of an installed module, since it is sent by name. It must not change the shard and
    the broadcast arguments; `cache` is a dict of the shard in which it may store values for later
    functions, until the next checkpoint. The same arguments must give the same result.
    """

    def map(self, function: Callable[..., Any], *broadcast: Any) -> list[Any]:
        """Return the result of a function for each shard, in order."""
        return list(self.run(function, broadcast))

    def reduce(
        self,
        function: Callable[..., Any],
        combine: Callable[[Total, Any], Total],
        start: Total,
        *broadcast: Any,
    ) -> Total:
        """Return ``combine(combine(start, result of shard 0), result of shard 1)`` and so on."""
        return functools.reduce(combine, self.run(function, broadcast), start)

    @abstractmethod
    def run(self, function: Callable[..., Any], broadcast: tuple[Any, ...]) -> Iterator[Any]:
        """Yield the result of a function for each shard, in order.

        If a worker is lost, another one gets its shard and repeats all calls since the checkpoint.
        """

    @abstractmethod
    def checkpoint(self) -> None:
        """Clear the caches: nothing before this call is needed to continue."""

    @abstractmethod
    def close(self) -> None:
        """Release the shards and the workers."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


@dataclasses.dataclass
class Engine(Part, ABC):
    """Distributes training over processes or machines; the result does not depend on it.

    Attributes
    ----------
    here : bool
        Whether all work is done in this process. Other engines require a solver that uses them.
    """

    here: ClassVar[bool] = False

    @abstractmethod
    def n_parts(self) -> int:
        """Return the preferred number of shards."""

    @abstractmethod
    def scatter(self, shards: Sequence[Any], threads: int = 1) -> Shards:
        """Give each shard to a worker, whose functions may use this many threads."""


def address_of(function: Callable[..., Any]) -> str:
    """Return ``"package.module:name"`` of a function; refuse one that cannot be imported by it."""
    module, name = function.__module__, function.__qualname__
    imported = None if module == "__main__" else getattr(import_module(module), name, None)
    if imported is not function:
        raise TypeError(
            f"{module}.{name} cannot be imported by that name; workers run functions of installed "
            "modules, not of a script, a class or another function."
        )
    return f"{module}:{name}"
