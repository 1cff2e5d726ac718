"""Reference of the random family: random numbers, sums and the exponential.

Sums that are not "in lanes" run in the order of the elements, from 0.0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ranking.kernels.contract import (
    BLOCK,
    EXP_LIMIT,
    EXP_Q,
    GAMMA,
    LANES,
    LN2_HIGH,
    LN2_LOW,
    LOG2E,
    MAGIC,
    Floats,
    Ints,
)

# --- random numbers -----------------------------------------------------------------------------


def random_bits(seed: int, first: int, out: NDArray[np.uint64]) -> None:
    """SplitMix64 by counter."""
    with np.errstate(over="ignore"):
        counter = np.arange(out.size, dtype=np.uint64) + np.uint64((first + 1) % 2**64)
        z = counter * np.uint64(GAMMA) + np.uint64(seed)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        out[:] = z ^ (z >> np.uint64(31))


def random_uniform(seed: int, first: int, out: Floats) -> None:
    """Uniforms in [0, 1) with 53 random bits."""
    bits = np.empty(out.size, dtype=np.uint64)
    random_bits(seed, first, bits)
    out[:] = (bits >> np.uint64(11)) * 2.0**-53


def random_below(seed: int, first: int, bound: int, out: Ints) -> None:
    """Integers in [0, bound)."""
    bits = np.empty(out.size, dtype=np.uint64)
    random_bits(seed, first, bits)
    out[:] = ((bits >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32)


# --- sums and products --------------------------------------------------------------------------


def fold(lanes: Floats) -> float:
    """Add the partial sums of the lanes."""
    return float((lanes[0] + lanes[2]) + (lanes[1] + lanes[3]))


def lane_sum(values: Floats) -> float:
    """Sum in lanes."""
    padded = np.zeros((-(-values.size // LANES), LANES))
    padded.ravel()[: values.size] = values
    return fold(np.add.accumulate(np.vstack([np.zeros(LANES), padded]), axis=0)[-1])


def running_sum(values: Floats) -> float:
    """Sum one after the other; the built-in sum of Python 3.12 would compensate."""
    total = 0.0
    for value in values:
        total += float(value)
    return total


def dot(a: Floats, b: Floats) -> float:
    """Sum in lanes of the products."""
    return lane_sum(a * b)


def block_sum(a: Floats, threads: int) -> float:
    """Sum of the blocks' sums, in order."""
    total = 0.0
    for start in range(0, a.size, BLOCK):
        total += lane_sum(a[start : start + BLOCK])
    return total


# --- the exponential ----------------------------------------------------------------------------


def exp_short(t: Floats) -> Floats:
    """Exp for abs(t) <= SHORT_LIMIT."""
    t2 = t * t
    t4 = t2 * t2
    low = (1.0 + t) + (t * (1.0 / 6.0) + 0.5) * t2
    high = (t * (1.0 / 120.0) + 1.0 / 24.0) + (t * (1.0 / 5040.0) + 1.0 / 720.0) * t2
    return low + high * t4


def exp_core(r: Floats) -> Floats:
    """Exp for abs(r) <= 0.3467."""
    q = EXP_Q
    r2 = r * r
    r4 = r2 * r2
    r8 = r4 * r4
    low = (1.0 + r) + (r * q[1] + q[0]) * r2
    mid = (r * q[3] + q[2]) + (r * q[5] + q[4]) * r2
    high = (r * q[7] + q[6]) + (r * q[9] + q[8]) * r2
    return (low + mid * r4) + high * r8


def exp_full(x: Floats) -> Floats:
    """Exp for any x, saturating."""
    x = np.where(x < -EXP_LIMIT, -EXP_LIMIT, x)
    x = np.where(x > EXP_LIMIT, EXP_LIMIT, x)
    t = x * LOG2E + MAGIC
    k = t - MAGIC
    p = exp_core((x - k * LN2_HIGH) - k * LN2_LOW)
    with np.errstate(over="ignore"):
        bits = p.view(np.uint64) + (t.view(np.uint64) << np.uint64(52))
    return bits.view(np.float64)


def exp(x: Floats, out: Floats) -> None:
    """Fill `out` with the exponential of `x`."""
    out[:] = exp_full(x)


def exp_one(x: float) -> float:
    """Exp of one number."""
    return float(exp_full(np.array([x]))[0])
