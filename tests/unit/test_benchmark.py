"""The benchmark of all rankers that fit some data."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from scipy.stats import ttest_rel

from ranking import Benchmark, JudgedLists, MatchingData, Ranker, TextCollection
from ranking.contracts.recipe import Choice, Search
from ranking.data.synthetic import demo
from ranking.errors import DataError, PartError
from ranking.registry import get_registry
from ranking.training.budget import Budget
from ranking.training.candidates import fitting_recipes, kind_of, trials

TEXTS = TextCollection(["q", "r"], ["a b", "c"], ["d", "e"], ["a", "c"], [[1, 0], [0, 1]])
CLICKS = MatchingData.from_interactions([1, 1, 2, 2], [3, 4, 3, 5])
LABELS = MatchingData(np.eye(3), None, np.eye(3))
ROWS = JudgedLists([[1.0], [2.0]], [0, 1], ["a", "a"])


@pytest.mark.parametrize(
    ("data", "kind", "fits", "does_not"),
    [
        (TEXTS, "texts", {"bm25", "pamir", "lsi-documents"}, {"combine", "listnet", "ease"}),
        (CLICKS, "interactions", {"warp", "ease", "popularity", "lsi"}, {"bm25", "one-vs-rest"}),
        (LABELS, "features", {"one-vs-rest", "warp", "rank-svm"}, {"popularity", "bm25", "slim"}),
        (ROWS, "judged", {"listnet", "mart", "domination"}, {"warp", "bm25"}),
    ],
)
def test_recipes_fit_the_kind_of_data(data, kind, fits, does_not):
    names = set(fitting_recipes(data))
    assert kind_of(data) == kind
    assert fits <= names
    assert not does_not & names
    assert len({"warp", "wsabie"} & names) <= 1  # two names of one recipe


def test_named_recipes_are_taken_as_they_are():
    assert list(fitting_recipes(CLICKS, ["bm25"])) == ["bm25"]
    with pytest.raises(PartError, match="there is no recipe 'wrap'"):
        fitting_recipes(CLICKS, ["wrap"])


@pytest.mark.parametrize("text", ["", "60", "0s", "-3s", "1.5trials", "sixty"])
def test_a_budget_that_cannot_be_read_is_refused(text: str):
    with pytest.raises(PartError, match="the budget is"):
        Budget.parse(text)


def test_a_budget_of_trials_counts_them():
    running = Budget.parse("2trials").start()
    assert [running.is_spent for running.trials in (0, 1, 2)] == [False, False, True]
    assert Budget.parse("2m") == Budget(seconds=120.0)


def _parts(**specs: str):
    return {kind: get_registry().create(kind, spec) for kind, spec in specs.items()}


def test_trials_of_a_search_come_once_each_in_an_order_of_the_seed():
    search = Search("regularizer", "strength", (1.0, 0.1, 0.01, 0.001), "map")
    orders = [list(trials(search, {}, seed)) for seed in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(search.trials())


def test_draws_stay_within_their_factors_and_repeat_for_a_seed():
    parts = _parts(
        model="factored:dimensions=32", loss="bpr", regularizer="l2:strength=0.01", solver="sgd"
    )
    first, again = (
        [choices for choices, _ in zip(trials(None, parts, 3), range(50), strict=False)]
        for _ in range(2)
    )
    assert first == again
    values = np.array([[choice.value for choice in choices] for choices in first])
    assert [choice[:2] for choice in first[0]] == [
        ("model", "dimensions"),
        ("regularizer", "strength"),
    ]
    assert values[:, 0].min() >= 16
    assert values[:, 0].max() <= 64
    assert np.array_equal(values[:, 0], values[:, 0].astype(int))
    assert values[:, 1].min() >= 0.001 * 0.999
    assert values[:, 1].max() <= 0.1 * 1.001
    assert np.ptp(np.log10(values[:, 1])) > 1.5


def test_what_has_nothing_to_tune_is_trained_once():
    parts = _parts(
        model="factored:dimensions=1", loss="squared", regularizer="none", solver="popularity"
    )
    assert list(trials(None, parts)) == []


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    data = demo()
    folder = tmp_path_factory.mktemp("models")
    recipes = ["regression", "adarank-map", "one-vs-rest"]
    benchmark = Benchmark("3trials", recipes=recipes, metrics="ndcg@5,map", folder=folder)
    return data, folder, benchmark.run(data["train"], data["valid"], data["test"])


def test_a_system_is_the_best_of_its_trials_on_validation_data(judged):
    data, _, report = judged
    system = next(one for one in report.systems if one.recipe == "regression")
    ranker = Ranker.from_recipe("regression")
    search = ranker.parameter_search
    tried: list[tuple[Choice, ...]] = [(), *list(trials(search, {}, 0))[:2]]
    values = []
    for choices in tried:
        spec = f"l2:strength={choices[0].value}" if choices else ranker.regularizer
        one = Ranker.from_recipe("regression", regularizer=spec).fit(data["train"])
        values.append(
            (one.score(data["valid"], metric="ndcg@5"), one.score(data["test"], metric="ndcg@5"))
        )
    best = max(values, key=lambda pair: pair[0])
    assert system.valid == pytest.approx(best[0])
    assert system.test.mean("ndcg@5") == pytest.approx(best[1])
    assert system.trials == 3


def test_model_files_are_those_that_were_measured(judged):
    data, folder, report = judged
    for system in report.systems:
        ranker = Ranker.load(folder / f"{system.recipe}.safetensors")
        assert ranker.score(data["test"], metric="map") == pytest.approx(system.test.mean("map"))
        assert system.model_bytes == (folder / f"{system.recipe}.safetensors").stat().st_size
        assert system.peak_bytes > 1e6


def test_what_cannot_be_trained_is_left_out_with_the_reason(judged):
    assert list(judged[2].left_out) == ["one-vs-rest"]
    assert "judged" in judged[2].left_out["one-vs-rest"]
    with pytest.raises(DataError, match="no recipe could be trained: one-vs-rest"):
        Benchmark("1trials", recipes=["one-vs-rest"]).run(demo()["train"])


def test_letters_are_those_of_a_paired_t_test(judged):
    best, other = judged[2].systems
    p = ttest_rel(best.test["ndcg@5"], other.test["ndcg@5"]).pvalue
    assert (best.letter, other.letter) == ("a", "b")
    assert best.test.mean("ndcg@5") > other.test.mean("ndcg@5")
    assert best.better_than == ("b" if p < 0.05 else "")


@pytest.mark.slow
def test_interactions_are_held_out_and_what_users_have_is_not_ranked():
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 2, 60)
    users = np.repeat(np.arange(60), 12)
    items = np.concatenate([rng.permutation(20)[:12] + 20 * group for group in groups])
    data = MatchingData.from_interactions(users, items)
    recipes = ["popularity", "item-knn"]
    reports = [Benchmark("2trials", recipes=recipes).run(data) for _ in range(2)]
    rows = reports[0].rows()
    assert [row["recipe"] for row in rows] == ["item-knn", "popularity"]
    for name in ("ndcg@20(empty=skip)", "low", "settings", "valid"):
        assert [row[name] for row in rows] == [row[name] for row in reports[1].rows()]
    # The 20 items of the other group are no help: 8 to 10 of the own 20 remain to be ranked.
    assert rows[0]["recall@20(empty=skip)"] > 0.99
    assert re.fullmatch(r"\d+ queries, 40 documents", reports[0].facts["test"])


def test_a_late_training_ends_with_its_epoch():
    report = Benchmark("0.001s", recipes=["lambdarank"]).run(demo()["train"])
    assert report.systems[0].trials == 1
    assert report.facts["budget"] == "0.001s"


def test_a_selection_is_scored_in_the_order_of_its_rows():
    data = JudgedLists([[3.0], [1.0], [2.0], [0.0]], [1, 0, 0, 1], ["b", "a", "b", "a"])
    ranker = Ranker(loss="domination").fit(data)
    assert np.array_equal(ranker.predict(data.select([1])), ranker.predict(data)[[0, 2]])


def test_the_report_is_plain_values(judged):
    assert json.loads(json.dumps(judged[2].rows()))[0]["recipe"] == judged[2].systems[0].recipe
