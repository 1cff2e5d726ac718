"""`check_kernel`: the bits of the reference, from every loop, whatever the number of threads."""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranking.kernels.builtin import reference_kernel
from ranking.kernels.contract import Implementations, RandomFamily
from ranking.kernels.kernel import Kernel
from ranking.metrics.evaluation import evaluate
from ranking.metrics.parse import parse_metrics
from ranking.ranker import Ranker
from ranking.testing.common import ensure, same_bits, small_judged, small_matching

TRAININGS = (
    ("linear", "domination", "l1:strength=0.01", "coordinate:max_epochs=6,tolerance=0"),
    ("linear", "hinge", "l2:strength=0.01", "coordinate:max_epochs=3,tolerance=0"),
    ("linear", "logistic", "l1:strength=0.01", "coordinate:max_epochs=3,tolerance=0"),
    ("bilinear", "hinge", "l1:strength=0.01", "sgd:max_steps=300,learning_rate=0.5"),
    (
        "bilinear",
        "squared-hinge",
        "l2:strength=0.01",
        "sgd:max_steps=300,learning_rate=0.5,batch_size=16",
    ),
    ("bilinear", "warp", "group-l1:strength=0.01", "sgd:max_steps=300,learning_rate=0.5"),
    ("diagonal", "logistic", "none", "sgd:max_steps=300,learning_rate=0.5"),
    ("bilinear", "hinge", "none", "passive-aggressive:max_steps=200"),
    ("linear", "squared-hinge", "none", "passive-aggressive:max_steps=200"),
    ("bilinear", "warp", "none", "passive-aggressive:max_steps=200"),
    ("factored:dimensions=5", "warp", "max-norm", "sgd:max_steps=300"),
    ("factored:dimensions=5", "bpr", "l2:strength=0.01", "sgd:max_steps=300,schedule=inverse-sqrt"),
    ("factored:dimensions=5", "kos-warp", "none", "sgd:max_steps=300"),
    ("factored:dimensions=5", "domination", "none", "sgd:max_steps=300,n_negatives=4"),
    ("bilinear", "domination", "none", "sgd:max_steps=300,learning_rate=0.5,n_negatives=4"),
    ("factored:dimensions=3", "alignment", "l1l2-row", "alternating:max_epochs=3"),
)
"""Model, loss, regularizer and solver of trainings that together go through the loops."""

METRICS = (
    "ndcg@5,map,p@3,recall@3,r-precision,mrr,mean-rank,auc,pair-error,domination-error,"
    "all-pairs-error,letor-ndcg@5,letor-mean-ndcg,letor-map,letor-p@3"
)


def check_kernel(kernel: Kernel, *, seed: int = 0) -> None:
    """Check a kernel against the reference: random numbers, sums, scores, metrics and trainings.

    Every answer has the same bits as the reference's, with one thread and with three.

    Parameters
    ----------
    kernel : Kernel
    seed : int
    """
    whose = f"kernel {getattr(kernel, 'name', kernel)!r}"
    ensure(isinstance(kernel, Kernel), whose, "is a ranking.kernels.Kernel", f"{type(kernel)}")
    reference = reference_kernel()
    description, expected = kernel.describe(), reference.describe()
    for key in ("abi", "lanes", "block", "rng", "exp"):
        ensure(
            description.get(key) == expected[key],
            whose,
            f"describes {key} as the contract",
            f"{description}",
        )
    for family, protocol in typing.get_type_hints(Implementations).items():
        implementation = getattr(kernel, family).implementation
        absent = [name for name in _functions(protocol) if not hasattr(implementation, name)]
        ensure(not absent, whose, f"has the functions of family {family}", f"lacks {absent}")
    several = 1 if description["threads"] == "none" else 3
    for threads in (1, several):
        mine, theirs = (_numbers(each, seed, threads) for each in (kernel, reference))
        for name, answer in mine.items():
            message = f"{name} differs with {threads} threads"
            ensure(same_bits(answer, theirs[name]), whose, "has the bits of the reference", message)
    for model, loss, regularizer, solver in TRAININGS:
        data: Any = small_judged(seed) if model == "linear" else small_matching(seed)
        parts: dict[str, Any] = {
            "model": model,
            "loss": loss,
            "regularizer": regularizer,
            "solver": solver,
        }
        fits = {}
        for name, who, threads in (
            ("reference", reference, 1),
            ("one thread", kernel, 1),
            ("three threads", kernel, several),
        ):
            ranker = Ranker(**parts, kernel=who, threads=threads, random_state=seed).fit(data)
            fits[name] = {**ranker.model_.tensors(), "scores": ranker.predict(data)}
        for name in ("one thread", "three threads"):
            for tensor, value in fits["reference"].items():
                ensure(
                    same_bits(fits[name][tensor], value),
                    whose,
                    f"trains {' x '.join(parts.values())} to the bits of the reference",
                    f"{tensor} differs with {name}",
                )


def _functions(protocol: type) -> dict[str, Callable[..., Any]]:
    """Return the functions that the contract has for a family."""
    members = vars(protocol).items()
    return {name: each for name, each in members if callable(each) and not name.startswith("_")}


def _numbers(kernel: Kernel, seed: int, threads: int) -> dict[str, NDArray[Any]]:
    """Return answers that need no training: all functions of random numbers, scores, metrics."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(2, 9001))
    arguments = {"seed": seed, "first": 5, "bound": 37, "a": x, "b": y, "x": 30.0 * x}
    arguments["threads"] = threads
    data = small_judged(seed)
    weights = rng.normal(size=data.n_features)
    scores = np.round(rng.normal(size=data.n_rows), 1)  # some are tied
    measured = evaluate(list(parse_metrics(METRICS).values()), data, scores, kernel, threads)
    return {
        **{
            name: _answer(getattr(kernel.random.implementation, name), function, arguments)
            for name, function in _functions(RandomFamily).items()
        },
        "linear_scores": kernel.linear.scores(data.features, weights, threads),
        **{f"metric {name}": values for name, values in measured.items()},
    }


def _answer(
    function: Callable[..., Any], contract: Callable[..., Any], arguments: dict[str, Any]
) -> NDArray[Any]:
    """Call a function with arguments by their names in the contract; return `out` or the result."""
    types = typing.get_type_hints(contract)
    out = None
    if "out" in types:
        # An NDArray is an ndarray[shape, dtype[...]], or from NumPy 2.5 on an alias with a dtype.
        arguments_of_type = typing.get_args(types["out"])
        (dtype,) = typing.get_args(arguments_of_type[-1]) or arguments_of_type
        out = np.zeros(arguments["a"].size, dtype)
    values = {**arguments, "out": out}
    result = function(*(values[name] for name in types if name != "return"))
    return np.array(result) if out is None else out
