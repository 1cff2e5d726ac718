"""The parts: parameters in Python, functions in `_native.pyx`."""

import dataclasses
from typing import ClassVar

from ranking.errors import PartError
from ranking.native import NativeBoundedRowRegularizer, NativePairwiseLoss
from ranking_example_cython import _native


@dataclasses.dataclass
class SmoothHinge(NativePairwiseLoss):
    """The hinge, its corner rounded over a width; 0 is the hinge itself."""

    name: ClassVar[str] = "cython-smooth-hinge"

    width: float = 1.0

    def __post_init__(self):
        """Check the width."""
        if not 0.0 <= self.width < float("inf"):
            raise PartError(f"{self.name} has width={self.width!r}; it must be 0 or more.")

    def functions(self):
        """Return the capsule, with the width in its context."""
        return _native.smooth_hinge(self.width)


@dataclasses.dataclass
class Box(NativeBoundedRowRegularizer):
    """The constraint ``|entry| <= limit``."""

    name: ClassVar[str] = "cython-box"

    limit: float = 1.0

    def __post_init__(self):
        """Check the limit."""
        if not 0.0 < self.limit < float("inf"):
            raise PartError(f"{self.name} has limit={self.limit!r}; it must be above 0.")

    def functions(self):
        """Return the capsule, with the limit in its context."""
        return _native.box(self.limit)
