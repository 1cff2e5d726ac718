"""Half-steps by SGD: one side moves, the other does not; every regularizer has its property."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ranking import Ranker
from ranking.contracts.solver import TrainingProblem
from ranking.errors import CombinationError
from ranking.kernels.select import get_kernel
from ranking.models.factored import Factored
from ranking_plugins.losses import Hinge
from ranking_plugins.regularizers import L1L2Row, NoPenalty, Orthonormal
from ranking_plugins.solvers.margin_half_steps import HalfSteps

LOSSES = ("hinge", "warp", "domination")
REGULARIZERS = ("l1:strength=0.01", "l2:strength=0.001", "l1l2-row:strength=0.01", "orthonormal")


def test_only_one_side_moves(factored_kernel, make_tastes):
    data = make_tastes(1, 20, 25)
    model = Factored(4)
    model.initialize(data, 3, factored_kernel)
    steps = HalfSteps(TrainingProblem(model, Hinge(), NoPenalty(), data, factored_kernel))
    for side in (0, 1, 0):
        before = [part.copy() for part in model.factors]
        squares = [part.copy() for part in steps.weights.squares]
        steps.half_step(side)
        moved = [
            not np.array_equal(old, new) for old, new in zip(before, model.factors, strict=True)
        ]
        assert moved == [side == 0, side == 1, False, side == 1]
        grown = [
            not np.array_equal(old, new)
            for old, new in zip(squares, steps.weights.squares, strict=True)
        ]
        assert grown == moved


def test_a_half_step_is_sgd_with_the_other_side_frozen(fast_kernel, make_tastes):
    """With blocks of one, what is frozen can as well be put back after each step."""
    data = make_tastes(2, 12, 15)
    model, plain = Factored(4, False), Factored(4, False)
    model.initialize(data, 3, get_kernel())
    plain.initialize(data, 3, get_kernel())
    problem = TrainingProblem(model, Hinge(), NoPenalty(), data, fast_kernel)
    steps = HalfSteps(problem)
    steps.solver.batch_size = 1
    other = HalfSteps(TrainingProblem(plain, Hinge(), NoPenalty(), data, fast_kernel))
    triplets = fast_kernel.sampling.sample_triplets(
        steps.positive_lists(), 0, 0, steps.settings.steps_per_epoch
    )
    frozen = plain.V.copy()
    for one in triplets:
        other.weights.train(other.inputs, one[None], np.full(1, 0.05, np.float32))
        plain.V[...] = frozen
    steps.half_step(0)
    np.testing.assert_allclose(model.U, plain.U, rtol=1e-5, atol=1e-6)
    assert np.array_equal(model.V, frozen)


@pytest.mark.filterwarnings("ignore:.* sets all embeddings to 0")
@pytest.mark.parametrize(("loss", "regularizer"), list(itertools.product(LOSSES, REGULARIZERS)))
def test_every_cell_trains(fast_kernel, make_tastes, loss, regularizer):
    data = make_tastes(1, 40, 45)
    solver = "alternating:max_epochs=8,tolerance=0"
    ranker = Ranker("factored:dimensions=6", loss, regularizer, solver, kernel=fast_kernel)
    fitted = ranker.fit(data)
    objectives = [row["objective"] for row in fitted.history_]
    assert objectives[-1] < objectives[0]
    for matrix in (fitted.model_.U[:, :6], fitted.model_.V[:, :6]):
        wide = matrix.astype(np.float64)
        assert np.isfinite(fitted.regularizer_.penalty(wide))
        if isinstance(fitted.regularizer_, Orthonormal):
            gram = wide.T @ wide
            np.testing.assert_allclose(gram, gram[0, 0] * np.eye(6), atol=1e-4 * gram[0, 0])
        if isinstance(fitted.regularizer_, L1L2Row):
            assert np.linalg.norm(wide, axis=1).max() <= 1.0 + 1e-5
    if "l1" in regularizer:
        assert fitted.model_.density < 1.0


def test_kernels_and_threads_agree(factored_kernel, make_tastes):
    data = make_tastes(1, 20, 25)

    def trained(kernel, threads):
        solver = "alternating:max_epochs=2,tolerance=0"
        ranker = Ranker("factored:dimensions=5", "warp", "l1l2-row", solver, kernel=kernel)
        return ranker.set_params(threads=threads).fit(data).model_

    threads = 1 if factored_kernel.name == "reference" else 2
    expected, result = trained("reference", 1), trained(factored_kernel, threads)
    for one, other in zip(expected.factors, result.factors, strict=True):
        assert np.array_equal(one, other)


def test_a_resumed_run_goes_on_bit_for_bit(fast_kernel, make_tastes):
    data = make_tastes(1, 20, 25)

    def run(epochs):
        solver = f"alternating:max_epochs={epochs},tolerance=0"
        ranker = Ranker("factored:dimensions=5", "warp", "l1l2-row", solver, kernel=fast_kernel)
        return ranker.plan().trainer(data)

    whole = run(5)
    whole.train()
    part = run(2)
    part.train()
    snapshot = part.snapshot()
    snapshot.facts["stopped"] = snapshot.facts["ending"] = ""
    rest = run(5)
    rest.train(snapshot)
    assert rest.history == whole.history
    for one, other in zip(whole.model.factors, rest.model.factors, strict=True):
        assert np.array_equal(one, other)


def test_what_is_refused(make_tastes):
    data = make_tastes(1, 20, 25)
    with pytest.raises(CombinationError, match=r"one that both sides share.* Try solver sgd"):
        Ranker("structured:dimensions=5", "hinge", "l1l2-row", "alternating").fit(data)


@pytest.mark.filterwarnings("ignore:.* sets all embeddings to 0")
def test_each_side_has_its_strength_and_its_limit(make_matching, seed):
    data = make_matching(seed, 40, 30, widths=(12, 9), kind="relevance")

    def fitted(regularizer):
        parts = ("factored:dimensions=4,biases=false", "hinge", regularizer)
        return Ranker(*parts, "alternating:max_epochs=2").fit(data).model_

    model = fitted("l1l2-row:strength=1e-4,limit=2,document_limit=0.5")
    assert 0.5 < np.linalg.norm(model.U, axis=1).max() <= 2.0 + 1e-5
    assert 0.0 < np.linalg.norm(model.V, axis=1).max() <= 0.5 + 1e-5
    model = fitted("l1l2-row:strength=1e-4,limit=2,document_strength=1e9")
    assert not model.V.any()  # such a strength leaves nothing of the document side
