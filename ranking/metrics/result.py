"""`Evaluation`: the values of metrics for each query, of a model or of a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ranking.data.trec import Judgements, Run, join_run
from ranking.data.validation import Ids
from ranking.errors import DataError
from ranking.kernels.kernel import Kernel
from ranking.metrics.bins import Bin, by_bins, total_clicks
from ranking.metrics.bootstrap import Interval, bootstrap_interval
from ranking.metrics.comparison import Comparison
from ranking.metrics.comparison import compare as compare_values
from ranking.metrics.evaluation import Values, mean
from ranking.metrics.evaluation import evaluate_run as evaluate_judged_run
from ranking.metrics.parse import parse_metrics
from ranking.metrics.ranked import Floats

if TYPE_CHECKING:
    from ranking.data.relevance import RelevanceData


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Values of metrics, one per query.

    Attributes
    ----------
    query_ids : int64 or str array
    values : dict of float64 arrays
        By the full name of the metric, such as ``"ndcg@10 (linear gain)"``; NaN for a query that
        is left out.
    names : mapping
        From the requested names to the full names.
    """

    query_ids: Ids
    values: Values
    names: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __getitem__(self, metric: str) -> Floats:
        """Return the values of a metric, one per query."""
        name = self.names.get(metric, metric)
        if name not in self.values:
            raise DataError(f"{metric!r} was not evaluated; the metrics are {', '.join(self)}.")
        return self.values[name]

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the metrics."""
        return iter(self.names or self.values)

    def __len__(self) -> int:
        return self.query_ids.size

    def mean(self, metric: str, weights: Floats | None = None) -> float:
        """Return the mean over the queries that are not left out.

        Parameters
        ----------
        metric : str
        weights : float64 array, optional
            How much each query counts; by default all the same.
        """
        if weights is None:
            return mean(self[metric])
        counted = ~np.isnan(self[metric])
        total = float(weights[counted].sum())
        return float(weights[counted] @ self[metric][counted]) / total if total else float("nan")

    def means(self) -> dict[str, float]:
        """Return the mean of each metric."""
        return {metric: self.mean(metric) for metric in self}

    def interval(self, metric: str, kernel: str | Kernel = "auto") -> Interval:
        """Return the 95 % bootstrap interval of the mean."""
        return bootstrap_interval(self[metric], kernel)

    def by_bins(self, clicks: RelevanceData, edges: Sequence[float]) -> list[Bin]:
        """Return means by bins of the total clicks of a query."""
        return by_bins(self.values, total_clicks(clicks, self.query_ids), list(edges))

    def __repr__(self) -> str:
        means = ", ".join(f"{metric}={value:.4f}" for metric, value in self.means().items())
        return f"Evaluation({len(self)} queries, {means})"


def evaluate_run(
    run: Run,
    judgements: Judgements,
    metrics: str | Sequence[str] = ("ndcg@10",),
    *,
    kernel: str | Kernel = "auto",
    threads: int = 1,
) -> Evaluation:
    """Evaluate a TREC run against relevance judgements, as trec_eval does.

    Queries that only one of them has are left out.

    Parameters
    ----------
    run : Run
        As ``read_data(path, "run")`` returns it.
    judgements : Judgements
        As ``read_data(path, "qrels")`` returns them.
    metrics : str or sequence of str
        Such as ``"ndcg@10,map"`` or ``["ndcg@10", "map"]``.
    kernel : str or Kernel
    threads : int
    """
    parsed = parse_metrics(metrics)
    joined = join_run(run, judgements)
    unique = {metric.spelled(): metric for metric in parsed.values()}
    values = evaluate_judged_run(list(unique.values()), joined, kernel, threads)
    shared = ~joined.missing
    if not shared.any():
        raise DataError("the run has no query of the judgements; check that they belong together.")
    return Evaluation(
        joined.query_ids[shared],
        {name: column[shared] for name, column in values.items()},
        {name: metric.spelled() for name, metric in parsed.items()},
    )


def compare(
    evaluations: Mapping[str, Evaluation], *, kernel: str | Kernel = "auto"
) -> list[Comparison]:
    """Compare every pair of systems by every metric: differences, intervals and p-values.

    Parameters
    ----------
    evaluations : mapping
        The evaluation of each system by its name, with the same metrics.
    kernel : str or Kernel
    """
    metrics = {metric: None for one in evaluations.values() for metric in one}
    queries = list(dict.fromkeys(str(q) for one in evaluations.values() for q in one.query_ids))
    position = {query: at for at, query in enumerate(queries)}
    values = {
        name: {
            metric: _spread(one, metric, position)
            for metric in dict.fromkeys(one.names.get(metric, metric) for metric in metrics)
        }
        for name, one in evaluations.items()
    }
    parsed = {metric.spelled(): metric for metric in parse_metrics(metrics).values()}
    return compare_values(list(parsed.values()), queries, values, kernel)


def _spread(evaluation: Evaluation, metric: str, position: Mapping[str, int]) -> Floats:
    """Return the values in the order of all queries; NaN where the system has none."""
    spread = np.full(len(position), np.nan)
    spread[[position[str(query)] for query in evaluation.query_ids]] = evaluation[metric]
    return spread
