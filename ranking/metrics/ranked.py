"""Base of the metrics of ranked lists: their full names, and what the kernel computes."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.metric import Metric
from ranking.data.judged_lists import JudgedLists
from ranking.kernels.contract import MeasureKind

Floats = NDArray[np.float64]

EMPTY = ("zero", "skip")
SCORES = ("float32", "float64")
ORDERS = ("docid", "file")
TIES = (*ORDERS, "average")


class Measure(NamedTuple):
    """What the kernel computes for a metric.

    Attributes
    ----------
    kind : MeasureKind
        The metric.
    empty : {"zero", "skip"}
        Value of a query with nothing to measure: 0, or left out.
    scores : {"float32", "float64"}
        Precision in which scores are compared; trec_eval uses single precision.
    ties : {"docid", "file", "average", ""}
        Among equal scores: the higher document id first, as trec_eval; the order of the data, as
        LETOR's script; or the mean over all orders. Empty where the order does not matter.
    cutoff : int
        Number of ranks that count; 0 is all.
    gain, discount : str
        Of NDCG; empty for the others.
    short : bool
        Whether a list shorter than the cut-off counts 0.
    """

    kind: MeasureKind
    empty: str
    scores: str
    ties: str = ""
    cutoff: int = 0
    gain: str = ""
    discount: str = ""
    short: bool = False


@dataclasses.dataclass
class RankedMetric(Metric, ABC):
    """A metric of ranked lists whose fields are a cut-off and options; see `Measure`."""

    @abstractmethod
    def measure(self) -> Measure:
        """Return what the kernel computes."""

    def per_query(self, data: JudgedLists, scores: Floats) -> Floats:
        """Return the metric for each query."""
        from ranking.metrics.evaluation import evaluate

        return evaluate([self], data, scores)[self.spelled()]

    def spelled(self) -> str:
        """Return the full name, with every option; `parse_metric` reads it back."""
        k = getattr(self, "k", None)
        cut = "" if k is None else f"@{k}"
        options = ",".join(
            f"{key}={getattr(self, key)}" for key in self.parameter_names() if key != "k"
        )
        return f"{self.name}{cut}({options})"
