"""Random numbers, sums and the exponential, with checked arguments."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ranking.kernels.contract import Floats, Ints, RandomFamily
from ranking.kernels.validation import (
    check_array,
    validate_count,
    validate_first,
    validate_integer,
    validate_seed,
    validate_threads,
)


class RandomKernel:
    """Random numbers by counter, sums in a fixed order, and an exponential with fixed bits."""

    def __init__(self, implementation: RandomFamily) -> None:
        self.implementation = implementation

    def bits(self, seed: int, first: int, count: int) -> NDArray[np.uint64]:
        """Return the random numbers first, first + 1, ... of a seed."""
        out = np.empty(validate_count("count", count, 0), dtype=np.uint64)
        self.implementation.random_bits(validate_seed(seed), validate_first(first), out)
        return out

    def uniform(self, seed: int, first: int, count: int) -> Floats:
        """Return uniforms in [0, 1)."""
        out = np.empty(validate_count("count", count, 0))
        self.implementation.random_uniform(validate_seed(seed), validate_first(first), out)
        return out

    def below(self, seed: int, first: int, count: int, bound: int) -> Ints:
        """Return integers in [0, bound)."""
        bound = validate_integer("bound", bound, 1, 2**32 - 1)
        out = np.empty(validate_count("count", count, 0), dtype=np.int64)
        self.implementation.random_below(validate_seed(seed), validate_first(first), bound, out)
        return out

    def exp(self, x: Floats) -> Floats:
        """Return the contract's exponential."""
        check_array("x", x, ("float64",), (None,))
        out = np.empty_like(x)
        self.implementation.exp(x, out)
        return out

    def dot(self, a: Floats, b: Floats) -> float:
        """Return the dot product in lanes."""
        check_array("a", a, ("float64",), (None,))
        check_array("b", b, ("float64",), (a.size,))
        return self.implementation.dot(a, b)

    def block_sum(self, a: Floats, threads: int = 1) -> float:
        """Return the sum by blocks."""
        check_array("a", a, ("float64",), (None,))
        return self.implementation.block_sum(a, validate_threads(threads))
