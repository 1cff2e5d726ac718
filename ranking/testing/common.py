"""What all checks share: how they fail, what every part must do, kernels and small data."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ranking.contracts.model import Tensors
from ranking.contracts.part import Part
from ranking.data.judged_lists import JudgedLists
from ranking.data.matching_data import MatchingData
from ranking.errors import KernelUnavailableError
from ranking.kernels.kernel import Kernel
from ranking.kernels.select import get_kernel
from ranking.registry.manager import get_registry
from ranking.registry.spec import parse_spec


def ensure(holds: object, whose: str, rule: str, seen: str) -> None:
    """Raise an AssertionError that says whose rule does not hold, and what was seen."""
    if not holds:
        raise AssertionError(f"{whose}: {rule}, but {seen}.")


def check_part(kind: str, part: Any, contract: type[Part]) -> str:
    """Check what every part must do; return how messages name it.

    It is of its contract's class, has a name, and is the same again after its parameters were set,
    after it was copied, and after its spec was read.
    """
    ensure(
        isinstance(part, contract),
        f"{kind} {part!r}",
        f"must be an object of a subclass of {contract.__name__}",
        f"is a {type(part).__name__}" + (" itself: make one" if isinstance(part, type) else ""),
    )
    whose = f"{kind} {part.name or type(part).__name__!r}"
    ensure(part.name, whose, "must have a name", f"{type(part).__name__}.name is empty")
    params = part.get_params()
    for how, again in (
        ("set_params(**get_params())", copy.deepcopy(part).set_params(**params)),
        ("copy.deepcopy", copy.deepcopy(part)),
        ("its spec", type(part)(**parse_spec(part.spec()).params)),
    ):
        ensure(
            again.get_params() == params,
            whose,
            f"must have the same parameters after {how}",
            f"{params} became {again.get_params()}",
        )
    return whose


def check_numbers(whose: str, method: str, answer: Any, shape: tuple[int, ...]) -> None:
    """Check that an answer is a float64 array of a shape."""
    ensure(
        isinstance(answer, np.ndarray) and answer.dtype == np.float64,
        whose,
        f"{method} must return an array of float64",
        f"it returned {getattr(answer, 'dtype', type(answer).__name__)}",
    )
    ensure(
        answer.shape == shape,
        whose,
        f"{method} must return a number for each that it is given, in shape {shape}",
        f"it returned shape {answer.shape}",
    )


def installed_kernels() -> list[Kernel]:
    """Return every kernel that is installed and works."""
    kernels = []
    for name in get_registry().names("kernel"):
        try:
            kernels.append(get_kernel(name))
        except KernelUnavailableError:
            continue
    return kernels


def small_judged(seed: int = 0, n_queries: int = 12, n_features: int = 6) -> JudgedLists:
    """Make judged lists of 1 to 15 documents and four grades, that a linear model can learn."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 16, size=n_queries)
    qids = np.repeat(np.arange(n_queries) + 100, sizes)
    rows = rng.normal(size=(qids.size, n_features))
    liked = rows @ rng.normal(size=n_features) + rng.normal(size=qids.size)
    names = [f"d{number}" for number in rng.permutation(qids.size)]
    return JudgedLists(rows, np.digitize(liked, [-1.0, 0.5, 2.0]), qids, doc_ids=names)


def small_matching(
    seed: int = 0, n_queries: int = 9, n_documents: int = 14, features: str = "both"
) -> MatchingData:
    """Make queries and documents of three topics.

    `features` says who has features that tell the topic: "both", "queries" or "none"; who has none
    is known by its id alone.
    """
    rng = np.random.default_rng(seed)
    topics, sides = [], []
    for size in (n_queries, n_documents):
        topic = rng.permutation(np.arange(size) % 3)
        rows = 0.3 * rng.random((size, 9)) * (rng.random((size, 9)) < 0.5)
        rows += (np.arange(9) % 3 == topic[:, None]) * (0.5 + rng.random((size, 9)))
        sides.append(sp.csr_array(rows / np.linalg.norm(rows, axis=1)[:, None]))
        topics.append(topic)
    same = topics[0][:, None] == topics[1][None, :]
    relevance = sp.csr_array(same * rng.integers(1, 4, same.shape).astype(np.float64))
    queries = None if features == "none" else sides[0]
    return MatchingData(queries, sides[1] if features == "both" else None, relevance)


def same_tensors(one: Tensors, other: Tensors) -> str:
    """Return the name of a tensor that differs in a bit, or an empty string."""
    for name in sorted(one.keys() | other.keys()):
        if name not in one or name not in other or not same_bits(one[name], other[name]):
            return name
    return ""


def same_bits(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Say whether two arrays have the same type, shape and bits."""
    same = one.dtype == other.dtype and one.shape == other.shape
    return same and one.tobytes() == other.tobytes()
