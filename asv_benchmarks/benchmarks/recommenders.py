"""Recommenders by linear algebra: time, memory and quality, and their loops in every kernel."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ranking import MatchingData, Ranker
from ranking.kernels.alternating import AlternatingMatrix
from ranking.kernels.contract import ItemRule, SquaredRule
from ranking.kernels.item_item import GramMatrix

from .common import KERNELS, PROFILE, kernel_or_skip
from .interactions import make_likes

SHAPE = {"fast": (1000, 600), "full": (6040, 3706)}[PROFILE]
LIKES = {"fast": 50_000, "full": 1_000_000}[PROFILE]


class Recommenders:
    params = ("graph-filter", "ials", "ease", "slim")
    param_names = ("recipe",)
    timeout = 600

    def setup(self, recipe: str) -> None:
        likes = make_likes(SHAPE, LIKES)
        self.train = MatchingData(relevance=likes.train)
        self.test = MatchingData(relevance=likes.test)

    def time_fit(self, recipe: str) -> None:
        Ranker.from_recipe(recipe).fit(self.train)

    def peakmem_fit(self, recipe: str) -> None:
        Ranker.from_recipe(recipe).fit(self.train)

    def track_ndcg(self, recipe: str) -> float:
        ranker = Ranker.from_recipe(recipe).fit(self.train)
        return ranker.score(self.test, metric="ndcg@20", exclude=self.train)

    track_ndcg.unit = "NDCG@20"


class SquaredHalfStep:
    params = (KERNELS, [64, 128], [1, 2])
    param_names = ("kernel", "width", "threads")
    timeout = 600

    def setup(self, kernel: str, width: int, threads: int) -> None:
        self.kernel = kernel_or_skip(kernel)
        likes = make_likes(SHAPE, LIKES).train
        rng = np.random.default_rng(0)
        self.matrix = AlternatingMatrix(sp.csr_array(likes, dtype=np.float32))
        self.out, self.others = (
            rng.normal(size=(rows, width), scale=0.1).astype(np.float32) for rows in likes.shape
        )
        self.gram = self.others.T @ self.others
        self.ridges = np.ones(likes.shape[0], np.float32)

    def step(self, threads: int) -> None:
        self.kernel.alternating.squared_half_step(
            self.matrix,
            self.others,
            self.gram,
            SquaredRule(1.0, 0.01, 3),
            self.ridges,
            self.out,
            threads,
        )

    def time_half_step(self, kernel: str, width: int, threads: int) -> None:
        self.step(threads)

    def peakmem_half_step(self, kernel: str, width: int, threads: int) -> None:
        self.step(threads)


class ItemColumns:
    params = (KERNELS, [1, 2])
    param_names = ("kernel", "threads")
    timeout = 600

    def setup(self, kernel: str, threads: int) -> None:
        self.kernel = kernel_or_skip(kernel)
        likes = make_likes((SHAPE[0], SHAPE[1] // 4), LIKES // 4).train.astype(np.float64)
        gram = sp.csr_array(likes.T @ likes)
        gram.sort_indices()
        self.gram, self.pattern = GramMatrix(gram), gram

    def columns(self, threads: int) -> None:
        gram = self.pattern
        parts = (np.zeros(gram.nnz), gram.indices, gram.indptr)
        candidates = sp.csr_array(parts, shape=gram.shape)
        rule = ItemRule(10.0, 100.0, True, 1e-4, 20)
        self.kernel.item_item.columns(self.gram, candidates, rule, threads)

    def time_columns(self, kernel: str, threads: int) -> None:
        self.columns(threads)

    def peakmem_columns(self, kernel: str, threads: int) -> None:
        self.columns(threads)
