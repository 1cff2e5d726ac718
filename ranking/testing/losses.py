"""`check_loss`: slopes against numerical derivatives, and every kernel against the others."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.loss import CoordinateLoss, LinearLoss, ListwiseLoss, Loss, PairwiseLoss
from ranking.contracts.regularizer import EntryPenalty
from ranking.kernels.kernel import Kernel
from ranking.ranker import Ranker
from ranking.registry.manager import get_registry
from ranking.testing.common import (
    check_numbers,
    check_part,
    ensure,
    installed_kernels,
    same_tensors,
    small_judged,
    small_matching,
)

FAR = 1e4
"""A margin or score that training may come to, where nothing may overflow."""

MEMBERS = {
    "pairwise": ("form", "trials", "pairwise_value", "pairwise_slope", "rank_weight"),
    "listwise": ("listwise_value", "listwise_slopes"),
    "coordinate": ("coordinate_problem",),
    "linear": ("pair_weights", "per_query"),
}


def check_loss(
    loss: Loss,
    *,
    balanced: bool | None = None,
    kernels: Sequence[Kernel] | None = None,
    seed: int = 0,
) -> None:
    """Check all interfaces of a loss.

    Of a *pair* loss: the slope is the derivative of the value, away from kinks, and lies between
    the two one-sided ones at a kink; margins do not mix; values and slopes are finite at +-1e4; a
    wrong order costs more than a right one; the kernels' own loops learn the same as with slopes
    that are asked in Python. Of a *list* loss: slopes are the derivatives and sum to 0. Of a
    *coordinate* loss: slopes along features are derivatives, sweeps never increase the value, and
    a state can be restored. Of a *linear* loss: weights are finite. If `sgd` takes it, it trains
    to the same bits in all kernels.

    Parameters
    ----------
    loss : Loss
    balanced : bool, optional
        Whether slopes of a list must sum to 0, as `sgd` needs it; by default whether the loss
        compares scores.
    kernels : sequence of Kernel, optional
        By default all that are installed.
    seed : int
    """
    whose = check_part("loss", loss, Loss)
    balanced = loss.compares_scores if balanced is None else balanced
    rng = np.random.default_rng(seed)
    for interface in sorted(loss.interfaces):
        ensure(
            interface in MEMBERS,
            whose,
            f"its interfaces must be of {sorted(MEMBERS)}",
            f"has {interface!r}",
        )
        missing = [name for name in MEMBERS[interface] if not hasattr(loss, name)]
        ensure(
            not missing,
            whose,
            f"a loss with the {interface} interface has all its members",
            f"{missing}",
        )
    count, rank = loss.positives
    ensure(0 <= rank < count, whose, "positives is (n, rank), rank < n", f"({count}, {rank})")
    if "pairwise" in loss.interfaces:
        _check_pairs(whose, cast(PairwiseLoss, loss), rng)
    if "listwise" in loss.interfaces:
        _check_lists(whose, cast(ListwiseLoss, loss), balanced, rng)
    used = installed_kernels() if kernels is None else list(kernels)
    if "linear" in loss.interfaces:
        weights = cast(LinearLoss, loss).pair_weights(np.array([0.0, 0.5, 1.0, 3.0]))
        check_numbers(whose, "pair_weights", weights, (4,))
        ensure(np.isfinite(weights).all(), whose, "pair_weights are finite", f"{weights}")
    if "coordinate" in loss.interfaces:
        for kernel in used:
            _check_coordinates(whose, cast(CoordinateLoss, loss), kernel, seed)
    if loss.interfaces & {"pairwise", "listwise"} and (balanced or "pairwise" in loss.interfaces):
        _check_training(whose, loss, used, seed)


def _check_pairs(whose: str, loss: PairwiseLoss, rng: np.random.Generator) -> None:
    ensure(loss.trials >= 1, whose, "trials is at least 1", f"it is {loss.trials}")
    z = np.concatenate((np.linspace(-6.0, 6.0, 121), rng.normal(scale=3.0, size=200)))
    for method in (loss.pairwise_value, loss.pairwise_slope):
        name = getattr(method, "__name__", "pairwise_slope")
        answers = method(z)
        check_numbers(whose, name, answers, z.shape)
        check_numbers(whose, name, method(np.empty(0)), (0,))
        far = method(np.array([-FAR, FAR]))
        ensure(np.isfinite(far).all(), whose, f"{name} is finite at margins +-{FAR:g}", f"{far}")
        single = np.array([method(z[i : i + 1])[0] for i in range(0, z.size, 7)])
        worst = int(np.abs(single - answers[::7]).argmax())
        ensure(
            np.allclose(single, answers[::7], rtol=1e-12, atol=1e-12),
            whose,
            f"{name} of a margin does not depend on the other margins",
            f"at {z[::7][worst]:.6g} it is {single[worst]:.6g} alone and {answers[::7][worst]:.6g}",
        )
    wrong, right = loss.pairwise_value(np.array([-5.0, 5.0]))
    ensure(
        wrong > right,
        whose,
        "a wrong order costs more than a right one",
        f"margin -5 costs {wrong:.6g} and margin 5 costs {right:.6g}",
    )
    _check_slopes(whose, "pairwise_slope", loss.pairwise_value, loss.pairwise_slope, z)
    weights = loss.rank_weight(np.arange(50))
    check_numbers(whose, "rank_weight", weights, (50,))
    ensure(
        np.isfinite(weights).all() and (weights >= 0.0).all(),
        whose,
        "rank_weight is finite and not negative",
        f"it is {weights}",
    )


def _check_slopes(
    whose: str,
    name: str,
    value: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    slope: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    z: NDArray[np.float64],
) -> None:
    """Compare slopes with differences; at a kink, where those of both sides differ, bound them."""
    h = 1e-5 * np.maximum(1.0, np.abs(z))
    here, slopes = value(z), slope(z)
    right, left = (value(z + h) - here) / h, (here - value(z - h)) / h
    middle = 0.5 * (left + right)
    # Between the differences of both sides lies the derivative, also where it bends.
    slack = 1e-5 * (1.0 + np.abs(middle)) + 0.5 * np.abs(right - left)
    kinks = np.abs(right - left) > 1e-3 * (1.0 + np.abs(middle))
    off = np.where(kinks, 0.0, np.abs(slopes - middle)) > slack
    outside = kinks & (
        (slopes < np.minimum(left, right) - slack) | (slopes > np.maximum(left, right) + slack)
    )
    for bad, description in ((off, middle), (outside, middle)):
        at = int(np.argmax(bad))
        ensure(
            not bad.any(),
            whose,
            f"{name} is the derivative of the value",
            f"at {z[at]:.6g} it is {slopes[at]:.6g} and differences give {description[at]:.6g}",
        )
    share = float(kinks.mean())
    ensure(share < 0.5, whose, "the value is smooth almost everywhere", f"{share:.0%} are kinks")


def _check_lists(whose: str, loss: ListwiseLoss, balanced: bool, rng: np.random.Generator) -> None:
    for size in (1, 2, 3, 5, 8):
        for spread, same in ((1.0, False), (1.0, True), (FAR, False)):
            scores = spread * rng.normal(size=size)
            grades = np.zeros(size) if same else rng.integers(0, 4, size).astype(np.float64)
            value, slopes = (
                loss.listwise_value(scores, grades),
                loss.listwise_slopes(scores, grades),
            )
            description = f"scores {np.round(scores, 4)} with grades {grades}"
            ensure(
                np.isfinite(value),
                whose,
                "listwise_value is finite",
                f"it is {value} at {description}",
            )
            check_numbers(whose, "listwise_slopes", slopes, scores.shape)
            ensure(
                np.isfinite(slopes).all(),
                whose,
                "listwise_slopes are finite",
                f"{slopes} at {description}",
            )
            if balanced:
                total, sizes = slopes.sum(), np.abs(slopes).sum()
                ensure(
                    abs(total) <= 1e-9 * sizes + 1e-300,
                    whose,
                    "slopes of a list sum to 0, as the loss compares scores only (else say "
                    "balanced=False)",
                    f"they sum to {total:.6g} at {description}",
                )
            if spread > 1.0:
                continue
            steps = 1e-5 * np.eye(size)
            numerical = [
                (
                    loss.listwise_value(scores + step, grades)
                    - loss.listwise_value(scores - step, grades)
                )
                / 2e-5
                for step in steps
            ]
            worst = int(np.abs(slopes - numerical).argmax())
            ensure(
                np.allclose(slopes, numerical, rtol=1e-4, atol=1e-5),
                whose,
                "listwise_slopes are the derivatives of listwise_value",
                f"slope {worst} is {slopes[worst]:.6g} and differences give "
                f"{numerical[worst]:.6g} at {description}",
            )


def _check_coordinates(whose: str, loss: CoordinateLoss, kernel: Kernel, seed: int) -> None:
    data = small_judged(seed)
    rng = np.random.default_rng(seed)
    start = 0.1 * rng.normal(size=data.n_features)
    columns, free = np.arange(data.n_features), EntryPenalty(0.0, 0.0)

    def problem(weights: NDArray[np.float64]) -> Any:
        return loss.coordinate_problem(data, weights.copy(), kernel, 1, "newton")

    coordinates = problem(start)
    gradient, curvature = coordinates.slopes(columns)
    for column in columns:
        step = np.zeros(start.size)
        step[column] = 1e-5
        numerical = (problem(start + step).value() - problem(start - step).value()) / 2e-5
        ensure(
            abs(gradient[column] - numerical) <= 1e-5 * (1.0 + abs(numerical)),
            whose,
            "slopes along features are derivatives of the value",
            f"along feature {column} it is {gradient[column]:.6g} and differences give "
            f"{numerical:.6g}, in kernel {kernel.name}",
        )
    ensure((curvature >= 0.0).all(), whose, "curvatures are not negative", f"{curvature}")
    before = coordinates.value()
    for _ in range(3):
        state = coordinates.state()
        coordinates.sweep(columns, free)
        after = coordinates.value()
        ensure(
            after <= before + 1e-12 * abs(before),
            whose,
            "a sweep never increases the value",
            f"{before!r} became {after!r}, in kernel {kernel.name}",
        )
        weights = coordinates.weights.copy()
        coordinates.restore(state)
        ensure(coordinates.value() == before, whose, "a state brings the value back", f"{before!r}")
        coordinates.sweep(columns, free)
        ensure(
            np.array_equal(weights, coordinates.weights),
            whose,
            "a sweep after `restore` has the same bits",
            f"{weights} became {coordinates.weights}",
        )
        before = after


def _check_training(whose: str, loss: Loss, kernels: list[Kernel], seed: int) -> None:
    """Train with sgd in every kernel: the same bits; and with slopes from Python, the same."""
    registry = get_registry()
    sgd, none = registry.create("solver", "sgd"), registry.create("regularizer", "none")
    data = small_matching(seed)
    for spec, solver, close in (
        ("bilinear:dtype=float64", "sgd:max_steps=300,learning_rate=0.5,batch_size=1", 1e-9),
        ("factored:dimensions=3", "sgd:max_steps=300,batch_size=8", 1e-4),
    ):
        model = registry.create("model", spec)
        if not sgd.accepts(type(model), type(loss), type(none)).works:
            continue
        trained = {
            kernel.name: Ranker(
                model=spec, loss=loss, solver=solver, kernel=kernel, random_state=seed
            )
            .fit(data)
            .model_.tensors()
            for kernel in kernels
        }
        first, *others = trained
        for other in others:
            differs = same_tensors(trained[first], trained[other])
            ensure(
                not differs,
                whose,
                f"sgd on model {model.name} gives the same bits in all kernels",
                f"{differs} differs between {first} and {other}",
            )
        if getattr(loss, "form", None) is None:
            continue
        ranker = Ranker(model=spec, loss=_in_python(loss), solver=solver, kernel=kernels[0])
        weights = ranker.set_params(random_state=seed).fit(data).model_.tensors()
        for name, tensor in trained[first].items():
            if tensor.dtype.kind == "f":
                off = float(np.abs(tensor - weights[name]).max(initial=0.0))
                ensure(
                    off <= close * (1.0 + float(np.abs(tensor).max(initial=0.0))),
                    whose,
                    "the loops of kernels learn the same as with pairwise_slope in Python",
                    f"{name} of model {model.name} differs by {off:.3g}",
                )


def _in_python(loss: Loss) -> Loss:
    """Return the same loss, whose slopes are asked in Python."""
    own_loss = copy.deepcopy(loss)
    own_loss.__class__ = dataclasses.dataclass(
        type(type(loss).__name__, (type(loss),), {"form": None})
    )
    return own_loss
