"""Reference of the listwise family: the only place of the reference that has its formulas."""

from __future__ import annotations

import math

import numpy as np

from ranking.kernels.contract import Floats, ListSlopes, ListwiseForm, ListwiseLoss
from ranking.kernels.reference.native import LIST_SLOPES, LIST_VALUE
from ranking.kernels.reference.random import exp_full, exp_one, lane_sum, running_sum


def list_slopes(loss: ListwiseLoss, margins: Floats) -> tuple[float, Floats]:
    """Return loss and slopes of the list with these margins."""
    slopes = np.empty(1 + margins.size)
    one_list = _native if loss.form == ListwiseForm.NATIVE else _domination
    value = one_list(loss, margins, slopes)
    return value if np.isfinite(slopes).all() else math.nan, slopes


def _domination(loss: ListwiseLoss, margins: Floats, slopes: Floats) -> float:
    with np.errstate(invalid="ignore", over="ignore"):
        u = loss.margin - margins
        top = 0.0
        for each in u.tolist():
            top = max(top, each)  # the first argument, if the second is NaN
        e = exp_full(u - top)
        below = lane_sum(e)
        total = exp_one(0.0 - top) + below
        r = loss.weight / total
        slopes[0], slopes[1:] = -(r * below), r * e
    if not math.isfinite(total):
        return math.nan
    return loss.weight * (math.log1p(below) if top == 0.0 else top + math.log(total))


def _native(loss: ListwiseLoss, margins: Floats, slopes: Floats) -> float:
    scores = np.concatenate(([0.0], -margins))
    grades = np.concatenate(([1.0], np.zeros(margins.size)))
    lists = scores.ctypes.data, grades.ctypes.data, scores.size
    value = LIST_VALUE(loss.value.function)(*lists, loss.value.context)
    slopes[:] = 0.0
    LIST_SLOPES(loss.slopes.function)(*lists, slopes.ctypes.data, loss.slopes.context)
    slopes[0] = -running_sum(slopes[1:])
    return float(value)


def listwise_slopes(loss: ListwiseLoss, margins: Floats, out: ListSlopes, threads: int) -> None:
    """Compute the lists one by one."""
    for at, row in enumerate(margins):
        out.losses[at], out.slopes[at] = list_slopes(loss, row)
