"""Slopes of the pairwise losses: the only place of the reference that has their formulas."""

from __future__ import annotations

import ctypes
from ctypes import c_double, c_void_p

import numpy as np

from ranking.kernels.contract import NativeCall, PairwiseForm, PairwiseLoss
from ranking.kernels.reference.random import exp_one

PAIRWISE = ctypes.CFUNCTYPE(c_double, c_double, c_void_p)


def call_native(call: NativeCall, margin: float) -> float:
    """Return the value of a plugin's C function of one margin."""
    value: float = PAIRWISE(call.function)(margin, call.context)
    return value


def pairwise_slope(loss: PairwiseLoss, margin: np.floating) -> np.floating:
    """Return the slope at a margin, in the precision of the margin.

    The slope of the logistic loss and of a native one is computed in double precision, then
    rounded.
    """
    precision = type(margin)
    one = precision(1.0)
    if loss.form == PairwiseForm.NATIVE:
        return precision(call_native(loss.slope, float(margin)))
    if loss.form == PairwiseForm.LOGISTIC:
        return precision(-1.0 / (1.0 + exp_one(float(margin))))
    if not margin < one:
        return precision(0.0)
    return -one if loss.form == PairwiseForm.HINGE else precision(-2.0) * (one - margin)
