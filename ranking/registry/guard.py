"""Checks of third-party parts during training: what they return, raise, and how long they take.

Compiled loops and solvers rely on what a part returns. So the methods of a part that is not this
project's are wrapped during a run: a return value that the contract forbids, or an exception, is
reported as an error that names the part and its origin.
"""

from __future__ import annotations

import functools
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np

from ranking.contracts.part import Part
from ranking.errors import PluginError, PluginWarning, RankingError
from ranking.registry.origin import described, package_of
from ranking.registry.security import PACKAGES

SLOW_SECONDS = 1.0
SLOW_SHARE = 0.5
"""A part is reported as slow above this time, and above this share of the time of training."""

Check = Callable[[Any, Any], str]
"""Return what is wrong with a return value, given the first argument; "" if nothing is."""


def ours(part: object) -> bool:
    """Return whether a part is this project's."""
    return package_of(type(part)) in PACKAGES


def refuse(whose: str, method: str, problem: str) -> NoReturn:
    """Raise the error for a part that violates its contract."""
    raise PluginError(f"{whose}: {method} {problem}; report it to its author, or use another part.")


def check_array(result: Any, argument: Any) -> str:
    """Expect one number per element. Solvers report an overflow themselves, with the step."""
    shape = np.shape(argument)
    if not isinstance(result, np.ndarray) or result.dtype.kind not in "fiu":
        kind = f"type {result.dtype}" if isinstance(result, np.ndarray) else type(result).__name__
        return f"returned {kind}, not an array of numbers"
    if result.shape != shape:
        return f"returned shape {result.shape}, expected {shape}"
    if np.isnan(result).any() and np.isfinite(argument).all():
        return "returned nan for finite arguments"
    return ""


def check_number(result: Any, argument: Any) -> str:
    """Expect a number. The trainer reports one that is not finite, with the epoch."""
    try:
        float(result)
    except (TypeError, ValueError):
        return f"returned {type(result).__name__}, not a number"
    return ""


def check_nothing(result: Any, argument: Any) -> str:
    """Expect nothing in particular."""
    return ""


CHECKS: dict[str, dict[str, Check]] = {
    "loss": {
        "pairwise_value": check_array,
        "pairwise_slope": check_array,
        "rank_weight": check_array,
        "listwise_value": check_number,
        "listwise_slopes": check_array,
        "pair_weights": check_array,
    },
    "regularizer": {"penalty": check_number, "prox": check_array, "maximize": check_array},
    "callback": {
        "on_fit_begin": check_nothing,
        "on_epoch_end": check_nothing,
        "on_fit_end": check_nothing,
    },
}
"""The methods that are checked, by kind of part, and the check of their return values."""


@contextmanager
def watched(parts: Sequence[tuple[str, Part]]) -> Iterator[None]:
    """Check third-party parts while they run; warn at the end if one took most of the time.

    Parameters
    ----------
    parts : sequence of (kind, part)
    """
    third_party = [
        (kind, part)
        for kind, part in parts
        # Native parts compute in the loops of the kernel; solvers check their results there.
        if kind in CHECKS and not ours(part) and not part.is_native
    ]
    seconds = [_wrap(kind, part) for kind, part in third_party]
    begin = time.perf_counter()
    try:
        yield
    finally:
        total = time.perf_counter() - begin
        for (kind, part), spent in zip(third_party, seconds, strict=True):
            for method in CHECKS[kind]:
                vars(part).pop(method, None)
            if total > SLOW_SECONDS and sum(spent) > SLOW_SHARE * total:
                warnings.warn(
                    f"{described(kind, part)} is slow: it took {sum(spent):.1f} s of the "
                    f"{total:.1f} s of training, in Python.",
                    PluginWarning,
                    stacklevel=3,
                )


def _wrap(kind: str, part: Part) -> list[float]:
    """Replace the methods of a part by checked ones; return the list of the seconds they take."""
    spent: list[float] = []
    for method, check in CHECKS[kind].items():
        if hasattr(part, method):
            checked = _checked(getattr(part, method), described(kind, part), method, check, spent)
            object.__setattr__(part, method, checked)
    return spent


def _checked(
    function: Callable[..., Any], whose: str, method: str, check: Check, spent: list[float]
) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        begin = time.perf_counter()
        try:
            result = function(*args, **kwargs)
        except RankingError:
            raise
        except Exception as error:
            refuse(whose, method, f"raised {type(error).__name__}: {error}")
        finally:
            spent.append(time.perf_counter() - begin)
        problem = check(result, args[0] if args else next(iter(kwargs.values()), None))
        if problem:
            refuse(whose, method, problem)
        return result

    return call
