"""Data frames of interactions and of judged rows."""

from __future__ import annotations

import numpy as np
import pandas
import polars
import pyarrow
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ranking import MatchingData, Ranker
from ranking.errors import DataError

KINDS = {
    "pandas": pandas.DataFrame,
    "polars": polars.DataFrame,
    "pyarrow": pyarrow.table,
}
RATINGS = {
    "userId": [1, 1, 2, 2, 3],
    "movieId": [10, 11, 10, 12, 11],
    "rating": [5.0, 3.0, 4.0, 4.5, 2.0],
    "timestamp": [1, 2, 3, 4, 5],
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_frame_gives_the_data_of_its_columns(kind):
    data = MatchingData.from_interactions(KINDS[kind](RATINGS))
    expected = MatchingData.from_interactions(
        RATINGS["userId"], RATINGS["movieId"], RATINGS["rating"], RATINGS["timestamp"]
    )
    assert data.fingerprint() == expected.fingerprint()
    np.testing.assert_array_equal(data.times, expected.times)


def test_columns_of_other_names_are_named():
    frame = pandas.DataFrame({"who": ["a", "b"], "what": ["x", "y"], "stars": [5, 1]})
    data = MatchingData.from_interactions(frame, user="who", item="what", rating="stars")
    assert data.query_ids.tolist() == ["a", "b"]
    with pytest.raises(DataError, match="no column that is the user"):
        MatchingData.from_interactions(frame)
    with pytest.raises(DataError, match="no column 'missing'"):
        MatchingData.from_interactions(frame, user="missing", item="what")


@pytest.mark.parametrize("as_frame", [True, False])
def test_interactions_below_min_rating_are_left_out(as_frame):
    arrays = [pandas.DataFrame(RATINGS)] if as_frame else list(RATINGS.values())
    data = MatchingData.from_interactions(*arrays, min_rating=4)
    pairs = [(1, 10), (2, 10), (2, 12)]
    rows, columns = data.relevance.nonzero()
    assert list(zip(data.query_ids[rows], data.document_ids[columns], strict=True)) == pairs
    with pytest.raises(DataError, match="at least 6"):
        MatchingData.from_interactions(*arrays, min_rating=6)
    with pytest.raises(DataError, match="have none"):
        MatchingData.from_interactions([1], [2], min_rating=1)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_features_of_items_are_found_by_the_column_of_their_ids(kind):
    movies = KINDS[kind](
        {
            "year": [1979, 1972, 2013],
            "movieId": [10, 11, 12],
            "genres": [["horror"], ["drama", "space"], ["space"]],
        }
    )
    data = MatchingData.from_interactions(KINDS[kind](RATINGS), item_features=movies)
    names = data.document_feature_ids.tolist()
    assert names == ["year", "genres=drama", "genres=horror", "genres=space"]
    row = data.document_rows[data.document_ids.tolist().index(11)].toarray().ravel()
    np.testing.assert_array_equal(row, [1972, 1, 0, 1])


@pytest.mark.parametrize("kind", KINDS)
def test_a_ranker_takes_a_frame_of_interactions(kind):
    frame = KINDS[kind](RATINGS)
    fitted = Ranker.from_recipe("warp").fit(frame)
    expected = Ranker.from_recipe("warp").fit(MatchingData.from_interactions(frame))
    assert fitted.model_.V.tobytes() == expected.model_.V.tobytes()
    assert not hasattr(fitted, "feature_names_in_")
    assert fitted.score(frame) == expected.score(MatchingData.from_interactions(frame))
    assert fitted.recommend([1], 1)[1] == expected.recommend([1], 1)[1]


@pytest.mark.parametrize(
    ("arguments", "columns", "message"),
    [
        ((pandas.DataFrame(RATINGS), [1]), {}, "give it alone"),
        (([1], [2]), {"user": "userId"}, "name columns of a data frame"),
        (([1],), {}, "items are missing"),
        ((pandas.DataFrame(RATINGS),), {"who": "userId"}, "takes no 'who'"),
    ],
)
def test_misuse_of_from_interactions_is_refused(arguments, columns, message):
    with pytest.raises(DataError, match=message):
        MatchingData.from_interactions(*arguments, **columns)


def judged(n_rows: int = 60) -> tuple[pandas.DataFrame, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(rng.normal(size=(n_rows, 3)), columns=list("abc"))
    grades = np.digitize(frame["a"] + rng.normal(size=n_rows), [0.0, 1.0])
    return frame, grades, np.repeat(np.arange(n_rows // 10), 10)


def test_queries_that_pandas_made_floats_are_integers_again():
    frame, grades, qid = judged()
    ranker = Ranker(loss="domination").fit(frame, grades, qid=pandas.Series(qid, dtype=float))
    expected = Ranker(loss="domination").fit(frame, grades, qid=qid)
    np.testing.assert_array_equal(ranker.coef_, expected.coef_)
    with pytest.raises(DataError, match="row 3 is missing"):
        Ranker(loss="domination").fit(frame, grades, qid=np.where(np.arange(60) == 3, np.nan, 1.0))
    with pytest.raises(DataError, match="whole numbers"):
        Ranker(loss="domination").fit(frame, grades, qid=np.full(60, 0.5))


@pytest.mark.parametrize(
    ("values", "remedy"),
    [
        (["red", "blue"] * 30, "OneHotEncoder"),
        (pandas.Categorical(["u", "v"] * 30), "OneHotEncoder"),
        ([[1, 2], [3]] * 30, "one column per value"),
        (pandas.date_range("2026-01-01", periods=60), "convert it to a number"),
    ],
)
def test_columns_that_are_no_numbers_are_refused_with_a_remedy(values, remedy):
    frame, grades, qid = judged()
    with pytest.raises(DataError, match=f"column 'd' .*{remedy}"):
        Ranker(loss="domination").fit(frame.assign(d=values), grades, qid=qid)


def test_sample_weight_of_score_weights_queries():
    frame, grades, qid = judged()
    ranker = Ranker(loss="domination").fit(frame, grades, qid=qid)
    weights = np.random.default_rng(1).random(60)
    values = ranker.evaluate(frame, grades, qid=qid)["ndcg@10"]
    per_query = np.array([weights[qid == query].mean() for query in np.unique(qid)])
    expected = np.average(values, weights=per_query)
    assert ranker.score(frame, grades, qid=qid, sample_weight=weights) == pytest.approx(expected)
    for wrong in (weights[:-1], -weights, np.zeros(60), np.full(60, np.nan)):
        with pytest.raises(DataError, match="sample_weight"):
            ranker.score(frame, grades, qid=qid, sample_weight=wrong)


def test_grid_search_in_a_pipeline_with_metadata_routing_scores_every_fold():
    frame, grades, qid = judged()
    with sklearn.config_context(enable_metadata_routing=True):
        ranker = Ranker(loss="domination", regularizer="l2")
        ranker.set_fit_request(qid=True).set_score_request(qid=True)
        search = GridSearchCV(
            make_pipeline(StandardScaler(), ranker),
            {"ranker__regularizer": ["l2:strength=0.01", "l2:strength=10"]},
            cv=GroupKFold(3),
        )
        search.fit(frame, grades, qid=qid, groups=qid)
    scores = search.cv_results_["mean_test_score"]
    assert np.isfinite(scores).all()
    expected = []
    for train, test in GroupKFold(3).split(frame, grades, qid):
        scaler = StandardScaler().fit(frame.iloc[train])
        best = Ranker(loss="domination", regularizer="l2:strength=0.01").fit(
            scaler.transform(frame.iloc[train]), grades[train], qid=qid[train]
        )
        expected.append(best.score(scaler.transform(frame.iloc[test]), grades[test], qid=qid[test]))
    assert scores[0] == pytest.approx(np.mean(expected))


def test_coef_is_there_for_linear_models_only():
    frame, grades, qid = judged()
    ranker = Ranker(loss="domination").fit(frame, grades, qid=qid)
    np.testing.assert_array_equal(ranker.feature_importances_, np.abs(ranker.model_.weights))
    assert not hasattr(Ranker(loss="domination"), "coef_")
    assert not hasattr(Ranker.from_recipe("warp").fit(pandas.DataFrame(RATINGS)), "coef_")


@pytest.mark.parametrize("convert", [lambda frame: frame, polars.from_pandas])
def test_float_ids_lists_and_titles_become_ids_and_features(convert):
    log = pandas.DataFrame({"userId": [1.0, 2.0], "movieId": [10.0, 20.0]})
    films = pandas.DataFrame(
        {
            "movieId": [10, 20],
            "genres": [["a", "b"], ["b"]],
            "title": ["The Thing", "The Fly"],
            "country": ["New Zealand", "New Zealand"],
        }
    )
    data = MatchingData.from_interactions(convert(log), item_features=convert(films))
    assert data.query_ids.tolist() == [1, 2]
    assert data.document_ids.tolist() == [10, 20]
    assert data.document_feature_ids.tolist() == [
        *("genres=a", "genres=b", "title=fly", "title=the", "title=thing"),
        "country=New Zealand",
    ]


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_values_of_a_text_with_bars_are_features(kind):
    films = KINDS[kind](
        {"movieId": [10, 11, 12], "genres": ["Comedy", "Drama|Comedy", "(no genres listed)"]}
    )
    data = MatchingData.from_interactions(KINDS[kind](RATINGS), item_features=films)
    assert data.document_feature_ids.tolist() == [
        *("genres=(no genres listed)", "genres=Comedy", "genres=Drama")
    ]
    rows = dict(zip(data.document_ids.tolist(), data.document_rows.toarray().tolist(), strict=True))
    assert rows[11] == [0.0, 1.0, 1.0]


def test_ids_of_items_may_be_the_index():
    films = pandas.DataFrame({"movieId": [10, 11, 12], "year": [1979, 1972, 2013]})
    log = KINDS["pandas"](RATINGS)
    by_index = MatchingData.from_interactions(log, item_features=films.set_index("movieId"))
    by_column = MatchingData.from_interactions(log, item_features=films)
    assert by_index.fingerprint() == by_column.fingerprint()


@pytest.mark.parametrize(
    "values",
    [
        np.where(np.arange(60) == 7, np.nan, 1.0),
        pandas.array([1] * 7 + [None] + [1] * 52, dtype="Int64"),
        pandas.array([1.0] * 7 + [None] + [1.0] * 52, dtype="Float64"),
    ],
    ids=lambda values: str(values.dtype),
)
@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_missing_values_are_named_by_column(values, kind):
    frame, grades, qid = judged()
    frame = frame.assign(price=values)
    frame = frame if kind == "pandas" else polars.from_pandas(frame)
    with pytest.raises(DataError, match=r"column 'price': row 7 is missing \(NaN\)"):
        Ranker(loss="domination").fit(frame, grades, qid=qid)


def test_a_frame_whose_roles_are_unknown_says_how_to_name_them():
    log = KINDS["pandas"](RATINGS).rename(columns={"userId": "customer"})
    with pytest.raises(
        DataError, match=r"has customer, movieId.*user=\.\.\., item=\.\.\."
    ) as error:
        Ranker.from_recipe("ials").fit(log)
    assert "requires y to be passed" in str(error.value)


def test_a_lazy_frame_is_collected_first():
    log = KINDS["polars"](RATINGS).lazy()
    for call in (Ranker.from_recipe("ials").fit, MatchingData.from_interactions):
        with pytest.raises(DataError, match="LazyFrame has no rows yet; collect it first"):
            call(log)
