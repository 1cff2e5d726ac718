"""scikit-learn's own checks of an estimator, with a reviewed list of exceptions."""

from __future__ import annotations

import warnings

import pytest
from sklearn.utils import estimator_checks

from ranking import Ranker

NO_Y = (
    "partial_fit takes queries and documents (MatchingData), which bring their relevance, so it "
    "has no y; fit, predict and score pass this check"
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
    "check_dtype_object": (
        "the check wants a TypeError for a dict among the features; all errors of data are "
        "DataError, a ValueError, which says that the features are not numbers"
    ),
    "check_fit2d_1sample": (
        "one row has nothing to be ranked against, and the message says that no query has two "
        "different grades, not the words that the check looks for"
    ),
}
"""Checks that fail, each with the reason."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "parts",
    [{"loss": "domination"}, {"loss": "logistic", "solver": "sgd:max_steps=2000"}],
    ids=["coordinate", "sgd"],
)
def test_check_estimator(parts):
    with warnings.catch_warnings():
        # Without qid all rows are one query, and training on noise may be useless: both warn.
        warnings.simplefilter("ignore")
        results = estimator_checks.check_estimator(
            Ranker(**parts), expected_failed_checks=EXCEPTIONS, on_fail=None, on_skip=None
        )
    failed = {one["check_name"]: one["exception"] for one in results if one["status"] == "failed"}
    assert not failed
    expected = {one["check_name"] for one in results if one["status"] == "xfail"}
    assert expected == set(EXCEPTIONS), "an exception is not needed any more; remove it"
