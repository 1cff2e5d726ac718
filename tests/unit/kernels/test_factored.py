"""The factored loops against derivatives and plain loops, and what their door refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from ranking.kernels.contract import PairForm
from ranking.kernels.factored import FactoredObjects, FactoredWeights, Rows, scores, vectors
from ranking.kernels.kernel import Kernel

WIDTH = 8
LOSSES: dict[PairForm, Callable[[float], float]] = {
    PairForm.HINGE: lambda z: max(0.0, 1.0 - z),
    PairForm.SQUARED_HINGE: lambda z: max(0.0, 1.0 - z) ** 2,
    PairForm.LOGISTIC: lambda z: float(np.log1p(np.exp(-z))),
}
Arrays = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]


def make_objects(seed: int = 0) -> FactoredObjects:
    rng = np.random.default_rng(seed)
    made = []
    for n_objects, n_features in ((5, 6), (7, 9)):
        dense = rng.normal(size=(n_objects, n_features))
        made.append(sp.csr_array(dense * (rng.random(dense.shape) < 0.6)))
    return FactoredObjects(*made)


def make_arrays(objects: FactoredObjects, seed: int = 1, biases: bool = True) -> Arrays:
    rng = np.random.default_rng(seed)
    n_features = objects.n_document_features
    return (
        rng.normal(scale=0.3, size=(objects.n_query_features, WIDTH)).astype(np.float32),
        rng.normal(scale=0.3, size=(n_features, WIDTH)).astype(np.float32),
        rng.normal(scale=0.3, size=n_features if biases else 0).astype(np.float32),
    )


def no_squares() -> Arrays:
    return (
        np.empty((0, 0), np.float32),
        np.empty((0, 0), np.float32),
        np.empty(0, np.float32),
    )


def make_weights(kernel: Kernel, arrays: Arrays, squares: Arrays | None = None) -> FactoredWeights:
    U, V, biases = (array.copy() for array in arrays)
    return FactoredWeights(kernel, U, V, biases, squares or no_squares())


def make_tuples(objects: FactoredObjects, n: int, trials: int = 1) -> NDArray[np.int64]:
    rng = np.random.default_rng(2)
    tuples = rng.integers(0, objects.n_documents, (n, 2 + trials))
    tuples[:, 0] = rng.integers(0, objects.n_queries, n)
    return tuples


def full(n: int, value: float) -> NDArray[np.float32]:
    return np.full(n, value, np.float32)


def dense_side(csr: Any, n_objects: int, n_features: int) -> NDArray[np.float64]:
    if csr is None:
        return np.eye(n_objects)
    indptr, indices, data = csr
    rows: NDArray[np.float64] = sp.csr_array(
        (data, indices, indptr), shape=(n_objects, n_features)
    ).toarray()
    return rows


class Plain:
    """The model by dense matrices in double precision."""

    def __init__(self, objects: FactoredObjects, arrays: Arrays) -> None:
        self.q = dense_side(objects.queries, objects.n_queries, objects.n_query_features)
        self.d = dense_side(objects.documents, objects.n_documents, objects.n_document_features)
        self.arrays = [array.astype(np.float64) for array in arrays]

    def margin(self, query: int, better: int, worse: int) -> float:
        U, V, biases = self.arrays
        apart = self.d[better] - self.d[worse]
        bias = apart @ biases if biases.size else 0.0
        return float((self.q[query] @ U) @ (apart @ V) + bias)

    def gradients(self, query: int, better: int, worse: int) -> list[tuple[int, Any]]:
        """Return the margin's derivatives, by what they change, in the order of the steps."""
        U, V, _ = self.arrays
        q, plus, minus = self.q[query], self.d[better], self.d[worse]
        return [
            (0, np.outer(q, (plus - minus) @ V)),
            (1, np.outer(plus, q @ U)),
            (2, plus),
            (1, np.outer(-minus, q @ U)),
            (2, -minus),
        ]


# --- one step -----------------------------------------------------------------------------------


@pytest.mark.parametrize("form", PairForm)
@pytest.mark.parametrize("which", [0, 1, 2], ids=["U", "V", "biases"])
def test_a_step_follows_the_gradient(kernel: Kernel, form: PairForm, which: int) -> None:
    objects = make_objects()
    arrays = make_arrays(objects)
    ranks, moved = np.array([0.5, 1.5], np.float32), 0
    for chosen in make_tuples(objects, 12):
        made = make_weights(kernel, arrays)
        margins, weights = made.steps(
            objects, chosen[None], full(1, 1.0), form=form, rank_weights=ranks, block=1
        )
        plain = Plain(objects, arrays)
        assert margins[0] == pytest.approx(plain.margin(*chosen), abs=1e-5)
        assert weights[0] == 1.5
        found = numerical(lambda plain=plain, chosen=chosen: plain.margin(*chosen), plain, which)
        h, z = 1e-6, plain.margin(*chosen)
        slope = (LOSSES[form](z + h) - LOSSES[form](z - h)) / (2 * h)
        change = arrays[which].astype(float) - made.factors[which]
        np.testing.assert_allclose(change, 1.5 * slope * found, rtol=1e-3, atol=1e-5)
        moved += bool(np.any(change))
    assert moved >= 3


def numerical(
    margin: Callable[[], float], plain: Plain, which: int, h: float = 1e-4
) -> NDArray[np.float64]:
    """Return the derivatives of a margin, by central differences."""
    values = plain.arrays[which]
    out = np.empty_like(values)
    for at in np.ndindex(values.shape):
        own = values[at]
        values[at] = own + h
        above = margin()
        values[at] = own - h
        out[at] = (above - margin()) / (2 * h)
        values[at] = own
    return out


def test_the_first_violation_is_taken_and_weighted_by_its_trial(kernel: Kernel) -> None:
    objects = FactoredObjects(1, 6)
    U, V = np.zeros((1, WIDTH), np.float32), np.zeros((6, WIDTH), np.float32)
    U[0, 0], V[:, 0] = 1.0, [5.0, 1.0, 2.0, 4.5, 4.25, 0.0]
    ranks = np.arange(10.0, 16.0, dtype=np.float32)
    made = make_weights(kernel, (U, V, np.empty(0, np.float32)))
    tuples = np.array([[0, 0, 1, 2, 3, 4], [0, 0, 1, 2, 5, 5]])
    margins, weights = made.steps(objects, tuples, full(2, 0.5), rank_weights=ranks)
    assert margins.tolist() == [0.5, 5.0]
    assert weights.tolist() == [10.0 + 5 // 3, 0.0]
    changed = np.flatnonzero(np.any(made.factors[1] != V, axis=1))
    assert changed.tolist() == [0, 3]


# --- many steps ---------------------------------------------------------------------------------


def test_identity_features_are_no_features(kernel: Kernel) -> None:
    none = FactoredObjects(5, 7)
    arrays = make_arrays(none)
    tuples, finished = make_tuples(none, 60, 3), []
    sides: list[tuple[Rows, Rows]] = [
        (5, 7),
        (sp.csr_array(np.eye(5)), 7),
        (5, sp.csr_array(np.eye(7, dtype=np.float32))),
        (sp.csr_array(np.eye(5)), sp.csr_array(np.eye(7))),
    ]
    for side in sides:
        made = make_weights(kernel, arrays, ones_like(arrays))
        parts = made.steps(
            FactoredObjects(*side), tuples, full(60, 0.1), max_norm=0.7, l2=0.1, block=8, threads=2
        )
        finished.append(b"".join(array.tobytes() for array in (*parts, *made.state().values())))
    assert len(set(finished)) == 1


def ones_like(arrays: Arrays) -> Arrays:
    U, V, biases = (np.ones_like(array) for array in arrays)
    return U, V, biases


@pytest.mark.parametrize("identity", [False, True])
@pytest.mark.parametrize("adagrad", [False, True])
@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("block", [1, 4])
def test_against_a_plain_loop(
    kernel: Kernel, identity: bool, adagrad: bool, biases: bool, block: int
) -> None:
    # Double precision, dense, one tuple after the other: the same model to a few digits.
    objects = FactoredObjects(5, 7) if identity else make_objects()
    arrays = make_arrays(objects, biases=biases)
    squares = ones_like(arrays)
    tuples, rate, l2, max_norm = make_tuples(objects, 20), 0.2, 0.05, 0.9
    made = make_weights(kernel, arrays, squares if adagrad else None)
    made.steps(
        objects,
        tuples,
        full(20, rate),
        form=PairForm.LOGISTIC,
        max_norm=max_norm,
        l2=l2,
        block=block,
    )
    plain = Plain(objects, arrays)
    G = [np.ones_like(array) for array in plain.arrays]
    for start in range(0, 20, block):
        chosen = tuples[start : start + block]
        slopes = [-1.0 / (1.0 + np.exp(plain.margin(*one))) for one in chosen]
        gradients = [plain.gradients(*one) for one in chosen]
        touched: list[set[int]] = [set(), set()]
        for slope, (query, better, worse), parts in zip(slopes, chosen, gradients, strict=True):
            touched[0] |= set(np.flatnonzero(plain.q[query]))
            touched[1] |= set(np.flatnonzero(plain.d[better])) | set(np.flatnonzero(plain.d[worse]))
            for which, part in parts:
                if which == 2 and not biases:
                    continue
                y = slope * part
                G[which] += y * y
                plain.arrays[which] -= rate * y / (np.sqrt(G[which]) if adagrad else 1.0)
        for which, rows in enumerate(touched):
            for row in rows:
                vector = plain.arrays[which][row]
                vector /= 1.0 + l2 * rate
                vector *= min(1.0, max_norm / np.linalg.norm(vector))
    for got, wanted in zip(made.factors, plain.arrays, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=2e-5)
    if adagrad:
        for got, wanted in zip(made.squares, G, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=2e-5)


def test_rows_are_shrunk_only_if_a_step_changed_them(kernel: Kernel) -> None:
    objects = FactoredObjects(3, 4)
    U, V = full(3 * WIDTH, 2.0).reshape(3, -1), full(4 * WIDTH, 2.0).reshape(4, -1)
    V[3] = -2.0  # far below the others: no violation
    made = make_weights(kernel, (U, V, np.empty(0, np.float32)))
    tuples = np.array([[0, 0, 1], [1, 2, 3], [0, 1, 0]])
    margins, _ = made.steps(objects, tuples, full(3, 0.25), max_norm=1.0, l2=4.0)
    assert margins.tolist() == [0.0, 64.0, 0.0]
    norms = [np.linalg.norm(array, axis=1) for array in made.factors[:2]]
    kept = np.sqrt(4.0 * WIDTH)
    np.testing.assert_allclose(norms[0], [1.0, kept, kept], rtol=1e-6)
    np.testing.assert_allclose(norms[1], [1.0, 1.0, kept, kept], rtol=1e-6)


def test_zeros_on_the_right_stay_and_change_nothing(kernel: Kernel) -> None:
    objects = make_objects()
    arrays = make_arrays(objects)
    padded = tuple(np.pad(array, ((0, 0), (0, 16))) for array in arrays[:2])
    tuples, states = make_tuples(objects, 30, 2), []
    for own in (arrays, (padded[0], padded[1], arrays[2])):
        made = make_weights(kernel, own, ones_like(own))
        made.steps(objects, tuples, full(30, 0.1), max_norm=0.6, block=7)
        states.append(made.factors)
    for narrow, wide in zip(states[0][:2], states[1][:2], strict=True):
        assert np.array_equal(narrow, wide[:, :WIDTH])
        assert not wide[:, WIDTH:].any()
    assert np.array_equal(states[0][2], states[1][2])


# --- vectors and scores -------------------------------------------------------------------------


def test_vectors_and_scores(kernel: Kernel) -> None:
    objects = make_objects()
    arrays = make_arrays(objects)
    plain = Plain(objects, arrays)
    sides = [sp.csr_array(plain.q), sp.csr_array(plain.d)]
    Q, D = (vectors(kernel, side, arrays[at], 2) for at, side in enumerate(sides))
    np.testing.assert_allclose(Q, plain.q @ plain.arrays[0], rtol=1e-5, atol=1e-6)
    found = scores(kernel, Q, D, (plain.d @ plain.arrays[2]).astype(np.float32), 2)
    for query in range(objects.n_queries):
        for better in range(objects.n_documents):
            apart = found[query, better] - found[query, 0]
            assert apart == pytest.approx(plain.margin(query, better, 0), abs=1e-5)
    assert vectors(kernel, arrays[0].shape[0], arrays[0]) is arrays[0]


# --- the door -----------------------------------------------------------------------------------


def step(kernel: Kernel, **changed: Any) -> None:
    """Take a valid step, one argument changed."""
    objects = changed.pop("objects", FactoredObjects(2, 3))
    arguments = {"tuples": np.array([[0, 1, 2], [1, 0, 2]]), "rates": full(2, 0.1)} | changed
    made = make_weights(kernel, make_arrays(FactoredObjects(2, 3)))
    made.steps(objects, arguments.pop("tuples"), arguments.pop("rates"), **arguments)


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"objects": FactoredObjects(2, 4)}, ValueError, "documents 4 features"),
        ({"objects": FactoredObjects(3, 3)}, ValueError, "queries 3"),
        ({"tuples": np.array([[0, 1]])}, ValueError, "at least one negative"),
        ({"tuples": np.zeros((2, 3), np.int32)}, TypeError, "tuples has dtype int32"),
        ({"tuples": np.array([[2, 0, 1], [0, 0, 1]])}, ValueError, r"queries must lie in 0\.\.1"),
        ({"tuples": np.array([[0, 0, 3], [0, 0, 1]])}, ValueError, r"documents must lie in 0\.\.2"),
        ({"tuples": np.array([[0, -1, 1], [0, 0, 1]])}, ValueError, "documents must lie"),
        ({"rates": full(3, 0.1)}, ValueError, "rates has shape"),
        ({"rates": np.full(2, 0.1)}, TypeError, "rates has dtype float64"),
        ({"rates": full(2, np.nan)}, ValueError, "rates must be finite"),
        ({"rates": full(2, -0.1)}, ValueError, "rates must be finite"),
        ({"rank_weights": full(0, 0.1)}, ValueError, "0 rank_weights"),
        ({"rank_weights": full(1, np.inf)}, ValueError, "rank_weights must be finite"),
        ({"block": 0}, ValueError, "block is 0"),
        ({"l2": -1.0}, ValueError, "l2 is -1.0"),
        ({"max_norm": np.nan}, ValueError, "max_norm is nan"),
        ({"form": 7}, ValueError, "7"),
        ({"threads": 0}, ValueError, "threads is 0"),
    ],
)
def test_steps_refuse(
    kernel: Kernel, changed: dict[str, Any], error: type[Exception], message: str
) -> None:
    step(kernel)
    with pytest.raises(error, match=message):
        step(kernel, **changed)


def weights_with(kernel: Kernel, **changed: Any) -> FactoredWeights:
    U, V, biases = make_arrays(FactoredObjects(2, 3))
    arguments = {"U": U, "V": V, "biases": biases, "squares": no_squares()} | changed
    return FactoredWeights(kernel, **arguments)


def read_only(array: NDArray[np.float32]) -> NDArray[np.float32]:
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"U": full(14, 0.1).reshape(2, 7)}, ValueError, "V has shape"),
        ({"U": full(16, 0.1)}, ValueError, "U has shape"),
        ({"U": np.zeros((2, 8))}, TypeError, "U has dtype float64"),
        ({"U": np.asfortranarray(np.ones((2, 8), np.float32))}, ValueError, "C-contiguous"),
        ({"U": np.full((2, 8), np.nan, np.float32)}, ValueError, "must be finite"),
        ({"U": read_only(np.ones((2, 8), np.float32))}, ValueError, "U is read-only"),
        ({"V": np.full((3, 8), np.inf, np.float32)}, ValueError, "must be finite"),
        ({"V": read_only(np.ones((3, 8), np.float32))}, ValueError, "V is read-only"),
        ({"biases": full(2, 0.1)}, ValueError, "biases has shape"),
        ({"biases": read_only(full(3, 0.1))}, ValueError, "biases is read-only"),
        (
            {"squares": (np.ones((2, 8), np.float32), *no_squares()[1:])},
            ValueError,
            "squares of V has shape",
        ),
        (
            {"squares": (np.zeros((2, 8), np.float32), np.ones((3, 8), np.float32), full(3, 1.0))},
            ValueError,
            "squares of U must be positive",
        ),
        (
            {"U": np.ones((2, 7), np.float32), "V": np.ones((3, 7), np.float32)},
            ValueError,
            "multiple of 8",
        ),
        (
            {"U": np.ones((2, 0), np.float32), "V": np.ones((3, 0), np.float32)},
            ValueError,
            "multiple of 8",
        ),
    ],
)
def test_weights_refuse(
    kernel: Kernel, changed: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        weights_with(kernel, **changed)


def test_weights_must_not_overlap(kernel: Kernel) -> None:
    both = np.ones((5, 8), np.float32)
    with pytest.raises(ValueError, match="overlap"):
        weights_with(kernel, U=both[:3], V=both[2:])


def test_objects_refuse() -> None:
    with pytest.raises(ValueError, match="give at least one"):
        FactoredObjects(0, 3)
    wrong = sp.csr_array(np.ones((2, 3)))
    wrong.indices = wrong.indices[::-1].copy()
    with pytest.raises(ValueError, match="not sorted"):
        FactoredObjects(2, wrong)


def test_vectors_and_scores_refuse(kernel: Kernel) -> None:
    ones = np.ones((3, 8), np.float32)
    with pytest.raises(ValueError, match="have vectors"):
        vectors(kernel, sp.csr_array(np.ones((2, 4))), ones)
    with pytest.raises(ValueError, match="documents has shape"):
        scores(kernel, ones, np.ones((3, 16), np.float32), full(0, 0.0))
    with pytest.raises(ValueError, match="biases has shape"):
        scores(kernel, ones, ones, full(2, 0.0))
    with pytest.raises(ValueError, match="pad them"):
        scores(kernel, ones[:, :4].copy(), ones[:, :4].copy(), full(0, 0.0))


def test_inputs_may_be_read_only(kernel: Kernel) -> None:
    rows = sp.csr_array(np.eye(3))
    for array in (rows.indptr, rows.indices, rows.data):
        array.flags.writeable = False
    tuples, rates = np.array([[0, 1, 2], [1, 0, 2]]), full(2, 0.1)
    tuples.flags.writeable = rates.flags.writeable = False
    made = make_weights(kernel, make_arrays(FactoredObjects(2, 3)))
    made.steps(FactoredObjects(2, rows), tuples, rates, rank_weights=read_only(full(1, 1.0)))
    parts = [read_only(array.copy()) for array in made.factors]
    assert scores(kernel, *parts).shape == (2, 3)
    assert vectors(kernel, rows, parts[1]).shape == (3, WIDTH)
