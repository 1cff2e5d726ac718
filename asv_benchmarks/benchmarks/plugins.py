"""The cost of plugins: listing them, and checking a third-party part."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from ranking import Ranker
from ranking.registry.manager import Registry
from ranking.testing.common import small_matching
from ranking_plugins.losses import Hinge


@dataclasses.dataclass
class Watched(Hinge):
    """A third-party hinge in Python, whose results are checked."""

    name: ClassVar[str] = "watched"
    form: ClassVar[None] = None


class Plugins:
    """The registry, and a loss in Python, built in or third-party."""

    params = ("ours", "theirs")
    param_names = ("whose",)

    def setup(self, whose: str) -> None:
        """Make data and a loss."""
        output = type("Hinge", (Watched,), {"__module__": "ranking_plugins.losses.pairwise"})
        self.loss = output() if whose == "ours" else Watched()
        self.data = small_matching(0)

    def time_registry(self, whose: str) -> None:
        """Go over what is installed."""
        Registry()

    def time_epoch(self, whose: str) -> None:
        """Take 10,000 steps with slopes from Python, by batches of 64."""
        Ranker(
            model="bilinear", loss=self.loss, solver="sgd:max_steps=10000,learning_rate=0.1"
        ).fit(self.data)
