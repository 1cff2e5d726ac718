"""From a metric's spelling, ``name@k(key=value,...)``, to the metric."""

from __future__ import annotations

import inspect
import re
from typing import Any

from ranking.contracts.metric import Metric
from ranking.errors import PartError
from ranking.registry import Registry, get_registry
from ranking.registry.spec import parse_value

SPELLING = re.compile(r"(?P<name>[^@(),=\s]+)(?:@(?P<k>[^@(),\s]*))?(?:\((?P<choices>[^()]*)\))?")


def parse_metric(text: str, registry: Registry | None = None) -> Metric:
    """Make a metric from its spelling.

    Parameters
    ----------
    text : str
        ``name``, ``name@k``, ``name(key=value,...)`` or ``name@k(key=value,...)``.
    registry : Registry, optional
        Where names are looked up; by default what is installed.

    Raises
    ------
    PartError
        If the metric, a key or a value is not known; the message says what there is.
    """
    registry = registry or get_registry()
    match = SPELLING.fullmatch(text.strip())
    if match is None:
        raise PartError(f"cannot read the metric {text!r}; write name@k(key=value,...).")
    name = match["name"]
    factory = registry.find("metric", name).load()
    known = inspect.signature(factory).parameters
    params = _choices(match["choices"] or "", text)
    for key in params:
        if key == "k" or key not in known:
            raise PartError(
                f"metric {name!r} has no choice {key!r}; "
                f"it has {', '.join(key for key in known if key != 'k')}."
            )
    if match["k"] is not None:
        if "k" not in known:
            raise PartError(
                f"metric {name!r} has no cut-off; write {name!r} without @{match['k']}."
            )
        if not re.fullmatch(r"[0-9]{1,18}", match["k"]):
            raise PartError(
                f"metric {text!r}: the cut-off {match['k']!r} is not a whole number from 1; "
                f"write for example {name}@10."
            )
        params["k"] = int(match["k"])
    elif "k" in known and known["k"].default is inspect.Parameter.empty:
        raise PartError(f"metric {name!r} needs a cut-off; write for example {name}@10.")
    metric: Metric = factory(**params)
    return metric


def parse_metrics(text: str, registry: Registry | None = None) -> list[Metric]:
    """Make the metrics of a comma-separated list."""
    return [parse_metric(word, registry) for word in split_metrics(text)]


def split_metrics(text: str) -> list[str]:
    """Split a comma-separated list of spellings; commas in parentheses do not separate."""
    return [word.strip() for word in re.split(r",(?![^(]*\))", text)]


def _choices(text: str, whole: str) -> dict[str, Any]:
    params: dict[str, Any] = {}
    for pair in text.split(",") if text.strip() else []:
        key, _, value = (part.strip() for part in pair.partition("="))
        if not key or not value:
            raise PartError(f"cannot read {pair!r} in the metric {whole!r}; write key=value.")
        if key in params:
            raise PartError(f"the metric {whole!r} gives {key!r} twice; keep one.")
        params[key] = parse_value(value)
    return params
