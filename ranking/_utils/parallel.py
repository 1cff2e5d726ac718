"""Work for threads whose results come back in order, so that sums of them have fixed bits."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_order(
    function: Callable[[Item], Result], items: Iterable[Item], threads: int = 1
) -> Iterator[Result]:
    """Yield ``function(item)`` for each item, in the order of the items, from some threads.

    Few results are waiting at a time, so a large input needs no large memory. What a call raises
    is raised here.
    """
    if threads <= 1:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(threads) as pool:
        left = iter(items)
        waiting: deque[Future[Result]] = deque(
            pool.submit(function, item) for item in islice(left, 2 * threads)
        )
        try:
            while waiting:
                result = waiting.popleft().result()
                waiting.extend(pool.submit(function, item) for item in islice(left, 1))
                yield result
        finally:
            for future in waiting:
                future.cancel()
