"""`Ranker.tune`: successive halving over recipes and parameters, within a budget."""

from __future__ import annotations

import numpy as np
import pytest

from ranking import JudgedLists, MatchingData, Ranker
from ranking.data.synthetic import demo
from ranking.errors import DataError, PartError
from ranking.training.wrappers.halving import SURE, SuccessiveHalving, hold_out
from ranking.training.wrappers.spaces import Range, sample
from ranking.training.wrappers.tuning import TuningOptions


@pytest.fixture(scope="module")
def judged() -> JudgedLists:
    return demo()["train"]


@pytest.fixture(scope="module")
def users() -> MatchingData:
    """Users of two tastes over forty items, some of which everybody has."""
    rng = np.random.default_rng(3)
    chance = np.where(np.arange(40) % 2 == np.arange(600)[:, None] % 2, 0.35, 0.03)
    rows, columns = (rng.random((600, 40)) < chance).nonzero()
    return MatchingData.from_interactions(rows, columns)


def tune(data: JudgedLists | MatchingData, **options: object) -> Ranker:
    return Ranker.tune(data, **{"budget": "8trials", "recipes": ["listnet"], **options})


def rows_without_time(ranker: Ranker) -> list[dict[str, object]]:
    return [{**row, "seconds": None} for row in ranker.report_.rows()]


def test_the_same_seed_and_budget_in_trials_give_the_same_model(judged: JudgedLists):
    one, again, other = (tune(judged, random_state=seed) for seed in (1, 1, 2))
    assert rows_without_time(one) == rows_without_time(again)
    assert one.predict(judged).tobytes() == again.predict(judged).tobytes()
    assert rows_without_time(one) != rows_without_time(other)


def test_threads_and_kernel_change_nothing(judged: JudgedLists):
    one = tune(judged, kernel="reference", budget="4trials")
    other = tune(judged, kernel="cython", threads=2, budget="4trials")
    assert rows_without_time(one) == rows_without_time(other)


@pytest.mark.parametrize("n_trials", [1, 2, 7])
def test_no_more_trainings_than_the_budget(judged: JudgedLists, n_trials: int):
    seen = []
    ranker = tune(judged, budget=f"{n_trials}trials", on_trial=seen.append)
    assert 1 <= len(seen) <= n_trials
    assert seen == ranker.report_.trials


def test_the_defaults_are_trained_first_and_kept_if_nothing_is_surely_better(judged: JudgedLists):
    report = tune(judged, recipes=["listnet", "regression"], budget="12trials").report_
    assert [(one.recipe, one.choices) for one in report.trials[:2]] == [
        ("listnet", ()),
        ("regression", ()),
    ]
    assert report.baseline in report.trials[:2]
    assert (report.best is report.baseline) == ("better than the defaults" not in report.reason)


@pytest.mark.parametrize(("n_trials", "folds"), [(18, 1), (30, 2), (50, 4)])
def test_a_choice_is_surely_better_on_folds_that_did_not_choose_it(
    users: MatchingData, n_trials: int, folds: int
):
    """The rule, computed again from the values of each query."""
    budget = f"{n_trials}trials"
    report = tune(users, recipes=["ials"], budget=budget, metrics="ndcg@5").report_
    pairs = [one for one in report.trials if one.fold > 0]
    assert [one.recipe for one in pairs] == ["ials"] * 2 * folds
    assert [one.fold for one in pairs[::2]] == list(range(1, folds + 1))
    by_fold = [pairs[at].per_query - pairs[at + 1].per_query for at in range(0, len(pairs), 2)]
    gains = np.concatenate(by_fold)
    error = gains.std(ddof=1) / np.sqrt(len(gains))
    surely = min(map(np.mean, by_fold)) > 0.0 and gains.mean() > SURE * np.sqrt(2.0) * error
    assert surely == (report.best is not report.baseline)
    assert f"by {gains.mean():+.4f} with a standard error of {error:.4f}" in report.reason


def test_halving_gives_a_third_three_times_the_queries(users: MatchingData):
    report = tune(users, recipes=["ials"], budget="40trials").report_
    rungs = [round(1.0 / one.share) for one in report.trials if one.choices and one.fold == 0]
    assert rungs[:13] == [9] * 9 + [3] * 3 + [1]
    first, second, last = (
        [one for one in report.trials[1:14] if round(1.0 / one.share) == share]
        for share in (9, 3, 1)
    )
    metric = report.metrics[0]
    best = sorted(first, key=lambda one: -one.values[metric])
    assert {one.choices for one in second} == {one.choices for one in best[:3]}
    assert last[0].choices == max(second, key=lambda one: one.values[metric]).choices


def test_the_chosen_model_is_trained_on_all_data(judged: JudgedLists):
    ranker = tune(judged, budget="1trials", recipes=["rank-svm-linear"])
    alone = Ranker.from_recipe("rank-svm-linear").fit(judged)
    epochs = ranker.report_.best.epochs
    assert epochs == 0 or ranker.n_iter_ == epochs
    if epochs in (0, alone.n_iter_):
        assert ranker.predict(judged).tobytes() == alone.predict(judged).tobytes()


def overfitted(n_queries: int = 40) -> JudgedLists:
    """More features than there are signals: trees learn the noise after some epochs."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n_queries * 10, 30))
    grades = np.digitize(X[:, 0] + 2.0 * rng.normal(size=len(X)), [0.0, 1.5])
    return JudgedLists(X, grades, np.arange(len(X)) // 10)


def test_defaults_have_all_their_epochs_unless_fewer_are_surely_better():
    """The defaults that stop early compete as a configuration, and are confirmed like one."""
    data = overfitted()
    search = SuccessiveHalving(
        data, None, TuningOptions(recipes=["lambdamart"], budget="7trials").settings(data)
    )
    report = search.run()
    baseline, stopped = report.baseline, search._stopped["lambdamart"]
    assert baseline.epochs == 0
    assert stopped.epochs > 0
    assert stopped.label() == f"defaults, stopped after epoch {stopped.epochs}"
    metric = report.metrics[0]
    assert stopped.values[metric] > baseline.values[metric]
    train, valid = search.folds[0]
    plain = Ranker.from_recipe("lambdamart").fit(train)
    assert plain.score(valid, metric=metric) == pytest.approx(baseline.values[metric])
    confirmed = [one for one in report.trials if one.fold == 1]
    assert [one.epochs for one in confirmed] == [confirmed[0].epochs, 0]
    assert confirmed[0].epochs > 0


def test_folds_of_queries_are_a_partition(judged: JudgedLists):
    held_out = [set(valid.query_ids) for _, valid in hold_out(judged, 0)]
    for (train, _), queries in zip(hold_out(judged, 0), held_out, strict=True):
        assert set(train.query_ids) == set(judged.query_ids) - queries
    assert sum(map(len, held_out)) == len(set.union(*held_out)) == judged.n_queries


def test_folds_of_interactions_are_a_partition(users: MatchingData):
    whole = users.relevance.toarray()
    parts = [valid.relevance.toarray() for _, valid in hold_out(users, 0)]
    assert np.array_equal(sum(parts), whole)
    for (train, _), part in zip(hold_out(users, 0), parts, strict=True):
        assert np.array_equal(train.relevance.toarray(), whole - part)


def test_given_validation_data_decide_and_nothing_is_held_out():
    data = demo()
    options = TuningOptions(recipes=["listnet"], budget="3trials").settings(data["train"])
    search = SuccessiveHalving(data["train"], data["valid"], options)
    report = search.run()
    assert search.folds == [(data["train"], data["valid"])]
    assert len(report.best.per_query) == data["valid"].n_queries


def test_a_metric_of_which_less_is_better_is_minimised(judged: JudgedLists):
    report = tune(judged, metrics="dominated-error,ndcg@10", budget="7trials").report_
    metric = report.metrics[0]
    assert metric.startswith("dominated-error")
    full = [one for one in report.trials if one.share == 1.0 and one.fold == 0]
    assert report.baseline.values[metric] == min(
        one.values[metric] for one in full if not one.choices
    )


def test_recipes_that_do_not_fit_drop_out_with_the_reason(judged: JudgedLists):
    report = tune(judged, recipes=["warp", "listnet"], budget="3trials").report_
    [left_out] = [one for one in report.trials if one.recipe == "warp"]
    assert left_out.problem
    assert report.best.recipe == "listnet"
    with pytest.raises(DataError, match="no recipe could be trained: warp: "):
        tune(judged, recipes=["warp"])


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"sampler": "grid"}, PartError, "sampler is 'grid'; it must be random or optuna"),
        ({"budget": "soon"}, PartError, "the budget is 'soon'"),
        ({"recipes": ["lisnet"]}, PartError, "listnet"),
        ({"threads": 0}, ValueError, "threads"),
    ],
)
def test_options_that_make_no_sense_are_refused(judged, options, error, words):
    with pytest.raises(error, match=words):
        tune(judged, **options)


def test_one_query_cannot_be_tuned_on():
    with pytest.raises(DataError, match="two queries or more"):
        tune(JudgedLists([[1.0], [2.0]], [0, 1], ["a", "a"]))


def test_the_model_file_says_what_was_tried(judged: JudgedLists, tmp_path):
    ranker = tune(judged, budget="3trials")
    ranker.save(tmp_path / "m.safetensors")
    description = Ranker.load(tmp_path / "m.safetensors").description_
    assert len(description["tuning"]["trials"]) == len(ranker.report_.trials)
    assert description["tuning"]["reason"] == ranker.report_.reason


def test_samples_stay_in_their_range_and_keep_some_defaults():
    ranges = [
        Range("regularizer", "strength", 1e-4, 1.0, True, False, 0.01),
        Range("solver", "max_epochs", 5, 20, True, True, 10),
    ]
    drawn = [sample(ranges, np.random.default_rng(seed)) for seed in range(300)]
    values = {
        name: [c.value for one in drawn for c in one if c.parameter == name]
        for name in ("strength", "max_epochs")
    }
    assert all(1e-4 <= value <= 1.0 for value in values["strength"])
    assert all(value == int(value) and 5 <= value <= 20 for value in values["max_epochs"])
    assert 0.65 < len(values["strength"]) / 300 < 0.89
    assert 0.3 < np.mean(np.log10(values["strength"]) < -2.0) < 0.7


@pytest.mark.parametrize("sampler", ["optuna"])
def test_optuna_proposes_configurations(judged: JudgedLists, sampler: str):
    pytest.importorskip("optuna")
    one, again = (tune(judged, sampler=sampler, budget="6trials") for _ in range(2))
    assert rows_without_time(one) == rows_without_time(again)
    assert any(trial.choices for trial in one.report_.trials)
