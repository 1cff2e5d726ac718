"""Random numbers, sums and the exponential.

Random numbers
--------------
SplitMix64 by counter: number k of a seed is ``mix(seed + (k + 1) * 0x9E3779B97F4A7C15)``, with mix
``z = (z ^ z>>30) * 0xBF58476D1CE4E5B9; z = (z ^ z>>27) * 0x94D049BB133111EB; z ^ z>>31``, all
modulo 2**64. A uniform is ``(x >> 11) * 2**-53``; an integer below n < 2**32 is
``((x >> 32) * n) >> 32``.

The exponential
---------------
Three functions, built from one another, that vectorise and saturate instead of overflowing.

``short(t)``, for |t| <= 1/32, is the Taylor polynomial of degree 7 (relative error < 3e-16)::

    t2 = t*t; t4 = t2*t2
    ((1 + t) + (t*C3 + 0.5)*t2) + ((t*C5 + C4) + (t*C7 + C6)*t2)*t4        Ck = 1/k!

``core(r)``, for |r| <= 0.3467, is ``1 + r + r**2 Q(r)`` with the minimax Q = `EXP_Q` (relative
error < 3e-16)::

    r2 = r*r; r4 = r2*r2; r8 = r4*r4
    low  = (1 + r) + (r*Q1 + Q0)*r2
    mid  = (r*Q3 + Q2) + (r*Q5 + Q4)*r2
    high = (r*Q7 + Q6) + (r*Q9 + Q8)*r2
    (low + mid*r4) + high*r8

``exp(x)`` clamps x to [-708, 708] (so it is never zero, infinite or subnormal), then::

    t = x*LOG2E + MAGIC; k = t - MAGIC          k is the nearest integer
    r = (x - k*LN2_HIGH) - k*LN2_LOW
    core(r) with (bits of t) << 52 added to its bits

Its relative error is below 4e-16. A NaN that arithmetic produces stays a NaN.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ranking.kernels.contract.arrays import Floats, Ints


class RandomFamily(Protocol):
    """Random numbers, sums and the exponential; seed and first lie in 0..2**64 - 1."""

    def random_bits(self, seed: int, first: int, out: NDArray[np.uint64]) -> None:
        """Fill `out` with the numbers first, first + 1, ... of a seed."""

    def random_uniform(self, seed: int, first: int, out: Floats) -> None:
        """Fill `out` with uniforms in [0, 1) from the same numbers."""

    def random_below(self, seed: int, first: int, bound: int, out: Ints) -> None:
        """Fill `out` with integers in [0, bound) from the same numbers; 1 <= bound < 2**32."""

    def exp(self, x: Floats, out: Floats) -> None:
        """Fill `out` with the contract's exponential of `x`."""

    def dot(self, a: Floats, b: Floats) -> float:
        """Return the sum in lanes of a[i] * b[i]."""

    def block_sum(self, a: Floats, threads: int) -> float:
        """Return the sum of the blocks' sums in lanes, blocks of `BLOCK` elements added in order.

        The total starts at 0.0.
        """
