"""Parts that others wrote, watched while they work: what they answer, raise, and how long it takes.

Compiled loops and solvers trust what a part answers. So the methods of a part that is not this
project's are wrapped while a run lasts: an answer that its contract forbids is an error that names
the part and where it comes from, and so is whatever it raises.
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
from ranking.native import NativePart
from ranking.registry.origin import described, package_of

PACKAGES = ("ranking", "ranking_plugins", "ranking_rust")
"""The packages of this project, whose parts are not watched."""

SLOW_SECONDS = 1.0
SLOW_SHARE = 0.5
"""A part is called slow if it takes more than this of a training, and of its time."""

Check = Callable[[Any, Any], str]
"""From an answer and the first argument to what is wrong with the answer, if anything is."""


def ours(part: object) -> bool:
    """Say whether a part is this project's own."""
    return package_of(type(part)) in PACKAGES


def refuse(whose: str, method: str, problem: str) -> NoReturn:
    """Raise the error of a part that does not keep to its contract."""
    raise PluginError(f"{whose}: {method} {problem}; tell its author, or take another.")


def numbers_like(answer: Any, given: Any) -> str:
    """Want a number for each that was given. An overflow is the solver's to tell, with the step."""
    wanted = np.shape(given)
    if not isinstance(answer, np.ndarray) or answer.dtype.kind not in "fiu":
        found = f"type {answer.dtype}" if isinstance(answer, np.ndarray) else type(answer).__name__
        return f"answered {found}, not an array of numbers"
    if answer.shape != wanted:
        return f"answered shape {answer.shape} where {wanted} was wanted"
    if np.isnan(answer).any() and np.isfinite(given).all():
        return "answered nan for finite arguments"
    return ""


def one_number(answer: Any, given: Any) -> str:
    """Want a number. One that is not finite is the run's to tell, with the epoch."""
    try:
        float(answer)
    except (TypeError, ValueError):
        return f"answered {type(answer).__name__}, not a number"
    return ""


CHECKS: dict[str, dict[str, Check]] = {
    "loss": {
        "pairwise_value": numbers_like,
        "pairwise_slope": numbers_like,
        "rank_weight": numbers_like,
        "listwise_value": one_number,
        "listwise_slopes": numbers_like,
        "pair_weights": numbers_like,
    },
    "regularizer": {"penalty": one_number, "prox": numbers_like, "maximize": numbers_like},
    "callback": {
        "start": lambda answer, given: "",
        "turn": lambda answer, given: "",
        "finish": lambda answer, given: "",
    },
}
"""The methods that are watched, by kind of part, and what their answers must be."""


@contextmanager
def watched(parts: Sequence[tuple[str, Part]]) -> Iterator[None]:
    """Watch the parts that are not ours; say at the end which of them took most of the time.

    Parameters
    ----------
    parts : sequence of (kind, part)
    """
    strangers = [
        (kind, part)
        for kind, part in parts
        # What a native part computes, it computes in the kernel's loops, where solvers look at it.
        if kind in CHECKS and not ours(part) and not isinstance(part, NativePart)
    ]
    clocks = [_wrap(kind, part) for kind, part in strangers]
    started = time.perf_counter()
    try:
        yield
    finally:
        total = time.perf_counter() - started
        for (kind, part), spent in zip(strangers, clocks, strict=True):
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
    """Put watched methods before the part's own; return the list that their seconds go to."""
    spent: list[float] = []
    for method, check in CHECKS[kind].items():
        if hasattr(part, method):
            whose = described(kind, part)
            watched_one = _watched(getattr(part, method), whose, method, check, spent)
            object.__setattr__(part, method, watched_one)
    return spent


def _watched(
    function: Callable[..., Any], whose: str, method: str, check: Check, spent: list[float]
) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        started = time.perf_counter()
        try:
            answer = function(*args, **kwargs)
        except RankingError:
            raise
        except Exception as error:
            refuse(whose, method, f"raised {type(error).__name__}: {error}")
        finally:
            spent.append(time.perf_counter() - started)
        wrong = check(answer, args[0] if args else next(iter(kwargs.values()), None))
        if wrong:
            refuse(whose, method, wrong)
        return answer

    return call
