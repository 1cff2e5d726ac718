"""Constraints of hyper-parameters, declared with the fields of a part and checked in one place.

A field is declared with its range::

    max_epochs: int = integer(10, minimum=1)
    learning_rate: float | str = number("auto", above=0.0, words=("auto",))

`Part.__post_init__` checks every field that has a `Constraint`; `constraints` returns them, for
whoever documents the parameters.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Mapping
from typing import Any, Literal

KEY = "ranking.constraint"
"""The key of the constraint in the metadata of a dataclass field."""


@dataclasses.dataclass(frozen=True)
class Constraint:
    """The values that a hyper-parameter may have.

    Attributes
    ----------
    kind : {"integer", "number", "boolean", "word"}
    minimum, maximum : float or None
        The range of a number; infinite values are never allowed.
    open_minimum, open_maximum : bool
        Whether the end of the range itself is excluded.
    words : tuple of str
        Words that are allowed besides numbers; of the kind "word", all that are allowed.
    optional : bool
        Whether None is allowed too.
    """

    kind: Literal["integer", "number", "boolean", "word"]
    minimum: float | None = None
    maximum: float | None = None
    open_minimum: bool = False
    open_maximum: bool = False
    words: tuple[str, ...] = ()
    optional: bool = False

    def allows(self, value: object) -> bool:
        """Return whether a value is allowed."""
        if value is None:
            return self.optional
        if isinstance(value, str):
            return value in self.words
        if self.kind == "word":
            return False
        if self.kind == "boolean" or isinstance(value, bool):
            return self.kind == "boolean" and isinstance(value, bool)
        number_type = numbers.Integral if self.kind == "integer" else numbers.Real
        return isinstance(value, number_type) and self._in_range(float(value))

    def _in_range(self, value: float) -> bool:
        if not math.isfinite(value):
            return False
        low = -math.inf if self.minimum is None else self.minimum
        high = math.inf if self.maximum is None else self.maximum
        above = value > low if self.open_minimum else value >= low
        below = value < high if self.open_maximum else value <= high
        return above and below

    def describe(self) -> str:
        """Describe the allowed values, such as "an integer >= 1 or auto"."""
        if self.kind == "word":
            return f"one of {', '.join(self.words)}"
        if self.kind == "boolean":
            return "true or false"
        noun = "an integer" if self.kind == "integer" else "a finite number"
        others = (*self.words, "none") if self.optional else self.words
        return " or ".join((noun + self._range(), *others))

    def _range(self) -> str:
        if self.minimum is not None and self.maximum is not None:
            left, right = "[("[self.open_minimum], "])"[self.open_maximum]
            return f" in {left}{self.minimum:g}, {self.maximum:g}{right}"
        if self.minimum is not None:
            return f" {'>' if self.open_minimum else '>='} {self.minimum:g}"
        if self.maximum is not None:
            return f" {'<' if self.open_maximum else '<='} {self.maximum:g}"
        return ""


def integer(
    default: Any = dataclasses.MISSING,
    *,
    minimum: int | None = None,
    maximum: int | None = None,
    words: tuple[str, ...] = (),
) -> Any:
    """Declare a field for an integer, or one of some words.

    Without a default the parameter is required; with the default None it is optional.
    """
    return _field(default, Constraint("integer", minimum, maximum, words=words))


def number(
    default: Any = dataclasses.MISSING,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    above: float | None = None,
    below: float | None = None,
    words: tuple[str, ...] = (),
) -> Any:
    """Declare a field for a finite number, or one of some words.

    Without a default the parameter is required; with the default None it is optional.

    Parameters
    ----------
    minimum, maximum : float, optional
        Ends of the range that are allowed themselves.
    above, below : float, optional
        Ends of the range that are not.
    """
    low, high = (above if minimum is None else minimum), (below if maximum is None else maximum)
    ends = {"open_minimum": minimum is None and above is not None}
    ends["open_maximum"] = maximum is None and below is not None
    return _field(default, Constraint("number", low, high, words=words, **ends))


def boolean(default: bool) -> Any:
    """Declare a field for True or False."""
    return _field(default, Constraint("boolean"))


def choice(default: str, *words: str) -> Any:
    """Declare a field for one of some words."""
    return _field(default, Constraint("word", words=words))


def constraints(part: Any) -> dict[str, Constraint]:
    """Return the constraint of each hyper-parameter that has one, of a part or its class."""
    return {
        field.name: field.metadata[KEY]
        for field in dataclasses.fields(part)
        if field.init and KEY in field.metadata
    }


def violations(part: Any) -> Mapping[str, Constraint]:
    """Return the constraints that the values of a part violate, by parameter."""
    return {
        name: constraint
        for name, constraint in constraints(part).items()
        if not constraint.allows(getattr(part, name))
    }


def _field(default: Any, constraint: Constraint) -> Any:
    if default is None:
        constraint = dataclasses.replace(constraint, optional=True)
    return dataclasses.field(default=default, metadata={KEY: constraint})
