"""scikit-learn's model selection works on a pipeline that ends in a ranker."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas
import pytest
import sklearn
from conftest import make_judged
from sklearn.inspection import permutation_importance
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    RandomizedSearchCV,
    cross_val_score,
    learning_curve,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from ranking import JudgedLists, Ranker, make_ranking_scorer
from ranking.data.judged_lists import query_weights, repeat_queries
from ranking.errors import DataError, DataWarning
from ranking.metrics.evaluation import evaluate, mean
from ranking.metrics.parse import parse_metric

DATA = make_judged(6, n_queries=24)
X, y = DATA.features * [1, 5, 1, 1, 1, 1], DATA.grades
QID = DATA.query_ids[DATA.row_groups]


@pytest.fixture
def routing() -> Iterator[None]:
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def pipeline() -> Pipeline:
    ranker = Ranker(loss="listnet", regularizer="l2:strength=0.01", solver="lbfgs")
    ranker.set_fit_request(qid=True, sample_weight=True)
    ranker.set_score_request(qid=True, sample_weight=True)
    scaler = StandardScaler().set_fit_request(sample_weight=False)
    return make_pipeline(scaler, ranker)


PARAMS = {"ranker__regularizer": ["l2:strength=0.001", "l2:strength=1000"]}


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("scoring", [None, "map", "pair-error"])
def test_grid_search_chooses_by_query(scoring: str | None):
    scorer = None if scoring is None else make_ranking_scorer(scoring)
    search = GridSearchCV(pipeline(), PARAMS, cv=GroupKFold(3), scoring=scorer)
    search.fit(X, y, qid=QID, groups=QID, sample_weight=np.ones(y.size))
    scores = search.cv_results_["mean_test_score"]
    assert np.isfinite(scores).all()
    assert (scores <= 0).all() == (scoring == "pair-error")
    if scoring is None:  # by hand, the score of the first parameters is the same
        ranker = pipeline().set_params(ranker__regularizer="l2:strength=0.001")
        folds = list(GroupKFold(3).split(X, y, QID))
        by_hand = [
            ranker.fit(X[a], y[a], qid=QID[a]).score(X[b], y[b], qid=QID[b]) for a, b in folds
        ]
        assert scores[0] == pytest.approx(np.average(by_hand))


@pytest.mark.usefixtures("routing")
def test_other_searches_and_curves():
    options = {"cv": GroupKFold(2), "scoring": make_ranking_scorer("ndcg@5")}
    search = RandomizedSearchCV(pipeline(), PARAMS, n_iter=2, random_state=0, **options)
    assert np.isfinite(search.fit(X, y, qid=QID, groups=QID).best_score_)
    params = {"qid": QID, "groups": QID}
    folds = cross_val_score(pipeline(), X, y, params=params, **options)
    by_hand = []
    for a, b in GroupKFold(2).split(X, y, QID):
        scores = pipeline().fit(X[a], y[a], qid=QID[a]).predict(X[b])
        lists = JudgedLists(X[b], y[b], QID[b])
        metric = parse_metric("ndcg@5")
        values = evaluate([metric], lists, scores[lists.row_order])[metric.spelled()]
        by_hand.append(mean(values))
    assert folds == pytest.approx(by_hand)
    sizes = [0.5, 1.0]
    curve = learning_curve(pipeline(), X, y, train_sizes=sizes, params=params, **options)
    assert np.isfinite(curve[2]).all()


def test_permutation_importance_has_the_largest_weight_first():
    ranker = make_pipeline(StandardScaler(), Ranker(loss="listnet", solver="lbfgs"))
    ranker.fit(X, y, ranker__qid=QID)
    scorer = make_ranking_scorer("ndcg@10", qid=QID)
    importance = permutation_importance(ranker, X, y, scoring=scorer, n_repeats=3, random_state=0)
    weights = np.abs(ranker[-1].coef_)
    assert np.argmax(importance.importances_mean) == np.argmax(weights)
    assert np.array_equal(ranker[-1].feature_importances_, weights)


def test_set_output_and_html():
    names = [f"f{at}" for at in range(6)]
    ranker = make_pipeline(StandardScaler(), Ranker(loss="listnet", solver="lbfgs"))
    ranker.set_output(transform="pandas").fit(
        pandas.DataFrame(X, columns=names), y, ranker__qid=QID
    )
    assert ranker[-1].feature_names_in_.tolist() == names
    assert "Ranker" in ranker._repr_html_()


@pytest.mark.parametrize("recipe", ["listnet", "rank-svm-linear", "domination", "lambdarank"])
def test_weights_are_repetitions_in_every_loss(recipe: str):
    weights = np.where(QID % 2 == 0, 2.0, 1.0)
    weights[QID[0] == QID] = 0.0
    weighted = Ranker.from_recipe(recipe).fit(X, y, qid=QID, sample_weight=weights)
    once = np.flatnonzero(QID[0] != QID)
    twice = np.flatnonzero((QID[0] != QID) & (QID % 2 == 0))
    rows, ids = np.concatenate([once, twice]), np.concatenate([QID[once], QID[twice] + 1000])
    expected = Ranker.from_recipe(recipe).fit(X[rows], y[rows], qid=ids)
    assert weighted.coef_ == pytest.approx(expected.coef_, abs=1e-3)
    plain = Ranker.from_recipe(recipe).fit(X, y, qid=QID)
    assert not np.allclose(weighted.coef_, plain.coef_, atol=1e-3)


def test_weights_that_are_no_multiples_are_rounded_to_a_sixteenth_of_the_largest():
    lists = JudgedLists(X, y, QID)
    weights = query_weights(lists, np.linspace(0.3, 1.7, y.size))
    repeated = repeat_queries(lists, weights)
    expected = np.rint(16 * weights / weights.max()).astype(int)
    sizes = np.repeat(np.diff(lists.group_ptr), expected)
    assert np.diff(repeated.group_ptr).tolist() == sizes.tolist()


def test_weights_that_say_nothing_are_refused():
    with pytest.raises(DataError, match="every sample_weight is zero"):
        Ranker.from_recipe("listnet").fit(X, y, qid=QID, sample_weight=np.zeros(y.size))


def test_a_scorer_without_queries_says_so():
    ranker = Ranker(loss="listnet", solver="lbfgs").fit(X, y, qid=QID)
    with pytest.warns(DataWarning, match="qid did not reach the scorer, so all"):
        make_ranking_scorer("ndcg@10")(ranker, X, y)
    with pytest.raises(DataError, match="let metadata routing pass the qid of each part"):
        make_ranking_scorer("ndcg@10", qid=QID)(ranker, X[:50], y[:50])


def test_trees_and_thresholds_have_importances():
    """Only the first feature decides, so it is the most important one."""
    pytest.importorskip("lightgbm", reason="lightgbm is not installed", exc_type=ImportError)
    grades = np.digitize(X[:, 0], [0.0, 1.0])
    for recipe in ("mart", "rankboost"):
        importances = Ranker.from_recipe(recipe).fit(X, grades, qid=QID).feature_importances_
        assert importances.shape == (X.shape[1],)
        assert np.argmax(importances) == 0
    with pytest.raises(AttributeError, match="permutation_importance measures any model"):
        _ = Ranker(loss="listnet").feature_importances_
