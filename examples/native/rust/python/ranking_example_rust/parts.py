"""The part: its parameter in Python, its functions in Rust."""

import dataclasses
from typing import ClassVar

from ranking.errors import PartError
from ranking.native import NativePairwiseLoss
from ranking_example_rust import _native


@dataclasses.dataclass
class SmoothHinge(NativePairwiseLoss):
    """The hinge, its corner rounded over a width; 0 is the hinge itself."""

    name: ClassVar[str] = "rust-smooth-hinge"

    width: float = 1.0

    def __post_init__(self):
        """Check the width."""
        if not 0.0 <= self.width < float("inf"):
            raise PartError(f"{self.name} has width={self.width!r}; it must be 0 or more.")

    def functions(self):
        """Return the capsule, with the width in its context."""
        return _native.smooth_hinge(self.width)
