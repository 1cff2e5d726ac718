"""Differential targets: random small problems on which all kernels give the same bits."""

from __future__ import annotations

import contextlib
import functools
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from fuzzing.target import Target
from ranking import JudgedLists, MatchingData, Ranker, RankingError, get_kernel
from ranking.data.readers.letor import Letor
from ranking.errors import KernelUnavailableError
from ranking.registry.compatibility import Grid
from ranking.registry.manager import Registry, installed_sources


def available_kernels() -> list[Any]:
    """Return the kernels that are installed, the reference first."""
    kernels = []
    for name in ("reference", "cython", "rust"):
        with contextlib.suppress(KernelUnavailableError):
            kernels.append(get_kernel(name))
    return kernels


def kernel_targets() -> Iterator[Target]:
    """Yield differential targets: all kernels give the same bits, or the same error."""
    kernels = available_kernels()

    def parse_letor(path: Path) -> None:
        def read(kernel: Any) -> dict[str, Any]:
            data = Letor(kernel=kernel).read(path)
            dense = getattr(data.features, "toarray", lambda: data.features)()
            return {"grades": data.grades, "features": dense, "ids": np.array(data.query_ids)}

        same_outcomes(kernels, read)

    def train(path: Path) -> None:
        draw = random.Random(path.read_bytes())  # noqa: S311
        rng = np.random.default_rng(draw.getrandbits(32))
        judged = draw.random() < 0.5
        data = random_lists(draw, rng) if judged else random_matching(draw, rng)
        parts = random_parts(draw, judged)

        def fit(kernel: Any) -> dict[str, Any]:
            ranker = Ranker(**parts, kernel=kernel, threads=draw.choice((1, 2))).fit(data)
            measured = ranker.evaluate(data, metrics=["ndcg@3", "map", "auc"])
            return {
                **ranker.model_.tensors(),
                "objective": np.array(ranker.objective_),
                "scores": ranker.predict(data),
                "measured": np.array(list(measured.values.values())),
            }

        same_outcomes(kernels, fit)

    letor = b"2 qid:1 1:0.5 2:-1e3\n0 qid:1 1:1 3:2\n1 qid:q 2:7\n"
    yield Target("kernels letor", "k.txt", letor, parse_letor, 4)
    yield Target("kernels training", "k.seed", b"a random problem", train, 1)


def same_outcomes(kernels: list[Any], compute: Callable[[Any], dict[str, Any]]) -> None:
    """Fail unless all kernels compute the same bits; raise the error that they share."""
    outcomes: list[Any] = []
    for kernel in kernels:
        try:
            outcomes.append({name: one.tobytes() for name, one in compute(kernel).items()})
        except RankingError as error:
            outcomes.append(error)
    for kernel, other in zip(kernels, outcomes, strict=True):
        if isinstance(outcomes[0], RankingError) or isinstance(other, RankingError):
            assert str(other) == str(outcomes[0]), f"{kernel.name}: {other} / {outcomes[0]}"
        else:
            differ = [name for name in outcomes[0] if outcomes[0][name] != other.get(name)]
            assert not differ, f"{kernel.name} differs from {kernels[0].name} in {differ}"
    if isinstance(outcomes[0], RankingError):
        raise outcomes[0]


def random_lists(draw: random.Random, rng: np.random.Generator) -> JudgedLists:
    """Draw judged lists: ties, empty columns, large and small numbers, sparse or dense."""
    rows, columns = draw.randint(2, 30), draw.randint(1, 6)
    x = rng.normal(size=(rows, columns))
    if draw.random() < 0.4:
        x = np.round(x)  # ties, zeros
    x *= np.array([draw.choice((1, 1, 1, 0, 1e5, 1e-5, 1e60)) for _ in range(columns)])
    qids = np.sort(rng.integers(0, draw.randint(1, 6), rows))
    features = sparse.csr_array(x) if draw.random() < 0.4 else x
    return JudgedLists(features, rng.integers(0, draw.randint(2, 5), rows), qids)


def random_matching(draw: random.Random, rng: np.random.Generator) -> MatchingData:
    """Draw queries, documents and relevance, with or without features."""
    queries, documents = draw.randint(1, 9), draw.randint(2, 9)
    relevance = (rng.random((queries, documents)) < 0.4) * rng.integers(1, 4, (queries, documents))
    features: dict[str, Any] = {}
    if draw.random() < 0.5:
        width = draw.randint(1, 5)
        for side, n in (("queries", queries), ("documents", documents)):
            sample = rng.normal(size=(n, width)) * (rng.random((n, width)) < 0.6)
            features[side] = sparse.csr_array(sample)
    return MatchingData(**features, relevance=sparse.csr_array(relevance.astype(float)))


@functools.cache
def combinations(judged: bool) -> list[list[str]]:
    """Return the parts of ours that combine, for judged lists or for matching."""
    ours = [each for each in installed_sources() if each.distribution.startswith("ranking-kit")]
    cells = [str(cell) for cell in Grid(Registry(ours)).cells() if cell.compatibility().works]
    parts_of_cells = [cell.split(" x ") for cell in cells]
    return [parts for parts in parts_of_cells if (parts[0] == "linear") == judged]


def random_parts(draw: random.Random, judged: bool) -> dict[str, Any]:
    """Draw a model, a loss, a regularizer and a solver that combine, and their settings."""
    names = ("model", "loss", "regularizer", "solver")
    parts = dict(zip(names, draw.choice(combinations(judged)), strict=True))
    if parts["model"] in ("factored", "sparse-factored", "structured"):
        parts["model"] += f":dimensions={draw.randint(1, 9)}"
    if parts["model"].startswith("structured"):
        parts["model"] += ",k=2"
    if parts["regularizer"] in ("l1", "l2", "elastic"):
        parts["regularizer"] += f":strength={draw.choice((0, 0.001, 0.1, 10))}"
    if parts["solver"] in ("sgd", "passive-aggressive"):
        parts["solver"] += f":max_steps={draw.randint(1, 60)},steps_per_epoch={draw.randint(1, 40)}"
    elif parts["solver"] in ("coordinate", "alternating", "lbfgs"):
        parts["solver"] += f":max_epochs={draw.randint(1, 4)}"
    return {**parts, "random_state": draw.getrandbits(16)}
