"""Explain unknown keyword arguments: name the right one for an old or a foreign name."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")


def explain_parameters(remedies: Mapping[str, str]) -> Callable[[type[T]], type[T]]:
    """Decorate a class so that an unknown keyword of its constructor is a `TypeError` with remedy.

    Parameters
    ----------
    remedies : mapping
        From names that other libraries use to what to write instead.
    """

    def decorate(cls: type[T]) -> type[T]:
        construct = cls.__init__
        known = [name for name in inspect.signature(construct).parameters if name != "self"]

        @functools.wraps(construct)
        def checked(self: T, *args: Any, **kwargs: Any) -> None:
            for name in kwargs:
                if name not in known:
                    near = difflib.get_close_matches(name, known, n=1)
                    remedy = remedies.get(name) or (near[0] if near else "")
                    raise TypeError(
                        f"unknown parameter {name!r}{f'; use {remedy}' if remedy else ''}. The "
                        f"parameters are {', '.join(known)}."
                    )
            construct(self, *args, **kwargs)

        cls.__init__ = checked  # type: ignore[method-assign, assignment]
        return cls

    return decorate
