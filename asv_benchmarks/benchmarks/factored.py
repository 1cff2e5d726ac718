"""Stepping U and V by WARP, and scoring with them, every kernel side by side."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ranking import MatchingData, Ranker
from ranking.kernels.contract import SharedLists
from ranking.kernels.shared_lists import SharedTrainingLoss, no_exclusions

from .common import KERNELS, PROFILE, kernel_or_skip
from .interactions import K, Warp, make_likes, precision_of, recall

SHAPE, N_LIKES = {"fast": ((600, 400), 20_000), "full": ((6040, 3706), 1_000_000)}[PROFILE]
EPOCHS = 10
POSITIVES = 1024
"""Of a block that share negatives."""


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


class SharedNegatives:
    """Positives that share their negatives: a block's products, and a training by the softmax."""

    params = (KERNELS, [256, 1024], [1, 2])
    param_names = ("kernel", "negatives", "threads")
    timeout = 900

    def setup(self, kernel: str, negatives: int, threads: int) -> None:
        rng, self.kernel = np.random.default_rng(0), kernel_or_skip(kernel)

        def unit(count: int) -> NDArray[np.float32]:
            rows = rng.normal(size=(count, 64))
            return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)

        none, others = np.zeros(POSITIVES, np.float32), np.zeros(negatives, np.float32)
        self.lists = SharedLists(
            unit(POSITIVES),
            unit(POSITIVES),
            unit(negatives),
            none,
            others,
            none + 1.0,
            no_exclusions(POSITIVES),
        )
        self.loss = SharedTrainingLoss(scale=10.0)
        self.likes = make_likes(SHAPE, N_LIKES)
        self.data = MatchingData(None, None, self.likes.train)
        self.ranker = Ranker(
            "factored:dimensions=32,score=cosine,biases=false",
            "softmax:temperature=0.2",
            solver=f"sgd:n_negatives={negatives}",
            kernel=self.kernel,
            threads=threads,
        )

    def time_block(self, kernel: str, negatives: int, threads: int) -> None:
        self.kernel.shared_lists.gradients(self.lists, self.loss, threads)

    def time_block_by_numpy(self, kernel: str, negatives: int, threads: int) -> None:
        queries, positives, others = self.lists[:3]
        with threadpool_limits(threads):
            scores, own = 10.0 * queries @ others.T, 10.0 * (queries * positives).sum(axis=1)
            top = np.maximum(scores.max(axis=1), own)
            shares = np.exp(scores - top[:, None])
            shares /= (shares.sum(axis=1) + np.exp(own - top))[:, None]
            _ = shares @ others, shares.T @ queries

    def peakmem_fit(self, kernel: str, negatives: int, threads: int) -> None:
        self.ranker.fit(self.data)

    def track_recall(self, kernel: str, negatives: int, threads: int) -> float:
        return recall(self.ranker.fit(self.data), self.likes)

    track_recall.unit = f"recall@{K}"


class SoftmaxAtK:
    """A training whose thresholds, the k-th largest scores, are computed again in each epoch."""

    params = (KERNELS, [1, 2])
    param_names = ("kernel", "threads")
    timeout = 900

    def setup(self, kernel: str, threads: int) -> None:
        self.likes = make_likes(SHAPE, N_LIKES)
        self.data = MatchingData(None, None, self.likes.train)
        self.ranker = Ranker(
            "factored:dimensions=32,score=cosine,biases=false",
            "softmax-at-k:temperature=0.2,refresh=1",
            solver="sgd:n_negatives=256,epochs=2",
            kernel=kernel_or_skip(kernel),
            threads=threads,
        )

    def time_fit(self, kernel: str, threads: int) -> None:
        self.ranker.fit(self.data)

    def track_recall(self, kernel: str, threads: int) -> float:
        return recall(self.ranker.fit(self.data), self.likes)

    track_recall.unit = f"recall@{K}"


class SharedHistories:
    """A training whose users have the mean embedding of their items."""

    params = (KERNELS, ["ignored", "mean", "mean-only"], [1, 2])
    param_names = ("kernel", "history", "threads")
    timeout = 900

    def setup(self, kernel: str, history: str, threads: int) -> None:
        self.likes = make_likes(SHAPE, N_LIKES)
        self.data = MatchingData(None, None, self.likes.train)
        self.ranker = Ranker(
            f"factored:dimensions=32,score=cosine,biases=false,history={history}",
            "softmax:temperature=0.2",
            solver="sgd:n_negatives=256,epochs=2,batch_size=4096",
            kernel=kernel_or_skip(kernel),
            threads=threads,
        )

    def time_fit(self, kernel: str, history: str, threads: int) -> None:
        self.ranker.fit(self.data)

    def peakmem_fit(self, kernel: str, history: str, threads: int) -> None:
        self.ranker.fit(self.data)

    def track_recall(self, kernel: str, history: str, threads: int) -> float:
        return recall(self.ranker.fit(self.data), self.likes)

    track_recall.unit = f"recall@{K}"
