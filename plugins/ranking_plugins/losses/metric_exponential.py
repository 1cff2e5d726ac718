"""The exponential of a metric: what AdaRank decreases.

Xu and Li, AdaRank: a boosting algorithm for information retrieval (SIGIR 2007).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ranking.contracts.loss import Array, Loss, LossInterface
from ranking.errors import PartError
from ranking.metrics.evaluation import evaluate
from ranking.metrics.parse import parse_metric

if TYPE_CHECKING:
    from ranking.data.judged_lists import JudgedLists
    from ranking.kernels.kernel import Kernel

JUMPS = (
    "a metric jumps when two documents change ranks and is constant in between, so it has no slope"
)


@dataclasses.dataclass
class MetricExponential(Loss):
    """Mean over queries of ``exp(-metric)``.

    It has no interface: solver `adarank` decreases it by evaluating single features.

    Parameters
    ----------
    metric : str
        A metric that is higher for better lists and at most 1, such as map or ndcg@10.
    """

    name: ClassVar[str] = "metric-exponential"
    is_smooth: ClassVar[bool] = False
    unsupported: ClassVar[Mapping[LossInterface, str]] = {
        "pairwise": JUMPS,
        "listwise": JUMPS,
        "coordinate": JUMPS,
        "linear": JUMPS,
    }

    metric: str = "map"

    def _setup(self) -> None:
        self._metric = parse_metric(self.metric)
        if not self._metric.higher_is_better:
            raise PartError(
                f"{self.name} has metric={self.metric}, which is lower for better lists; take one "
                "that is higher, such as map."
            )

    def per_query(self, data: JudgedLists, scores: Array, kernel: Kernel, threads: int) -> Array:
        """Return the metric of each query; NaN for a query that the metric leaves out."""
        return evaluate([self._metric], data, scores, kernel, threads)[self._metric.spelled()]

    def value(self, metrics: Array) -> float:
        """Return the loss from the metric of each query."""
        return float(np.exp(-metrics).mean())
