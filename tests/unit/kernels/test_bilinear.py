"""The bilinear loops of every kernel against plain algorithms, and what their door refuses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ranking.kernels import reference_bilinear
from ranking.kernels.bilinear import BilinearInputs, BilinearWeights
from ranking.kernels.contract import BUILTIN_FORMS, PairwiseForm, ShrinkageState
from ranking.kernels.kernel import Kernel
from ranking.kernels.sampling import PositiveLists

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


def text(seed: int, n_objects: int, n_features: int, density: float = 0.3) -> sp.csr_array:
    """Rows of unit length; some have nothing in them."""
    rng = np.random.default_rng(seed)
    dense = rng.random((n_objects, n_features)) * (rng.random((n_objects, n_features)) < density)
    norm = np.linalg.norm(dense, axis=1, keepdims=True)
    return sp.csr_array(dense / np.where(norm, norm, 1.0))


def draws(seed: int, n_steps: int, n_queries: int, n_documents: int) -> NDArray[np.int64]:
    rng = np.random.default_rng(seed)
    documents = rng.integers(0, n_documents, (n_steps, 2))
    return np.column_stack([rng.integers(0, n_queries, n_steps), documents])


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
def test_lazy_is_the_sweep(kernel: Kernel, seed, form, l1, l2, every, rate, storage) -> None:
    x, y = text(seed, 12, 9), text(seed + 1, 15, 11)
    n_steps = 300
    tuples, rates = draws(seed, n_steps, 12, 15), RATES[rate](np.arange(1.0, n_steps + 1))
    w0 = sp.csr_array(np.eye(9, 11).astype(storage))
    made = BilinearWeights(kernel, w0)
    margins, _ = made.steps(BilinearInputs(x, y), tuples, rates, form=form, every=every, l1=l1, l2=l2)
    if form == PairwiseForm.HINGE:
        # Rounding decides on which side of its kink a margin falls that is just 1, and a whole
        # step hangs on that.
        assume(np.abs(margins - 1.0).min() > (1e-4 if storage == "float32" else 1e-10))
    swept = np.eye(9, 11)
    parts = [(m.indptr, m.indices, m.data) for m in (x, y)]
    reference_bilinear.dense_train(swept, *parts, tuples, rates, int(form), every, l1, l2)
    got = made.weights().toarray()
    if storage == "float64":
        assert np.abs(got - swept).max() < 1e-12
        apart = (got != 0.0) != (swept != 0.0)
        assert not np.any(apart & (np.abs(got - swept) > 1e-13))
    else:
        assert np.abs(got - swept).max() < 1e-5
        assert np.abs(got + swept)[(got != 0.0) != (swept != 0.0)].max(initial=0.0) < 1e-5


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
    tuples, rates = draws(seed, 200, 12, 15), np.full(200, 0.3)
    groups = np.arange(9) // size
    omega = np.sqrt(np.bincount(groups).astype(float))
    made = BilinearWeights(kernel, sp.csr_array(np.eye(9, 11)), groups, omega)
    made.steps(BilinearInputs(x, y), tuples, rates, form=form, every=every, l1=strength)
    w, due = np.eye(9, 11), 0.0
    for step, (q, better, worse) in enumerate(tuples, start=1):
        a, b = x[[q]].toarray()[0], (y[[better]] - y[[worse]]).toarray()[0]
        rate = rates[step - 1]
        w -= rate * reference_bilinear.pairwise_slope(int(form), float(a @ w @ b)) * np.outer(a, b)
        due += rate
        if step % every == 0:
            for group in range(omega.size):
                norm = float(np.linalg.norm(w[groups == group]))
                taken = strength * omega[group] * due
                w[groups == group] *= max(1.0 - taken / norm, 0.0) if norm else 0.0
            due = 0.0
    np.testing.assert_allclose(made.weights().toarray(), w, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("form", BUILTIN_FORMS)
@pytest.mark.parametrize("at", [-3.0, -0.5, 0.0, 0.9, 1.5, 4.0])
def test_a_step_follows_the_slope_of_the_loss(kernel: Kernel, form: PairwiseForm, at: float) -> None:
    # W is one number, q and delta are 1: a step takes rate * slope(w) from it.
    ones = sp.csr_array(np.array([[1.0], [0.0]]))
    made = BilinearWeights(kernel, sp.csr_array(np.array([[at]])))
    margins, _ = made.steps(BilinearInputs(ones, ones), np.array([[0, 0, 1]]), np.array([1.0]), form=form)
    assert margins[0] == at
    h = 1e-6
    slope = (VALUES[form](at + h) - VALUES[form](at - h)) / (2.0 * h)
    assert at - made.weights().toarray()[0, 0] == pytest.approx(slope, abs=1e-8)


def test_a_search_for_a_violation(kernel: Kernel) -> None:
    # Scores of documents 0..4 are 3, 1, 2.5, 2.2, -1; q has document 0.
    q = sp.csr_array(np.array([[1.0]]))
    documents = sp.csr_array(np.array([[3.0], [1.0], [2.5], [2.2], [-1.0]]))
    ranks = np.array([10.0, 11.0, 12.0, 13.0, 14.0])
    for negatives, margin, weight, moved in (
        ((1, 4, 2, 3), 0.5, ranks[4 // 3], 2.5),  # the third violates: rank (5 - 1) // 3
        ((2, 1, 1, 1), 0.5, ranks[4], 2.5),  # the first: the largest rank
        ((4, 3, 2, 2), 0.8, ranks[2], 2.2),
        ((1, 4, 1, 4), 4.0, 0.0, None),  # none: the last margin, and no step
    ):
        made = BilinearWeights(kernel, sp.csr_array(np.array([[1.0]])))
        tuples = np.array([[0, 0, *negatives]])
        z, weights = made.steps(BilinearInputs(q, documents), tuples, np.array([0.1]), rank_weights=ranks)
        assert z[0] == pytest.approx(margin)
        assert weights[0] == weight
        step = 0.0 if moved is None else 0.1 * weight * (3.0 - moved)
        assert made.weights().toarray()[0, 0] == pytest.approx(1.0 + step)
    # Ranks beyond the end of the weights have the last of them.
    made = BilinearWeights(kernel, sp.csr_array(np.array([[1.0]])))
    tuples = np.array([[0, 0, 2, 1]])
    assert made.steps(BilinearInputs(q, documents), tuples, np.zeros(1))[1][0] == 1.0


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
    tuples = np.column_stack([query, better + label[query], worse + 1 - label[query]])
    groups = np.arange(40) // 4 if penalty == "groups" else None
    omega = np.ones(10) if penalty == "groups" else None
    w0 = sp.csr_array((40, 40), dtype=storage)
    made = BilinearWeights(kernel, w0, groups, omega)
    objects, held_out = BilinearInputs(x, x), tuples[5000:]
    before = np.maximum(1.0 - made.margins(objects, held_out), 0.0).mean()
    l1 = 0.0 if penalty == "none" else 1e-4
    margins, weights = made.steps(
        objects, tuples[:5000], np.full(5000, 0.3), l1=l1, every=50, hogwild=True, threads=2
    )
    after = np.maximum(1.0 - made.margins(objects, held_out), 0.0).mean()
    assert np.isfinite(made.weights().data).all()
    assert np.isfinite(margins).all()
    assert np.all(weights == 1.0)
    assert made.shrinkage[ShrinkageState.STEP] == 5000
    assert after < 0.6 * before


# --- the door -----------------------------------------------------------------------------------


@pytest.fixture
def made(kernel: Kernel) -> BilinearWeights:
    return BilinearWeights(kernel, sp.csr_array(np.eye(9, 11)))


@pytest.fixture
def objects() -> BilinearInputs:
    return BilinearInputs(text(0, 12, 9), text(1, 15, 11))


TUPLES, ONE = np.array([[0, 1, 2]]), np.ones(1)


@pytest.mark.parametrize(
    ("tuples", "rates", "options", "error", "message"),
    [
        (np.array([[12, 1, 2]]), ONE, {}, ValueError, "queries run from 12 to 12"),
        (np.array([[-1, 1, 2]]), ONE, {}, ValueError, "queries run from -1"),
        (np.array([[0, 1, 15]]), ONE, {}, ValueError, "documents run from 1 to 15"),
        (np.array([[0, -3, 1]]), ONE, {}, ValueError, "documents run from -3"),
        (np.array([[0, 1]]), ONE, {}, ValueError, "at least one negative"),
        (np.array([0, 1, 2]), ONE, {}, ValueError, "tuples has shape"),
        (TUPLES.astype(np.int32), ONE, {}, TypeError, "tuples has dtype int32"),
        (TUPLES, np.ones(2), {}, ValueError, "rates has shape"),
        (TUPLES, -ONE, {}, ValueError, "rates must be finite and not negative"),
        (TUPLES, np.array([np.nan]), {}, ValueError, "rates must be finite"),
        (TUPLES, np.array([np.inf]), {}, ValueError, "rates must be finite"),
        (TUPLES, ONE, {"l1": -1.0}, ValueError, "l1 is -1.0"),
        (TUPLES, ONE, {"l1": np.nan}, ValueError, "l1 is nan"),
        (TUPLES, ONE, {"l2": np.inf}, ValueError, "l2 is inf"),
        (TUPLES, ONE, {"every": 0}, ValueError, "every is 0"),
        (TUPLES, ONE, {"batch": 0}, ValueError, "batch is 0"),
        (TUPLES, ONE, {"threads": 0}, ValueError, "threads is 0"),
        (TUPLES, ONE, {"form": 4}, ValueError, "4 is not a valid PairwiseForm"),
        (TUPLES, ONE, {"rank_weights": np.zeros(0)}, ValueError, "rank_weights must be finite"),
        (TUPLES, ONE, {"rank_weights": np.array([np.nan])}, ValueError, "rank_weights must be"),
        (TUPLES, ONE, {"transposed": True}, ValueError, "W is 9 x 11, and queries have 9"),
    ],
)
def test_steps_that_are_refused(
    made: BilinearWeights,
    objects: BilinearInputs,
    tuples: Any,
    rates: Any,
    options: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        made.steps(objects, tuples, rates, **options)
    assert made.shrinkage[ShrinkageState.STEP] == 0
    assert made.n_nonzero == 9


def test_slopes_of_another_shape_are_refused(made: BilinearWeights, objects: BilinearInputs) -> None:
    with pytest.raises(ValueError, match="slopes has shape"):
        made.update(objects, TUPLES, np.ones(2), ONE)


def test_groups_have_no_l2(kernel: Kernel, objects: BilinearInputs) -> None:
    made = BilinearWeights(kernel, sp.csr_array(np.eye(9, 11)), np.zeros(9, np.int64), np.ones(1))
    with pytest.raises(ValueError, match=r"l2 is 0\.5; a group penalty has none"):
        made.steps(objects, TUPLES, ONE, l2=0.5)


@pytest.mark.parametrize(
    ("groups", "omega", "message"),
    [
        (np.zeros(8, np.int64), np.ones(1), "groups has shape"),
        (np.full(9, 1), np.ones(1), "groups run from 1 to 1"),
        (np.full(9, -1), np.ones(1), "groups run from -1"),
        (np.zeros(9, np.int64), np.array([np.nan]), "must be finite"),
    ],
)
def test_groups_that_are_refused(kernel: Kernel, groups, omega, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BilinearWeights(kernel, sp.csr_array(np.eye(9, 11)), groups, omega)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite_are_refused(kernel: Kernel, bad: float) -> None:
    with pytest.raises(ValueError, match="W and its state must be finite"):
        BilinearWeights(kernel, sp.csr_array(np.array([[bad, 1.0]])))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("clock", lambda a: a * np.nan, "must be finite"),
        ("clock", lambda a: -a, "scales of W must be positive"),
        ("clock", lambda a: a + 0.5, "must be a count"),
        ("clock", lambda a: a[:3], "clock has shape"),
        ("row_state", lambda a: a[:-1], "row_state has shape"),
        ("row_state", lambda a: a * 0.0, "scales of W must be positive"),
        ("indices", lambda a: a + 11, "indices run from"),
        ("indptr", lambda a: a[:-1], "indptr must rise"),
        ("values", lambda a: a[:-1], "indices has shape"),
        ("group_state", lambda a: np.ones((1, 4)), "group_state has shape"),
    ],
)
def test_states_that_are_refused(
    kernel: Kernel, made: BilinearWeights, name: str, change: Any, message: str
) -> None:
    state = made.state()
    state[name] = np.ascontiguousarray(change(state[name]))
    with pytest.raises(ValueError, match=message):
        BilinearWeights.restore(kernel, 11, state)


def test_matrices_that_are_refused(kernel: Kernel) -> None:
    x = text(0, 12, 9)
    with pytest.raises(TypeError, match="queries must be a csr_array"):
        BilinearInputs(x.toarray(), x)
    for bad in (np.nan, np.inf):
        broken = x.copy()
        broken.data[3] = bad
        with pytest.raises(ValueError, match="features of documents must be finite"):
            BilinearInputs(x, broken)
    unsorted = x.copy()
    unsorted.indices[:2] = unsorted.indices[1::-1]
    with pytest.raises(ValueError, match="not sorted"):
        BilinearInputs(x, unsorted)
    with pytest.raises(ValueError, match="W is 9 x 11, and queries have 9 features, documents 9"):
        kernel.bilinear.scores(x, sp.csr_array(np.eye(9, 11)), x)


# --- what is drawn ------------------------------------------------------------------------------


def frequencies(drawn: NDArray[np.int64], n: int) -> NDArray[np.float64]:
    return np.bincount(drawn, minlength=n) / drawn.size


def assert_drawn(drawn: NDArray[np.int64], chances: NDArray[np.float64]) -> None:
    """Each is drawn as often as its chance says, up to five standard deviations."""
    apart = np.abs(frequencies(drawn, chances.size) - chances)
    assert np.all(apart <= 5.0 * np.sqrt(chances * (1.0 - chances) / drawn.size))


def counted_lists(**more: Any) -> PositiveLists:
    """Two queries with lists of their own; the second passes over document 5, which counts 0."""
    return PositiveLists(
        **(
            {
                "queries": np.array([0, 1]),
                "list_of": np.array([0, 1]),
                "list_ptr": np.array([0, 3, 6]),
                "members": np.array([0, 2, 4, 1, 2, 5]),
                "itself": np.array([-1, 5]),
                "n_documents": 7,
            }
            | more
        )
    )


def test_members_are_drawn_as_often_as_they_count(kernel: Kernel) -> None:
    lists = counted_lists(member_sums=np.array([2, 2, 5, 1, 8, 8]))
    drawn = kernel.sampling.sample_triplets(lists, 1, 0, 4000)
    assert_drawn(drawn[:, 0], np.array([0.5, 0.5]))
    for query, counts in ((0, [2, 0, 0, 0, 3, 0, 0]), (1, [0, 1, 7, 0, 0, 0, 0])):
        own = drawn[drawn[:, 0] == query]
        assert_drawn(own[:, 1], np.array(counts) / sum(counts))
        outside = np.ones(7)
        outside[[0, 2, 4] if query == 0 else [1, 2, 5]] = 0.0
        assert_drawn(own[:, 2], outside / outside.sum())


@pytest.mark.parametrize("counted", [False, True])
def test_every_match_is_dealt_once_a_pass_or_as_often_as_it_counts(
    kernel: Kernel, counted: bool
) -> None:
    counts = {(0, 0): 2, (0, 4): 3, (1, 1): 1, (1, 2): 7} if counted else {}
    if counted:
        lists = counted_lists(
            query_sums=np.array([5, 13]), member_sums=np.array([2, 2, 5, 1, 8, 8])
        )
    else:
        lists = counted_lists(query_sums=np.array([3, 5]))
        counts = dict.fromkeys([(0, 0), (0, 2), (0, 4), (1, 1), (1, 2)], 1)
    total = sum(counts.values())
    passes = []
    for at in range(30):
        drawn = kernel.sampling.sample_triplets(lists, 5, at * total, total)
        pairs = [tuple(row) for row in drawn[:, :2].tolist()]
        assert {pair: pairs.count(pair) for pair in pairs} == counts
        passes.append(tuple(pairs))
    assert len(set(passes)) > 10, "passes have orders of their own"
    # Of the first of a pass, each has its share.
    firsts = kernel.sampling.sample_triplets(lists, 5, 0, 2000 * total)[::total, 0]
    assert_drawn(firsts, np.array([5.0, 8.0]) / 13.0 if counted else np.array([3.0, 2.0]) / 5.0)


def test_any_other_document_may_be_a_negative(kernel: Kernel) -> None:
    drawn = kernel.sampling.sample_triplets(counted_lists(any_negative=True), 1, 0, 6000, 2)
    for query, members in ((0, [0, 2, 4]), (1, [1, 2])):
        own = drawn[drawn[:, 0] == query]
        assert_drawn(own[:, 1], np.isin(np.arange(7), members) / len(members))
        for positive in members:
            others = np.ones(7)
            others[positive] = 0.0
            if query == 1:
                others[5] = 0.0  # itself
            assert_drawn(own[own[:, 1] == positive][:, 2:].ravel(), others / others.sum())


def test_several_positives_are_drawn_each_for_itself(kernel: Kernel) -> None:
    drawn = kernel.sampling.sample_triplets(counted_lists(), 1, 0, 5000, trials=1, positives=2)
    assert drawn.shape == (5000, 4)
    for query, members in ((0, [0, 2, 4]), (1, [1, 2])):
        own = drawn[drawn[:, 0] == query]
        pairs = np.searchsorted(members, own[:, 1]) * len(members)
        pairs += np.searchsorted(members, own[:, 2])
        assert_drawn(pairs, np.full(len(members) ** 2, 1.0 / len(members) ** 2))
        assert not np.isin(own[:, 3], members).any()


def test_lists_that_are_refused() -> None:
    good = {
        "queries": np.array([0]),
        "list_of": np.array([0]),
        "list_ptr": np.array([0, 2]),
        "members": np.array([0, 1]),
        "itself": np.array([0]),
        "n_documents": 3,
    }
    PositiveLists(**good)
    for change, message in (
        ({"itself": np.array([2])}, "not in its own list"),
        ({"itself": np.array([3])}, "position of a document"),
        ({"members": np.array([0, 3])}, "indices run from 0 to 3"),
        ({"members": np.array([1, 0])}, "not sorted"),
        ({"queries": np.array([1])}, "queries run from 1 to 1"),
        ({"list_of": np.array([1])}, "list_of run from 1 to 1"),
        ({"n_documents": 2}, "one that not"),
        ({"list_ptr": np.array([0, 0]), "members": np.zeros(0, np.int64)}, "a document that"),
        ({"query_sums": np.array([1, 2])}, "query_sums has shape"),
        ({"query_sums": np.array([2])}, "must rise by what each query has to be drawn"),
        ({"query_sums": np.array([2**32])}, "cannot be told apart"),
        ({"query_sums": np.array([-1])}, "must not fall"),
        ({"member_sums": np.array([0])}, "member_sums has shape"),
        ({"member_sums": np.array([1, 2])}, "own place in its list must count 0"),
        ({"member_sums": np.array([0, 0])}, "are all 0"),
        ({"member_sums": np.array([0, -1])}, "must not fall"),
        ({"member_weights": np.ones(1, np.float32)}, "member_weights has shape"),
        ({"member_weights": np.array([1, np.nan], np.float32)}, "member_weights must be finite"),
        ({"any_other": True, "n_documents": 2}, "one that not"),
    ):
        with pytest.raises(ValueError, match=message):
            PositiveLists(**{**good, **change})
