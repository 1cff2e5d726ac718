"""Block coordinate descent on embeddings: bounds hold, the objective falls to that of L-BFGS."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize

from ranking import Ranker
from ranking.contracts.solver import TrainingProblem
from ranking.errors import CombinationError
from ranking.models.factored import Factored
from ranking_plugins.losses import BPR, WARP, Domination, Hinge, Logistic, SmoothWARP, SquaredHinge
from ranking_plugins.losses.margin_lists import margin_list_loss
from ranking_plugins.regularizers import L2, NoPenalty
from ranking_plugins.solvers.row_blocks import RowBlocks

LOSSES = (Hinge(), SquaredHinge(), Logistic(), BPR(), WARP(), SmoothWARP(), Domination())
BOUNDED = (Hinge(), SquaredHinge(), Logistic(), SmoothWARP())
"""Whose curvature bounds any change, not only a small one."""

DOMINATIONS = (
    Domination(),
    Domination(margin="grade", slope=0.5),
    Domination(margin="layers", boundaries="2"),
)
REGULARIZERS = (
    "none",
    "l1:strength=1e-3",
    "l2:strength=1e-3",
    "elastic:strength=1e-3",
    "l1l2-row:strength=1e-3,limit=2",
    "max-norm:limit=1",
    "group-l1:strength=1e-3",
    "orthonormal",
)
MARGINS = arrays(np.float64, (3, 4), elements=st.floats(-5.0, 5.0, width=32))


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_slopes_are_derivatives_of_the_values(loss, seed, fast_kernel):
    margins = np.random.default_rng(seed).normal(size=(5, 3)) * 2.0
    lists = margin_list_loss(loss, fast_kernel, 1)
    slopes, step = lists.margin_slopes(margins), 1e-6
    for at in itertools.product(range(5), range(3)):
        shifted = [margins.copy(), margins.copy()]
        shifted[0][at] -= step
        shifted[1][at] += step
        low, high = (lists.margin_values(each)[at[0]] for each in shifted)
        assert slopes[at] == pytest.approx((high - low) / (2.0 * step), abs=1e-5)


@settings(max_examples=60, deadline=None)
@given(start=MARGINS, change=MARGINS)
def test_parabolas_bound_the_loss(fast_kernel, start, change):
    for loss in BOUNDED:
        lists = margin_list_loss(loss, fast_kernel, 1)
        # Near its kink the hinge is bounded up to the distance at which curvatures stop growing.
        slack = 0.05 if loss.name == "hinge" or isinstance(loss, SmoothWARP) else 1e-9
        bound = lists.margin_values(start) + (
            lists.margin_slopes(start) * change + 0.5 * lists.margin_curvatures(start) * change**2
        ).sum(axis=1)
        assert (lists.margin_values(start + change) <= bound + slack * start.shape[1]).all()


@pytest.mark.parametrize("loss", [*DOMINATIONS, SmoothWARP()], ids=lambda loss: loss.spec())
def test_margins_and_scores_give_the_same_list_loss(loss, seed, fast_kernel):
    rng = np.random.default_rng(seed)
    for scores in rng.normal(size=(5, 6)) * 3.0:
        grades = np.array([1.0, 0, 0, 0, 0, 0])
        margins = (scores[0] - scores[1:])[None]
        for lists in (loss, margin_list_loss(loss, fast_kernel, 1)):
            value = lists.margin_values(margins)[0]
            assert value == pytest.approx(loss.listwise_value(scores, grades))
            slopes = -lists.margin_slopes(margins)[0]
            np.testing.assert_allclose(slopes, loss.listwise_slopes(scores, grades)[1:], atol=1e-12)
        curvatures = loss.margin_curvatures(margins), lists.margin_curvatures(margins)
        np.testing.assert_allclose(*curvatures, atol=1e-12)


def test_smooth_warp_of_several_grades_has_the_slopes_of_its_value(seed):
    rng = np.random.default_rng(seed)
    loss, scores, grades = SmoothWARP(), rng.normal(size=7), np.array([2.0, 0, 1, 1, 0, 2, 0])
    slopes, step = loss.listwise_slopes(scores, grades), 1e-6
    for at in range(7):
        moved = step * np.eye(7)[at]
        high, low = (loss.listwise_value(scores + sign * moved, grades) for sign in (1, -1))
        assert slopes[at] == pytest.approx((high - low) / (2.0 * step), abs=1e-5)


def blocks_of(data, kernel, loss, regularizer, biases=True, dimensions=4):
    model = Factored(dimensions, biases)
    model.initialize(data, 3, kernel)
    return RowBlocks(TrainingProblem(model, loss, regularizer, data, kernel), 3)


def objective_of(blocks, parameters):
    """Compute the objective in float64, by plain NumPy."""
    model, problem = blocks.model, blocks.problem
    sizes = np.cumsum([model.U.shape[0] * model.dimensions, model.V.shape[0] * model.dimensions])
    U, V = (part.reshape(-1, model.dimensions) for part in np.split(parameters, sizes)[:2])
    biases = parameters[sizes[1] :]
    queries = U if problem.data.queries is None else problem.data.queries @ U
    documents = V if problem.data.documents is None else problem.data.documents @ V
    offsets = biases if problem.data.documents is None else problem.data.documents @ biases
    scores = queries @ documents.T + offsets
    triplets = blocks.lists.triplets
    picked = scores[triplets[:, :1], triplets[:, 1:]]
    lists = margin_list_loss(problem.loss, problem.kernel, 1)
    values = lists.margin_values(picked[:, :1] - picked[:, 1:])
    return values.mean() + sum(problem.regularizer.penalty(part) for part in (U, V))


def parameters_of(model):
    d = model.dimensions
    parts = (model.U[:, :d], model.V[:, :d], model.document_biases)
    return np.concatenate([part.ravel() for part in parts]).astype(np.float64)


@pytest.mark.parametrize("featured", [False, True])
@pytest.mark.parametrize("loss", [Logistic(), Domination()], ids=lambda loss: loss.name)
def test_gradients_are_derivatives_of_the_objective(
    make_tastes, make_matching, fast_kernel, loss, featured
):
    data = make_tastes(1, 8, 9)
    if featured:
        data = make_matching(1, 8, 9, widths=(5, 6), kind="relevance")
    blocks = blocks_of(data, fast_kernel, loss, NoPenalty())
    start, step = parameters_of(blocks.model), 1e-4
    assert objective_of(blocks, start) == pytest.approx(blocks.objective, rel=1e-5)
    numerical = np.array(
        [
            (objective_of(blocks, start + step * unit) - objective_of(blocks, start - step * unit))
            for unit in np.eye(start.size)
        ]
    ) / (2.0 * step)
    U, _, _ = blocks._majorizer(0)
    V, _, biases = blocks._majorizer(1)
    result = np.concatenate((U.ravel(), V.ravel(), biases))
    np.testing.assert_allclose(result, numerical, atol=2e-6)


@pytest.mark.parametrize("solver", ["coordinate", "alternating"])
@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge(), Domination()], ids=lambda x: x.name)
def test_the_objective_reaches_that_of_lbfgs(make_tastes, fast_kernel, solver, loss):
    data, regularizer = make_tastes(1, 15, 12), L2(0.01)
    fitted = Ranker(
        Factored(3),
        loss,
        regularizer,
        f"{solver}:max_epochs=400,tolerance=1e-7,n_negatives=3",
        kernel=fast_kernel,
        random_state=3,
    ).fit(data)
    blocks = blocks_of(data, fast_kernel, loss, regularizer, dimensions=3)
    best = minimize(
        lambda x: objective_of(blocks, x), parameters_of(blocks.model), method="L-BFGS-B"
    )
    assert fitted.objective_ <= best.fun * 1.01


@pytest.mark.filterwarnings("ignore:.* sets all embeddings to 0")
@pytest.mark.parametrize("regularizer", REGULARIZERS)
@pytest.mark.parametrize("loss", ["hinge", "warp", "smooth-warp", "domination", "logistic"])
def test_no_epoch_increases_the_objective(make_tastes, fast_kernel, loss, regularizer):
    data = make_tastes(2, 30, 25)
    for solver in ("coordinate:max_epochs=30,tolerance=0", "alternating:max_epochs=6"):
        if loss == "warp" and solver.startswith("alternating"):
            continue  # passes of SGD
        parts = ("factored:dimensions=4", loss, regularizer, solver)
        fitted = Ranker(*parts, kernel=fast_kernel).fit(data)
        history = [row["objective"] for row in fitted.history_]
        assert all(after <= before for before, after in itertools.pairwise(history))
        assert history[-1] < history[0]
        for side in (fitted.model_.U, fitted.model_.V):
            assert np.isfinite(fitted.regularizer_.penalty(side[:, :4].astype(np.float64)))


@pytest.mark.slow
@pytest.mark.parametrize("featured", [False, True])
@pytest.mark.parametrize("parts", [("hinge", "l1"), ("domination", "orthonormal"), ("warp", "l2")])
def test_kernels_and_threads_agree(factored_kernel, make_tastes, make_matching, parts, featured):
    data = make_tastes(1, 20, 25)
    if featured:
        data = make_matching(1, 20, 25, widths=(11, 12), kind="relevance")

    def trained(kernel, threads):
        solver = "coordinate:max_epochs=4,tolerance=0"
        ranker = Ranker("factored:dimensions=5", *parts, solver, kernel=kernel, threads=threads)
        return ranker.fit(data).model_

    threads = 1 if factored_kernel.name == "reference" else 2
    expected, result = trained("reference", 1), trained(factored_kernel, threads)
    for one, other in zip(expected.factors, result.factors, strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("solver", ["coordinate", "alternating"])
def test_a_resumed_run_has_the_same_bits(fast_kernel, make_tastes, solver):
    data = make_tastes(1, 20, 25)

    def run(epochs):
        spec = f"{solver}:max_epochs={epochs},tolerance=0"
        ranker = Ranker("factored:dimensions=5", "hinge", "l1l2-row", spec, kernel=fast_kernel)
        return ranker.plan().trainer(data)

    whole, part, rest = run(5), run(2), run(5)
    whole.train()
    part.train()
    snapshot = part.snapshot()
    snapshot.facts["stopped"] = snapshot.facts["ending"] = ""
    rest.train(snapshot)
    assert rest.history == whole.history
    for one, other in zip(whole.model.factors, rest.model.factors, strict=True):
        assert np.array_equal(one, other)


def test_a_loss_of_several_positives_is_refused(make_tastes):
    with pytest.raises(CombinationError, match="selects one of several sampled positives"):
        Ranker("factored", "kos-warp", "l2", "coordinate").fit(make_tastes(1, 20, 25))
