"""A metric as a loss: what is missing to its maximum."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

from ranking.contracts.loss import Loss, LossInterface
from ranking.contracts.metric import Metric
from ranking.errors import PartError
from ranking.metrics.parse import parse_metric

_STEPS = "a metric is constant but for jumps where two documents change places, so it has no slope"


@dataclasses.dataclass
class MetricLoss(Loss):
    """1 minus the mean of a metric over the queries; for solvers that compare few models.

    Parameters
    ----------
    measure : str
        A metric of which higher is better, such as ``ndcg@10``.
    """

    name: ClassVar[str] = "metric"
    unsupported: ClassVar[Mapping[LossInterface, str]] = {
        "pairwise": _STEPS,
        "listwise": _STEPS,
        "coordinate": _STEPS,
        "linear": _STEPS,
    }

    measure: str = "ndcg@10"

    def _setup(self) -> None:
        if not self.metric().higher_is_better:
            raise PartError(
                f"metric has measure={self.measure}, where lower is better; use a metric where "
                "higher is better, such as ndcg@10 or map."
            )

    def metric(self) -> Metric:
        """Return the metric."""
        return parse_metric(str(self.measure))
