"""Recommendations by id: recommend, similar_items, what users have seen, and recipes."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from ranking import MatchingData, Ranker, split_data
from ranking.data.inputs import OptionalSpec
from ranking.errors import DataError, ModelFileError, PartError
from ranking.inference.fold_in import LEARNING_RATE, _step
from ranking.io.tensors import read_tensors, write_tensors

SOLVER = "sgd:max_steps=400,learning_rate=0.2"


def fitted(data, **options):
    return Ranker("factored:dimensions=8", "warp", solver=SOLVER, **options).fit(data)


@pytest.fixture
def ranker(make_tastes):
    return fitted(make_tastes(4))


def test_recommend_equals_rank_without_the_training_positives(ranker, make_tastes):
    data = make_tastes(4)
    expected = ranker.rank(data, 5, exclude=data)
    results = ranker.recommend(["u7", "u2"], k=5)
    assert results.query_ids.tolist() == ["u7", "u2"]
    for user, ranked in results:
        assert ranked == expected[user]
    seen = ranker.recommend(["u7"], k=5, exclude_seen=False)
    assert seen["u7"] == ranker.rank(data, 5)["u7"]
    assert list(ranker.recommend([])) == []
    frame = results.to_frame("pandas")
    assert list(frame.columns) == ["user", "item", "rank", "score"]


def test_recommend_refuses_unknown_users(ranker):
    with pytest.raises(DataError, match="does not know user 'eve', only others such as 'u0'"):
        ranker.recommend(["u1", "eve"])
    with pytest.raises(DataError, match="give a list of ids, such as \\['u1'\\]"):
        ranker.recommend("u1")
    with pytest.raises(DataError, match="give each once"):
        ranker.recommend(["u1", "u1"])
    with pytest.raises(DataError, match="k is 0"):
        ranker.recommend(["u1"], k=0)


def test_similar_items_equal_similar(ranker, make_tastes):
    everything = ranker.similar(make_tastes(4), 4)
    results = ranker.similar_items(["i9", "i3"], 4)
    assert [item for item, _ in results] == ["i9", "i3"]
    assert all(ranked == everything[item] for item, ranked in results)
    with pytest.raises(DataError, match="does not know item 'film'"):
        ranker.similar_items(["film"])


def described(seed: int = 0, *, users: bool = True) -> MatchingData:
    """Interactions of users and items with features, those of the items dense."""
    rng = np.random.default_rng(seed)
    ages = sparse.random_array((12, 3), density=0.6, rng=rng, format="csr") if users else None
    relevance = (rng.random((12, 8)) < 0.3).astype(float)
    relevance[np.arange(12), np.arange(12) % 8] = 1.0
    names = [f"u{at}" for at in range(12)], [f"i{at}" for at in range(8)]
    return MatchingData(
        ages, rng.random((8, 4)), relevance, query_ids=names[0], document_ids=names[1]
    )


PARTS = [
    ("factored:dimensions=4", "warp", "sgd:max_steps=200"),
    ("bilinear", "hinge", "sgd:max_steps=100"),
    ("structured:dimensions=4", "warp", "sgd:max_steps=200"),
]


@pytest.mark.parametrize("users", [True, False])
@pytest.mark.parametrize("parts", PARTS, ids=lambda parts: parts[0].partition(":")[0])
def test_models_with_features_recommend_too(parts, users, tmp_path):
    """Features of the training data are stored, so that ids are enough."""
    data = described(users=users)
    ranker = Ranker(*parts[:2], solver=parts[2]).fit(data)
    expected = ranker.rank(data, 3, exclude=data)
    wanted = ["u7", "u2"]
    assert list(ranker.recommend(wanted, 3)) == [(user, expected[user]) for user in wanted]
    ranker.save(tmp_path / "model")
    loaded = Ranker.load(tmp_path / "model")
    assert list(loaded.recommend(wanted, 3)) == list(ranker.recommend(wanted, 3))
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()
    if parts[0] != "bilinear":
        assert loaded.similar_items(["i3"], 4)["i3"] == ranker.similar(data, 4)["i3"]
    entries = loaded.explain("u7", expected["u7"][0][0])
    score = ranker.predict(data)[7, data.document_ids.tolist().index(expected["u7"][0][0])]
    assert sum(one.contribution for one in entries) == pytest.approx(score, abs=1e-5)


def test_a_file_without_what_users_have_does_not_have_their_features(tmp_path):
    for users in (True, False):
        ranker = Ranker(*PARTS[0][:2], solver=PARTS[0][2]).fit(described(users=users))
        ranker.save(tmp_path / "private", seen=False)
        loaded = Ranker.load(tmp_path / "private")
        assert not any("seen/users" in name for name in read_tensors(tmp_path / "private")[0])
        if users:
            with pytest.raises(DataError, match="saved without the features of its users"):
                loaded.recommend(["u1"])
        else:
            shown = loaded.recommend(["u1"], exclude_seen=False)
            assert shown == ranker.recommend(["u1"], exclude_seen=False)


def test_partial_fit_keeps_the_latest_features():
    first, second = described(), described(1)
    ids = [f"u{at}" for at in range(6, 18)], [f"i{at}" for at in range(4, 12)]
    second = second._replace(query_ids=np.array(ids[0]), document_ids=np.array(ids[1]))
    ranker = Ranker(*PARTS[0][:2], solver=PARTS[0][2]).fit(first).partial_fit(second)
    seen = ranker.seen_
    assert seen.user_ids.size == 18
    assert seen.item_ids.size == 12
    users = dict(zip(seen.user_ids.tolist(), seen.users.rows.toarray().tolist(), strict=True))
    expected = dict(zip(first.query_ids.tolist(), first.queries.toarray().tolist(), strict=True))
    expected |= dict(zip(ids[0], second.queries.toarray().tolist(), strict=True))
    assert users == expected
    assert len(ranker.recommend(["u0", "u17"], 3)["u17"]) == 3


@pytest.mark.parametrize(
    "change",
    [
        {"seen/users.indices": np.full(3, 99, np.int32)},
        {"seen/users.data": None},
        {"seen/items": np.zeros((8, 3))},
        {"seen/items": np.full((8, 4), np.nan)},
        {"seen/items": np.zeros((8, 4), np.int64)},
    ],
    ids=str,
)
def test_damaged_features_are_refused(change, tmp_path):
    ranker = Ranker(*PARTS[0][:2], solver=PARTS[0][2]).fit(described())
    ranker.save(tmp_path / "model")
    tensors, description = read_tensors(tmp_path / "model")
    tensors = {name: one for name, one in {**tensors, **change}.items() if one is not None}
    write_tensors(tmp_path / "bad", tensors, description)
    with pytest.raises(ModelFileError, match=r"seen items|must be numbers|needs `data`"):
        Ranker.load(tmp_path / "bad")


def test_models_of_labels_and_judged_rows_need_data(make_matching, judged):
    matrix = Ranker(loss="hinge", solver="sgd:max_steps=5").fit(make_matching(1))
    linear = Ranker(loss="domination").fit(judged)
    for other in (matrix, linear):
        with pytest.raises(DataError, match="call rank or similar with the data"):
            other.recommend([1])
        with pytest.raises(DataError, match="similar_items is for models of users and items"):
            other.similar_items([1])


def test_seen_items_are_saved(ranker, tmp_path):
    ranker.save(tmp_path / "model")
    loaded = Ranker.load(tmp_path / "model")
    assert loaded.recommend(["u3"]) == ranker.recommend(["u3"])
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()
    ranker.save(tmp_path / "private", seen=False)
    loaded = Ranker.load(tmp_path / "private")
    assert loaded.recommend(["u3"], exclude_seen=False) == ranker.recommend(
        ["u3"], exclude_seen=False
    )
    with pytest.raises(DataError, match="saved without the items"):
        loaded.recommend(["u3"])
    assert "indices" not in str(read_tensors(tmp_path / "private")[0].keys())


def test_damaged_seen_items_are_refused(ranker, tmp_path):
    ranker.save(tmp_path / "model")
    tensors, description = read_tensors(tmp_path / "model")
    for change in (
        {"seen/indices": tensors["seen/indices"] + 1000},
        {"seen/indptr": tensors["seen/indptr"].astype(np.float64)},
        {"seen/indptr": tensors["seen/indptr"][:-1]},
    ):
        write_tensors(tmp_path / "bad", {**tensors, **change}, description)
        with pytest.raises(ModelFileError, match="seen items"):
            Ranker.load(tmp_path / "bad")


def test_partial_fit_adds_users_and_what_they_have():
    first = MatchingData.from_interactions(["a", "a", "b"], ["x", "y", "y"])
    second = MatchingData.from_interactions(["c", "a", "d"], ["z", "z", "w"])
    ranker = fitted(first).partial_fit(second)
    assert set(ranker.recommend(["b"])["b"].ids.tolist()) == {"x", "z", "w"}
    assert set(ranker.recommend(["c"])["c"].ids.tolist()) == {"x", "y", "w"}
    assert ranker.recommend(["a"])["a"].ids.tolist() == ["w"]
    ranker.partial_fit(MatchingData.from_interactions(["c", "b"], ["x", "z"]))
    assert set(ranker.recommend(["c"])["c"].ids.tolist()) == {"y", "w"}
    assert set(ranker.recommend(["d"])["d"].ids.tolist()) == {"x", "y", "z"}


# --- what "auto" and recipes choose -------------------------------------------------------------


def test_auto_chooses_embeddings_for_interactions(make_tastes):
    train, test = split_data(make_tastes(1, 90, 60, share=0.4), "leave-one-out", check=False)
    ranker = Ranker(loss="warp", random_state=1).fit(train)
    assert ranker.model_.name == "factored"
    assert ranker.description_["parts"]["model"]["spec"].startswith("factored:dimensions=")
    assert ranker.description_["parts"]["solver"]["spec"].startswith("sgd:")
    assert ranker.score(test, metric="recall@10", exclude=train) > 0.7
    # One free weight per pair learns nothing about other pairs.
    matrix = Ranker("bilinear", "warp", random_state=1).fit(train)
    assert matrix.score(test, metric="recall@10", exclude=train) < 0.2


def test_recipe_is_what_the_command_line_trains(make_tastes, tmp_path):
    ranker = Ranker.from_recipe("warp", random_state=3)
    assert ranker.get_params()["model"] == "factored"
    assert ranker.loss == "warp"
    assert ranker.random_state == 3
    same = Ranker("factored:dimensions=32,init_scale=0.1", "warp:max_trials=30", "l2")
    same.set_params(solver="sgd:epochs=30")
    data = make_tastes(4)
    same.set_params(random_state=3)
    assert clone(ranker).fit(data).model_.U.tobytes() == same.fit(data).model_.U.tobytes()
    assert Ranker.from_recipe("warp", loss="bpr").loss == "bpr"
    with pytest.raises(PartError, match="there is no recipe"):
        Ranker.from_recipe("wrap")


@pytest.mark.parametrize(
    ("recipe", "model", "loss"),
    [
        ("warp", "auto", "warp"),
        ("wsabie", "auto", "warp"),
        ("auc", "auto", "auc"),
        ("bpr", "auto", "bpr"),
        ("lasr", "structured", "warp"),
    ],
)
def test_recipe_is_its_parts_and_their_defaults(recipe, model, loss, make_tastes):
    regularizer = {"lasr": "max-norm:limit=3", "auc": "none", "bpr": "none"}.get(recipe, "l2")
    solver = "sgd" if recipe == "lasr" else "sgd:epochs=30"
    data = make_tastes(4)
    fitted = Ranker.from_recipe(recipe, random_state=3).fit(data)
    plain = Ranker(model, loss, regularizer, solver, random_state=3).fit(data)
    specs = [
        {kind: part["spec"] for kind, part in ranker.description_["parts"].items()}
        for ranker in (fitted, plain)
    ]
    assert specs[0] == specs[1]
    assert fitted.predict(data).tobytes() == plain.predict(data).tobytes()


def test_features_of_a_recipe_are_for_texts_only(make_matching):
    ranker = Ranker.from_recipe("sgd-decaying", solver="sgd:max_steps=5")
    assert isinstance(clone(ranker).features, OptionalSpec)
    assert clone(ranker).fit(make_matching(1)).text_ is None


def test_recipe_searches_its_parameter_on_validation_data(judged, valid):
    ranker = Ranker.from_recipe("domination")
    assert ranker.parameter_search is not None
    ranker.fit(judged, valid=valid)
    assert len(ranker.report_.trials) == len(ranker.parameter_search.trials())
    assert "search" in ranker.description_
    plain = Ranker.from_recipe("domination").fit(judged)
    assert plain.report_ is None
    part = Ranker.from_recipe("domination").parameter_search.part
    assert Ranker.from_recipe("domination", **{part: "none"}).parameter_search is None


# --- parameters ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("lr", "learning_rate"),
        ("eta", "learning_rate"),
        ("learning_rate", 'solver="sgd:learning_rate'),
        ("no_components", 'model="factored:dimensions='),
        ("n_factors", 'model="factored:dimensions='),
        ("factors", 'model="factored:dimensions='),
        ("embedding_dim", 'model="factored:dimensions='),
        ("n_epochs", 'solver="sgd:epochs='),
        ("draws", 'solver="sgd:epochs='),
        ("reg", 'regularizer="l2:strength='),
        ("lambda", 'regularizer="l2:strength='),
        ("alpha", 'regularizer="l2:strength='),
        ("weight_decay", 'regularizer="l2:strength='),
        ("observers", "callbacks="),
        ("seed", "random_state="),
        ("regulariser", "regularizer"),
    ],
)
def test_foreign_names_get_the_right_one(name, remedy):
    with pytest.raises(
        TypeError, match=f"unknown parameter {name!r}; use .*{remedy.split('=')[0]}"
    ):
        Ranker(**{name: 1})


@pytest.mark.parametrize("threads", [-1, 0, 2.5, None, True])
def test_bad_threads_are_refused(judged, tmp_path, threads):
    with pytest.raises(PartError, match=r"threads is .*whole number from 1"):
        Ranker(loss="domination", threads=threads).fit(judged)
    ranker = Ranker(loss="domination").fit(judged)
    ranker.save(tmp_path / "model")
    with pytest.raises(PartError, match="threads is"):
        Ranker.load(tmp_path / "model", threads=threads)
    with pytest.raises(PartError, match="threads is"):
        ranker.set_params(threads=threads).predict(judged)


@pytest.mark.parametrize("state", [2.5, None, -1, 2**64, "one"])
def test_bad_random_states_are_refused(judged, state):
    with pytest.raises(PartError, match=r"random_state is .*whole number from 0"):
        Ranker(loss="domination", random_state=state).fit(judged)


def test_predict_none_is_refused(judged, make_matching):
    for fit in (
        Ranker(loss="domination").fit(judged),
        Ranker(loss="hinge", solver="sgd:max_steps=5").fit(make_matching(1)),
    ):
        for call in (fit.predict, fit.rank, fit.score):
            with pytest.raises(DataError, match="X is None; give an array"):
                call(None)


def test_a_misspelt_parameter_is_reported_once(make_matching):
    with pytest.raises(PartError) as caught:
        Ranker(loss="hinge", solver="sgd:max_stps=5").fit(make_matching(1))
    assert str(caught.value).count("solver 'sgd'") == 1


def test_a_fold_in_step_costs_the_same_for_any_number_of_new_users():
    U, squares = np.zeros((50_000, 8), np.float32), np.ones((50_000, 8), np.float32)
    documents = np.random.default_rng(0).normal(size=(5, 8)).astype(np.float32)
    triplets = np.array([[7, 0, 1], [49_999, 2, 3], [7, 4, 1]])
    slopes = np.array([-1.0, -0.5, 0.25], np.float32)
    tracemalloc.start()
    _step(U, squares, documents, triplets, slopes)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < U.nbytes / 10
    # By the definition: an Adagrad step for the queries of the triplets.
    gradient = np.zeros_like(U)
    for (query, positive, negative), slope in zip(triplets, slopes, strict=True):
        gradient[query] += slope * (documents[positive] - documents[negative])
    np.testing.assert_array_equal(U, -np.float32(LEARNING_RATE) * gradient / np.sqrt(squares))
    assert np.flatnonzero(U.any(axis=1)).tolist() == [7, 49_999]
