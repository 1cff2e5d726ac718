"""Hierarchical group lasso, graph and mask against independent oracles."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from ranking import JudgedLists, MatchingData, Ranker
from ranking.contracts import Callback
from ranking.errors import CombinationError, PartError
from ranking.testing import check_regularizer
from ranking_plugins.regularizers import Graph, HierarchicalGroupL1, Mask

Array = np.ndarray[Any, Any]

TREE = {"a": "x/y", "b": "x/y", "c": "x", "e": "z"}
IDS = np.array(["a", "b", "c", "d", "e"])
COLUMNS = np.array(["a", "b", "q"])
EDGES = [("a", "b"), ("b", "d", 2.5), ("a", "nowhere")]


def dense(seed: int, shape: tuple[int, int] = (5, 3)) -> Array:
    rng = np.random.default_rng(seed)
    return rng.normal(size=shape) * (rng.random(shape) < 0.8)


def groups_of_the_tree(across: int) -> list[tuple[list[int], float]]:
    """Return the members of each group, and its weight, written out by hand."""
    members = [[0], [1], [2], [3], [4], [0, 1], [0, 1, 2], [4]]
    return [(each, float(np.sqrt(len(each) * across))) for each in members]


def tree_prox_by_duality(W: Array, due: float, entries: float) -> Array:
    """Return the prox by cyclic projections of one dual matrix per group, until they stand still.

    The dual of a sum of norms is a projection onto balls: W less the sum of the dual matrices.
    """
    groups = groups_of_the_tree(W.shape[1])
    duals = [np.zeros_like(W) for _ in groups]
    single = np.zeros_like(W)
    for _ in range(3000):
        rest = W - sum(duals)
        new = np.clip(rest, -due * entries, due * entries)
        change = np.abs(new - single).max()
        single = new
        for at, (members, weight) in enumerate(groups):
            rest = W - single - sum(duals) + duals[at]
            new = np.zeros_like(W)
            norm = np.linalg.norm(rest[members])
            new[members] = rest[members] * min(1.0, due * weight / max(norm, 1e-300))
            change = max(change, np.abs(new - duals[at]).max())
            duals[at] = new
        if change < 1e-14:
            break
    return W - single - sum(duals)


@pytest.mark.parametrize("entries", [0.0, 0.7])
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), due=st.floats(0.01, 0.8))
def test_the_tree_prox_solves_the_dual(entries, seed, due):
    W = dense(seed)
    penalty = HierarchicalGroupL1(2.0, TREE, entries).structure(IDS, COLUMNS)
    result = penalty.prox(sp.csr_array(W), due / 2.0).toarray()
    assert result == pytest.approx(tree_prox_by_duality(W, due, entries), abs=1e-9)


def test_the_tree_penalty_is_the_sum_over_the_groups():
    W = dense(1)
    expected = sum(w * np.linalg.norm(W[at]) for at, w in groups_of_the_tree(3))
    expected += 0.7 * np.abs(W).sum()
    penalty = HierarchicalGroupL1(0.2, TREE, entries=0.7).structure(IDS, COLUMNS)
    assert penalty.penalty(sp.csr_array(W)) == pytest.approx(0.2 * expected)
    by_column = HierarchicalGroupL1(0.2, TREE, entries=0.7, by="columns").structure(COLUMNS, IDS)
    assert by_column.penalty(sp.csr_array(W.T)) == pytest.approx(0.2 * expected)
    transposed = by_column.prox(sp.csr_array(W.T), 0.3).toarray().T
    assert transposed == pytest.approx(penalty.prox(sp.csr_array(W), 0.3).toarray())


def test_a_zero_group_has_zero_groups_below():
    W = np.array([[3.0, 0.1], [0.2, 0.0], [0.2, -0.1], [2.0, 2.0], [0.1, 0.0]])
    result = HierarchicalGroupL1(0.2, TREE).structure(IDS, COLUMNS[:2]).prox(sp.csr_array(W), 1.0)
    alive = result.toarray().any(axis=1)
    assert alive.tolist() == [True, False, False, True, False]
    strong = HierarchicalGroupL1(2.0, TREE).structure(IDS, COLUMNS[:2]).prox(sp.csr_array(W), 1.0)
    assert strong.count_nonzero() == 0


@pytest.mark.parametrize("by", ["rows", "columns"])
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), due=st.floats(0.01, 5.0))
def test_the_graph_prox_solves_the_linear_system(by, seed, due):
    W = dense(seed)
    laplacian = np.zeros((5, 5))
    for a, b, c in ((0, 1, 1.0), (1, 3, 2.5)):
        laplacian[[a, b], [a, b]] += c
        laplacian[[a, b], [b, a]] -= c
    expected = np.linalg.solve(np.eye(5) + due * laplacian, W)
    rows, columns, matrix = (IDS, COLUMNS, W) if by == "rows" else (COLUMNS, IDS, W.T)
    penalty = Graph(2.0, EDGES, by).structure(rows, columns)
    result = penalty.prox(sp.csr_array(matrix), due / 2.0).toarray()
    assert (result if by == "rows" else result.T) == pytest.approx(expected, abs=1e-10)
    value = np.trace(W.T @ laplacian @ W)  # 2.0 / 2
    assert penalty.penalty(sp.csr_array(matrix)) == pytest.approx(value)


def test_the_graph_leaves_other_components_alone():
    W = sp.csr_array(np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 5.0], [0.0, 0.0], [0.0, 0.0]]))
    result = Graph(1.0, EDGES).structure(IDS, COLUMNS[:2]).prox(W, 1.0)
    assert result[[2]].toarray().tolist() == [[0.0, 5.0]]
    assert result[:, [1]].count_nonzero() == 1
    assert result[:, [0]].count_nonzero() == 3  # a, b and d


def test_the_quadratic_form_is_the_penalty():
    w = dense(3)[:, 0]
    graph = Graph(0.7, EDGES)
    form = graph.quadratic_form(IDS).toarray()
    expected = graph.structure(None, IDS).penalty(sp.csr_array(w[None, :]))
    assert 0.5 * w @ form @ w == pytest.approx(expected)


@pytest.mark.parametrize("outside", ["zero", 0.4])
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("diagonal", [True, False])
def test_the_mask_thresholds_each_weight(outside, symmetric, diagonal):
    inside = {("a", "b"), ("c", "q")}
    inside |= {("b", "a"), ("q", "c")} if symmetric else set()
    inside |= {("a", "a"), ("b", "b")} if diagonal else set()
    mask = Mask([("a", "b"), ("c", "q"), ("a", "b")], outside, 0.1, diagonal, symmetric)
    penalty = mask.structure(IDS, COLUMNS)
    W, step = dense(4), 0.5
    expected, cost = np.zeros_like(W), 0.0
    for (i, row), (j, column) in itertools.product(enumerate(IDS), enumerate(COLUMNS)):
        if (row, column) in inside:
            due = 0.1
        elif outside == "zero":
            continue
        else:
            due = outside
        expected[i, j] = np.sign(W[i, j]) * max(abs(W[i, j]) - step * due, 0.0)
        cost += due * abs(expected[i, j])
    result = penalty.prox(sp.csr_array(W), step)
    assert result.toarray() == pytest.approx(expected)
    assert penalty.penalty(result) == pytest.approx(cost)
    assert penalty.penalty(sp.csr_array(W)) == (
        np.inf
        if outside == "zero"
        else pytest.approx(
            0.1
            * sum(
                abs(W[i, j])
                for i, a in enumerate(IDS)
                for j, b in enumerate(COLUMNS)
                if (a, b) in inside
            )
            + 0.4
            * sum(
                abs(W[i, j])
                for i, a in enumerate(IDS)
                for j, b in enumerate(COLUMNS)
                if (a, b) not in inside
            )
        )
    )


@pytest.mark.slow
def test_brute_force_finds_nothing_better(tmp_path: Path):
    (tmp_path / "tree").write_text("0\ta/b\n1\ta/b\n2\ta\n3\tc\n")
    (tmp_path / "edges").write_text("0\t2\n1\t2\t3.0\n")
    (tmp_path / "pairs").write_text("0\t1\n2\t0\n")
    tree, edges, pairs = (str(tmp_path / name) for name in ("tree", "edges", "pairs"))
    for regularizer in (
        HierarchicalGroupL1(0.1, tree, entries=0.5),
        Graph(0.7, edges),
        Mask(pairs, outside=0.4, inside=0.1, symmetric=False),
    ):
        check_regularizer(regularizer, shape=(4, 2))


# --- training -----------------------------------------------------------------------------------


def judged() -> JudgedLists:
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(160, 6)), np.repeat(np.arange(20), 8)
    X[:, 5] = 1.0  # has no effect on the loss
    y = np.digitize(X @ [1.0, 0.9, 0.0, -1.0, 0.0, 0.0] + rng.normal(size=160), [0.0, 1.0])
    return JudgedLists(X, y, qid)


def listnet(data: JudgedLists, w: Array) -> float:
    total, used = 0.0, 0
    for rows in map(slice, data.group_ptr[:-1], data.group_ptr[1:]):
        grades = data.grades[rows].astype(float)
        if np.unique(grades).size < 2:
            continue
        p = np.exp(grades) / np.exp(grades).sum()
        f = data.features[rows] @ w
        total -= float(p @ (f - np.log(np.exp(f).sum())))
        used += 1
    return total / used


def test_lbfgs_minimizes_the_loss_and_the_penalty_of_a_graph():
    data = judged()
    edges = [(1, 2), (2, 3, 4.0), (1, 6)]

    def cost(w: Array) -> float:
        rough = sum((e[2] if len(e) > 2 else 1.0) * (w[e[0] - 1] - w[e[1] - 1]) ** 2 for e in edges)
        return listnet(data, w) + 0.5 * 0.3 * rough

    expected = minimize(cost, np.zeros(6), method="BFGS", options={"gtol": 1e-9}).fun
    ranker = Ranker(loss="listnet", regularizer=Graph(0.3, edges), solver="lbfgs").fit(data)
    assert cost(ranker.model_.weights) == pytest.approx(expected, abs=1e-8)
    assert ranker.objective_ == pytest.approx(cost(ranker.model_.weights), abs=1e-9)
    assert ranker.model_.weights[5] == pytest.approx(ranker.model_.weights[0], abs=1e-4)


def matching(seed: int = 0) -> MatchingData:
    rng = np.random.default_rng(seed)
    queries, documents = rng.normal(size=(9, 4)), rng.normal(size=(8, 4))
    relevance = (queries @ documents.T + rng.normal(size=(9, 8)) > 0.6).astype(float)
    relevance[np.arange(9), np.arange(9) % 8] = 1.0
    relevance[np.arange(9), (np.arange(9) + 1) % 8] = 0.0
    names = np.array(["a", "b", "c", "d"])
    return MatchingData(
        queries, documents, relevance, query_feature_ids=names, document_feature_ids=names
    )


def pairs_of(data: MatchingData) -> tuple[Array, Array]:
    """Return one row of products per pair, and its share: uniform queries, then pairs."""
    queries, documents = data.query_rows.toarray(), data.document_rows.toarray()
    rows, shares = [], []
    for q, liked in zip(queries, data.relevance.toarray() > 0, strict=True):
        for positive, negative in itertools.product(documents[liked], documents[~liked]):
            rows.append(np.outer(q, positive - negative).ravel())
            shares.append(1.0 / (len(queries) * liked.sum() * (~liked).sum()))
    return np.array(rows), np.array(shares)


def squared_hinge(pairs: tuple[Array, Array], W: Array) -> tuple[float, Array]:
    """Return the mean loss and its gradient."""
    rows, shares = pairs
    gap = np.maximum(0.0, 1.0 - rows @ W.ravel())
    return float(shares @ gap**2), (-2.0 * rows.T @ (shares * gap)).reshape(W.shape)


REGULARIZERS = [
    HierarchicalGroupL1(0.02, {"a": "x", "b": "x"}, entries=0.3),
    Graph(0.2, [("a", "b"), ("b", "d")]),
    Mask([("a", "b"), ("c", "d")]),
    Mask([("a", "b")], outside=0.05),
]
SGD = (
    "sgd:max_steps=40000,steps_per_epoch=40000,schedule=inverse-sqrt,learning_rate=0.1,"
    "prox_interval=20"
)


@pytest.mark.slow
@pytest.mark.parametrize("regularizer", REGULARIZERS, ids=lambda r: f"{r.name} {r.get_params()}")
def test_sgd_reaches_the_optimum_of_proximal_gradients(regularizer):
    data = matching()
    pairs, names = pairs_of(data), np.array(["a", "b", "c", "d"])
    penalty = regularizer.structure(names, names)
    W, rate = np.zeros((4, 4)), 0.02
    for _ in range(1500):
        W = penalty.prox(sp.csr_array(W - rate * squared_hinge(pairs, W)[1]), rate).toarray()
    optimum = squared_hinge(pairs, W)[0] + penalty.penalty(sp.csr_array(W))
    ranker = Ranker("bilinear", "squared-hinge", regularizer, SGD).fit(data)
    trained = ranker.model_.weights
    reached = squared_hinge(pairs, trained.toarray().astype(float))[0] + penalty.penalty(trained)
    assert optimum - 1e-6 <= reached <= 1.01 * optimum


@pytest.mark.parametrize("model", ["bilinear", "diagonal"])
@pytest.mark.parametrize("regularizer", REGULARIZERS, ids=lambda r: r.name)
def test_kernels_and_threads_have_the_same_bits(model, regularizer, load_kernel):
    solver = "sgd:max_steps=300,steps_per_epoch=100,learning_rate=0.5,prox_interval=30"
    data, weights = matching(), []
    for kernel, threads in (("reference", 1), ("cython", 2), ("rust", 1)):
        ranker = Ranker(model, "hinge", regularizer, solver, threads=threads)
        trained = ranker.set_params(kernel=load_kernel(kernel)).fit(data).model_.weights
        weights.append(trained.toarray())
    assert all(np.array_equal(weights[0], each) for each in weights)


class Snapshots(Callback):
    """Keeps a snapshot of every epoch."""

    name = "snapshots"

    def __init__(self):
        self.snapshots = []

    def on_epoch_end(self, run, result):
        self.snapshots.append(run.snapshot())
        return False


@pytest.mark.parametrize("model", ["bilinear", "diagonal"])
@pytest.mark.parametrize("regularizer", REGULARIZERS, ids=lambda r: r.name)
def test_a_resumed_run_has_the_same_bits(model, regularizer):
    solver = "sgd:max_steps=300,steps_per_epoch=100,learning_rate=0.5,prox_interval=30"
    data, snapshots = matching(), Snapshots()
    whole = Ranker(model, "hinge", regularizer, solver, callbacks=[snapshots]).plan().trainer(data)
    whole.train()
    assert len(snapshots.snapshots) == 3
    for snapshot in snapshots.snapshots:
        again = Ranker(model, "hinge", regularizer, solver).plan().trainer(data)
        again.train(snapshot)
        assert again.history == whole.history
        assert np.array_equal(again.model.weights.toarray(), whole.model.weights.toarray())


def test_a_diagonal_is_one_row_of_shared_features():
    data = matching()
    ranker = Ranker(
        "diagonal", "hinge", Graph(500.0, [("a", "b")]), "sgd:max_steps=400,learning_rate=0.5"
    ).fit(data)
    diagonal = ranker.model_.weights.diagonal()
    assert diagonal[0] == pytest.approx(diagonal[1], abs=1e-3)
    assert abs(diagonal[2] - diagonal[0]) > 0.01
    assert ranker.model_.weights.count_nonzero() == 4


def wider() -> MatchingData:
    """Return the data with another feature, e, on both sides."""
    data, more = matching(), np.random.default_rng(1).normal(size=(9, 1))
    names = np.array(["a", "b", "c", "d", "e"])
    return MatchingData(
        np.hstack([data.query_rows.toarray(), more]),
        np.hstack([data.document_rows.toarray(), more[:8]]),
        data.relevance,
        query_feature_ids=names,
        document_feature_ids=names,
    )


def test_a_graph_links_new_features_of_a_diagonal():
    solver = "sgd:max_steps=400,steps_per_epoch=100,learning_rate=0.5"
    links = [("a", "e"), ("e", "c")]
    ranker = Ranker("diagonal", "hinge", Graph(500.0, [*links, ("a", "c")]), solver).fit(matching())
    diagonal = ranker.partial_fit(wider(), steps=400).model_.weights.diagonal()
    assert diagonal.size == 5
    assert diagonal[[0, 2, 4]] == pytest.approx([diagonal[0]] * 3, abs=1e-3)
    assert abs(diagonal[1] - diagonal[0]) > 0.01


def test_a_mask_holds_in_training_and_for_new_features():
    solver = "sgd:max_steps=500,steps_per_epoch=100,learning_rate=0.5"
    ranker = Ranker("bilinear", "hinge", Mask([("a", "b"), ("e", "a")]), solver).fit(matching())
    rows, columns = ranker.model_.weights.tocoo().coords
    allowed = {(0, 0), (1, 1), (2, 2), (3, 3), (0, 1), (1, 0)}
    assert set(zip(rows.tolist(), columns.tolist(), strict=True)) <= allowed
    assert ranker.objective_ < np.inf

    ranker.partial_fit(wider(), steps=300)
    rows, columns = ranker.model_.weights.tocoo().coords
    allowed |= {(4, 4), (4, 0), (0, 4)}
    trained = set(zip(rows.tolist(), columns.tolist(), strict=True))
    assert trained <= allowed
    assert (4, 0) in trained


@pytest.mark.parametrize(
    ("loss", "regularizer", "expected"),
    [
        ("listnet", "graph", "lbfgs"),
        ("logistic", "graph", "lbfgs"),
        ("hinge", "graph", "sgd"),
        ("exponential-pairs", "l2", "lbfgs"),
        ("approx-ndcg", "none", "lbfgs"),
        ("exponential-pairs", "hierarchical-group-l1", "sgd"),
        ("domination", "l2", "coordinate"),
    ],
)
def test_lists_are_trained_by_the_solver_of_all_lists(loss, regularizer, expected):
    assert Ranker("linear", loss, regularizer).plan().resolve(judged())[3].name == expected


@pytest.mark.parametrize("make", [lambda: Graph(5.0, [(1, 2)]), lambda: "graph:strength=5"])
def test_linear_models_link_their_features_also_by_sgd(make):
    solver = "sgd:max_steps=4000,learning_rate=0.1"
    data = judged()
    weights = Ranker("linear", "hinge", make(), solver).fit(data).model_.weights
    free = Ranker("linear", "hinge", "none", solver).fit(data).model_.weights
    assert abs(weights[0] - weights[1]) < 0.3 * abs(free[0] - free[1])


# --- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\n", r"line 1: write feature<TAB>feature<TAB>weight, not 'a'"),
        ("a\tb\nc\td\te\tf\n", r"line 2: write"),
        ("a\tb\t-1\n", r"'a', 'b' has the weight '-1'; give a number > 0"),
        ("a\tb\tx\n", r"the weight 'x'"),
        ("a\ta\n", r"'a' is linked to itself"),
        ("u\tv\n", r"none of the 1 entries is about features of the data, where ids look like a"),
    ],
)
def test_bad_edges_are_refused(tmp_path, text, message):
    path = tmp_path / "edges.tsv"
    path.write_text(text)
    with pytest.raises(PartError, match=message):
        Graph(edges=path).structure(IDS, COLUMNS)


def test_bad_trees_and_masks_are_refused(tmp_path):
    twice = tmp_path / "tree.tsv"
    twice.write_text("a\tx\na\ty\n")
    for tree, message in (
        (twice, "occurs twice"),
        (tmp_path / "missing", "hierarchical-group-l1 cannot read tree="),
        ({"a": "x//y"}, "'x//y' has an empty name"),
        ({"other": "x"}, "none of the 1 entries"),
        (7, "must be a mapping"),
    ):
        with pytest.raises(PartError, match=message):
            HierarchicalGroupL1(tree=tree).structure(IDS, COLUMNS)
    for pairs, message in (
        ([("a",)], "each entry has 2 to 2 values"),
        (5, "give the path of a file, or pairs"),
        ([("u", "v")], "none of the 1 entries"),
    ):
        with pytest.raises(PartError, match=message):
            Mask(pairs).structure(IDS, COLUMNS)


@pytest.mark.parametrize("name", ["mask", "graph", "hierarchical-group-l1"])
def test_embeddings_are_refused_with_the_reason(name):
    with pytest.raises(CombinationError, match=r"embeddings|U'V"):
        Ranker("factored", "bpr", name, "sgd:epochs=1").fit(matching())


def test_a_mask_of_a_linear_model_is_refused():
    with pytest.raises(CombinationError, match="a linear model has no query features"):
        Ranker("linear", "hinge", "mask", "sgd").fit(judged())


def test_the_reasons_are_those_of_the_solvers_that_nearly_fit():
    with pytest.raises(CombinationError, match="a linear model has no query features") as caught:
        Ranker("auto", "hinge", "mask").fit(judged())
    message = str(caught.value)
    assert all(f"linear x {name}:" in message for name in ("coordinate", "sgd"))
    assert not any(name in message for name in ("lightgbm", "nmf", "graph-filter"))
    assert len(message) < 800
