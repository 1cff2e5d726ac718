"""Coordinate descent: which features it goes over, and what it promises of them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import make_judged
from scipy.optimize import minimize_scalar

from ranking import JudgedLists, Ranker, get_kernel
from ranking.contracts.regularizer import EntryPenalty
from ranking.errors import ConvergenceWarning, PartError, TrainingWarning
from ranking_plugins.callbacks import Checkpoint
from ranking_plugins.losses import Domination
from ranking_plugins.solvers import Coordinate

WAYS = {
    "all": {},
    "shuffled": {"shuffled": True},
    "active": {"sweeps": "active"},
    "induced": {"sweeps": "induced", "top": 3},
    "induced, shuffled": {"sweeps": "induced", "top": 2, "shuffled": True},
}


@pytest.fixture
def wide(seed) -> JudgedLists:
    """Forty features, most of which do not matter."""
    return make_judged(seed, n_queries=25, n_features=40, density=0.5)


@pytest.fixture(params=[False, True], ids=["dense", "sparse"])
def data(request, wide) -> JudgedLists:
    if not request.param:
        return wide
    features = sp.csr_array(wide.features)
    return JudgedLists(features, wide.grades, wide.query_ids[wide.row_groups])


@pytest.mark.parametrize("regularizer", ["l1:strength=0.02", "l2:strength=0.02", "elastic"])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_every_way_leads_to_the_minimum(data, way, regularizer):
    exact = {"max_epochs": 20_000, "tolerance": 1e-13}
    expected = Ranker(loss="domination", regularizer=regularizer, solver=Coordinate(**exact)).fit(
        data
    )
    solver = Coordinate(**exact, **way)
    result = Ranker(loss="domination", regularizer=regularizer, solver=solver).fit(data)
    assert result.stopped_ == "converged"
    assert result.objective_ == pytest.approx(expected.objective_, rel=1e-8)
    history = [row["objective"] for row in result.history_]
    assert np.all(np.diff(history) <= 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    "penalty", [EntryPenalty(0, 0), EntryPenalty(0.02, 0), EntryPenalty(0.01, 5)]
)
@pytest.mark.parametrize("curvature", ["newton", "paper"])
def test_the_decrease_is_guaranteed(data, penalty, curvature):
    """The best point along a feature is at least as good as promised, by search on a line."""
    weights = np.zeros(data.n_features)
    weights[:3] = 0.5
    problem = Domination().coordinate_problem(data, weights, get_kernel(), 1, curvature)
    columns = np.arange(3, data.n_features)
    promised = problem.decrease(columns, penalty)
    base = problem.value()
    result = []
    for column in columns:

        def along(t: float, column: int = column) -> float:
            moved = weights.copy()
            moved[column] = t
            there = Domination().coordinate_problem(data, moved, get_kernel(), 1, curvature)
            return there.value() + penalty.l1 * abs(t) + penalty.l2 / 2 * t * t

        result.append(base - minimize_scalar(along, (-0.1, 0.1)).fun)
    result = np.array(result)
    assert np.all(promised <= np.maximum(result, 0.0) + 1e-9)
    assert np.all(promised >= 0.0)
    assert promised.max() > 0.2 * result.max()  # and the promise is worth something


def test_induction_adds_the_best_and_ends_when_none_helps(wide):
    solver = Coordinate(sweeps="induced", top=4, max_epochs=5000)
    ranker = Ranker(loss="domination", regularizer="l1:strength=0.02", solver=solver).fit(wide)
    assert ranker.stopped_ == "converged"
    counts = [row["features"] for row in ranker.history_]
    assert counts[0] == 4
    assert set(np.diff(counts)) <= {0, 1, 2, 3, 4}
    assert counts[-1] < wide.n_features
    problem = Domination().coordinate_problem(
        wide, ranker.model_.weights, get_kernel(), 1, "newton"
    )
    left = np.flatnonzero(ranker.model_.weights == 0.0)
    least = 1e-6 * ranker.objective_
    assert np.all(problem.decrease(left, EntryPenalty(0.02, 0.0)) <= least)


def test_nothing_to_induce_is_no_failure(wide):
    solver = Coordinate(sweeps="induced")
    ranker = Ranker(loss="domination", regularizer="l1:strength=10", solver=solver)
    with pytest.warns(TrainingWarning, match="sets all weights to 0; reduce its strength"):
        ranker.fit(wide)
    assert ranker.model_.density == 0.0
    assert ranker.stopped_ == "converged"


def test_a_few_columns_give_the_bits_that_all_would(data, load_kernel):
    for name in ("reference", "cython", "rust"):
        kernel = load_kernel(name)
        one, other = (
            Domination().coordinate_problem(data, np.zeros(40), kernel, 1, "newton") for _ in "ab"
        )
        columns, penalty = np.array([30, 2, 17]), EntryPenalty(0.001, 0.01)
        for _ in range(2):
            one.sweep(columns, penalty)
            other._sweep(
                other.features, other.weights, other.radius, other.bounds, columns, penalty
            )
        for mine, theirs in zip(one.state().values(), other.state().values(), strict=True):
            assert mine.tobytes() == theirs.tobytes()


@pytest.mark.filterwarnings("ignore::ranking.errors.ConvergenceWarning")
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_resumed_run_has_the_same_bits(wide, way, tmp_path):
    def ranker(epochs: int, *callbacks) -> Ranker:
        solver = Coordinate(max_epochs=epochs, tolerance=1e-4, **way)
        return Ranker(
            loss="domination", regularizer="l1:strength=0.005", solver=solver, callbacks=callbacks
        )

    whole = ranker(40).fit(wide)
    checkpoint = Checkpoint(tmp_path / "checkpoint", every=0.0)
    ranker(7, checkpoint).fit(wide)
    snapshot = checkpoint.read()
    snapshot.facts["stopped"] = ""
    run = ranker(40).plan().trainer(wide)
    run.train(snapshot)
    assert run.history == whole.history_
    assert run.model.weights.tobytes() == whole.model_.weights.tobytes()


def test_the_order_is_that_of_the_seed(wide):
    def weights(seed: int) -> bytes:
        solver = "coordinate:max_epochs=2,tolerance=0,shuffled=true"
        return (
            Ranker(loss="domination", solver=solver, random_state=seed)
            .fit(wide)
            .model_.weights.tobytes()
        )

    assert weights(1) == weights(1) != weights(2)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"sweeps": "some"}, "one of all, active, induced"),
        ({"top": 0}, "an integer >= 1"),
        ({"top": 1.5}, "an integer >= 1"),
        ({"shuffled": "yes"}, "true or false"),
    ],
)
def test_invalid_parameters_are_refused(params, words):
    with pytest.raises(PartError, match=words):
        Coordinate(**params)


def test_the_spec_omits_unused_parameters():
    assert "top" not in Coordinate().spec()
    assert "sweeps=induced,top=7" in Coordinate(sweeps="induced", top=7).spec()


def test_training_that_has_not_converged_warns(wide):
    parts = {"loss": "domination", "regularizer": "l2:strength=0.001"}
    with pytest.warns(ConvergenceWarning, match=r"after 3 epochs .* max_epochs .*'coordinate'"):
        stopped = Ranker(**parts, solver="coordinate:max_epochs=3").fit(wide)
    assert stopped.stopped_ == "max_epochs"
    fixed = Ranker(**parts, solver="coordinate:max_epochs=3,tolerance=0").fit(wide)  # no warning
    assert fixed.model_.weights.tobytes() == stopped.model_.weights.tobytes()
    ended = Ranker(**parts, solver="coordinate:max_epochs=3,tolerance=0.9").fit(wide)
    assert ended.stopped_ == "converged"
