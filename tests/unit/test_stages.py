"""Runs of several stages: who is told what, how they end, and how they go on."""

from __future__ import annotations

import numpy as np
import pytest

from ranking import MatchingData, Ranker
from ranking.contracts.callback import Callback
from ranking.data.exclusions import find_exclusions
from ranking.errors import DataError
from ranking.metrics.evaluation import evaluate_model, mean
from ranking.metrics.parse import parse_metric
from ranking.models.structured import Structured
from ranking_plugins.callbacks import Checkpoint, Curve, EarlyStopping
from ranking_plugins.regularizers import L1
from ranking_plugins.solvers import Coordinate

MAP = "map(ties=docid,empty=zero,scores=float32)"


class Log(Callback):
    """Writes down what it is told."""

    name = "log"

    def __init__(self):
        self.events = []

    def on_fit_begin(self, run):
        self.events.append(("start", run.model.stage))

    def on_epoch_end(self, run, result):
        self.events.append((result.epoch, run.model.stage))
        return False

    def on_fit_end(self, run):
        self.events.append((run.stopped, run.model.stage))


class StopAt(Callback):
    """Asks for the end after some epochs, by the numbers of all stages."""

    name = "stop-at"

    def __init__(self, *epochs):
        self.epochs = epochs

    def on_epoch_end(self, run, result):
        return result.epoch in self.epochs


class Broken(Callback):
    """Breaks off at an epoch, with Ctrl-C or as if killed."""

    name = "broken"

    def __init__(self, epoch, error=KeyboardInterrupt):
        self.epoch, self.error = epoch, error

    def on_epoch_end(self, run, result):
        if result.epoch == self.epoch:
            raise self.error
        return False


class Killed(BaseException):
    """What nobody catches."""


def cascade(kernel, *callbacks, stages=2, **solver):
    solver = {
        "max_steps": 48,
        "steps_per_epoch": 16,
        "learning_rate": 0.3,
        "batch_size": 8,
        **solver,
    }
    spec = "sgd:" + ",".join(f"{key}={value}" for key, value in solver.items())
    return Ranker(
        Structured(5, stages=stages, k=3),
        "warp:max_trials=3",
        solver=spec,
        kernel=kernel,
        random_state=3,
        callbacks=callbacks,
    )


def bits(model):
    return b"".join(tensor.tobytes() for _, tensor in sorted(model.tensors().items()))


def test_observers_begin_and_end_with_each_stage(factored_kernel, make_tastes):
    log = Log()
    fitted = cascade(factored_kernel, log).fit(make_tastes(1))
    assert log.events == [
        *[("start", 0), (1, 0), (2, 0), (3, 0), ("max_epochs", 0)],
        *[("start", 1), (4, 1), (5, 1), (6, 1), ("max_epochs", 1)],
        *[("start", 2), (7, 2), (8, 2), (9, 2), ("max_epochs", 2)],
    ]
    assert fitted.stopped_ == "max_epochs"
    assert [row["epoch"] for row in fitted.history_] == list(range(1, 10))


def test_a_stage_may_be_stopped_by_itself(factored_kernel, make_tastes):
    log = Log()
    fitted = cascade(factored_kernel, StopAt(2, 3, 99), log).fit(make_tastes(1))
    assert [output for output in log.events if isinstance(output[0], str)] == [
        *[("start", 0), ("stop-at", 0)],
        *[("start", 1), ("stop-at", 1)],
        *[("start", 2), ("max_epochs", 2)],
    ]
    assert [row["epoch"] for row in fitted.history_] == [1, 2, 3, 4, 5, 6]
    assert fitted.stopped_ == "max_epochs"


def test_the_best_of_each_stage_is_kept(factored_kernel, make_tastes):
    data, valid = make_tastes(1), make_tastes(2)
    options = {"learning_rate": 2.0, "schedule": "constant", "max_steps": 160, "stages": 1}
    stopping = EarlyStopping(metric="map", patience=2)
    fitted = cascade(factored_kernel, stopping, **options).fit(data, valid=valid)
    values = [row[MAP] for row in fitted.history_]
    draws = [row["steps"] for row in fitted.history_]
    border = draws.index(16.0, 1)
    assert 1 < border < len(values) - 1
    first, second = np.array(values[:border]), np.array(values[border:])
    assert border == min(int(first.argmax()) + 3, 10)
    # Stage 1 stands upon the best of stage 0, and the model is the best of stage 1.
    kernel, queries = fitted.kernel_, [parse_metric("map")]
    at_first = evaluate_model(fitted.model_.at_stage(0), queries, valid, kernel)
    assert mean(at_first[MAP]) == first.max()
    assert fitted.score(valid, metric="map") == second.max()
    assert stopping.best_epoch == border + 1 + int(second.argmax())


@pytest.mark.parametrize("epoch", [1, 3, 4, 5, 9])
def test_an_interrupt_in_any_stage(factored_kernel, make_tastes, tmp_path, epoch):
    data = make_tastes(1)
    whole = cascade(factored_kernel).fit(data)
    path = tmp_path / "checkpoint"
    struck = cascade(factored_kernel, Checkpoint(path, every=0.0), Broken(epoch))
    with pytest.raises(KeyboardInterrupt):
        struck.fit(data)
    assert struck.stopped_ == "interrupted"
    assert struck.n_iter_ == epoch
    assert struck.model_.stage == (epoch - 1) // 3
    assert struck.predict(data).shape == (12, 15)

    checkpoint = Checkpoint(path, every=0.0)
    log = Log()
    again = cascade(factored_kernel, checkpoint, log).plan().trainer(data)
    again.train(checkpoint.read())
    assert bits(again.model) == bits(whole.model_)
    assert again.history == whole.history_
    assert again.stopped == "max_epochs"
    output = [epoch for epoch, _ in log.events if not isinstance(epoch, str)]
    assert output == list(range(epoch + 1, 10))


@pytest.mark.parametrize("epoch", [1, 2, 3, 4, 6, 7])
def test_a_kill_in_any_stage(factored_kernel, make_tastes, tmp_path, epoch):
    """Early stopping, and a kill in the very epoch in which it asks for the end."""
    data, valid = make_tastes(1), make_tastes(2)

    def callbacks(*others):
        return EarlyStopping(metric="map", patience=1), *others

    options = {"learning_rate": 1.0, "schedule": "constant"}
    whole = cascade(factored_kernel, *callbacks(), **options).plan().trainer(data, valid)
    whole.train()
    if epoch > len(whole.history):
        pytest.skip(f"stopped after {len(whole.history)} epochs")
    path = tmp_path / "checkpoint"
    struck = (
        cascade(
            factored_kernel,
            *callbacks(Checkpoint(path, every=0.0), Broken(epoch, Killed)),
            **options,
        )
        .plan()
        .trainer(data, valid)
    )
    with pytest.raises(Killed):
        struck.train()
    checkpoint = Checkpoint(path, every=0.0)
    again = cascade(factored_kernel, *callbacks(checkpoint), **options).plan().trainer(data, valid)
    again.train(checkpoint.read())
    assert bits(again.model) == bits(whole.model)
    assert again.history == whole.history
    assert again.stopped == whole.stopped


def test_a_finished_stage_is_followed_by_the_next(factored_kernel, make_tastes, tmp_path):
    """Killed after the end of stage 0 was written, before stage 1 had an epoch."""
    data = make_tastes(1)
    whole = cascade(factored_kernel).fit(data)

    class KilledBetween(Callback):
        name = "killed-between"

        def on_fit_begin(self, run):
            if run.model.stage == 1:
                raise Killed

    path = tmp_path / "checkpoint"
    with pytest.raises(Killed):
        cascade(factored_kernel, Checkpoint(path), KilledBetween()).fit(data)
    checkpoint = Checkpoint(path)
    snapshot = checkpoint.read()
    assert snapshot.facts["stopped"] == "max_epochs"
    again = cascade(factored_kernel, checkpoint).plan().trainer(data)
    again.train(snapshot)
    assert bits(again.model) == bits(whole.model_)
    assert again.history == whole.history_


def test_finished_training_does_not_run_again(factored_kernel, make_tastes, tmp_path):
    data, valid = make_tastes(1), make_tastes(2)

    def callbacks():
        return EarlyStopping(metric="map"), Checkpoint(tmp_path / "checkpoint")

    run = cascade(factored_kernel, *callbacks()).plan().trainer(data, valid)
    run.train()
    log = Log()
    again = cascade(factored_kernel, *callbacks(), log).plan().trainer(data, valid)
    again.train(Checkpoint(tmp_path / "checkpoint").read())
    assert log.events == [("start", 0)]
    assert bits(again.model) == bits(run.model)
    assert (again.history, again.stopped) == (run.history, "max_epochs")


@pytest.mark.parametrize("why", ["converged", "asked"])
def test_a_stop_request_survives_a_kill(judged, tmp_path, why):
    """The checkpoint of the last epoch is written before the run has ended."""
    tolerance = 0.5 if why == "converged" else 0.0

    def ranker(*others):
        return Ranker(
            loss="domination",
            regularizer=L1(0.003),
            solver=Coordinate(max_epochs=8, tolerance=tolerance),
            callbacks=[StopAt(3), *others],
        )

    whole = ranker().fit(judged)
    assert whole.stopped_ == ("converged" if why == "converged" else "stop-at")
    assert whole.n_iter_ < 8
    path = tmp_path / "checkpoint"
    with pytest.raises(Killed):
        ranker(Checkpoint(path, every=0.0), Broken(whole.n_iter_, Killed)).fit(judged)
    checkpoint = Checkpoint(path, every=0.0)
    again = ranker(checkpoint).plan().trainer(judged)
    again.train(checkpoint.read())
    assert again.history == whole.history_
    assert again.stopped == whole.stopped_
    assert again.model.weights.tobytes() == whole.model_.weights.tobytes()


# --- validation without what is known -----------------------------------------------------------


def held_out(data, seed=0):
    """Matches in two halves, and a pair that is in both."""
    rng = np.random.default_rng(seed)
    matrix = data.relevance.toarray()
    sample = rng.random(matrix.shape) < 0.4
    halves = matrix * ~sample, matrix * sample
    for half in halves:
        half[np.arange(12), np.arange(12) % 3] = 1.0
    names = {"query_ids": data.query_ids, "document_ids": data.document_ids}
    return [MatchingData(None, None, half, **names) for half in halves]


def test_what_is_known_is_left_out_of_validation(factored_kernel, make_tastes):
    train, valid = held_out(make_tastes(1, share=0.9))
    fitted = {}
    for exclude in (True, False):
        run = cascade(factored_kernel, Curve(metrics="map+p@3"), stages=1)
        fitted[exclude] = run.fit(train, valid=valid, exclude_seen=exclude)
    exclusions = find_exclusions(valid, train, but_relevant=True)
    last = fitted[True]
    model, queries = last.model_, [parse_metric("map"), parse_metric("p@3")]
    for exclude, pairs in ((True, exclusions), (False, None)):
        values = evaluate_model(model, queries, valid, factored_kernel, exclusions=pairs)
        row = fitted[exclude].history_[-1]
        assert {name: mean(column) for name, column in values.items()}.items() <= row.items()
    assert last.history_[-1][MAP] > fitted[False].history_[-1][MAP]
    assert bits(fitted[True].model_) == bits(fitted[False].model_)
    # By hand: the average precision of what is left, what is relevant staying in.
    scores, relevance = last.predict(valid), valid.relevance.toarray() > 0
    known = train.relevance.toarray() > 0
    precisions = []
    for query in range(12):
        pool = [d for d in range(15) if relevance[query, d] or not known[query, d]]
        pool.sort(key=lambda d, q=query: -scores[q, d])
        hits = [relevance[query, d] for d in pool]
        result = [sum(hits[: i + 1]) / (i + 1) for i, hit in enumerate(hits) if hit]
        precisions.append(sum(result) / max(relevance[query].sum(), 1))
    assert last.history_[-1][MAP] == pytest.approx(np.mean(precisions), rel=1e-6)


def test_judged_rows_know_nothing(judged, valid):
    ranker = Ranker(loss="domination", callbacks=[EarlyStopping()])
    with pytest.raises(DataError, match="exclude_seen is for queries and documents"):
        ranker.fit(judged, valid=valid, exclude_seen=True)
