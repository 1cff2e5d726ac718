"""What metrics of ranked lists share: how they are spelled, and what they ask of the kernel."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.metric import Metric
from ranking.data.judged_lists import JudgedLists
from ranking.errors import PartError
from ranking.kernels.contract import MeasureKind

Floats = NDArray[np.float64]

EMPTY = ("zero", "skip")
SCORES = ("float32", "float64")
ORDERS = ("docid", "file")
TIES = (*ORDERS, "average")


class Measure(NamedTuple):
    """What a metric asks of the kernel.

    Attributes
    ----------
    kind : MeasureKind
        What is computed.
    empty : {"zero", "skip"}
        What a query counts in which there is nothing to measure.
    scores : {"float32", "float64"}
        In which precision scores are compared; trec_eval keeps them in single precision.
    ties : {"docid", "file", "average", ""}
        Among equal scores: the higher document id first, as trec_eval; the order of the data, as
        LETOR's script; or the mean over all orders. Empty where the order does not matter.
    cutoff : int
        How many places count; 0 is all.
    gain, discount : str
        Of NDCG; empty for the others.
    short : bool
        Whether a list with fewer places than the cut-off counts 0.
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
    """A metric of sorted lists whose fields are a cut-off and choices among words.

    Attributes
    ----------
    choices : dict
        The words that each field may be; `Measure` says what they mean.
    """

    choices: ClassVar[dict[str, tuple[str, ...]]] = {}

    def __post_init__(self) -> None:
        """Refuse a cut-off or a word that is not known."""
        for key, words in self.choices.items():
            value = getattr(self, key)
            if value not in words:
                raise PartError(
                    f"metric {self.name!r}: {key}={value} is not known; it is {' or '.join(words)}."
                )
        k = getattr(self, "k", None)
        if k is not None and (isinstance(k, bool) or not isinstance(k, int) or k < 1):
            raise PartError(f"metric {self.name!r}: the cut-off @{k} must be 1 or more.")

    @abstractmethod
    def measure(self) -> Measure:
        """Return what the kernel is asked for."""

    def per_query(self, data: JudgedLists, scores: Floats) -> Floats:
        """Return the metric for each query."""
        from ranking.metrics.evaluation import evaluate

        return evaluate([self], data, scores)[self.spelled()]

    def spelled(self) -> str:
        """Return the name with every choice spelled out; `parse_metric` reads it back."""
        k = getattr(self, "k", None)
        cut = "" if k is None else f"@{k}"
        spelled = ",".join(f"{key}={getattr(self, key)}" for key in self.choices)
        return f"{self.name}{cut}({spelled})"
