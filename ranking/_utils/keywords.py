"""Explain unknown keyword arguments: name the right one for an old or a foreign name."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def explain_keywords(
    remedies: Mapping[str, str],
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function so that an unknown keyword raises a `TypeError` with a remedy.

    Parameters
    ----------
    remedies : mapping
        From names that other libraries use to what to write instead.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        known = [name for name in inspect.signature(function).parameters if name != "self"]

        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            for name in kwargs:
                if name not in known:
                    near = difflib.get_close_matches(name, known, n=1)
                    remedy = remedies.get(name) or (near[0] if near else "")
                    raise TypeError(
                        f"unknown parameter {name!r}{f'; use {remedy}' if remedy else ''}. The "
                        f"parameters are {', '.join(known)}."
                    )
            return function(*args, **kwargs)

        return checked

    return decorate
