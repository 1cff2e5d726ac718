"""One-vs-rest against scikit-learn's logistic regression and support vectors."""

from __future__ import annotations

import warnings
from typing import ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from ranking import MatchingData, Ranker
from ranking.contracts.callback import Callback, Snapshot
from ranking.errors import CombinationError, DataError, DataWarning, PartError
from ranking_plugins.regularizers import L2
from ranking_plugins.solvers import OneVsRest

STRENGTH = 0.01


def make_labelled(seed: int = 0, dense: bool = False) -> MatchingData:
    """60 examples with 8 features, a constant among them, and 5 labels."""
    rng = np.random.default_rng(seed)
    features = np.column_stack((rng.normal(size=(60, 7)), np.ones(60)))
    truth = rng.normal(size=(8, 5))
    labels = (features @ truth + rng.normal(size=(60, 5)) > 1.0).astype(float)
    return MatchingData(features if dense else sp.csr_array(features), None, sp.csr_array(labels))


def ranker(**parts):
    selection = {
        "model": "bilinear:dtype=float64",
        "loss": "logistic",
        "regularizer": L2(STRENGTH),
        "solver": OneVsRest(tolerance=1e-9),
    }
    return Ranker(**{**selection, **parts})


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


@pytest.mark.slow
@pytest.mark.parametrize("dense", [False, True])
def test_every_margin_is_scikit_learns(dense):
    data = make_labelled(dense=dense)
    fitted = ranker(loss="hinge", solver=OneVsRest(5000, tolerance=1e-9)).fit(data)
    assert fitted.stopped_ == "converged"
    features, labels = data.query_rows.toarray(), data.relevance.toarray()
    objective = 0.0
    for document in range(5):
        oracle = LinearSVC(
            loss="hinge", C=1.0 / (STRENGTH * 60), fit_intercept=False, tol=1e-10, max_iter=100_000
        ).fit(features, labels[:, document])
        weights = fitted.model_.weights.toarray()[:, document]
        np.testing.assert_allclose(weights, oracle.coef_[0], atol=1e-6)
        signs = 2.0 * labels[:, document] - 1.0
        losses = np.maximum(0.0, 1.0 - signs * (features @ oracle.coef_[0]))
        objective += losses.mean() + 0.5 * STRENGTH * (oracle.coef_[0] ** 2).sum()
    assert fitted.objective_ == pytest.approx(objective)
    output = [row["objective"] for row in fitted.history_]
    assert output[-1] == pytest.approx(min(output))
    assert len(output) > 5


def test_the_hinge_is_trained_pass_by_pass():
    """After one pass a query's score for a label is on the right side, if it came last."""
    data = make_labelled()
    weak = L2(1e-6)  # so weak that no variable meets its end of the interval
    fitted = ranker(loss="hinge", regularizer=weak, solver=OneVsRest(1)).fit(data)
    assert fitted.n_iter_ == 1
    right = fitted.predict(data) * (2.0 * data.relevance.toarray() - 1.0)
    assert (right >= 1.0 - 1e-5).all(axis=1).any()
    for kernel in ("reference", "cython", "rust"):
        other = ranker(loss="hinge", regularizer=weak, solver=OneVsRest(1), kernel=kernel)
        assert other.fit(data).predict(data).tobytes() == fitted.predict(data).tobytes()
    # Another seed is another order.
    other = ranker(loss="hinge", regularizer=weak, solver=OneVsRest(1), random_state=1).fit(data)
    assert other.predict(data).tobytes() != fitted.predict(data).tobytes()


def test_the_hinge_is_resumed_after_each_pass():
    class Snapshots(Callback):
        name = "snapshots"
        snapshots: ClassVar[list[Snapshot]] = []

        def on_epoch_end(self, run, result):
            self.snapshots.append(run.snapshot())
            return False

    data = make_labelled()
    whole = ranker(loss="hinge", solver=OneVsRest(6), callbacks=[Snapshots()]).plan().trainer(data)
    whole.train()
    assert len(Snapshots.snapshots) == 6
    for snapshot in Snapshots.snapshots:
        again = ranker(loss="hinge", solver=OneVsRest(6)).plan().trainer(data)
        again.train(snapshot)
        assert again.history == whole.history
        np.testing.assert_array_equal(again.model.weights.data, whole.model.weights.data)


@pytest.mark.slow
def test_a_query_without_features_teaches_nothing():
    data = make_labelled()
    features = data.query_rows.toarray()
    features[7] = 0.0
    others = np.delete(np.arange(60), 7)
    some = MatchingData(sp.csr_array(features[others]), None, data.relevance[others])
    every = MatchingData(sp.csr_array(features), None, data.relevance)
    solver = OneVsRest(5000, tolerance=1e-9)
    # The mean is over all queries, those without features too.
    one = ranker(loss="hinge", regularizer=L2(STRENGTH * 60 / 59), solver=solver).fit(some)
    other = ranker(loss="hinge", regularizer=L2(STRENGTH), solver=solver).fit(every)
    np.testing.assert_allclose(
        other.model_.weights.toarray(), one.model_.weights.toarray(), atol=1e-6
    )


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_a_label_without_examples_is_reported_and_ranks_last(loss):
    data = make_labelled()
    labels = data.relevance.toarray()
    labels[:, 2] = 0.0
    with pytest.warns(DataWarning, match=r"1 of 5 documents match no query.*the first is 2"):
        fitted = ranker(loss=loss).fit(MatchingData(data.queries, None, sp.csr_array(labels)))
    assert fitted.predict(data)[:, 2].mean() < -0.9
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
    one, other = ranker().fit(data), ranker().fit(MatchingData(data.queries, None, judged))
    np.testing.assert_array_equal(one.model_.weights.data, other.model_.weights.data)


def test_what_it_cannot_do_is_said(make_matching):
    with pytest.raises(DataError, match=r"these documents have 9 features.*sgd"):
        ranker().fit(make_matching(kind="grades"))
    with pytest.raises(DataError, match="labelled by class"):
        ranker().fit(MatchingData(np.ones((3, 2)), None, labels=([0, 1, 0], [0, 0, 1])))
    data = make_labelled()
    for part, value, remedy in (
        ("model", "factored", "classifier.* Try solver sgd"),
        ("loss", "warp", "would couple them.* Try solver sgd"),
        ("regularizer", "none", "l2 satisfies all three.* Try solver sgd"),
    ):
        with pytest.raises(CombinationError, match=remedy):
            ranker(**{part: value}).fit(data)
    for parameter in ({"max_iterations": 0}, {"tolerance": 0.0}):
        with pytest.raises(PartError, match=next(iter(parameter))):
            OneVsRest(**parameter)
