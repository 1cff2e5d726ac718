"""The contract of an engine: who holds the parts of the data, and runs functions on them."""

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
    """Parts of the data, each with its worker.

    A function that runs on a part is called as ``function(part, kept, *broadcast)``. It must be a
    function of an installed module, since it travels by its name. It leaves the part and the
    broadcast as they are; `kept` is a dict of the part's own, in which it may put something for
    later functions, until the next checkpoint. The same arguments must give the same result.
    """

    def map(self, function: Callable[..., Any], *broadcast: Any) -> list[Any]:
        """Return what a function makes of each part, in the order of the parts."""
        return list(self.run(function, broadcast))

    def reduce(
        self,
        function: Callable[..., Any],
        combine: Callable[[Total, Any], Total],
        start: Total,
        *broadcast: Any,
    ) -> Total:
        """Return ``combine(combine(start, result of part 0), result of part 1)`` and so on."""
        return functools.reduce(combine, self.run(function, broadcast), start)

    @abstractmethod
    def run(self, function: Callable[..., Any], broadcast: tuple[Any, ...]) -> Iterator[Any]:
        """Yield what a function makes of each part, in the order of the parts.

        If a worker is lost, another gets its part, and repeats what ran since the checkpoint.
        """

    @abstractmethod
    def checkpoint(self) -> None:
        """Forget what functions have kept: nothing before this is needed to go on."""

    @abstractmethod
    def close(self) -> None:
        """Let the parts and the workers go."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


@dataclasses.dataclass
class Engine(Part, ABC):
    """Spreads a training over processes or machines; the result does not depend on it.

    Attributes
    ----------
    here : bool
        Whether all work is done in this process. Another engine needs a solver that uses it.
    """

    here: ClassVar[bool] = False

    @abstractmethod
    def n_parts(self) -> int:
        """Return into how many parts the data are best cut."""

    @abstractmethod
    def scatter(self, parts: Sequence[Any], threads: int = 1) -> Shards:
        """Give each part to a worker, whose functions may use so many threads."""


def address_of(function: Callable[..., Any]) -> str:
    """Return ``"package.module:name"`` of a function, or refuse one that is not found by it."""
    module, name = function.__module__, function.__qualname__
    found = None if module == "__main__" else getattr(import_module(module), name, None)
    if found is not function:
        raise TypeError(
            f"{module}.{name} cannot be found by that name; workers run functions of installed "
            "modules, not of a script, a class or another function."
        )
    return f"{module}:{name}"
