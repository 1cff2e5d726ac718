"""An epoch with a third-party hinge, native or in Python, next to the built-in one."""

from __future__ import annotations

import dataclasses
import importlib
import time
from typing import Any, ClassVar

import numpy as np

from ranking import MatchingData, Ranker
from ranking.contracts.callback import Callback
from ranking.contracts.loss import Loss
from ranking.kernels.kernel import Kernel
from ranking_plugins.losses import Hinge

from .common import KERNELS, PROFILE, kernel_or_skip
from .interactions import K, Likes, make_likes, recall

SHAPE, N_LIKES = {"fast": ((600, 400), 20_000), "full": ((6040, 3706), 1_000_000)}[PROFILE]
WAYS = ("cython", "cffi", "rust", "numba")
EPOCHS = 3


@dataclasses.dataclass
class PythonHinge(Hinge):
    """The hinge in Python, evaluated by batches."""

    name: ClassVar[str] = "python-hinge"
    form: ClassVar[None] = None


def make_loss(way: str) -> Loss:
    """Return the hinge in one of the ways; a native one is an example that is installed."""
    if way == "built-in":
        return Hinge()
    if way == "python":
        return PythonHinge()
    try:
        parts = importlib.import_module(f"ranking_example_{way}.parts")
    except ImportError as error:
        raise NotImplementedError(f"pip install ./examples/native/{way}: {error}") from error
    output: Loss = parts.SmoothHinge(width=0.0)
    return output


class Clock(Callback):
    """Notes when each epoch ends."""

    name: ClassVar[str] = "clock"

    def on_fit_begin(self, run: Any) -> None:
        self.times = [time.perf_counter()]

    def on_epoch_end(self, run: Any, result: Any) -> bool:
        self.times.append(time.perf_counter())
        return False


def train(
    kernel: Kernel, data: MatchingData, way: str, model: str, epochs: int, steps: int
) -> tuple[list[float], Ranker]:
    """Return the seconds of each epoch on one thread, and the trained model."""
    clock = Clock()
    solver = f"sgd:max_steps={epochs * steps},steps_per_epoch={steps}"
    ranker = Ranker(
        model=model, loss=make_loss(way), solver=solver, kernel=kernel, callbacks=[clock]
    ).fit(data)
    return np.diff(clock.times).tolist(), ranker


def matching_of(likes: Likes) -> MatchingData:
    """Return likes as a ranker takes them."""
    return MatchingData(None, None, likes.train)


class Native:
    params = (KERNELS, ["built-in", *WAYS, "python"])
    param_names = ("kernel", "loss")
    timeout = 600

    def setup(self, kernel: str, way: str) -> None:
        self.kernel = kernel_or_skip(kernel)
        make_loss(way)
        self.likes = make_likes(SHAPE, N_LIKES)
        self.data = matching_of(self.likes)

    def fit(self, way: str) -> Ranker:
        return train(self.kernel, self.data, way, "factored:dimensions=64", EPOCHS, N_LIKES)[1]

    def time_epochs(self, kernel: str, way: str) -> None:
        self.fit(way)

    def peakmem_epochs(self, kernel: str, way: str) -> None:
        self.fit(way)

    def track_recall(self, kernel: str, way: str) -> float:
        return recall(self.fit(way), self.likes)

    track_recall.unit = f"recall@{K}"
