"""Scorers of scikit-learn's model selection by ranking metrics."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ranking.data.inputs import whole_numbers
from ranking.data.judged_lists import JudgedLists, query_weights
from ranking.errors import DataError, DataWarning
from ranking.metrics.evaluation import evaluate, mean
from ranking.metrics.parse import parse_metric


def make_ranking_scorer(metric: str, *, qid: ArrayLike | None = None) -> Any:
    """Return a scorer for ``scoring=`` of scikit-learn that ranks the rows of each query.

    Queries come by metadata routing (``params={"qid": qid}`` after
    ``sklearn.set_config(enable_metadata_routing=True)``).

    Parameters
    ----------
    metric : str
        Such as ``"ndcg@10"``. One of errors is negated, so that higher is better.
    qid : array, optional
        The query of each row, where rows are always the same, as in `permutation_importance`.

    Examples
    --------
    >>> from ranking import Ranker
    >>> X, y, qid = [[0.0], [1.0], [2.0]], [0, 1, 1], [1, 1, 1]
    >>> make_ranking_scorer("map", qid=qid)(Ranker.from_recipe("listnet").fit(X, y, qid=qid), X, y)
    1.0
    """
    from sklearn import get_config
    from sklearn.metrics import make_scorer

    function = _Score(metric, qid)
    scorer = make_scorer(
        function, response_method="predict", greater_is_better=function.metric.higher_is_better
    )
    if qid is None and get_config()["enable_metadata_routing"]:
        scorer.set_score_request(qid=True)
    return scorer


class _Score:
    """A metric of grades and scores."""

    def __init__(self, metric: str, qid: ArrayLike | None) -> None:
        self.metric, self.qid = parse_metric(metric), qid
        self.__name__ = metric

    def __call__(
        self,
        y: ArrayLike,
        scores: ArrayLike,
        *,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Return the mean over the queries, weighted by the mean weight of their rows."""
        queries = self.qid if qid is None else qid
        grades = np.asarray(y)
        if queries is None:
            warnings.warn(
                f"qid did not reach the scorer, so all {grades.size} rows are ranked as one query; "
                "call sklearn.set_config(enable_metadata_routing=True) before make_ranking_scorer, "
                "and pass params={'qid': qid}.",
                DataWarning,
                stacklevel=2,
            )
            queries = np.zeros(grades.size, np.int64)
        ids = whole_numbers(queries)
        if len(ids) != grades.size:
            raise DataError(
                f"the scorer has the qid of {len(ids)} rows, and {grades.size} are scored; leave "
                "it out of make_ranking_scorer where rows are split, and let metadata routing pass "
                "the qid of each part."
            )
        data = JudgedLists(np.zeros((grades.size, 1)), grades, ids)
        ordered = np.asarray(scores, dtype=np.float64)[data.row_order]
        values = evaluate([self.metric], data, ordered)[self.metric.spelled()]
        if sample_weight is None:
            return mean(values)
        weights = query_weights(data, sample_weight)
        counted = ~np.isnan(values)
        return float(weights[counted] @ values[counted] / weights[counted].sum())
