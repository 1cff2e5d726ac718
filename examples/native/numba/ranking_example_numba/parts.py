"""Losses whose functions numba compiles when this module is imported."""

import dataclasses
import math
from typing import ClassVar

import numpy as np
from numba import carray, cfunc, types

from ranking.errors import PartError
from ranking.native import (
    ListwiseFunctions,
    NativeListwiseLoss,
    NativePairwiseLoss,
    PairwiseFunctions,
)

DOUBLES = types.CPointer(types.float64)
OF_MARGIN = types.float64(types.float64, DOUBLES)
LIST_VALUE = types.float64(DOUBLES, DOUBLES, types.int64, DOUBLES)
LIST_SLOPES = types.void(DOUBLES, DOUBLES, types.int64, DOUBLES, DOUBLES)


@cfunc(OF_MARGIN)
def smooth_value(z, context):
    """Return the smooth hinge; the context is its width."""
    width = context[0]
    if z >= 1.0:
        return 0.0
    if z <= 1.0 - width:
        return 1.0 - z - 0.5 * width
    return (1.0 - z) * (1.0 - z) / (2.0 * width)


@cfunc(OF_MARGIN)
def smooth_slope(z, context):
    """Return its derivative."""
    width = context[0]
    if z >= 1.0:
        return 0.0
    if z <= 1.0 - width:
        return -1.0
    return (z - 1.0) / width


@dataclasses.dataclass
class SmoothHinge(NativePairwiseLoss):
    """The hinge, its corner rounded over a width; 0 is the hinge itself."""

    name: ClassVar[str] = "numba-smooth-hinge"

    width: float = 1.0

    def __post_init__(self):
        """Check the width."""
        if not 0.0 <= self.width < float("inf"):
            raise PartError(f"{self.name} has width={self.width!r}; it must be 0 or more.")

    def functions(self):
        """Return the functions, and keep the context, of which they get the address."""
        context = np.array([self.width])
        return PairwiseFunctions.from_addresses(
            value=smooth_value, slope=smooth_slope, context=context.ctypes.data, keep=(context,)
        )


@cfunc(LIST_VALUE)
def softmax_value(scores, grades, n, context):
    """Return the mean over documents, by grade, of -log of their share of the softmax."""
    s, g = carray(scores, n), carray(grades, n)
    top, total, grade, mean = -math.inf, 0.0, 0.0, 0.0
    for i in range(n):
        top = max(top, s[i])
    for i in range(n):
        total += math.exp(s[i] - top)
        grade += g[i]
        mean += g[i] * s[i]
    if grade <= 0.0:
        return 0.0
    return top + math.log(total) - mean / grade


@cfunc(LIST_SLOPES)
def softmax_slopes(scores, grades, n, out, context):
    """Fill `out` with the share of each document, less the share of its grade."""
    s, g, slopes = carray(scores, n), carray(grades, n), carray(out, n)
    top, total, grade = -math.inf, 0.0, 0.0
    for i in range(n):
        top = max(top, s[i])
    for i in range(n):
        total += math.exp(s[i] - top)
        grade += g[i]
    for i in range(n):
        slopes[i] = math.exp(s[i] - top) / total - g[i] / grade if grade > 0.0 else 0.0


@dataclasses.dataclass
class Softmax(NativeListwiseLoss):
    """Softmax cross entropy: ``log sum exp(scores) - mean score``, the mean by grade."""

    name: ClassVar[str] = "numba-softmax"

    def functions(self):
        """Return the functions."""
        return ListwiseFunctions.from_addresses(value=softmax_value, slopes=softmax_slopes)
