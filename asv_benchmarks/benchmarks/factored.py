"""Stepping U and V by WARP, and scoring with them, every kernel side by side."""

from __future__ import annotations

from ranking import MatchingData, Ranker

from .common import KERNELS, PROFILE, kernel_or_skip
from .interactions import K, Warp, make_likes, precision_of, recall

SHAPE, N_LIKES = {"fast": ((600, 400), 20_000), "full": ((6040, 3706), 1_000_000)}[PROFILE]
EPOCHS = 10


class Factored:
    params = (KERNELS, [32, 128], [False, True], [1, 2])
    param_names = ("kernel", "width", "features", "threads")
    timeout = 600

    def setup(self, kernel: str, width: int, features: bool, threads: int) -> None:
        self.likes = make_likes(SHAPE, N_LIKES)
        self.warp = Warp(kernel_or_skip(kernel), self.likes, width, features)
        self.sampler = self.warp.sampler(0)

    def time_epoch(self, kernel: str, width: int, features: bool, threads: int) -> None:
        self.warp.step(self.sampler, threads)

    def peakmem_epoch(self, kernel: str, width: int, features: bool, threads: int) -> None:
        self.warp.step(self.sampler, threads)

    def track_precision(self, kernel: str, width: int, features: bool, threads: int) -> float:
        for epoch in range(EPOCHS):
            self.warp.step(self.warp.sampler(epoch), threads)
        return precision_of(self.warp.top(), self.likes)

    track_precision.unit = "precision@10"


class FactoredScores:
    params = (KERNELS, [32, 128])
    param_names = ("kernel", "width")

    def setup(self, kernel: str, width: int) -> None:
        self.warp = Warp(kernel_or_skip(kernel), make_likes(SHAPE, N_LIKES), width, False)

    def time_scores(self, kernel: str, width: int) -> None:
        self.warp.scores()

    def time_top(self, kernel: str, width: int) -> None:
        self.warp.top()


class FactoredFit:
    """A whole training by each loss, through the ranker: in epochs as the solver chooses them."""

    params = (KERNELS, ["warp", "bpr", "auc", "kos-warp", "domination"])
    param_names = ("kernel", "loss")
    timeout = 900

    def setup(self, kernel: str, loss: str) -> None:
        self.likes = make_likes(SHAPE, N_LIKES)
        self.data = MatchingData(None, None, self.likes.train)
        self.ranker = Ranker("factored:dimensions=32", loss, kernel=kernel_or_skip(kernel))

    def time_fit(self, kernel: str, loss: str) -> None:
        self.ranker.fit(self.data)

    def peakmem_fit(self, kernel: str, loss: str) -> None:
        self.ranker.fit(self.data)

    def track_recall(self, kernel: str, loss: str) -> float:
        return recall(self.ranker.fit(self.data), self.likes)

    track_recall.unit = f"recall@{K}"
