"""Parse the names of metrics: ``name@k(key=value,...)``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any

from ranking.contracts.metric import Metric
from ranking.errors import PartError
from ranking.metrics.names import suggest_metric, translate_metric
from ranking.registry.manager import Registry, get_registry
from ranking.registry.spec import parse_value

SPELLING = re.compile(r"(?P<name>[^@(),=\s]+)(?:@(?P<k>[^@(),\s]*))?(?:\((?P<choices>[^()]*)\))?")


def parse_metric(text: str, registry: Registry | None = None) -> Metric:
    """Create a metric from its name.

    Parameters
    ----------
    text : str
        ``name``, ``name@k``, ``name(key=value,...)`` or ``name@k(key=value,...)``. The spellings
        of trec_eval and ir-measures, such as ``ndcg_cut_10``, ``P_10`` and ``nDCG@10``, mean the
        metrics that are equal to theirs.
    registry : Registry, optional
        The metrics that are available; by default all that are installed.

    Raises
    ------
    PartError
        If the metric, a key or a value is unknown. The message suggests the right one, also for
        names of other tools such as ``HR@10``.
    """
    registry = registry or get_registry()
    match = SPELLING.fullmatch(text.strip())
    if match is None or match["name"] not in registry.names("metric"):
        match = SPELLING.fullmatch(translate_metric(text.strip()))
    if match is None:
        raise PartError(f"cannot parse the metric {text!r}; write name@k(key=value,...).")
    name = match["name"]
    _refuse_unknown(text, name, registry)
    factory = registry.find("metric", name).load()
    known = inspect.signature(factory).parameters
    params = _parse_options(match["choices"] or "", text)
    for key in params:
        if key == "k" or key not in known:
            raise PartError(
                f"metric {name!r} has no option {key!r}; "
                f"its options are {', '.join(key for key in known if key != 'k')}."
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


def _refuse_unknown(text: str, name: str, registry: Registry) -> None:
    valid = registry.names("metric")
    if name in valid:
        return
    suggestion = suggest_metric(text, valid)
    meant = f"; write {suggestion!r}" if suggestion else ""
    raise PartError(f"unknown metric {text!r}{meant}. Available metrics: {', '.join(valid)}.")


def parse_metrics(
    metrics: str | Iterable[str], registry: Registry | None = None
) -> dict[str, Metric]:
    """Create the metrics of a comma-separated list, by their names.

    Parameters
    ----------
    metrics : str or iterable of str
        Names as in `parse_metric`; a text is a comma-separated list, where commas in parentheses
        do not separate.
    registry : Registry, optional
        As in `parse_metric`.

    Examples
    --------
    >>> list(parse_metrics("map, ndcg@10(gain=exp2,ties=average)"))
    ['map', 'ndcg@10(gain=exp2,ties=average)']
    """
    words = re.split(r",(?![^(]*\))", metrics) if isinstance(metrics, str) else metrics
    return {word.strip(): parse_metric(word, registry) for word in words}


def _parse_options(text: str, whole: str) -> dict[str, Any]:
    params: dict[str, Any] = {}
    for pair in text.split(",") if text.strip() else []:
        key, _, value = (part.strip() for part in pair.partition("="))
        if not key or not value:
            raise PartError(f"cannot parse {pair!r} in the metric {whole!r}; write key=value.")
        if key in params:
            raise PartError(f"the metric {whole!r} gives {key!r} twice; keep one.")
        params[key] = parse_value(value)
    return params
