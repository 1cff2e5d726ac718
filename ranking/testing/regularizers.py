"""`check_regularizer`: `prox` and `maximize` by brute force, inlined forms by `penalty`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.regularizer import Regularizer
from ranking.errors import CombinationError
from ranking.testing.common import check_numbers, check_part, ensure

Array = NDArray[np.float64]
STEPS = (0.01, 0.5, 2.0)
SCALES = (0.1, 1.0, 4.0)


def check_regularizer(
    regularizer: Regularizer, *, shape: tuple[int, int] = (6, 3), seed: int = 0
) -> None:
    """Check a regularizer.

    The penalty is 0 or more, or infinite. `prox` is where ``1/2 ||V - X||^2 + step * penalty(V)``
    is smallest: no point that is tried nearby, far away or in the set of a constraint has less.
    `maximize`, if there is one, is where ``<gain, P> - penalty(P)`` is largest. Both act on each
    entry or row by itself, as `granularity` says, and leave their arguments alone. `entry_penalty`,
    `row_penalty`, `group_penalty` and `row_maximum` say the same as `penalty` and `maximize`.

    Parameters
    ----------
    regularizer : Regularizer
        Give it a strength that matters at numbers of size 1, such as 0.3.
    shape : tuple of int
        Of the parameters that are tried: few entries, so that brute force can find the best.
    seed : int
    """
    whose = check_part("regularizer", regularizer, Regularizer)
    rng = np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a part warns of is for its users
        for scale in SCALES:
            given = scale * rng.normal(size=shape)
            _check_value(whose, regularizer, given)
            for step in STEPS:
                _check_prox(whose, regularizer, given, step, rng)
            _check_maximum(whose, regularizer, given, rng)
            _check_forms(whose, regularizer, given)
        _check_pieces(whose, regularizer, rng.normal(size=shape), rng)
        if regularizer.bounded:
            _check_bounded(whose, regularizer, rng.normal(size=shape))


def _check_value(whose: str, regularizer: Regularizer, given: Array) -> None:
    value = float(regularizer.penalty(given))
    ensure(value >= 0.0, whose, "a penalty is 0 or more, or infinite", f"it is {value}")


def _candidates(
    best: Array, given: Array, feasible: Callable[[Array], Array], rng: np.random.Generator
) -> Iterator[Array]:
    """Yield rivals: near and far, along each entry, and within the set of a constraint."""
    yield from (given, np.zeros_like(best), -best, given / 2.0)
    for size in (1e-3, 1e-2, 0.1, 1.0):
        for _ in range(25):
            noise = size * rng.normal(size=best.shape)
            yield best + noise
            yield best * (1.0 + noise)
            yield feasible(best + noise)
        yield from (best * (1.0 - size), best * (1.0 + size))
    for place in np.ndindex(*best.shape):
        for change in (-0.3, -0.03, -0.003, 0.003, 0.03, 0.3, -best[place]):
            rival = best.copy()
            rival[place] += change
            yield rival


def _refuse_better(
    whose: str, rule: str, cost: Callable[[Array], float], best: Array, rivals: Iterator[Array]
) -> None:
    """Refuse an answer that a rival beats; a constraint may be off by what its penalty allows."""
    least = cost(best)
    ensure(np.isfinite(least), whose, f"{rule} fulfils the constraint", f"its cost is {least}")
    costs = [(cost(rival), rival) for rival in rivals]
    free = all(np.isfinite(value) for value, _ in costs)
    slack = (1e-9 if free else 1e-4) * (1.0 + abs(least))
    value, rival = min(costs, key=lambda pair: pair[0])
    ensure(
        value >= least - slack,
        whose,
        rule,
        f"it costs {least:.9g} at {best.tolist()}, and {rival.tolist()} costs {value:.9g}",
    )


def _check_prox(
    whose: str, regularizer: Regularizer, given: Array, step: float, rng: np.random.Generator
) -> None:
    kept = given.copy()
    best = regularizer.prox(given, step)
    check_numbers(whose, "prox", best, given.shape)
    ensure(np.array_equal(given, kept), whose, "prox leaves its argument alone", "it changed it")

    def cost(point: Array) -> float:
        penalty = float(regularizer.penalty(point))
        return 0.5 * float(((point - given) ** 2).sum()) + (step * penalty if penalty else 0.0)

    rivals = _candidates(best, given, lambda point: regularizer.prox(point, step), rng)
    rule = f"prox with step {step:g} is the minimum of 1/2 |V - X|^2 + step * penalty(V)"
    _refuse_better(whose, rule, cost, best, rivals)


def _check_maximum(
    whose: str, regularizer: Regularizer, gain: Array, rng: np.random.Generator
) -> None:
    kept = gain.copy()
    try:
        best = regularizer.maximize(gain)
    except CombinationError:
        ensure(
            not regularizer.bounded, whose, "bounded means that there is maximize", "there is none"
        )
        return
    check_numbers(whose, "maximize", best, gain.shape)
    ensure(np.array_equal(gain, kept), whose, "maximize leaves its argument alone", "it changed it")

    def cost(point: Array) -> float:
        return float(regularizer.penalty(point)) - float((gain * point).sum())

    rivals = _candidates(best, gain, regularizer.maximize, rng)
    _refuse_better(whose, "maximize is where <gain, P> - penalty(P) is largest", cost, best, rivals)
    single = regularizer.maximize_rows(gain.astype(np.float32))
    off = float(np.abs(single - best).max())
    ensure(
        single.dtype == np.float32 and off <= 1e-3 * (1.0 + float(np.abs(best).max())),
        whose,
        "maximize_rows is maximize in float32",
        f"it is {single.dtype} and off by {off:.3g}",
    )


def _check_bounded(whose: str, regularizer: Regularizer, gain: Array) -> None:
    large, larger = (np.abs(regularizer.maximize(size * gain)).max() for size in (1e4, 1e8))
    ensure(
        larger <= 2.0 * large + 1e-9,
        whose,
        "bounded means that maximize does not grow with the gain",
        f"its largest entry grew from {large:.3g} to {larger:.3g}",
    )


def _check_pieces(
    whose: str, regularizer: Regularizer, given: Array, rng: np.random.Generator
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
    if regularizer.bounded:
        operators.append(("maximize", regularizer.maximize))
    for name, operator in operators:
        whole = operator(given)
        if granularity == "entry":
            order = rng.permutation(given.size)
            mixed = operator(given.ravel()[order].reshape(given.shape)).ravel()
            alike = np.allclose(mixed, whole.ravel()[order], rtol=1e-9, atol=1e-12)
        elif granularity == "row":
            apart = np.vstack([operator(given[row : row + 1]) for row in range(given.shape[0])])
            alike = np.allclose(apart, whole, rtol=1e-9, atol=1e-12)
        else:
            alike = True
        ensure(alike, whose, f"{name} acts on each {granularity} by itself", "others matter too")


def _check_forms(whose: str, regularizer: Regularizer, given: Array) -> None:
    value = regularizer.penalty(given)
    norms = np.linalg.norm(given, axis=1)
    entry, row = regularizer.entry_penalty(), regularizer.row_penalty()
    group = regularizer.group_penalty(np.arange(given.shape[0]), np.arange(given.shape[1]))
    if entry is not None:
        told = float(entry.l1 * np.abs(given).sum() + 0.5 * entry.l2 * (given**2).sum())
        _check_same(whose, "entry_penalty", told, value)
    if row is not None:
        told = 0.5 * row.l2 * float((norms**2).sum())
        if row.max_norm and (norms > row.max_norm * (1.0 + 1e-5)).any():
            told = np.inf
        _check_same(whose, "row_penalty", told, value)
    if group is not None:
        squares = (given**2).sum(axis=0 if group.columns else 1)
        lengths = np.sqrt(np.bincount(group.groups, squares))
        told = group.strength * float(group.weights @ lengths)
        _check_same(whose, "group_penalty", told, value)
    maximum = regularizer.row_maximum()
    if maximum is not None:
        shrunk = np.copysign(np.maximum(np.abs(given) - maximum.threshold, 0.0), given)
        lengths = np.linalg.norm(shrunk, axis=1, keepdims=True)
        scaled = shrunk * (maximum.limit / np.where(lengths > 0.0, lengths, 1.0))
        off = float(np.abs(scaled - regularizer.maximize(given)).max())
        ensure(
            off <= 1e-9, whose, "row_maximum says what maximize does", f"they differ by {off:.3g}"
        )
    ensure(
        not regularizer.inlined or any(form is not None for form in (entry, row, group)),
        whose,
        "what is inlined has an entry_penalty, a row_penalty or a group_penalty",
        f"inlined is {sorted(regularizer.inlined)} and all three are None",
    )


def _check_same(whose: str, form: str, told: float, value: float) -> None:
    alike = told == value or abs(told - value) <= 1e-9 * (1.0 + abs(value))
    ensure(
        alike, whose, f"{form} is the penalty", f"it comes to {told:.9g} and penalty to {value:.9g}"
    )
