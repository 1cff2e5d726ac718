"""Validate numbers that many functions take."""

from __future__ import annotations

import numbers

from ranking.errors import DataError, PartError

MAX_THREADS = 1024
MAX_SEED = 2**64 - 1


def validate_threads(threads: object) -> int:
    """Return a number of threads, or raise `PartError`.

    Examples
    --------
    >>> validate_threads(2)
    2
    """
    if not _is_whole(threads, 1, MAX_THREADS):
        raise PartError(
            f"threads is {threads!r}; it must be a whole number from 1 to {MAX_THREADS}. "
            "os.cpu_count() returns how many processors there are."
        )
    return int(threads)  # type: ignore[call-overload, no-any-return]


def validate_seed(seed: object, name: str = "random_state") -> int:
    """Return a seed, or raise `PartError` that calls it by `name`."""
    if not _is_whole(seed, 0, MAX_SEED):
        raise PartError(
            f"{name} is {seed!r}; it must be a whole number from 0 to 2**64 - 1. The same seed "
            "gives the same model, so there is no random default."
        )
    return int(seed)  # type: ignore[call-overload, no-any-return]


def validate_k(k: object, *, or_all: bool = False) -> None:
    """Refuse a length of a ranked list that is not a whole number from 1."""
    if or_all and k is None:
        return
    if isinstance(k, bool) or not isinstance(k, numbers.Integral) or k < 1:
        alternative = ", or None for all" if or_all else ""
        raise DataError(f"k is {k!r}; it must be a whole number from 1{alternative}.")


def _is_whole(value: object, least: int, most: int) -> bool:
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    return whole and least <= int(value) <= most  # type: ignore[call-overload]
