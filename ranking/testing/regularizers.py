"""`check_regularizer`: `prox` and `maximize` by brute force, kernel forms by `penalty`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import cast

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.regularizer import (
    EntryPenalty,
    FeatureIds,
    GroupPenalty,
    Regularizer,
    RowPenalty,
    SupportsMaximize,
    SupportsRowMaximum,
    kernel_form,
    kernel_forms,
)
from ranking.testing.common import check_numbers, check_part, ensure

Array = NDArray[np.float64]
STEPS = (0.01, 0.5, 2.0)
SCALES = (0.1, 1.0, 4.0)


def check_regularizer(
    regularizer: Regularizer, *, shape: tuple[int, int] = (6, 3), seed: int = 0
) -> None:
    """Check a regularizer.

    The penalty is not negative, and may be infinite. `prox` minimizes ``1/2 ||V - X||^2 + step *
    penalty(V)``: no candidate near it, far from it or within a constraint has a smaller value.
    `maximize`, if there is one, maximizes ``<gain, P> - penalty(P)`` and stays bounded. Both act on
    each entry or row independently, as `granularity` declares, and do not change their arguments.
    `kernel_form` and `row_maximum` agree with `penalty` and `maximize`.

    Parameters
    ----------
    regularizer : Regularizer
        Choose a strength that matters for numbers of size 1, such as 0.3.
    shape : tuple of int
        Shape of the parameters; few entries, so that brute force finds the optimum.
    seed : int
    """
    whose = check_part("regularizer", regularizer, Regularizer)
    rng = np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of a part are for its users
        for scale in SCALES:
            parameters = scale * rng.normal(size=shape)
            _check_value(whose, regularizer, parameters)
            for step in STEPS:
                _check_prox(whose, regularizer, parameters, step, rng)
            if isinstance(regularizer, SupportsMaximize):
                _check_maximum(whose, regularizer, parameters, rng)
            _check_forms(whose, regularizer, parameters)
        _check_independence(whose, regularizer, rng.normal(size=shape), rng)
        if isinstance(regularizer, SupportsMaximize):
            _check_bounded(whose, regularizer, rng.normal(size=shape))


def _check_value(whose: str, regularizer: Regularizer, parameters: Array) -> None:
    value = float(regularizer.penalty(parameters))
    ensure(value >= 0.0, whose, "a penalty is 0 or more, or infinite", f"it is {value}")


def _candidates(
    best: Array, parameters: Array, feasible: Callable[[Array], Array], rng: np.random.Generator
) -> Iterator[Array]:
    """Yield candidates: near and far, along each entry, and within the set of a constraint."""
    yield from (parameters, np.zeros_like(best), -best, parameters / 2.0)
    for size in (1e-3, 1e-2, 0.1, 1.0):
        for _ in range(25):
            noise = size * rng.normal(size=best.shape)
            yield best + noise
            yield best * (1.0 + noise)
            yield feasible(best + noise)
        yield from (best * (1.0 - size), best * (1.0 + size))
    for place in np.ndindex(*best.shape):
        for change in (-0.3, -0.03, -0.003, 0.003, 0.03, 0.3, -best[place]):
            candidate = best.copy()
            candidate[place] += change
            yield candidate


def _refuse_better(
    whose: str, rule: str, cost: Callable[[Array], float], best: Array, candidates: Iterator[Array]
) -> None:
    """Refuse a result that a candidate beats, up to the tolerance of a constraint."""
    least = cost(best)
    ensure(np.isfinite(least), whose, f"{rule} fulfils the constraint", f"its cost is {least}")
    costs = [(cost(candidate), candidate) for candidate in candidates]
    free = all(np.isfinite(value) for value, _ in costs)
    slack = (1e-9 if free else 1e-4) * (1.0 + abs(least))
    value, candidate = min(costs, key=lambda pair: pair[0])
    ensure(
        value >= least - slack,
        whose,
        rule,
        f"it costs {least:.9g} at {best.tolist()}, and {candidate.tolist()} costs {value:.9g}",
    )


def _check_prox(
    whose: str, regularizer: Regularizer, parameters: Array, step: float, rng: np.random.Generator
) -> None:
    original = parameters.copy()
    best = regularizer.prox(parameters, step)
    check_numbers(whose, "prox", best, parameters.shape)
    ensure(
        np.array_equal(parameters, original),
        whose,
        "prox leaves its argument alone",
        "it changed it",
    )

    def cost(point: Array) -> float:
        penalty = float(regularizer.penalty(point))
        return 0.5 * float(((point - parameters) ** 2).sum()) + (step * penalty if penalty else 0.0)

    candidates = _candidates(best, parameters, lambda point: regularizer.prox(point, step), rng)
    rule = f"prox with step {step:g} is the minimum of 1/2 |V - X|^2 + step * penalty(V)"
    _refuse_better(whose, rule, cost, best, candidates)


def _check_maximum(
    whose: str, regularizer: SupportsMaximize, gain: Array, rng: np.random.Generator
) -> None:
    original = gain.copy()
    best = regularizer.maximize(gain)
    check_numbers(whose, "maximize", best, gain.shape)
    ensure(
        np.array_equal(gain, original), whose, "maximize leaves its argument alone", "it changed it"
    )
    penalty = cast(Regularizer, regularizer).penalty

    def cost(point: Array) -> float:
        return float(penalty(point)) - float((gain * point).sum())

    candidates = _candidates(best, gain, regularizer.maximize, rng)
    rule = "maximize is where <gain, P> - penalty(P) is largest"
    _refuse_better(whose, rule, cost, best, candidates)


def _check_bounded(whose: str, regularizer: SupportsMaximize, gain: Array) -> None:
    large, larger = (np.abs(regularizer.maximize(size * gain)).max() for size in (1e4, 1e8))
    ensure(
        larger <= 2.0 * large + 1e-9,
        whose,
        "maximize stays bounded when the gain grows",
        f"its largest entry grew from {large:.3g} to {larger:.3g}",
    )


def _check_independence(
    whose: str, regularizer: Regularizer, parameters: Array, rng: np.random.Generator
) -> None:
    granularity = regularizer.granularity
    ensure(
        granularity in ("entry", "row", "matrix"),
        whose,
        "granularity is entry, row or matrix",
        f"it is {granularity!r}",
    )

    def prox(point: Array) -> Array:
        return regularizer.prox(point, 0.5)

    operators: list[tuple[str, Callable[[Array], Array]]] = [("prox", prox)]
    if isinstance(regularizer, SupportsMaximize):
        operators.append(("maximize", regularizer.maximize))
    for name, operator in operators:
        whole = operator(parameters)
        if granularity == "entry":
            order = rng.permutation(parameters.size)
            mixed = operator(parameters.ravel()[order].reshape(parameters.shape)).ravel()
            independent = np.allclose(mixed, whole.ravel()[order], rtol=1e-9, atol=1e-12)
        elif granularity == "row":
            by_row = np.vstack(
                [operator(parameters[row : row + 1]) for row in range(parameters.shape[0])]
            )
            independent = np.allclose(by_row, whole, rtol=1e-9, atol=1e-12)
        else:
            independent = True
        ensure(
            independent, whose, f"{name} acts on each {granularity} by itself", "others matter too"
        )


def _check_forms(whose: str, regularizer: Regularizer, parameters: Array) -> None:
    value = regularizer.penalty(parameters)
    ids = FeatureIds(np.arange(parameters.shape[0]), np.arange(parameters.shape[1]))
    kinds = {"vector": (EntryPenalty,), "matrix": (EntryPenalty, GroupPenalty)}
    for name in sorted(kernel_forms(regularizer)):
        form = kernel_form(regularizer, name, ids)
        ensure(
            isinstance(form, kinds.get(name, (RowPenalty,))),
            whose,
            f"kernel_form({name!r}) is a penalty that kernels apply to such parameters",
            f"it is {form!r}",
        )
        result = _form_value(form, parameters)
        equal = result == value or abs(result - value) <= 1e-9 * (1.0 + abs(value))
        ensure(
            equal,
            whose,
            f"kernel_form({name!r}) is the penalty",
            f"it is {result:.9g} and penalty is {value:.9g}",
        )
    if isinstance(regularizer, SupportsRowMaximum):
        _check_row_maximum(whose, regularizer, parameters)


def _form_value(form: EntryPenalty | RowPenalty | GroupPenalty | None, parameters: Array) -> float:
    """Return the penalty of parameters by its kernel form."""
    if isinstance(form, EntryPenalty):
        return float(form.l1 * np.abs(parameters).sum() + 0.5 * form.l2 * (parameters**2).sum())
    if isinstance(form, RowPenalty):
        norms = np.linalg.norm(parameters, axis=1)
        if form.max_norm and (norms > form.max_norm * (1.0 + 1e-5)).any():
            return float("inf")
        return 0.0
    assert form is not None
    squares = (parameters**2).sum(axis=0 if form.columns else 1)
    return form.strength * float(form.weights @ np.sqrt(np.bincount(form.groups, squares)))


def _check_row_maximum(whose: str, regularizer: SupportsRowMaximum, parameters: Array) -> None:
    threshold, limit = regularizer.row_maximum()
    shrunk = np.copysign(np.maximum(np.abs(parameters) - threshold, 0.0), parameters)
    lengths = np.linalg.norm(shrunk, axis=1, keepdims=True)
    scaled = shrunk * (limit / np.where(lengths > 0.0, lengths, 1.0))
    best = cast(SupportsMaximize, regularizer).maximize(parameters)
    difference = float(np.abs(scaled - best).max())
    ensure(
        difference <= 1e-9,
        whose,
        "row_maximum is what maximize computes",
        f"they differ by {difference:.3g}",
    )
