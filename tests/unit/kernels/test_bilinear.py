"""The bilinear family against plain algorithms, and its input validation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from parity_helpers import refuses

from ranking.kernels.bilinear import BilinearInputs, BilinearWeights
from ranking.kernels.contract import (
    BUILTIN_FORMS,
    NO_CALL,
    BilinearFeatures,
    Csr,
    Execution,
    PairwiseForm,
    PairwiseLoss,
    ShrinkageState,
    StepResults,
    UpdateRule,
)
from ranking.kernels.kernel import Kernel
from ranking.kernels.pairwise import TrainingLoss
from ranking.kernels.reference.bilinear import dense_train
from ranking.kernels.reference.pairwise import pairwise_slope

EXAMPLES = settings(
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
RATES = {
    "fixed": lambda t: np.full(t.size, 0.2),
    "root": lambda t: 1.0 / np.sqrt(t),
    "one over t": lambda t: 1.0 / t,
}
VALUES = {
    PairwiseForm.HINGE: lambda z: max(1.0 - z, 0.0),
    PairwiseForm.SQUARED_HINGE: lambda z: max(1.0 - z, 0.0) ** 2,
    PairwiseForm.LOGISTIC: lambda z: math.log1p(math.exp(-z)),
}


def text(seed: int, n_rows: int, n_features: int, density: float = 0.3) -> sp.csr_array:
    """Rows of unit length; some have nothing in them."""
    rng = np.random.default_rng(seed)
    dense = rng.random((n_rows, n_features)) * (rng.random((n_rows, n_features)) < density)
    norm = np.linalg.norm(dense, axis=1, keepdims=True)
    return sp.csr_array(dense / np.where(norm, norm, 1.0))


def make_triplets(seed: int, n_steps: int, n_queries: int, n_documents: int) -> NDArray[np.int64]:
    rng = np.random.default_rng(seed)
    documents = rng.integers(0, n_documents, (n_steps, 2))
    return np.column_stack([rng.integers(0, n_queries, n_steps), documents])


def train(
    weights: BilinearWeights,
    inputs: BilinearInputs,
    triplets: Any,
    rates: Any,
    *,
    transposed: bool = False,
    **options: Any,
) -> StepResults:
    """Train with the fields of the loss, the rule and the execution as options."""
    loss, rule, execution = (
        {name: options.pop(name) for name in fields if name in options}
        for fields in (("form", "rank_weights"), UpdateRule._fields, Execution._fields)
    )
    assert not options
    return weights.train(
        inputs,
        triplets,
        rates,
        loss=TrainingLoss(**loss),
        rule=UpdateRule(**rule),
        transposed=transposed,
        execution=Execution(**execution),
    )


def hinge_like(form: PairwiseForm) -> PairwiseLoss:
    return PairwiseLoss(form, NO_CALL, np.ones(1), 1)


# --- against plain algorithms -------------------------------------------------------------------


@EXAMPLES
@given(
    seed=st.integers(0, 2**20),
    form=st.sampled_from(BUILTIN_FORMS),
    l1=st.sampled_from([0.0, 1e-4, 1e-3, 1e-2, 0.1]),
    l2=st.sampled_from([0.0, 1e-3, 0.1]),
    every=st.sampled_from([1, 7, 100]),
    rate=st.sampled_from(sorted(RATES)),
    storage=st.sampled_from(["float32", "float64"]),
)
def test_lazy_shrinkage_equals_the_dense_algorithm(
    kernel: Kernel, seed, form, l1, l2, every, rate, storage
) -> None:
    x, y = text(seed, 12, 9), text(seed + 1, 15, 11)
    n_steps = 300
    triplets, rates = make_triplets(seed, n_steps, 12, 15), RATES[rate](np.arange(1.0, n_steps + 1))
    w0 = sp.csr_array(np.eye(9, 11).astype(storage))
    weights = BilinearWeights(kernel, w0)
    rule = UpdateRule(every, l1, l2)
    loss = TrainingLoss(form)
    margins, _ = weights.train(BilinearInputs(x, y), triplets, rates, loss=loss, rule=rule)
    if form == PairwiseForm.HINGE:
        # Rounding decides on which side of its kink a margin falls that is just 1, and a whole
        # step hangs on that.
        assume(np.abs(margins - 1.0).min() > (1e-4 if storage == "float32" else 1e-10))
    swept = np.eye(9, 11)
    features = BilinearFeatures(*(Csr(m.indptr, m.indices, m.data) for m in (x, y)), False)
    dense_train(swept, features, triplets, rates, hinge_like(form), rule)
    result = weights.weights().toarray()
    if storage == "float64":
        assert np.abs(result - swept).max() < 1e-12
        differ = (result != 0.0) != (swept != 0.0)
        assert not np.any(differ & (np.abs(result - swept) > 1e-13))
    else:
        assert np.abs(result - swept).max() < 1e-5
        assert np.abs(result + swept)[(result != 0.0) != (swept != 0.0)].max(initial=0.0) < 1e-5


@pytest.mark.slow
@EXAMPLES
@given(
    seed=st.integers(0, 2**20),
    strength=st.sampled_from([0.0, 1e-3, 1e-2, 0.1]),
    every=st.sampled_from([1, 5, 50]),
    size=st.sampled_from([1, 2, 9]),
    form=st.sampled_from(BUILTIN_FORMS),
)
def test_groups_are_a_group_lasso(kernel: Kernel, seed, strength, every, size, form) -> None:
    x, y = text(seed, 12, 9), text(seed + 1, 15, 11)
    triplets, rates = make_triplets(seed, 200, 12, 15), np.full(200, 0.3)
    groups = np.arange(9) // size
    omega = np.sqrt(np.bincount(groups).astype(float))
    weights = BilinearWeights(kernel, sp.csr_array(np.eye(9, 11)), groups, omega)
    train(
        weights, BilinearInputs(x, y), triplets, rates, form=form, prox_interval=every, l1=strength
    )
    w, due = np.eye(9, 11), 0.0
    for step, (q, better, worse) in enumerate(triplets, start=1):
        a, b = x[[q]].toarray()[0], (y[[better]] - y[[worse]]).toarray()[0]
        rate = rates[step - 1]
        slope = float(pairwise_slope(hinge_like(form), np.float64(a @ w @ b)))
        w -= rate * slope * np.outer(a, b)
        due += rate
        if step % every == 0:
            for group in range(omega.size):
                norm = float(np.linalg.norm(w[groups == group]))
                part = strength * omega[group] * due
                w[groups == group] *= max(1.0 - part / norm, 0.0) if norm else 0.0
            due = 0.0
    np.testing.assert_allclose(weights.weights().toarray(), w, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("form", BUILTIN_FORMS)
@pytest.mark.parametrize("at", [-3.0, -0.5, 0.0, 0.9, 1.5, 4.0])
def test_a_step_follows_the_slope_of_the_loss(
    kernel: Kernel, form: PairwiseForm, at: float
) -> None:
    # W is one number, q and delta are 1: a step takes rate * slope(w) from it.
    ones = sp.csr_array(np.array([[1.0], [0.0]]))
    weights = BilinearWeights(kernel, sp.csr_array(np.array([[at]])))
    triplets = np.array([[0, 0, 1]])
    margins, _ = train(weights, BilinearInputs(ones, ones), triplets, np.array([1.0]), form=form)
    assert margins[0] == at
    h = 1e-6
    slope = (VALUES[form](at + h) - VALUES[form](at - h)) / (2.0 * h)
    assert at - weights.weights().toarray()[0, 0] == pytest.approx(slope, abs=1e-8)


def test_negatives_are_sampled_until_one_violates_the_margin(kernel: Kernel) -> None:
    # Scores of documents 0..4 are 3, 1, 2.5, 2.2, -1; q has document 0.
    q = sp.csr_array(np.array([[1.0]]))
    documents = sp.csr_array(np.array([[3.0], [1.0], [2.5], [2.2], [-1.0]]))
    inputs = BilinearInputs(q, documents)
    ranks = np.array([10.0, 11.0, 12.0, 13.0, 14.0])
    for negatives, margin, weight, moved in (
        ((1, 4, 2, 3), 0.5, ranks[4 // 3], 2.5),  # the third violates: rank (5 - 1) // 3
        ((2, 1, 1, 1), 0.5, ranks[4], 2.5),  # the first: the largest rank
        ((4, 3, 2, 2), 0.8, ranks[2], 2.2),
        ((1, 4, 1, 4), 4.0, 0.0, None),  # none: the last margin, and no step
    ):
        model_weights = BilinearWeights(kernel, sp.csr_array(np.array([[1.0]])))
        triplets = np.array([[0, 0, *negatives]])
        z, weights = train(model_weights, inputs, triplets, np.array([0.1]), rank_weights=ranks)
        assert z[0] == pytest.approx(margin)
        assert weights[0] == weight
        step = 0.0 if moved is None else 0.1 * weight * (3.0 - moved)
        assert model_weights.weights().toarray()[0, 0] == pytest.approx(1.0 + step)
    # Ranks beyond the end of the weights have the last of them.
    model_weights = BilinearWeights(kernel, sp.csr_array(np.array([[1.0]])))
    assert model_weights.train(inputs, np.array([[0, 0, 2, 1]]), np.zeros(1)).weights[0] == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("storage", ["float32", "float64"])
@pytest.mark.parametrize("penalty", ["none", "l1", "groups"])
def test_hogwild_learns(kernel: Kernel, storage: str, penalty: str, seed: int) -> None:
    # Two classes of documents share no words with each other, and queries use words of their own.
    rng = np.random.default_rng(seed)
    label = np.arange(60) % 2
    own = (np.arange(40) % 2)[None, :] == label[:, None]
    dense = rng.random((60, 40)) * (rng.random((60, 40)) < np.where(own, 0.4, 0.1))
    dense[:, 0] += 0.1
    x = sp.csr_array(dense / np.linalg.norm(dense, axis=1, keepdims=True))
    query = rng.integers(0, 60, 6000)
    better, worse = rng.integers(0, 30, (2, 6000)) * 2
    triplets = np.column_stack([query, better + label[query], worse + 1 - label[query]])
    groups = np.arange(40) // 4 if penalty == "groups" else None
    omega = np.ones(10) if penalty == "groups" else None
    w0 = sp.csr_array((40, 40), dtype=storage)
    model_weights = BilinearWeights(kernel, w0, groups, omega)
    inputs, held_out = BilinearInputs(x, x), triplets[5000:]
    before = np.maximum(1.0 - model_weights.margins(inputs, held_out), 0.0).mean()
    l1 = 0.0 if penalty == "none" else 1e-4
    options = {"l1": l1, "prox_interval": 50, "hogwild": True, "threads": 2}
    margins, weights = train(model_weights, inputs, triplets[:5000], np.full(5000, 0.3), **options)
    after = np.maximum(1.0 - model_weights.margins(inputs, held_out), 0.0).mean()
    assert np.isfinite(model_weights.weights().data).all()
    assert np.isfinite(margins).all()
    assert np.all(weights == 1.0)
    assert model_weights.shrinkage[ShrinkageState.STEP] == 5000
    assert after < 0.6 * before


# --- input validation ----------------------------------------------------------------------------


@pytest.fixture
def weights(kernel: Kernel) -> BilinearWeights:
    return BilinearWeights(kernel, sp.csr_array(np.eye(9, 11)))


@pytest.fixture
def inputs() -> BilinearInputs:
    return BilinearInputs(text(0, 12, 9), text(1, 15, 11))


TRIPLETS, ONE = np.array([[0, 1, 2]]), np.ones(1)


@pytest.mark.parametrize(
    ("triplets", "rates", "options", "message"),
    [
        (np.array([[12, 1, 2]]), ONE, {}, "queries run from 12 to 12"),
        (np.array([[-1, 1, 2]]), ONE, {}, "queries run from -1"),
        (np.array([[0, 1, 15]]), ONE, {}, "documents run from 1 to 15"),
        (np.array([[0, -3, 1]]), ONE, {}, "documents run from -3"),
        (np.array([[0, 1]]), ONE, {}, "at least one negative"),
        (np.array([0, 1, 2]), ONE, {}, "triplets: expected shape"),
        (TRIPLETS.astype(np.int32), ONE, {}, "TypeError: triplets has dtype int32"),
        (TRIPLETS, np.ones(2), {}, "learning_rates: expected shape"),
        (TRIPLETS, -ONE, {}, "rates must be finite and not negative"),
        (TRIPLETS, np.array([np.nan]), {}, "rates must be finite"),
        (TRIPLETS, np.array([np.inf]), {}, "rates must be finite"),
        (TRIPLETS, ONE, {"l1": -1.0}, "l1 is -1.0"),
        (TRIPLETS, ONE, {"l1": np.nan}, "l1 is nan"),
        (TRIPLETS, ONE, {"l2": np.inf}, "l2 is inf"),
        (TRIPLETS, ONE, {"prox_interval": 0}, "prox_interval is 0"),
        (TRIPLETS, ONE, {"batch_size": 0}, "batch_size is 0"),
        (TRIPLETS, ONE, {"threads": 0}, "threads is 0"),
        (TRIPLETS, ONE, {"form": 4}, "4 is not a valid PairwiseForm"),
        (TRIPLETS, ONE, {"rank_weights": np.zeros(0)}, "rank_weights must be finite"),
        (TRIPLETS, ONE, {"rank_weights": np.array([np.nan])}, "rank_weights must be"),
        (TRIPLETS, ONE, {"transposed": True}, "W is for 11 query and 9 document features"),
    ],
)
def test_invalid_training_calls(
    weights: BilinearWeights,
    inputs: BilinearInputs,
    triplets: Any,
    rates: Any,
    options: dict[str, Any],
    message: str,
) -> None:
    with refuses(message):
        train(weights, inputs, triplets, rates, **options)
    assert weights.shrinkage[ShrinkageState.STEP] == 0
    assert weights.n_nonzero == 9


def test_slopes_of_another_shape_are_refused(
    weights: BilinearWeights, inputs: BilinearInputs
) -> None:
    with refuses("slopes: expected shape"):
        weights.update(inputs, TRIPLETS, np.ones(2), ONE)


def test_groups_have_no_l2(kernel: Kernel, inputs: BilinearInputs) -> None:
    weights = BilinearWeights(
        kernel, sp.csr_array(np.eye(9, 11)), np.zeros(9, np.int64), np.ones(1)
    )
    with refuses(r"l2 is 0\.5; it must be 0 together with a group penalty"):
        train(weights, inputs, TRIPLETS, ONE, l2=0.5)


@pytest.mark.parametrize(
    ("groups", "omega", "message"),
    [
        (np.zeros(8, np.int64), np.ones(1), "groups: expected shape"),
        (np.full(9, 1), np.ones(1), "groups run from 1 to 1"),
        (np.full(9, -1), np.ones(1), "groups run from -1"),
        (np.zeros(9, np.int64), np.array([np.nan]), "must be finite"),
    ],
)
def test_groups_that_are_refused(kernel: Kernel, groups, omega, message: str) -> None:
    with refuses(message):
        BilinearWeights(kernel, sp.csr_array(np.eye(9, 11)), groups, omega)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite_are_refused(kernel: Kernel, bad: float) -> None:
    with refuses("weights must be finite"):
        BilinearWeights(kernel, sp.csr_array(np.array([[bad, 1.0]])))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("shrinkage", lambda a: a * np.nan, "must be finite"),
        ("shrinkage", lambda a: -a, "scales of W must be positive"),
        ("shrinkage", lambda a: a + 0.5, "must be a count"),
        ("shrinkage", lambda a: a[:3], "shrinkage: expected shape"),
        ("row_state", lambda a: a[:-1], "row_state: expected shape"),
        ("row_state", lambda a: a * 0.0, "scales of W must be positive"),
        ("indices", lambda a: a + 11, "indices run from"),
        ("indptr", lambda a: a[:-1], "indptr must rise"),
        ("values", lambda a: a[:-1], "indices: expected shape"),
        ("group_state", lambda a: np.ones((1, 4)), "group_state: expected shape"),
    ],
)
def test_states_that_are_refused(
    kernel: Kernel, weights: BilinearWeights, name: str, change: Any, message: str
) -> None:
    state = weights.state()
    state[name] = np.ascontiguousarray(change(state[name]))
    with refuses(message):
        BilinearWeights.restore(kernel, 11, state)


def test_matrices_that_are_refused(kernel: Kernel) -> None:
    x = text(0, 12, 9)
    with refuses("TypeError: queries must be a csr_array"):
        BilinearInputs(x.toarray(), x)
    for bad in (np.nan, np.inf):
        broken = x.copy()
        broken.data[3] = bad
        with refuses("documents must be finite"):
            BilinearInputs(x, broken)
    unsorted = x.copy()
    unsorted.indices[:2] = unsorted.indices[1::-1]
    with refuses("not sorted"):
        BilinearInputs(x, unsorted)
    with refuses("W is for 9 query and 11 document features, and queries have 9, documents 9"):
        kernel.bilinear.scores(x, sp.csr_array(np.eye(9, 11)), x)
