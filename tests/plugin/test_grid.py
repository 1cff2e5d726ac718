"""Every combination of built-in parts: compatible ones train, the others have a reason.

A compatible cell is trained on small, easy data by the Cython kernel and one other: the objective
must decrease, the property of the regularizer must hold, and both kernels must give the same bits.
The other kernel is chosen such that every pair of parts is trained by all kernels, if it occurs in
at least two cells.
"""

from __future__ import annotations

import itertools
import re
import sys
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit, logsumexp
from sklearn.metrics import ndcg_score

from ranking import JudgedLists, MatchingData, Ranker
from ranking.errors import CombinationError
from ranking.kernels.kernel import Kernel
from ranking.models.combination import Combination
from ranking.registry.compatibility import Cell, Grid
from ranking.registry.manager import Registry, installed_sources
from ranking.training.trainer import Trainer

OTHER_KERNELS = ("reference", "rust")

GRID = Grid(Registry([each for each in installed_sources() if each.distribution == "ranking-kit"]))
CELLS = {str(cell): cell for cell in GRID.cells()}
WORKS = {name: cell for name, cell in CELLS.items() if cell.compatibility().works}

MODELS = {
    "factored": "factored:dimensions=3",
    "sparse-factored": "sparse-factored:dimensions=3",
    "item-item": "item-item:dimensions=2",
    "factored-identity": "factored-identity:dimensions=3",
    "topics": "topics:dimensions=3",
    "structured": "structured:dimensions=3,k=3,init_scale=1",
}
SOLVERS = {
    "sgd": "sgd:max_steps=120,steps_per_epoch=40,prox_interval=10,n_negatives=2",
    "passive-aggressive": "passive-aggressive:max_steps=120,steps_per_epoch=40",
    "kernel-passive-aggressive": "kernel-passive-aggressive:max_steps=120,steps_per_epoch=40",
    "alternating": "alternating:max_epochs=2,n_negatives=2",
    "coordinate": "coordinate:max_epochs={epochs},tolerance=0,n_negatives=2",
    "lbfgs": "lbfgs:max_epochs=4,iterations=5,tolerance=0",
    "adarank": "adarank:max_epochs=5",
    "minibatch": "minibatch:epochs=20,learning_rate=0.1",
    "em": "em:max_epochs=20",
    "rankboost": "rankboost:max_epochs=5",
    "lightgbm": "lightgbm:max_epochs=5,min_data_in_leaf=5",
    "selection": "selection:max_trials=2,share=0.3",
}
BY_ID = (
    "svd",
    "nmf",
    "popularity",
    "random-walk",
    "item-knn",
    "closed-form",
    "graph-filter",
    "coordinate-search",
    "selection",
)
"""Solvers of data without features."""

LIMIT = 1.5
MILD = {
    "l1": "l1:strength=0.01",
    "elastic": "elastic:strength=0.01",
    "l2": "l2:strength=0.01",
    "group-l1": "group-l1:strength=0.005",
    "hierarchical-group-l1": "hierarchical-group-l1:strength=0.005",
    "graph": "graph:strength=0.01",
    "max-norm": f"max-norm:limit={LIMIT}",
    "l1-row": f"l1-row:limit={LIMIT}",
    "l1l2-row": f"l1l2-row:strength=0.01,limit={LIMIT}",
}
"""With which the objective falls."""

STRONG = {
    "l1": "l1:strength=1",
    "elastic": "elastic:strength=1",
    "l2": "l2:strength=1",
    "group-l1": "group-l1:strength=4",
    "hierarchical-group-l1": "hierarchical-group-l1:strength=4",
    "graph": "graph:strength=100",
    "l1l2-row": f"l1l2-row:strength=1,limit={LIMIT}",
}
"""With which the property of a regularizer shows in a short training."""


def judged() -> JudgedLists:
    """Make lists in which four features matter and four do not."""
    rng = np.random.default_rng(5)
    qids = np.repeat(np.arange(12), 7)
    X = rng.normal(size=(qids.size, 8))
    grades = np.digitize(X[:, :4] @ [1.0, -1.0, 0.7, 0.5], [-0.7, 0.7])
    return JudgedLists(X, grades, qids)


def matching(featured: str) -> MatchingData:
    """Queries and documents of four subjects, each a feature; four louder ones say nothing."""
    rng = np.random.default_rng(6)
    subjects, sides = [], []
    for size, counts in ((12, (5, 4, 2, 1)), (16, (6, 5, 3, 2))):
        subject = np.repeat(np.arange(4), counts)
        rows = np.zeros((size, 8))
        rows[np.arange(size), subject] = 1.0
        rows[:, 4:] = 1.5 * (rng.random((size, 4)) < 0.5)
        subjects.append(subject)
        sides.append(sp.csr_array(rows / np.linalg.norm(rows, axis=1, keepdims=True)))
    relevance = sp.csr_array((subjects[0][:, None] == subjects[1][None, :]).astype(float))
    queries, documents = sides
    return MatchingData(
        None if featured == "none" else queries,
        documents if featured == "both" else None,
        relevance,
    )


@cache
def data_for(model: str, solver: str) -> JudgedLists | MatchingData:
    if model in ("linear", "thresholds", "trees"):
        return judged()
    if model == "item-item":
        return matching("none")
    by_id = dict.fromkeys(BY_ID, "none")
    featured = {**by_id, "one-vs-rest": "queries"}.get(solver, "both")
    return matching(featured)


def spec(table: dict[str, str], part: type[Any]) -> str:
    return table.get(part.name, part.name)


def mild(cell: Cell) -> str:
    """Return a regularizer with which the objective falls; losses below 1 take a weaker one."""
    name = cell.regularizer.name
    small = cell.loss.name in ("approx-ndcg", "lambdarank", "preference-graph")
    return MILD.get(name, name).replace("=0.0", "=0.00" if small else "=0.0")


def prepared(cell: Cell, kernel: Kernel, regularizer: str) -> Trainer:
    rate = ",learning_rate=0.5" if (cell.model.form, cell.solver.name) == ("matrix", "sgd") else ""
    if cell.model.name == "structured" and cell.solver.name == "sgd":
        # Each stage starts from scratch and has few steps.
        longer = (cell.loss.name, cell.regularizer.name) == ("listnet", "orthonormal")
        rate = ",learning_rate=0.3" if longer else ",learning_rate=0.1"
    model: Any = spec(MODELS, cell.model)
    if (cell.model.name, cell.solver.name) == ("bilinear", "random-walk"):
        model = "bilinear:initial=zero"  # no weights, which score 0
    if cell.model.name == "combination":
        model = Combination([untrained(seed, kernel) for seed in range(2)])
    ranker = Ranker(
        model,
        cell.loss.name,
        regularizer,
        # A sweep over rows of embeddings does more, and takes longer, than one over weights.
        spec(SOLVERS, cell.solver).format(epochs=6 if cell.model.form == "factors" else 20) + rate,
        kernel=kernel,
    )
    return ranker.plan().trainer(data_for(cell.model.name, cell.solver.name))


def untrained(seed: int, kernel: Kernel) -> Ranker:
    """Return a model with random embeddings."""
    ranker = Ranker(
        "factored:dimensions=3", "bpr", solver="sgd:max_steps=0", kernel=kernel, random_state=seed
    )
    return ranker.fit(matching("none"))


def train(cell: Cell, kernel: Kernel, regularizer: str) -> Trainer:
    run = prepared(cell, kernel, regularizer)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # alignment with l1-row says that it degenerates
        run.train()
    return run


def parameters(run: Trainer) -> list[np.ndarray]:
    """The matrices that a regularizer acts on."""
    model: Any = run.model
    if model.form in ("functions", "probabilities"):
        return []
    if model.form == "vector":
        return [model.weights[None, :]]
    if run.solver.name == "graph-filter":
        return [np.asarray(model.left, float)[:, : model.dimensions]]
    if model.form == "components":
        return [model.weights[None, :]]
    if model.form == "expansion":
        return [model.coefficients.toarray()]
    if model.form in ("matrix", "items"):
        return [model.weights.toarray()]
    matrices = [model.U, model.V] + ([model.S] if model.S.size else [])
    return [np.asarray(each, float)[:, : model.dimensions] for each in matrices]


def objective(run: Trainer) -> float:
    """Loss plus penalty over all pairs, by NumPy, at parameters brought within the constraint."""
    data, loss, result = run.data, run.loss, parameters(run)
    result = [
        run.regularizer.prox(each, 0.0) if run.regularizer.penalty(each) == np.inf else each
        for each in result
    ]
    if isinstance(data, JudgedLists):
        scores = run.model.scores(data, run.kernel)
        lists = [
            (scores[rows], data.grades[rows])
            for rows in map(slice, data.group_ptr[:-1], data.group_ptr[1:])
        ]
    else:
        grades = data.relevance.toarray()
        if run.model.name == "item-item":
            scores = run.model.scores(data, run.kernel)
        elif run.model.name == "structured":  # which scores by the lists of the stage before, too
            scores, result = run.model.scores(data, run.kernel), result[:2]
        elif run.model.form in (
            "items",
            "components",
            "factors-identity",
            "probabilities",
            "expansion",
        ):
            scores = run.model.scores(data, run.kernel)
        elif len(result) == 1:
            scores = data.query_rows @ result[0] @ data.document_rows.toarray().T
        else:
            scores = (data.query_rows @ result[0]) @ (data.document_rows @ result[1]).T
            if run.solver.name == "popularity":
                scores = scores + run.model.document_biases
            if run.solver.name == "minibatch":
                scores = scores + data.document_rows @ run.model.document_biases
        lists = list(zip(scores, grades, strict=True))
        if run.solver.name == "one-vs-rest":  # the loss of single scores, not of margins
            right = np.where(grades > 0, scores, -scores)
            lists, loss = [(right, grades)], Single(loss)
    penalty = sum(run.regularizer.penalty(each) for each in result)
    return float(np.mean([list_loss(loss, *each) for each in lists])) + penalty


class Single:
    """A loss of scores that should be above 0, a classifier a document."""

    interfaces = frozenset({"listwise"})
    name = "single"

    def __init__(self, loss: Any) -> None:
        self.loss = loss

    def listwise_value(self, scores: np.ndarray, grades: np.ndarray) -> float:
        losses: np.ndarray = self.loss.pairwise_value(scores)
        return float(losses.mean(axis=0).sum() * (grades > 0.0).sum())


def list_loss(loss: Any, scores: np.ndarray, grades: np.ndarray) -> float:
    if loss.name == "metric-exponential":
        order = (grades > 0)[np.argsort(-scores, kind="stable")]
        precision = np.cumsum(order) / np.arange(1, order.size + 1)
        return float(np.exp(-precision[order].sum() / max(order.sum(), 1)))
    if loss.name == "squared-grades":
        return float(np.var(grades - scores))
    if "pairwise" in loss.interfaces:
        better, worse = np.nonzero(grades[:, None] > grades[None, :])
        margins = scores[better] - scores[worse]
        return float(loss.pairwise_value(margins).mean()) if margins.size else 0.0
    if "listwise" in loss.interfaces:
        return float(loss.listwise_value(scores, grades)) / max((grades > grades.min()).sum(), 1)
    if loss.name == "likelihood":
        return -float(scores[grades > 0].mean())
    if loss.name.startswith("pointwise"):  # the solver leaves the level of a query out
        levels = scores + np.linspace(-5.0, 5.0, 201)[:, None]
        return float(loss.value(levels, grades).mean(axis=1).min())
    if loss.name == "softmax-at-k":
        own = scores[grades > 0]
        values = logsumexp(scores / loss.temperature) - own / loss.temperature
        threshold = np.sort(scores)[::-1][min(loss.k, scores.size) - 1]
        return float((expit((own - threshold) / loss.weight_temperature) * values).mean())
    if loss.name == "metric":
        return 1.0 - float(ndcg_score(grades[None], scores[None], k=10))
    if "linear" in loss.interfaces:
        return -float(loss.pair_weights(grades) @ scores)
    return float(((grades - scores) ** 2).sum())


def strong_spec(cell: Cell) -> str:
    """Weights between items have a loss that is a sum over queries, and equal columns of data."""
    strong = STRONG[cell.regularizer.name]
    return strong.replace("=1", "=100") if cell.model.name == "item-item" else strong


def zeros(run: Trainer) -> int:
    return sum(int((each == 0.0).sum()) for each in parameters(run))


def squares(run: Trainer) -> float:
    return sum(float((each**2).sum()) for each in parameters(run))


def unregularized(cell: Cell, kernel: Kernel) -> Trainer | None:
    free = cell._replace(regularizer=NONE)
    return train(free, kernel, "none") if str(free) in WORKS else None


def check_sparse(cell: Cell, run: Trainer, kernel: Kernel) -> None:
    free = unregularized(cell, kernel)
    assert zeros(run) > (0 if free is None else zeros(free))


def check_small(cell: Cell, run: Trainer, kernel: Kernel) -> None:
    free = unregularized(cell, kernel)
    assert free is None or squares(run) < squares(free)


def check_bounded(cell: Cell, run: Trainer, kernel: Kernel) -> None:
    for each in parameters(run):
        assert np.linalg.norm(each, axis=1).max() <= LIMIT * (1 + 1e-5)


def check_bounded_sums(cell: Cell, run: Trainer, kernel: Kernel) -> None:
    for each in parameters(run):
        assert np.abs(each).sum(axis=1).max() <= LIMIT * (1 + 1e-5)


def check_sparse_and_bounded(cell: Cell, run: Trainer, kernel: Kernel) -> None:
    check_bounded(cell, run, kernel)
    check_sparse(cell, run, kernel)


def check_orthonormal(cell: Cell, run: Trainer, kernel: Kernel) -> None:
    for each in parameters(run):
        gram = each.T @ each
        assert gram == pytest.approx(gram[0, 0] * np.eye(gram.shape[0]), abs=1e-4 * gram[0, 0])


def check_groups(cell: Cell, run: Trainer, kernel: Kernel) -> None:
    """A row has zeros only, or none; and some have zeros only."""
    dead = np.concatenate([(each == 0.0).all(axis=1) for each in parameters(run)])
    assert dead.any()


def check_linked(cell: Cell, run: Trainer, kernel: Kernel) -> None:
    """Weights of features that follow each other differ less than without the penalty."""
    free = unregularized(cell, kernel)
    assert free is None or roughness(run) < 0.5 * roughness(free)


def roughness(run: Trainer) -> float:
    (weights,) = parameters(run)
    if run.model.name == "diagonal":
        weights = np.diag(weights)[None, :]
    across = weights.T if weights.shape[0] == 1 else weights
    return float((np.diff(across, axis=0) ** 2).sum())


def check_masked(cell: Cell, run: Trainer, kernel: Kernel) -> None:
    (weights,) = parameters(run)
    assert np.count_nonzero(weights) == np.count_nonzero(np.diag(weights)) > 0


def assign_kernels() -> dict[str, str]:
    """Return the second kernel of each cell; all pairs of parts get both where possible."""
    covered: set[tuple[Any, str]] = set()
    kernels: dict[str, str] = {}
    for name, cell in WORKS.items():
        pairs = list(itertools.combinations(cell, 2))
        new = {
            kernel: sum((pair, kernel) not in covered for pair in pairs) for kernel in OTHER_KERNELS
        }
        kernels[name] = max(OTHER_KERNELS, key=new.__getitem__)
        covered |= {(pair, kernels[name]) for pair in pairs}
    return kernels


KERNEL_OF = assign_kernels()

PROPERTIES: dict[str, Callable[[Cell, Trainer, Kernel], None]] = {
    "l1": check_sparse,
    "elastic": check_sparse,
    "l2": check_small,
    "max-norm": check_bounded,
    "l1-row": check_bounded_sums,
    "l1l2-row": check_sparse_and_bounded,
    "orthonormal": check_orthonormal,
    "group-l1": check_groups,
    "hierarchical-group-l1": check_sparse,
    "graph": check_linked,
    "mask": check_masked,
}
NONE = next(part for part in GRID.parts["regularizer"] if part.name == "none")


@pytest.mark.slow
@pytest.mark.parametrize("cell", WORKS.values(), ids=WORKS)
def test_compatible_cells_train(cell: Cell, load_kernel: Callable[[str], Kernel]):
    name = cell.regularizer.name
    fast, other = load_kernel("cython"), load_kernel(KERNEL_OF[str(cell)])
    run = train(cell, fast, mild(cell))
    assert objective(run) < objective(prepared(cell, fast, mild(cell)))
    if cell.solver.name == "coordinate":
        objectives = np.array([row["objective"] for row in run.history])
        assert (np.diff(objectives) <= 1e-12).all(), "a sweep never increases the objective"
    if name in PROPERTIES:
        strong = train(cell, fast, strong_spec(cell)) if name in STRONG else run
        PROPERTIES[name](cell, strong, fast)
    expected = run.model.tensors()
    tensors = train(cell, other, mild(cell)).model.tensors()
    assert all(np.array_equal(tensors[key], expected[key]) for key in expected), other.name


def test_every_pair_of_parts_is_trained_by_all_kernels():
    occurrences: dict[tuple[Any, Any], set[str]] = {}
    counts: dict[tuple[Any, Any], int] = {}
    for name, cell in WORKS.items():
        for pair in itertools.combinations(cell, 2):
            occurrences.setdefault(pair, set()).add(KERNEL_OF[name])
            counts[pair] = counts.get(pair, 0) + 1
    missing = [pair for pair, kernels in occurrences.items() if len(kernels) < 2]
    assert all(counts[pair] < 4 for pair in missing), missing


def incompatible() -> dict[str, Cell]:
    return {name: cell for name, cell in CELLS.items() if name not in WORKS}


@pytest.mark.slow
def test_incompatible_cells_have_a_reason_and_a_remedy():
    for cell in incompatible().values():
        reason = cell.compatibility().reason
        assert reason
        assert not re.search("not (yet )?(implemented|built|supported)", reason)
        assert str(GRID.nearest(cell)) in WORKS


def test_training_an_incompatible_cell_says_reason_and_remedy():
    # One cell for each solver and reason.
    cells = {(cell.solver, cell.compatibility().reason): cell for cell in incompatible().values()}
    assert len(cells) > 30
    for (_, reason), cell in cells.items():
        name = cell.regularizer.name
        with pytest.raises(CombinationError) as caught:
            prepared(cell, "reference", MILD.get(name, name))
        message = str(caught.value)
        assert reason in message
        assert GRID.remedy(cell) in message


def test_the_requested_grid_trains(capsys: pytest.CaptureFixture[str]):
    trained = sorted(
        {
            (loss, regularizer, solver)
            for _, loss, regularizer, solver in (name.split(" x ") for name in WORKS)
            if loss in ("hinge", "warp", "domination")
            and regularizer in ("l1", "l2", "l1l2-row", "orthonormal")
            and solver in ("sgd", "coordinate", "alternating")
        }
    )
    with capsys.disabled():
        sys.stdout.write(f"\n{len(trained)} of 36 train: {', '.join(map('/'.join, trained))}\n")
    assert len(trained) == 36


def test_the_nearest_has_the_fewest_parts_changed():
    parts = {kind: {part.name: part for part in result} for kind, result in GRID.parts.items()}
    cheap = {"solver": 1, "regularizer": 2, "loss": 4, "model": 8}

    def cost(one: Cell, other: Cell) -> tuple[int, list[int]]:
        kinds = [kind for kind in cheap if getattr(one, kind) is not getattr(other, kind)]
        moved = one.model.takes != other.model.takes
        return len(kinds) + moved, sorted((cheap[kind] for kind in kinds), reverse=True)

    for name in (
        "linear x hinge x l1l2-row x coordinate",
        "linear x warp x l2 x coordinate",
        "bilinear x alignment x orthonormal x sgd",
        "factored x domination x l1 x passive-aggressive",
        "diagonal x squared x max-norm x alternating",
    ):
        cell = Cell(
            *(parts[kind][word] for kind, word in zip(parts, name.split(" x "), strict=True))
        )
        best = min(cost(cell, other) for other in WORKS.values())
        nearest = GRID.nearest(cell)
        assert nearest is not None
        assert cost(cell, nearest) == best


class Raising:
    """A third-party solver that raises."""

    name = "torn"

    @classmethod
    def accepts(cls, *parts: object) -> None:
        raise RuntimeError("no idea")


def test_a_solver_that_raises_is_incompatible():
    cell = next(iter(CELLS.values()))._replace(solver=Raising)  # type: ignore[arg-type]
    compatibility = cell.compatibility()
    assert not compatibility.works
    assert "RuntimeError: no idea" in compatibility.reason
    assert GRID.remedy(cell) == "solver coordinate"
