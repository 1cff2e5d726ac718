"""Compare every pair of systems by every metric, with corrected significance tests."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.metric import Metric
from ranking.kernels.kernel import Kernel
from ranking.metrics.bootstrap import RESAMPLES, Interval, bootstrap_interval
from ranking.metrics.significance import EXACT, FLIPS, holm, randomisation_test, t_test

Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Two systems by one metric, over the queries that both have.

    Attributes
    ----------
    metric : str
        Full name.
    higher_is_better : bool
        Whether higher values of the metric are better.
    a, b : str
        The systems.
    mean_a, mean_b : float
        Over these queries.
    queries : sequence
        Their ids.
    differences : array
        b - a, one per query.
    interval : Interval
        Confidence interval of the mean difference.
    p_randomisation, p_t : float
        p-values of this comparison alone.
    p_randomisation_holm, p_t_holm : float
        p-values corrected for all comparisons (Holm).
    """

    method: ClassVar[str] = (
        f"Intervals: 95 %, bootstrap over queries, {RESAMPLES} resamples. p: paired randomisation "
        f"test, all signs up to {EXACT} queries, else {FLIPS} sampled."
    )
    """How intervals and p-values are computed, for reports."""

    metric: str
    higher_is_better: bool
    a: str
    b: str
    mean_a: float
    mean_b: float
    queries: Sequence[Any]
    differences: Floats
    interval: Interval
    p_randomisation: float
    p_t: float
    p_randomisation_holm: float
    p_t_holm: float

    @property
    def difference(self) -> float:
        """The mean difference."""
        return self.mean_b - self.mean_a

    @property
    def gains(self) -> Floats:
        """How much better b is than a, one per query; negative where it is worse."""
        return self.differences if self.higher_is_better else -self.differences

    @property
    def wins(self) -> int:
        """Number of queries on which b is better."""
        return int(np.count_nonzero(self.gains > 0))

    @property
    def losses(self) -> int:
        """Number of queries on which b is worse."""
        return int(np.count_nonzero(self.gains < 0))

    @property
    def ties(self) -> int:
        """Number of queries on which they are equal."""
        return self.differences.size - self.wins - self.losses


def compare(
    metrics: Sequence[Metric],
    queries: Sequence[Any] | NDArray[Any],
    values: Mapping[str, Mapping[str, Floats]],
    kernel: str | Kernel | None = "auto",
) -> list[Comparison]:
    """Compare every pair of systems by every metric.

    Parameters
    ----------
    metrics : sequence of Metric
    queries : sequence
        The ids of the queries.
    values : dict
        By system, then by full name of the metric: one value per query, NaN where it has none. The
        first system of a pair is `a`, in the order of the dict.
    kernel : str or Kernel
        Generates the random numbers.
    """
    ids = np.asarray(queries)
    comparisons: list[Comparison] = []
    for metric in metrics:
        name = metric.spelled()
        for a, b in combinations(values, 2):
            both = ~np.isnan(values[a][name]) & ~np.isnan(values[b][name])
            one, other = values[a][name][both], values[b][name][both]
            differences = other - one
            comparisons.append(
                Comparison(
                    metric=name,
                    higher_is_better=metric.higher_is_better,
                    a=a,
                    b=b,
                    mean_a=float(one.mean()) if one.size else float("nan"),
                    mean_b=float(other.mean()) if other.size else float("nan"),
                    queries=ids[both].tolist(),
                    differences=differences,
                    interval=bootstrap_interval(differences, kernel),
                    p_randomisation=randomisation_test(differences, kernel),
                    p_t=t_test(differences),
                    p_randomisation_holm=float("nan"),
                    p_t_holm=float("nan"),
                )
            )
    by_randomisation = holm([one.p_randomisation for one in comparisons])
    by_t = holm([one.p_t for one in comparisons])
    return [
        dataclasses.replace(one, p_randomisation_holm=p, p_t_holm=q)
        for one, p, q in zip(comparisons, by_randomisation, by_t, strict=True)
    ]
