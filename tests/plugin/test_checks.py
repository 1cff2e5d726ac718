"""Built-in parts pass the checks for plugins; broken ones do not."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from ranking import Ranker
from ranking.contracts.loss import Loss
from ranking.contracts.metric import Metric
from ranking.contracts.reader import Reader
from ranking.contracts.regularizer import EntryPenalty, RowMaximum, RowPenalty
from ranking.contracts.solver import YES, Compatibility, EpochResult, Solver
from ranking.data.readers.letor import Letor
from ranking.kernels.contract import RandomFamily
from ranking.kernels.kernel import Kernel
from ranking.metrics.parse import parse_metric
from ranking.models.combination import Combination
from ranking.models.linear import Linear
from ranking.registry import get_registry
from ranking.registry.security import OURS
from ranking.testing import (
    check_kernel,
    check_loss,
    check_metric,
    check_model,
    check_reader,
    check_regularizer,
    check_solver,
)
from ranking.testing.common import small_matching
from ranking_plugins.losses import Hinge, Logistic
from ranking_plugins.regularizers import L1, L2, L1L2Row, MaxNorm, NoPenalty

pytest_plugins = ["ranking.testing.fixtures"]

STRENGTHS = {
    "l1": "l1:strength=0.3",
    "l2": "l2:strength=0.7",
    "elastic": "elastic:strength=0.8,share=0.4",
    "max-norm": "max-norm:limit=1.2",
    "l1l2-row": "l1l2-row:strength=0.3,limit=1.2",
    "l1-row": "l1-row:limit=1.2",
    "group-l1": "group-l1:strength=0.3",
    "hierarchical-group-l1": "hierarchical-group-l1:strength=0.3,entries=0.4",
    "graph": "graph:strength=0.8",
    "mask": "mask:outside=0.5,inside=0.2",
}
"""Regularizers as they matter to numbers of size 1; others as they are."""

SHORT = {
    "sgd": "sgd:max_steps=900,steps_per_epoch=300,learning_rate=0.1",
    "passive-aggressive": "passive-aggressive:max_steps=600,steps_per_epoch=200",
    "kernel-passive-aggressive": "kernel-passive-aggressive:max_steps=600,steps_per_epoch=200",
    "coordinate": "coordinate:max_epochs=8,tolerance=0",
    "alternating": "alternating:max_epochs=4",
    "selection": "selection:max_trials=2,share=0.3",
}
"""Solvers with a few epochs; others as they are."""


CUT_OFF = ("p", "precision", "recall", "letor-p", "hit")
"""Metrics that need a cut-off."""
CATALOGUE = ("coverage", "novelty", "diversity", "popularity")
"""Metrics of what a model of users and items recommends, not of judged lists."""


def named(kind: str) -> list[str]:
    """Return the names of our own parts of a kind."""
    return [e.name for e in get_registry().entries(kind) if e.distribution in OURS]


def create_part(kind: str, name: str, specs: dict[str, str] | None = None) -> Any:
    return get_registry().create(kind, (specs or {}).get(name, name))


@pytest.mark.slow
@pytest.mark.parametrize("name", named("loss"))
def test_our_losses(name: str, seed: int):
    check_loss(create_part("loss", name), seed=seed)


@pytest.mark.parametrize("name", named("regularizer"))
def test_our_regularizers(name: str, seed: int):
    check_regularizer(create_part("regularizer", name, STRENGTHS), seed=seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", named("solver"))
def test_our_solvers(name: str):
    without = (
        "svd",
        "nmf",
        "popularity",
        "random-walk",
        "item-knn",
        "coordinate-search",
        "selection",
    )
    by_id = dict.fromkeys(without, "none")
    features = {**by_id, "one-vs-rest": "queries"}.get(name, "both")
    data = small_matching(features=features) if features != "both" else None
    cells: Any = [("factored:dimensions=4", "squared", "none")] if name == "svd" else None
    if name in ("coordinate-search", "selection"):
        cells = [(Combination([untrained(data, at) for at in range(2)]), "metric", "none")]
    check_solver(create_part("solver", name, SHORT), cells=cells, data=data)


def untrained(data: Any, seed: int) -> Ranker:
    """Return a model with random embeddings."""
    solver = "sgd:max_steps=0"
    return Ranker("factored:dimensions=4", "bpr", solver=solver, random_state=seed).fit(data)


@pytest.mark.parametrize(
    "name",
    [*[name for name in named("metric") if name not in CATALOGUE], "ndcg@5", "p@3", "letor-ndcg@3"],
)
def test_our_metrics(name: str, seed: int):
    if name in CUT_OFF:
        name += "@4"
    check_metric(parse_metric(name), seed=seed)


@pytest.mark.parametrize("name", named("model"))
def test_our_models(name: str, seed: int):
    check_model(create_part("model", name), seed=seed)


@pytest.mark.slow
def test_our_kernels(ranking_kernel: Kernel, seed: int):
    check_kernel(ranking_kernel, seed=seed)


def test_our_readers(tmp_path: Path):
    good, bad = tmp_path / "good.txt", tmp_path / "bad.txt"
    good.write_text("1 qid:1 1:0.5 2:1\n0 qid:1 1:0.25 2:2\n")
    bad.write_text("1 qid:1 1:0.5 2:1\n0 qid:1 1:x 2:2\n")
    assert check_reader(Letor(), good, [bad]).n_rows == 2


def test_fixtures(ranking_judged, ranking_matching, ranking_kernel):
    assert ranking_judged.n_queries == 12
    assert ranking_matching.n_documents == 14
    assert ranking_kernel.describe()["abi"]


# --- and what is broken is found -----------------------------------------------------------------


def broken(base: type, **changes: Any) -> Any:
    """Return a part of a class that differs in some members."""
    return dataclasses.dataclass(type(base.__name__, (base,), changes))()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"pairwise_slope": lambda self, z: np.where(z < 1.0, 1.0, 0.0)},
            "pairwise_slope is the deriv",
        ),
        ({"pairwise_slope": lambda self, z: np.where(z < 1.0, -1.01, 0.0)}, "it is -1.01 and diff"),
        (
            {"pairwise_slope": lambda self, z: np.where(z < 0.9, -1.0, 0.0)},
            "pairwise_slope is the deriv",
        ),
        ({"pairwise_slope": lambda self, z: -np.ones(3)}, "returned shape (3,)"),
        ({"pairwise_slope": lambda self, z: [-1.0] * z.size}, "it returned list"),
        (
            {"pairwise_value": lambda self, z: np.maximum(0.0, 1.0 - z).astype("f4")},
            "returned float32",
        ),
        (
            {"pairwise_value": lambda self, z: np.maximum(0.0, 1 - z) / max(z.size, 1)},
            "other margins",
        ),
        ({"pairwise_value": lambda self, z: np.maximum(0.0, 1.0 + z)}, "a wrong order costs more"),
        ({"rank_weight": lambda self, rank: -np.ones(rank.shape)}, "rank_weight is finite and not"),
        ({"rank_weight": lambda self, rank: 1.0}, "rank_weight must return an array"),
        ({"trials": 0}, "trials is at least 1"),
        ({"positives": (2, 2)}, "positives is (n, rank)"),
        ({"interfaces": frozenset({"pairs"})}, "its interfaces must be of"),
        (
            {"interfaces": frozenset({"pairwise", "listwise"})},
            "['listwise_value', 'listwise_slopes']",
        ),
        ({"name": ""}, "must have a name"),
        ({"__deepcopy__": lambda self, memo: L1()}, "same parameters after"),
    ],
)
def test_broken_pairwise_losses_are_reported(changes: dict[str, Any], message: str):
    with pytest.raises(AssertionError) as raised:
        check_loss(broken(Hinge, **changes))
    assert message in str(raised.value)
    assert str(raised.value).startswith("loss 'hinge'" if changes.get("name", 1) else "loss")


def test_a_loss_that_overflows_or_differs_from_its_kernel_form():
    changes = {
        "form": None,
        "pairwise_value": lambda self, z: np.exp(-z),
        "pairwise_slope": lambda self, z: -np.exp(-z),
    }
    with np.errstate(over="ignore"), pytest.raises(AssertionError, match=r"finite at margins"):
        check_loss(broken(Hinge, **changes))
    halved = {
        "pairwise_value": lambda self, z: 0.5 * Logistic.pairwise_value(self, z),
        "pairwise_slope": lambda self, z: 0.5 * Logistic.pairwise_slope(self, z),
    }
    with pytest.raises(AssertionError, match=r"loops of kernels learn the same"):
        check_loss(broken(Logistic, **halved))


@dataclasses.dataclass
class Softmax(Loss):
    """Minus the logarithm of the best documents' share."""

    name: ClassVar[str] = "softmax"
    interfaces: ClassVar[frozenset] = frozenset({"listwise"})

    def listwise_value(self, scores, grades):
        top = scores.max()
        share = np.exp(scores - top) / np.exp(scores - top).sum()
        return -float(np.log(np.maximum(share, 1e-300)) @ grades)

    def listwise_slopes(self, scores, grades):
        share = np.exp(scores - scores.max())
        return grades.sum() * share / share.sum() - grades


def test_a_listwise_loss():
    check_loss(Softmax())
    for changes, message in (
        (
            {"listwise_slopes": lambda self, s, g: -Softmax.listwise_slopes(self, s, g)},
            "derivatives",
        ),
        (
            {"listwise_slopes": lambda self, s, g: Softmax.listwise_slopes(self, s, g) + 0.1},
            "sum to 0",
        ),
        ({"listwise_slopes": lambda self, s, g: np.zeros(1)}, "listwise_slopes"),
        ({"listwise_value": lambda self, s, g: float("nan")}, "listwise_value is finite"),
    ):
        with pytest.raises(AssertionError, match=message):
            check_loss(broken(Softmax, **changes))


@pytest.mark.parametrize(
    ("base", "changes", "message"),
    [
        (L1, {"prox": lambda self, x, step: x.copy()}, "prox with step"),
        (L1, {"prox": lambda self, x, step: L1.prox(self, x, 1.05 * step)}, "prox with step"),
        (L2, {"prox": lambda self, x, step: x * (1.0 - 0.7 * step)}, "prox with step"),
        (L2, {"prox": lambda self, x, step: (x / 2.0).astype(np.float32)}, "returned float32"),
        (L2, {"prox": lambda self, x, step: x.__imul__(0.5)}, "leaves its argument alone"),
        (L2, {"penalty": lambda self, x: -1.0}, "0 or more"),
        (L2, {"maximize": lambda self, gain: gain}, "maximize is where"),
        (L1, {"kernel_form": lambda *_: EntryPenalty(0.1)}, "kernel_form('matrix') is the penalty"),
        (MaxNorm, {"kernel_form": lambda *_: RowPenalty(0.1)}, "kernel_form('factors') is the"),
        (NoPenalty, {"kernel_form": lambda *_: None}, "is a penalty that kernels apply"),
        (MaxNorm, {"kernel_form": lambda *_: EntryPenalty(0.0)}, "is a penalty that kernels apply"),
        (MaxNorm, {"prox": lambda self, x, step: MaxNorm.prox(self, x, step) / 2}, "prox with"),
        (MaxNorm, {"prox": lambda self, x, step: x + 9.0}, "fulfils the constraint"),
        (MaxNorm, {"granularity": "entry"}, "acts on each entry by itself"),
        (MaxNorm, {"maximize": lambda self, gain: -MaxNorm.maximize(self, gain)}, "maximize is"),
        (L1L2Row, {"row_maximum": lambda self: RowMaximum(9.0, 1.0)}, "row_maximum is what"),
        (L2, {"maximize": lambda self, gain: gain / self.strength}, "stays bounded"),
    ],
)
def test_a_broken_regularizer(base: type, changes: dict[str, Any], message: str):
    part = broken(base, **changes)
    if hasattr(part, "strength"):
        part.set_params(strength=0.3)
    with pytest.raises(AssertionError) as raised:
        check_regularizer(part)
    assert message in str(raised.value)
    assert f"regularizer {base.name!r}" in str(raised.value)


@dataclasses.dataclass
class Descent(Solver):
    """Gradient descent for listwise losses: a minimal solver to break."""

    name: ClassVar[str] = "descent"
    uphill: bool = False
    restless: bool = False
    forgetful: bool = False

    @classmethod
    def accepts(cls, model, loss, regularizer):
        if model is Linear and loss.name == "domination" and regularizer is NoPenalty:
            return YES
        return Compatibility(False, "it is a test")

    def run_epochs(self, problem):
        data, weights = problem.data, problem.model.weights
        first = 0 if problem.state is None or self.forgetful else int(problem.state["epoch"][0])
        if problem.state is not None:
            weights[:] = problem.state["weights"]
        for epoch in range(first + 1, 6):
            gradient, value = np.zeros(weights.size), 0.0
            for query in range(data.n_queries):
                rows = slice(data.group_ptr[query], data.group_ptr[query + 1])
                scores = data.features[rows] @ weights
                value += problem.loss.listwise_value(scores, data.grades[rows])
                gradient += (
                    problem.loss.listwise_slopes(scores, data.grades[rows]) @ data.features[rows]
                )
            noise = np.random.default_rng().normal() if self.restless else 0.0
            weights += (0.02 if self.uphill else -0.02) * gradient + 1e-3 * noise
            state = {"epoch": np.array([epoch]), "weights": weights.copy()}
            yield EpochResult(epoch, value, False, lambda state=state: state)


@pytest.mark.parametrize(
    ("solver", "message"),
    [
        (Descent(), ""),
        (Descent(uphill=True), "the last objective does not exceed the first"),
        (Descent(restless=True), "the same seed gives the same bits"),
        (Descent(forgetful=True), "resumed after epoch 1 ends with the same bits"),
        (
            broken(Descent, accepts=lambda *_: Compatibility(False)),
            "an incompatibility has a reason",
        ),
        (broken(Descent, accepts=lambda *_: True), "accepts returns a Compatibility"),
        (broken(Descent, accepts=lambda *_: Compatibility(False, "no")), "it accepts none"),
    ],
)
def test_a_solver(solver: Solver, message: str):
    if not message:
        check_solver(solver)
        return
    with pytest.raises(AssertionError, match=rf"^solver 'descent': .*{message}"):
        check_solver(solver)


@dataclasses.dataclass
class First(Metric):
    """The grade of the first document; the first of the data among equals."""

    name: ClassVar[str] = "first"

    def per_query(self, data, scores):
        values = np.empty(data.n_queries)
        for query in range(data.n_queries):
            rows = slice(data.group_ptr[query], data.group_ptr[query + 1])
            values[query] = data.grades[rows][np.argmax(scores[rows])]
        return values

    def spelled(self):
        return "first"


class Downwards(First):
    higher_is_better = False


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (First(), ""),
        (broken(Downwards), "no order is better than that of the grades"),
        (broken(First, spelled=lambda self: "auc"), "parses back"),
        (broken(First, per_query=lambda self, d, s: np.zeros(d.n_queries)), "reversed order is"),
        (broken(First, per_query=lambda self, d, s: np.zeros(2)), "returned shape"),
        (broken(First, per_query=lambda self, d, s: np.full(d.n_queries, np.inf)), "or NaN"),
        (
            broken(First, per_query=lambda self, d, s: First.per_query(self, d, s) + s.max()),
            "scores count by their order only",
        ),
        (
            broken(
                First,
                per_query=lambda self, d, s: np.array(
                    [s[i] > s[-1] for i in d.group_ptr[:-1]], float
                ),
            ),
            "order of the rows in the data does not matter",
        ),
    ],
)
def test_a_metric(metric: Metric, message: str):
    if not message:
        check_metric(metric)
        return
    with pytest.raises(AssertionError, match=rf"^metric 'first': .*{message}"):
        check_metric(metric)


class ShiftedFamily:
    """The functions of a family, one of whose results is off by a bit."""

    def __init__(self, implementation: Any, name: str) -> None:
        self._implementation, self._name = implementation, name

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._implementation, name)
        if name != self._name:
            return function
        return lambda *args, **kwargs: np.nextafter(function(*args, **kwargs), np.inf)


FLOATS = [
    name
    for name, function in vars(RandomFamily).items()
    if getattr(function, "__annotations__", {}).get("return") == "float"
]
"""The functions of the contract that return a float."""


@pytest.mark.slow
def test_a_kernel_without_a_function_of_the_contract(ranking_kernel: Kernel):
    families = {**ranking_kernel.implementations, "linear": object()}
    without = dataclasses.replace(ranking_kernel, implementations=families)
    if ranking_kernel.fallback is not None:  # which has the function
        check_kernel(without)
        return
    with pytest.raises(AssertionError, match=r"family linear, but lacks \['linear_scores'\]"):
        check_kernel(without)


@pytest.mark.parametrize("name", FLOATS)
def test_a_kernel_that_is_off_by_a_bit(ranking_kernel: Kernel, name: str):
    shifted = ShiftedFamily(ranking_kernel.random.implementation, name)
    families = {**ranking_kernel.implementations, "random": shifted}
    off = dataclasses.replace(ranking_kernel, implementations=families)
    with pytest.raises(AssertionError, match=f"has the bits of the reference, but {name} differs"):
        check_kernel(off)


def test_a_model_and_a_reader_that_are_broken(tmp_path: Path):
    with pytest.raises(AssertionError, match=r"took no tensors at all"):
        check_model(broken(Linear, restore=lambda self, tensors: _restore(self, tensors)))
    with pytest.raises(AssertionError, match=r"density is a share"):
        check_model(broken(Linear, density=2.0))
    path = tmp_path / "good.txt"
    path.write_text("1 qid:1 1:0.5 2:1\n")
    with pytest.raises(AssertionError, match=r"refuses a file with a defect"):
        check_reader(Letor(), path, [path])
    with pytest.raises(AssertionError, match=r"recognises a good file"):
        check_reader(broken(Letor, recognises=classmethod(lambda cls, path, head: False)), path)
    with pytest.raises(AssertionError, match=r"must be an object of a subclass of Reader"):
        check_reader(Letor, path)
    assert issubclass(Letor, Reader)


def _restore(model: Linear, tensors: dict[str, Any]) -> None:
    if tensors:
        Linear.restore(model, tensors)
