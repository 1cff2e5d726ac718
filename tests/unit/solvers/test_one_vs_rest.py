"""One-vs-rest against scikit-learn's logistic regression."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from ranking import Matching, Ranker
from ranking.errors import CombinationError, DataError, DataWarning, PartError
from ranking_plugins.regularizers.l2 import L2
from ranking_plugins.solvers.one_vs_rest import OneVsRest

STRENGTH = 0.01


def make_labelled(seed: int = 0, dense: bool = False) -> Matching:
    """60 examples with 8 features, a constant among them, and 5 labels."""
    rng = np.random.default_rng(seed)
    features = np.column_stack((rng.normal(size=(60, 7)), np.ones(60)))
    truth = rng.normal(size=(8, 5))
    labels = (features @ truth + rng.normal(size=(60, 5)) > 1.0).astype(float)
    return Matching(features if dense else sp.csr_array(features), None, sp.csr_array(labels))


def ranker(**parts):
    chosen = {
        "model": "bilinear:dtype=float64",
        "loss": "logistic",
        "regularizer": L2(STRENGTH),
        "solver": OneVsRest(tolerance=1e-9),
    }
    return Ranker(**{**chosen, **parts})


@pytest.mark.parametrize("dense", [False, True])
def test_every_column_is_scikit_learns(dense):
    data = make_labelled(dense=dense)
    fitted = ranker().fit(data)
    features, labels = data.query_rows.toarray(), data.relevance.toarray()
    objective = 0.0
    for document in range(5):
        oracle = LogisticRegression(
            C=1.0 / (STRENGTH * 60), fit_intercept=False, tol=1e-12, max_iter=10_000
        ).fit(features, labels[:, document])
        weights = fitted.model_.weights.toarray()[:, document]
        np.testing.assert_allclose(weights, oracle.coef_[0], atol=1e-6)
        signs = 2.0 * labels[:, document] - 1.0
        losses = np.log1p(np.exp(-signs * (features @ oracle.coef_[0])))
        objective += losses.mean() + 0.5 * STRENGTH * (oracle.coef_[0] ** 2).sum()
    assert fitted.objective_ == pytest.approx(objective)
    scores = features @ fitted.model_.weights.toarray()
    np.testing.assert_allclose(fitted.predict(data), scores, rtol=1e-5)


def test_a_label_without_examples_is_told_and_ranks_last():
    data = make_labelled()
    labels = data.relevance.toarray()
    labels[:, 2] = 0.0
    with pytest.warns(DataWarning, match=r"1 of 5 documents match no query.*the first is 2"):
        fitted = ranker().fit(Matching(data.queries, None, sp.csr_array(labels)))
    assert fitted.predict(data)[:, 2].mean() < -1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ranker().fit(data)


def test_a_grade_of_0_or_less_is_no_match():
    data = make_labelled()
    coo = data.relevance.tocoo()
    zeros = np.argwhere(data.relevance.toarray() == 0)[:20]
    rows = np.concatenate((coo.coords[0], zeros[:, 0]))
    columns = np.concatenate((coo.coords[1], zeros[:, 1]))
    grades = np.concatenate((coo.data * 3.0, np.tile([0.0, -1.0], 10)))
    judged = sp.coo_array((grades, (rows, columns)), shape=coo.shape)
    one, other = ranker().fit(data), ranker().fit(Matching(data.queries, None, judged))
    np.testing.assert_array_equal(one.model_.weights.data, other.model_.weights.data)


def test_what_it_cannot_do_is_said(make_matching):
    with pytest.raises(DataError, match=r"these documents have 9 features.*sgd"):
        ranker().fit(make_matching(kind="grades"))
    with pytest.raises(DataError, match="labelled by class"):
        ranker().fit(Matching(np.ones((3, 2)), None, labels=([0, 1, 0], [0, 0, 1])))
    data = make_labelled()
    for part, value, remedy in (
        ("model", "factored", "regression by itself.* Try solver sgd"),
        ("loss", "hinge", "would tie them together.* Try solver sgd"),
        ("regularizer", "none", "l2 is both.* Try solver sgd"),
    ):
        with pytest.raises(CombinationError, match=remedy):
            ranker(**{part: value}).fit(data)
    for parameter in ({"max_iterations": 0}, {"tolerance": 0.0}):
        with pytest.raises(PartError, match=next(iter(parameter))):
            OneVsRest(**parameter)
