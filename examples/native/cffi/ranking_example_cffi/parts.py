"""The part: its parameter in Python, its functions in C."""

import dataclasses
from typing import ClassVar

from ranking.errors import PartError
from ranking.native import NativePairwiseLoss, PairwiseFunctions
from ranking_example_cffi._native import ffi, lib


@dataclasses.dataclass
class SmoothHinge(NativePairwiseLoss):
    """The hinge, its corner rounded over a width; 0 is the hinge itself."""

    name: ClassVar[str] = "cffi-smooth-hinge"

    width: float = 1.0

    def __post_init__(self):
        """Check the width."""
        if not 0.0 <= self.width < float("inf"):
            raise PartError(f"{self.name} has width={self.width!r}; it must be 0 or more.")

    def functions(self):
        """Return the addresses, and keep the context that lies at one of them."""
        width = ffi.new("double *", self.width)
        return PairwiseFunctions.from_addresses(
            value=address(ffi.addressof(lib, "smooth_value")),
            slope=address(ffi.addressof(lib, "smooth_slope")),
            context=address(width),
            keep=(width,),
        )


def address(pointer):
    """Return a pointer of cffi as a number."""
    return int(ffi.cast("uintptr_t", pointer))
