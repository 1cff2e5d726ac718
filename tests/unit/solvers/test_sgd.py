"""SGD against Algorithm 1 and equation 8 of the paper, written down in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from ranking import MatchingData, Ranker, get_kernel
from ranking.contracts.callback import Callback
from ranking.contracts.regularizer import RowPenalty
from ranking.contracts.solver import TrainingProblem
from ranking.data.triplets import positive_lists
from ranking.errors import CombinationError, DataError, DivergenceError, PartError
from ranking.models.bilinear import Bilinear
from ranking_plugins.callbacks import EarlyStopping
from ranking_plugins.losses import WARP, Hinge, Logistic, SquaredHinge
from ranking_plugins.regularizers import L1, L2, GroupL1, L1Row, MaxNorm
from ranking_plugins.solvers import SGD
from ranking_plugins.solvers.bilinear_steps import PYTHON_BATCH, BilinearSteps
from ranking_plugins.solvers.schedules import learning_rates
from ranking_plugins.solvers.steps import EVALUATION_SEED


class PythonHinge(Hinge):
    """A loss that no kernel knows."""

    name = "python-hinge"
    form = None


class PythonSquaredHinge(SquaredHinge):
    name = "python-squared-hinge"
    form = None


class PythonWARP(WARP):
    name = "python-warp"
    form = None


class HeavyHinge(PythonHinge):
    """One that counts three times."""

    name = "heavy-hinge"

    def rank_weight(self, rank):
        return np.full(rank.shape, 3.0)


def ranker(kernel, loss="hinge", regularizer="none", callbacks=(), model=None, **solver):
    solver = {
        "max_steps": 70,
        "learning_rate": 0.5,
        "prox_interval": 10,
        "steps_per_epoch": 25,
        **solver,
    }
    return Ranker(
        model or Bilinear(dtype="float64"),
        loss,
        regularizer,
        SGD(**solver),
        kernel=kernel,
        random_state=3,
        callbacks=callbacks,
    )


def dense(model):
    return model.weights.toarray().astype(np.float64)


def rate_at(schedule, constant, t):
    return {"inverse-sqrt": constant / t**0.5, "constant": constant, "inverse": constant / t}[
        schedule
    ]


def descend(data, triplets, w, loss, every, shrink, eta, support=None):
    """Algorithm 1; with a support, equation 8. Returns W and the losses before each step."""
    queries, documents = data.query_rows.toarray(), data.document_rows.toarray()
    due, losses = 0.0, []
    for t, (q, better, worse) in enumerate(triplets.tolist(), start=1):
        gradient = np.outer(queries[q], documents[better] - documents[worse])
        margin = np.array([(w * gradient).sum()])
        losses.append(loss.pairwise_value(margin)[0])
        step = eta(t) * loss.pairwise_slope(margin)[0] * gradient
        w = w - (step if support is None else step * support)
        due += eta(t)
        if t % every == 0:
            w, due = shrink(w, due), 0.0
    return w, np.array(losses)


def reported(kernel, data, w, loss):
    """Return the mean loss at W of one triplet per positive, sampled with a seed of its own."""
    seed = (3 + EVALUATION_SEED) % 2**64
    count = int(data.n_relevant.sum())
    triplets = kernel.sampling.sample_triplets(positive_lists(data), seed, 0, count)
    queries, documents = data.query_rows.toarray(), data.document_rows.toarray()
    q, better, worse = triplets.T
    margins = ((queries[q] @ w) * (documents[better] - documents[worse])).sum(axis=1)
    return loss.pairwise_value(margins).mean()


# --- the algorithm ------------------------------------------------------------------------------

REGULARIZERS = [
    "none",
    L1(0.02),
    L2(0.05),
    GroupL1(0.01),
    GroupL1(0.01, by="columns"),
]


@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge(), Logistic()], ids=lambda p: p.name)
@pytest.mark.parametrize("regularizer", REGULARIZERS, ids=str)
def test_a_fit_is_algorithm_1(matching_kernel, make_matching, loss, regularizer):
    data = make_matching(1, dtype=np.float64, widths=(5, 7))
    fitted = ranker(matching_kernel, loss, regularizer).fit(data)
    triplets = matching_kernel.sampling.sample_triplets(positive_lists(data), 3, 0, 70)
    start = Bilinear(dtype="float64")
    start.initialize(data, 0, matching_kernel)

    def shrink(w, due):
        return w if regularizer == "none" else regularizer.prox(w, due)

    w, _ = descend(
        data, triplets, dense(start), loss, 10, shrink, lambda t: rate_at("inverse-sqrt", 0.5, t)
    )
    np.testing.assert_allclose(dense(fitted.model_), w, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(dense(fitted.model_) == 0, np.abs(w) < 1e-13)
    penalty = 0.0 if regularizer == "none" else regularizer.penalty(w)
    last = reported(matching_kernel, data, w, loss)
    assert fitted.history_[-1]["loss"] == pytest.approx(last)
    assert fitted.objective_ == pytest.approx(last + penalty)
    assert fitted.history_[-1]["density"] == pytest.approx(np.count_nonzero(w) / w.size)


@pytest.mark.parametrize("schedule", ["inverse-sqrt", "constant", "inverse"])
def test_schedules(matching_kernel, make_matching, schedule):
    np.testing.assert_allclose(
        learning_rates(schedule, 2.0, 4, 3),
        [rate_at(schedule, 2.0, t) for t in (4, 5, 6)],
        rtol=1e-15,
    )
    data = make_matching(2, dtype=np.float64)
    fitted = ranker(matching_kernel, regularizer=L1(0.01), schedule=schedule).fit(data)
    triplets = matching_kernel.sampling.sample_triplets(positive_lists(data), 3, 0, 70)
    w, _ = descend(
        data,
        triplets,
        np.eye(9),
        Hinge(),
        10,
        L1(0.01).prox,
        lambda t: rate_at(schedule, 0.5, t),
    )
    np.testing.assert_allclose(dense(fitted.model_), w, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("regularizer", [L1(0.04), GroupL1(0.06, by="columns")], ids=str)
@pytest.mark.parametrize("refit_rate", [0.0, 0.1])
def test_a_refit_is_equation_8(matching_kernel, make_matching, regularizer, refit_rate):
    data = make_matching(1, dtype=np.float64)
    sparse = ranker(matching_kernel, regularizer=regularizer).fit(data)
    fitted = ranker(
        matching_kernel, regularizer=regularizer, refit=True, refit_learning_rate=refit_rate
    ).fit(data)
    triplets = matching_kernel.sampling.sample_triplets(
        positive_lists(data), 3, 0, 70
    )  # the same again
    w0 = dense(sparse.model_)
    support = w0 != 0
    assert 0 < support.sum() < support.size
    w, _ = descend(
        data,
        triplets,
        w0,
        Hinge(),
        10,
        lambda w, due: w,
        lambda t: rate_at("inverse-sqrt", refit_rate or 0.5, t),
        support,
    )
    np.testing.assert_allclose(dense(fitted.model_), w, rtol=1e-9, atol=1e-12)
    assert not dense(fitted.model_)[~support].any()
    assert not np.array_equal(w, w0)
    history = fitted.history_
    assert [row["epoch"] for row in history] == [1, 2, 3, 4, 5, 6]
    assert [row["steps"] for row in history] == [25, 50, 70, 95, 120, 140]
    assert history[:3] == sparse.history_
    assert history[-1]["loss"] == history[-1]["objective"]
    assert history[-1]["loss"] == pytest.approx(reported(matching_kernel, data, w, Hinge()))


def test_zero_steps_give_the_cosine(matching_kernel, make_matching):
    data = make_matching(4, dtype=np.float64)
    cosine = data.query_rows.toarray() @ data.document_rows.toarray().T
    for refit in (False, True):
        fitted = ranker(matching_kernel, max_steps=0, refit=refit).fit(data)
        np.testing.assert_allclose(fitted.predict(data), cosine, atol=1e-14)
        assert fitted.stopped_ == "max_epochs"
        (row,) = fitted.history_
        assert (row["epoch"], row["steps"], row["density"]) == (1, 0, 1 / 9)


def test_the_history_has_steps_loss_and_density(matching_kernel, make_matching):
    fitted = ranker(matching_kernel, regularizer=L1(0.01)).fit(make_matching(1))
    names = {"epoch", "objective", "steps", "loss", "density"}
    assert all(set(row) == names for row in fitted.history_)
    assert [row["steps"] for row in fitted.history_] == [25, 50, 70]
    assert fitted.n_iter_ == 3
    assert fitted.history_[-1]["density"] == fitted.model_.density


def test_a_diagonal_stays_diagonal(matching_kernel, make_matching):
    data = make_matching(1, dtype=np.float64)
    fitted = ranker(matching_kernel, model="diagonal:dtype=float64", regularizer=L1(0.001)).fit(
        data
    )
    triplets = matching_kernel.sampling.sample_triplets(positive_lists(data), 3, 0, 70)
    w, _ = descend(
        data,
        triplets,
        np.eye(9),
        Hinge(),
        10,
        L1(0.001).prox,
        lambda t: rate_at("inverse-sqrt", 0.5, t),
        np.eye(9),
    )
    np.testing.assert_allclose(dense(fitted.model_), w, rtol=1e-9, atol=1e-12)
    assert fitted.model_.density == np.count_nonzero(w) / 9
    assert fitted.history_[-1]["density"] == fitted.model_.density


def test_it_learns(matching_kernel, make_matching):
    data = make_matching(6, n_queries=20, n_documents=30, n_features=12)
    before = ranker(matching_kernel, max_steps=0).fit(data).score(data, metric="map")
    after = (
        ranker(matching_kernel, max_steps=300, learning_rate=2.0)
        .fit(data)
        .score(data, metric="map")
    )
    assert after > before + 0.05


def test_warp_learns_from_violations_only(matching_kernel, make_matching):
    data = make_matching(5, dtype=np.float64)
    fitted = ranker(matching_kernel, WARP(3)).fit(data)
    triplets = matching_kernel.sampling.sample_triplets(positive_lists(data), 3, 0, 70, 3)
    queries, documents = data.query_rows.toarray(), data.document_rows.toarray()
    w, n = np.eye(9), data.n_documents
    for t, (q, better, *others) in enumerate(triplets.tolist(), start=1):
        for trial, worse in enumerate(others, start=1):
            gradient = np.outer(queries[q], documents[better] - documents[worse])
            if (w * gradient).sum() < 1.0:
                rank = (n - 1) // trial
                w += 0.5 / t**0.5 * sum(1 / i for i in range(1, rank + 1)) * gradient
                break
    np.testing.assert_allclose(dense(fitted.model_), w, rtol=1e-9, atol=1e-12)


# --- losses in Python, batches and threads ------------------------------------------------------


@pytest.mark.parametrize("regularizer", [L1(0.01), GroupL1(0.01, by="columns")], ids=str)
@pytest.mark.parametrize("batch", [1, 8])
def test_a_python_loss_equals_the_built_in_one(matching_kernel, make_matching, batch, regularizer):
    data = make_matching(1)
    for inlined, python in ((Hinge(), PythonHinge()), (WARP(4), PythonWARP(4))):
        one = ranker(matching_kernel, inlined, regularizer, batch_size=batch, refit=True).fit(data)
        other = ranker(matching_kernel, python, regularizer, batch_size=batch, refit=True).fit(data)
        assert one.model_.weights.data.tobytes() == other.model_.weights.data.tobytes()
        assert one.history_ == other.history_


def test_the_weight_of_a_python_loss_counts(matching_kernel, make_matching):
    data = make_matching(1, dtype=np.float64)
    heavy = ranker(matching_kernel, HeavyHinge(), batch_size=1).fit(data)
    triplets = matching_kernel.sampling.sample_triplets(positive_lists(data), 3, 0, 70)

    class Triple(Hinge):
        def pairwise_slope(self, margin):
            return 3.0 * super().pairwise_slope(margin)

    w, _ = descend(
        data,
        triplets,
        np.eye(9),
        Triple(),
        10,
        lambda w, due: w,
        lambda t: rate_at("inverse-sqrt", 0.5, t),
    )
    np.testing.assert_allclose(dense(heavy.model_), w, rtol=1e-9, atol=1e-12)
    assert heavy.history_[-1]["loss"] == pytest.approx(
        3 * reported(matching_kernel, data, w, Hinge())
    )


def test_the_automatic_batch(matching_kernel, make_matching):
    data = make_matching(1)

    def bits(loss, **solver):
        fitted = ranker(matching_kernel, loss, steps_per_epoch=70, **solver).fit(data)
        return fitted.model_.weights.toarray().tobytes()

    assert bits(Hinge()) == bits(Hinge(), batch_size=1) != bits(Hinge(), batch_size=PYTHON_BATCH)
    assert bits(PythonHinge()) == bits(PythonHinge(), batch_size=PYTHON_BATCH)


def test_threads_change_nothing(matching_kernel, make_matching):
    if matching_kernel.describe()["threads"] == "none":
        pytest.skip("one thread only")
    data = make_matching(1)
    for loss in (Hinge(), PythonHinge()):
        one = ranker(matching_kernel, loss, L1(0.01), batch_size=16)
        two = ranker(matching_kernel, loss, L1(0.01), batch_size=16).set_params(threads=2)
        bits = [each.fit(data).model_.weights.data.tobytes() for each in (one, two)]
        assert bits[0] == bits[1]


def test_hogwild_learns(matching_kernel, make_matching):
    data = make_matching(6, n_queries=20, n_documents=30, n_features=12)
    fitted = ranker(matching_kernel, max_steps=300, learning_rate=2.0, mode="hogwild").fit(data)
    assert fitted.score(data, metric="map") > 0.5


# --- going on -----------------------------------------------------------------------------------


class Snapshots(Callback):
    """Keeps a snapshot of every epoch."""

    name = "snapshots"

    def __init__(self):
        self.snapshots = []

    def on_epoch_end(self, run, result):
        self.snapshots.append(run.snapshot())
        return False


RESUMED = [
    {"regularizer": L1(0.02), "refit": True},
    {"regularizer": L1(density=0.2), "refit": True},
    {"regularizer": L1(density=0.2), "batch_size": 4, "loss": Logistic()},
    {"regularizer": L2(0.01), "loss": WARP(3)},
    {"regularizer": GroupL1(0.02, by="columns"), "refit": True},
    {"model": "diagonal", "regularizer": L1(0.001), "loss": PythonHinge()},
    {"max_steps": 0, "refit": True},
]


@pytest.mark.parametrize("parts", RESUMED, ids=lambda parts: str(sorted(map(str, parts.values()))))
def test_a_resumed_run_has_the_same_bits(matching_kernel, make_matching, parts):
    data, valid = make_matching(1), make_matching(2)
    snapshots = Snapshots()
    stopping = EarlyStopping(metric="map", patience=50)
    whole = (
        ranker(matching_kernel, callbacks=[stopping, snapshots], **parts)
        .plan()
        .trainer(data, valid)
    )
    whole.train()
    assert len(snapshots.snapshots) == len(whole.history) >= 1
    for snapshot in snapshots.snapshots:
        again = (
            ranker(matching_kernel, callbacks=[EarlyStopping(metric="map", patience=50)], **parts)
            .plan()
            .trainer(data, valid)
        )
        again.train(snapshot)
        assert again.history == whole.history
        assert again.model.weights.data.tobytes() == whole.model.weights.data.tobytes()
        assert np.array_equal(again.model.weights.toarray(), whole.model.weights.toarray())
        assert again.stopped == whole.stopped
        assert again.regularizer.spec() == whole.regularizer.spec()
        assert again.solver.notes() == whole.solver.notes()


def test_early_stopping_keeps_the_best_epoch(matching_kernel, make_matching):
    data, valid = make_matching(1), make_matching(2)
    stopping = EarlyStopping(metric="map", patience=2)
    fitted = ranker(
        matching_kernel, callbacks=[stopping], learning_rate=20.0, max_steps=200, steps_per_epoch=10
    )
    fitted.fit(data, valid=valid)
    (name,) = [key for key in fitted.history_[0] if key.startswith("map")]
    values = [row[name] for row in fitted.history_]
    assert fitted.stopped_ == "early-stopping"
    assert stopping.best_value == max(values) == fitted.score(valid, metric="map")
    assert stopping.best_epoch == 1 + int(np.argmax(values))
    # What the model is like after that many epochs.
    shorter = ranker(
        matching_kernel, learning_rate=20.0, max_steps=10 * stopping.best_epoch, steps_per_epoch=10
    )
    shorter.fit(data)
    assert fitted.model_.weights.data.tobytes() == shorter.model_.weights.data.tobytes()


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_divergence_is_refused_with_the_step(matching_kernel, make_matching):
    data = make_matching(1)
    for loss in (SquaredHinge(), PythonSquaredHinge()):
        problem = r"loss \S+ at step \d+, in epoch 1;.*rate \(1e\+38\)"
        with pytest.raises(DivergenceError, match=problem):
            ranker(
                matching_kernel, loss, learning_rate=1e38, schedule="constant", batch_size=2
            ).fit(data)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("regularizer", ["none", "l1"])
def test_the_last_step_may_diverge_too(matching_kernel, make_matching, regularizer):
    solver = {"max_steps": 1, "learning_rate": 1e300}
    with pytest.raises(DivergenceError):
        ranker(matching_kernel, "hinge", regularizer, model="bilinear", **solver).fit(
            make_matching(1)
        )


@pytest.mark.parametrize(
    "params",
    [
        {"max_steps": -1},
        {"max_steps": 1.5},
        {"prox_interval": 0},
        {"steps_per_epoch": 0},
        {"learning_rate": 0.0},
        {"learning_rate": -1.0},
        {"learning_rate": float("inf")},
        {"learning_rate": float("nan")},
        {"learning_rate": "fast"},
        {"refit_learning_rate": -1.0},
        {"refit_learning_rate": float("nan")},
        {"schedule": "cubic"},
        {"mode": "wild"},
        {"batch_size": 0},
        {"batch_size": "large"},
        {"batch_size": 1.5},
        {"refit": "yes"},
        {"refit": 1},
    ],
)
def test_bad_parameters_are_refused(params):
    (name,) = params
    with pytest.raises(PartError, match=f"sgd has {name}="):
        SGD(**params)


def test_parts_that_do_not_fit(judged, make_matching):
    data = make_matching(1)

    class Faceless(Hinge):
        name = "faceless"
        interfaces = frozenset({"linear"})

    with pytest.raises(CombinationError, match=r"no pairwise interface.* Try loss hinge"):
        Ranker("bilinear", Faceless(), solver="sgd").fit(data)
    with pytest.raises(CombinationError, match=r"one row, whose columns.* Try regularizer"):
        Ranker("linear", "hinge", "orthonormal", "sgd").fit(judged)
    with pytest.raises(CombinationError, match=r"several grades.* Try loss"):
        Ranker("linear", "kos-warp", solver="sgd").fit(judged)
    with pytest.raises(DataError, match="scores queries and documents"):
        Ranker("bilinear", "hinge", solver="sgd").fit(judged)

    class Odd(L2):
        name = "odd"
        granularity = "matrix"

        def kernel_form(self, form, ids=None):
            return RowPenalty()

    with pytest.raises(CombinationError, match=r"'odd' is not of the form.*l1 and l2 are"):
        Ranker("bilinear", "hinge", Odd(), "sgd").fit(data)

    class Unknown(Odd):
        name = "unknown"
        forms = frozenset({"vector"})

    with pytest.raises(CombinationError, match=r"no operator for matrix param.* Try reg.*l2"):
        Ranker("bilinear", "hinge", Unknown(), "sgd").fit(data)


def test_nothing_to_sample_is_refused(matching_kernel):
    with pytest.raises(DataError, match="nothing to learn from"):
        ranker(matching_kernel).fit(MatchingData(None, None, [[1, 1]]))


@pytest.mark.parametrize("regularizer", [MaxNorm(0.1), L1(0.01), L1Row(0.1)], ids=str)
def test_penalty_value_does_not_change_the_model(make_matching, regularizer):
    data, model, kernel = make_matching(1), Bilinear(), get_kernel("cython")
    model.initialize(data, 0, kernel)
    problem = TrainingProblem(model, Hinge(), regularizer, data, kernel)
    steps = BilinearSteps(SGD(max_steps=50, steps_per_epoch=50, prox_interval=20), problem)
    steps.train(steps.sample(30))  # not a boundary: a part of the penalty is pending
    steps.update_model()
    before = model.weights.toarray()
    steps.penalty_value()
    np.testing.assert_array_equal(model.weights.toarray(), before)
    steps.apply_pending_penalty()
    value = steps.penalty_value()
    assert np.isfinite(value)
    assert steps.penalty_value() == value
