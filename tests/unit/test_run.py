"""Runs: a stopped, killed or interrupted training goes on with the same bits."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from ranking import Ranker
from ranking.contracts.callback import Callback
from ranking.contracts.recipe import Axis, Search
from ranking.errors import DivergenceError, ModelFileError
from ranking.training.wrappers.search import ParameterSearch, SearchProgress
from ranking_plugins.callbacks import Checkpoint, EarlyStopping
from ranking_plugins.regularizers import L1
from ranking_plugins.solvers import Coordinate

SEARCH = Search("regularizer", "strength", (0.3, 0.03, 0.003), "ndcg@5")


class StopAfter(Callback):
    """Raises Ctrl-C after some epochs in all, wherever they fall."""

    name = "stop-after"

    def __init__(self, epochs: int) -> None:
        self.left = epochs

    def on_epoch_end(self, run, result) -> bool:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return False


def ranker(*callbacks) -> Ranker:
    solver = Coordinate(max_epochs=6, tolerance=0.0)
    return Ranker(loss="domination", regularizer=L1(0.003), solver=solver, callbacks=callbacks)


def search_with(ranker: Ranker, search: Search, data, valid) -> SearchProgress:
    ranker.fit_with(ParameterSearch(ranker.plan(), search), data, valid=valid)
    return ranker.report_


@pytest.mark.parametrize("after", [1, 3, 5])
def test_resumed_training_has_the_same_bits(judged, valid, tmp_path, after):
    whole = ranker(EarlyStopping(patience=6)).plan().trainer(judged, valid)
    whole.train()

    path = tmp_path / "checkpoint"
    first = ranker(EarlyStopping(patience=6), Checkpoint(path, every=0.0), StopAfter(after))
    with pytest.raises(KeyboardInterrupt):
        first.plan().trainer(judged, valid).train()

    checkpoint = Checkpoint(path, every=0.0)
    second = ranker(EarlyStopping(patience=6), checkpoint).plan().trainer(judged, valid)
    second.train(checkpoint.read())
    assert second.model.weights.tobytes() == whole.model.weights.tobytes()
    assert second.history == whole.history
    assert second.stopped == whole.stopped


def test_finished_training_does_not_run_again(judged, tmp_path):
    checkpoint = Checkpoint(tmp_path / "checkpoint")
    run = ranker(checkpoint).plan().trainer(judged)
    run.train()
    again = ranker(checkpoint).plan().trainer(judged)
    again.train(checkpoint.read())
    assert again.history == run.history
    assert again.stopped == "max_epochs"


def test_an_interrupted_fit_keeps_the_last_epoch(judged):
    interrupted = ranker(StopAfter(2))
    with pytest.raises(KeyboardInterrupt):
        interrupted.fit(judged)
    assert interrupted.n_iter_ == 2
    assert interrupted.stopped_ == "interrupted"
    assert interrupted.predict(judged).shape == (judged.n_rows,)


def test_the_search_takes_the_best(judged, valid):
    searched = ranker()
    progress = search_with(searched, SEARCH, judged, valid)
    measured = [trial["ndcg@5" + spelled(trial)] for trial in progress.trials]
    assert progress.best == int(np.argmax(measured))
    assert searched.regularizer_.strength == SEARCH.values[progress.best]
    assert searched.score(valid, metric="ndcg@5") == max(measured)
    assert searched.description_["search"]["best"] == progress.best


def test_each_value_of_the_outer_axis_has_a_path_of_its_own(judged, valid):
    outer = Axis("loss", "slope", (0.0, 4.0))
    search = dataclasses.replace(SEARCH, outer=outer)
    loss = "domination:margin=grade"
    searched = ranker().set_params(loss=loss)
    progress = search_with(searched, search, judged, valid)
    for number, slope in enumerate(outer.values):
        alone = ranker().set_params(loss=f"{loss},slope={slope}")
        path = search_with(alone, SEARCH, judged, valid).trials
        mine = progress.trials[3 * number : 3 * number + 3]
        assert [{**trial, "slope": slope} for trial in path] == mine
    best = progress.trials[progress.best]
    assert searched.loss_.slope == best["slope"]
    assert searched.regularizer_.strength == best["strength"]


def spelled(trial: dict) -> str:
    (name,) = (key for key in trial if key.startswith("ndcg@5"))
    return name.removeprefix("ndcg@5")


@pytest.mark.parametrize("after", [2, 7, 13])
def test_a_resumed_search_has_the_same_bits(judged, valid, tmp_path, after):
    whole = ranker()
    expected = search_with(whole, SEARCH, judged, valid)

    path = tmp_path / "checkpoint"
    checkpoint = Checkpoint(path, every=0.0)

    def on_trial(run, progress) -> None:
        checkpoint.outer_facts["search"] = progress.facts()
        checkpoint.outer_tensors = progress.tensors()

    plan = ranker(checkpoint, StopAfter(after)).plan()
    with pytest.raises(KeyboardInterrupt):
        ParameterSearch(plan, SEARCH, on_trial).fit(judged, valid)

    snapshot = checkpoint.read()
    before = SearchProgress.restore(checkpoint.outer_facts["search"], checkpoint.outer_tensors)
    assert len(before.trials) == (after - 1) // 6
    training = ParameterSearch(ranker(checkpoint).plan(), SEARCH, on_trial).trainer(judged, valid)
    training.progress = before
    training.train(snapshot)
    resumed = training.result()
    assert resumed.report.trials == expected.trials
    assert resumed.model.weights.tobytes() == whole.model_.weights.tobytes()


def test_divergence_names_the_epoch_and_the_cause(judged):
    class Broken(L1):
        def penalty(self, parameters) -> float:
            return float("nan")

    with pytest.raises(DivergenceError, match=r"diverged at epoch 1.*scale the features"):
        Ranker(loss="domination", regularizer=Broken(0.1)).fit(judged)


def test_a_checkpoint_of_something_else_is_refused(judged, tmp_path):
    Ranker(loss="domination").fit(judged).save(tmp_path / "model")
    with pytest.raises(ModelFileError, match="not a checkpoint"):
        Checkpoint(tmp_path / "model").read()


def test_threads_are_missed_aloud(judged):
    with pytest.warns(UserWarning, match="without threads"):
        Ranker(loss="domination", kernel="reference", threads=2).plan().trainer(judged)
