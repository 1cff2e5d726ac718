"""Specs of parts: ``name`` or ``name:key=value,key=value``."""

from __future__ import annotations

from typing import Any, NamedTuple

from ranking.errors import PartError


class Spec(NamedTuple):
    """A part's name and its parameters."""

    name: str
    params: dict[str, Any]


def parse_spec(text: str) -> Spec:
    """Parse ``name:key=value,key=value``; values are numbers, true, false, none or words.

    Examples
    --------
    >>> parse_spec("l2:strength=0.1")
    Spec(name='l2', params={'strength': 0.1})
    """
    name, colon, rest = text.strip().partition(":")
    params: dict[str, Any] = {}
    if not name or (colon and not rest):
        raise PartError(f"cannot read the part {text!r}; write name or name:key=value,key=value.")
    for pair in rest.split(",") if rest else []:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip() or not value.strip():
            raise PartError(
                f"cannot read {pair!r} in {text!r}; write name or name:key=value,key=value."
            )
        params[key.strip()] = parse_value(value.strip())
    return Spec(name, params)


def parse_value(text: str) -> Any:
    """Convert a number, true, false or none; return any other word as it is."""
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text
