"""scikit-learn's own checks of an estimator, with a reviewed list of exceptions."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.utils import estimator_checks

from ranking import MatchingData, Ranker

NO_Y = (
    "partial_fit takes queries and documents (MatchingData), which bring their relevance, so it "
    "has no y; fit, predict and score pass this check"
)
OTHER_ERROR = (
    "the check wants a TypeError for a dict among the features; all errors of data are DataError, "
    "a ValueError, which says that the features are not numbers"
)
WEIGHTS = (
    "the check weighs the rows of one query, and a weight counts for a whole query: the mean over "
    "its rows"
)
EXCEPTIONS = {
    "check_sample_weight_equivalence_on_dense_data": WEIGHTS,
    "check_sample_weight_equivalence_on_sparse_data": WEIGHTS,
    "check_fit_score_takes_y": NO_Y,
    "check_n_features_in_after_fitting": NO_Y,
    "check_dtype_object": OTHER_ERROR,
    "check_fit2d_1sample": (
        "one row has nothing to be ranked against, and the message says that no query has two "
        "different grades, not the words that the check looks for"
    ),
}
"""Checks that fail for judged rows, each with the reason."""

MATCHING_EXCEPTIONS = {
    "check_fit_score_takes_y": NO_Y,
    "check_n_features_in_after_fitting": (
        "features of queries and documents are known by id: of a narrower matrix the missing "
        "features are 0, which online training and data read by parts need"
    ),
    "check_dtype_object": OTHER_ERROR,
    "check_fit2d_1sample": (
        "one document has nothing to be ranked against, and the message says that no query has a "
        "positive and a negative, not the words that the check looks for"
    ),
}
"""Checks that fail for queries and documents, each with the reason."""


class DocumentsOfOneQuery(Ranker):
    """Rank the rows of X as the documents of one query; those above the lowest y are relevant.

    This is how the checks, which know rows and their y, can call a model of queries and documents.
    Nothing is validated here but in `MatchingData` and `Ranker`.
    """

    def _matching_data(self, X, y):
        relevance = np.reshape(y > np.min(y), (1, -1)).astype(float)
        return MatchingData(np.ones((1, 1)), X, relevance)

    def fit(self, X, y):
        return super().fit(self._matching_data(X, np.asarray(y)))

    def predict(self, X):
        n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
        return super().predict(self._matching_data(X, np.zeros(n_rows))).ravel()

    def score(self, X, y):
        return super().score(self._matching_data(X, np.asarray(y)))


JUDGED = (
    Ranker(loss="domination"),
    Ranker(loss="logistic", solver="sgd:max_steps=2000"),
)
MATCHING = (
    DocumentsOfOneQuery("factored:dimensions=4", "warp", solver="sgd:max_steps=50"),
    DocumentsOfOneQuery("bilinear", "hinge", "l1:strength=0.001", "sgd:max_steps=50"),
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ranker", "exceptions"),
    [*((one, EXCEPTIONS) for one in JUDGED), *((one, MATCHING_EXCEPTIONS) for one in MATCHING)],
    ids=["coordinate", "sgd", "factored", "bilinear"],
)
def test_check_estimator(ranker, exceptions):
    with warnings.catch_warnings():
        # Without qid all rows are one query, and training on noise may be useless: both warn.
        warnings.simplefilter("ignore")
        results = estimator_checks.check_estimator(
            ranker, expected_failed_checks=exceptions, on_fail=None, on_skip=None
        )
    failed = {one["check_name"]: one["exception"] for one in results if one["status"] == "failed"}
    assert not failed
    expected = {one["check_name"] for one in results if one["status"] == "xfail"}
    assert expected == set(exceptions), "an exception is not needed any more; remove it"
