"""Training a stage that looks at lists, finding the best documents, every kernel side by side."""

from __future__ import annotations

import numpy as np

from ranking import MatchingData, Ranker
from ranking.inference.retrieval import top_k

from .common import KERNELS, PROFILE, kernel_or_skip
from .interactions import K, Likes, make_likes, recall

SHAPE, N_LIKES = {"fast": ((600, 400), 20_000), "full": ((6040, 3706), 1_000_000)}[PROFILE]
LIST = 20


def fitted(kernel: str, likes: Likes, threads: int, model: str, loss: str = "warp") -> Ranker:
    """A model after the epochs that it takes by itself."""
    kernel_or_skip(kernel)
    ranker = Ranker(model=model, loss=loss, kernel=kernel, threads=threads)
    return ranker.fit(MatchingData(None, None, likes.train))


class Structured:
    """Stage 0 and one later stage: time, memory and quality."""

    params = (KERNELS, [32], [1, 2])
    param_names = ("kernel", "dimensions", "threads")
    timeout = 900

    def setup(self, kernel: str, dimensions: int, threads: int) -> None:
        kernel_or_skip(kernel)
        self.likes = make_likes(SHAPE, N_LIKES)

    def fit(self, kernel: str, dimensions: int, threads: int) -> Ranker:
        model = f"structured:dimensions={dimensions},stages=1,k={LIST}"
        return fitted(kernel, self.likes, threads, model)

    def time_fit(self, kernel: str, dimensions: int, threads: int) -> None:
        self.fit(kernel, dimensions, threads)

    def peakmem_fit(self, kernel: str, dimensions: int, threads: int) -> None:
        self.fit(kernel, dimensions, threads)

    def track_recall(self, kernel: str, dimensions: int, threads: int) -> float:
        return recall(self.fit(kernel, dimensions, threads), self.likes)

    track_recall.unit = f"recall@{K}"


class Labels:
    """Labels of examples with features, of which some go together: a stage by each of its ways."""

    params = (KERNELS, ["folds=0", "folds=5", "folds=5,init=previous-stage"])
    param_names = ("kernel", "way")
    timeout = 900

    def setup(self, kernel: str, way: str) -> None:
        kernel_or_skip(kernel)
        rng = np.random.default_rng(0)
        topics = rng.random((1000, 6)) ** 8
        features = topics @ rng.random((6, 30)) + 0.3 * rng.random((1000, 30))
        chances = topics @ rng.random((6, 80)) ** 8
        labels = chances * rng.random((1000, 80)) > 0.15
        self.train, self.test = (
            MatchingData(features[some], None, labels[some].astype(float))
            for some in (slice(800), slice(800, 1000))
        )

    def fit(self, kernel: str, way: str) -> Ranker:
        model = f"structured:dimensions=16,k={LIST},{way}"
        return Ranker(model, "warp", "max-norm:limit=1.5", kernel=kernel).fit(self.train)

    def time_fit(self, kernel: str, way: str) -> None:
        self.fit(kernel, way)

    def peakmem_fit(self, kernel: str, way: str) -> None:
        self.fit(kernel, way)

    def track_map(self, kernel: str, way: str) -> float:
        return float(self.fit(kernel, way).score(self.test, metric="map(empty=skip)"))

    track_map.unit = "MAP"


class Top:
    """Top-k retrieval for all users without their training items, and similar items."""

    params = (KERNELS, [32, 128], [1, 2])
    param_names = ("kernel", "dimensions", "threads")
    timeout = 600

    def setup(self, kernel: str, dimensions: int, threads: int) -> None:
        likes = make_likes(SHAPE, N_LIKES)
        self.data = MatchingData(None, None, likes.train)
        self.kernel = kernel_or_skip(kernel)
        pointers, items = likes.train.indptr, likes.train.indices
        self.known = (pointers.astype(np.int64), items.astype(np.int64))
        ranker = Ranker(
            model=f"factored:dimensions={dimensions}",
            loss="auc",
            solver="sgd:max_steps=0",
            kernel=self.kernel,
            threads=threads,
        )
        self.ranker = ranker.fit(self.data)

    def best(self, threads: int) -> None:
        result = top_k(
            self.ranker.model_, self.data, K, self.kernel, threads, exclusions=self.known
        )
        for _ in result:
            pass

    def time_top(self, kernel: str, dimensions: int, threads: int) -> None:
        self.best(threads)

    def peakmem_top(self, kernel: str, dimensions: int, threads: int) -> None:
        self.best(threads)

    def time_similar(self, kernel: str, dimensions: int, threads: int) -> None:
        for _ in self.ranker.similar(self.data, K):
            pass


class NewUsers:
    """Fold-in of a hundred new users with ten positives each."""

    params = (KERNELS,)
    param_names = ("kernel",)
    timeout = 600

    def setup(self, kernel: str) -> None:
        likes = make_likes(SHAPE, N_LIKES)
        self.data = MatchingData(None, None, likes.train)
        self.ranker = fitted(kernel, likes, 1, "factored:dimensions=32")
        users = np.flatnonzero(np.diff(likes.train.indptr) >= 10)[:100]
        rows, self.liked = likes.train[users], (likes.train + likes.test)[users].toarray()
        self.matches = [rows.indices[start : start + 10].tolist() for start in rows.indptr[:-1]]

    def time_fold_in(self, kernel: str) -> None:
        self.ranker.fold_in(self.data, self.matches, K).collect()

    def peakmem_fold_in(self, kernel: str) -> None:
        self.ranker.fold_in(self.data, self.matches, K).collect()

    def track_precision(self, kernel: str) -> float:
        best = self.ranker.fold_in(self.data, self.matches, K)
        hits = [self.liked[user, item] for user, row in best for item, _ in row]
        return float(np.mean(hits))

    track_precision.unit = f"precision@{K}"
