"""Interactions: MovieLens 1M if it is available, else synthetic data of its shape."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ranking import MatchingData, Ranker
from ranking.kernels.contract import Execution, PairwiseForm, RowPenalty
from ranking.kernels.factored import FactoredInputs, FactoredWeights
from ranking.kernels.kernel import Kernel
from ranking.kernels.pairwise import TrainingLoss
from ranking.kernels.sampling import PositiveLists, TripletSampler
from ranking_plugins.solvers.factored_steps import BLOCK, BLOCKS, FEATURE_BLOCK, FEATURE_BLOCKS

SHAPE = (6040, 3706)
SIDE = 200
"""How many features there are besides a row's own."""
K = 10
TRIALS = 10
RATE = 0.05


class Likes(NamedTuple):
    """Likes to train on and others to test with, as 0 and 1."""

    name: str
    train: sp.csr_array
    test: sp.csr_array


def split_likes(name: str, likes: sp.coo_array, seed: int = 0) -> Likes:
    """Keep a fifth of the likes to test with."""
    mask = np.random.default_rng(seed).random(likes.nnz) < 0.8
    ones = np.ones(likes.nnz, np.float32)
    parts = [
        sp.csr_array((ones[part], (likes.row[part], likes.col[part])), shape=likes.shape)
        for part in (mask, ~mask)
    ]
    return Likes(name, parts[0], parts[1])


def make_likes(shape: tuple[int, int] = SHAPE, n_likes: int = 1_000_000, seed: int = 0) -> Likes:
    """Likes by tastes of 8 dimensions, and by popularity."""
    rng = np.random.default_rng(seed)
    tastes, kinds = rng.normal(size=(shape[0], 8)), rng.normal(size=(shape[1], 8))
    liked = tastes @ kinds.T + 2.0 * np.log(rng.random(shape[1]) + 0.01)
    liked += rng.gumbel(size=shape)
    bar = np.partition(liked.ravel(), liked.size - n_likes)[liked.size - n_likes]
    return split_likes("synthetic likes", sp.coo_array(liked >= bar), seed)


def read_likes() -> Likes:
    """Return MovieLens 1M from $RANKING_DATA, or synthetic likes."""
    folder = Path(os.environ.get("RANKING_DATA", "none")) / "interactions" / "movielens1m"
    path = folder / "ml-1m.train.rating.gz"
    if not path.exists():
        return make_likes()
    with gzip.open(path, "rt") as lines:
        pairs = np.loadtxt(lines, dtype=np.int64, usecols=(0, 1))
    ones = np.ones(pairs.shape[0], np.float32)
    return split_likes(
        "MovieLens 1M", sp.coo_array((ones, (pairs[:, 0], pairs[:, 1])), shape=SHAPE)
    )


def make_features(n_objects: int, seed: int, per_object: int = 12) -> sp.csr_array:
    """Return indicator features and features shared by many rows."""
    rng = np.random.default_rng(seed)
    side = sp.csr_array(
        (
            np.ones(n_objects * (per_object - 1), np.float32),
            np.argsort(rng.random((n_objects, SIDE)), axis=1)[:, : per_object - 1].ravel(),
            np.arange(n_objects + 1) * (per_object - 1),
        ),
        shape=(n_objects, SIDE),
    )
    output = sp.csr_array(sp.hstack([sp.eye_array(n_objects, dtype=np.float32), side]))
    output.data /= np.float32(per_object)
    output.sort_indices()
    output.indptr, output.indices = output.indptr.astype(np.int32), output.indices.astype(np.int32)
    return output


def lists_of(likes: sp.csr_array) -> PositiveLists:
    """Return the positives of each user; users are sampled in proportion to their number."""
    likes.sort_indices()
    sizes = np.diff(likes.indptr).astype(np.int64)
    return PositiveLists(
        queries=np.flatnonzero(sizes),
        list_of=np.arange(likes.shape[0]),
        member_ptr=likes.indptr.astype(np.int64),
        members=likes.indices.astype(np.int64),
        own_document=np.full(likes.shape[0], -1),
        n_documents=likes.shape[1],
        query_sums=np.cumsum(sizes[sizes > 0]),
    )


class Warp:
    """WARP as LightFM has it: at most ten trials, adagrad, the logarithm of the rank.

    Users are sampled as often as they like something, so that an epoch is a pass over the likes.
    """

    def __init__(
        self,
        kernel: Kernel,
        likes: Likes,
        width: int,
        features: bool,
        block: int = 0,
        seed: int = 0,
    ) -> None:
        self.kernel, self.likes, self.lists = kernel, likes, lists_of(likes.train)
        self.seed = seed
        most, blocks = (FEATURE_BLOCK, FEATURE_BLOCKS) if features else (BLOCK, BLOCKS)
        self.block = block or max(1, min(most, likes.train.nnz // blocks))
        sides = [make_features(n, at) for at, n in enumerate(likes.train.shape)]
        self.sides = sides if features else list(likes.train.shape)
        self.inputs = FactoredInputs(*self.sides)
        self.output = self.make_weights(width)
        ranks = np.arange(likes.train.shape[1], dtype=np.float64)
        self.rank_weights = np.log(np.maximum(ranks, 1.0)).astype(np.float32)

    def make_weights(self, width: int) -> FactoredWeights:
        """Return weights to begin with."""
        rng = np.random.default_rng(self.seed)
        U, V = (
            ((rng.random((n, width)) - 0.5) / width).astype(np.float32)
            for n in (self.inputs.n_query_features, self.inputs.n_document_features)
        )
        no_contexts, biases = np.zeros((0, width), np.float32), np.zeros(V.shape[0], np.float32)
        return FactoredWeights(self.kernel, (U, V, no_contexts, biases), adagrad=True)

    def sampler(self, epoch: int, n: int = 0) -> TripletSampler:
        """Return an epoch's triplets: as many as there are likes."""
        n = n or self.likes.train.nnz
        return TripletSampler(self.lists, 1 + self.seed, epoch * n, n, TRIALS)

    def step(
        self, sampler: TripletSampler, threads: int = 1, hogwild: bool = False
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Take an epoch's steps."""
        return self.output.train(
            self.inputs,
            sampler,
            np.full(sampler.count, RATE, np.float32),
            loss=TrainingLoss(rank_weights=self.rank_weights),
            execution=Execution(self.block, hogwild, threads),
        )

    def embeddings(self) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
        """Return the embeddings of users and films, and the films' biases."""
        U, V, _, biases = self.output.factors
        Q, D = (
            self.kernel.factored.embeddings(side, rows)
            for side, rows in zip(self.sides, (U, V), strict=True)
        )
        if isinstance(self.sides[1], sp.csr_array):
            biases = self.sides[1] @ biases
        return Q, D, biases

    def scores(self) -> NDArray[np.float32]:
        """Return the score of every user and film."""
        return self.kernel.factored.scores(*self.embeddings())

    def top(self, k: int = 10, threads: int = 1) -> NDArray[np.int64]:
        """Return the best films of every user, those to train on left out."""
        train = self.likes.train
        excluded = (train.indptr.astype(np.int64), train.indices.astype(np.int64))
        return self.kernel.factored.top_k(*self.embeddings(), k, excluded, threads)[0]


class Bpr(Warp):
    """BPR as implicit has it: one trial, a fixed rate, no biases."""

    def make_weights(self, width: int) -> FactoredWeights:
        """Return weights to begin with."""
        rng = np.random.default_rng(self.seed)
        U, V = (
            (0.1 * rng.normal(size=(n, width)) / np.sqrt(width)).astype(np.float32)
            for n in (self.inputs.n_query_features, self.inputs.n_document_features)
        )
        empty = np.zeros((0, width), np.float32), np.zeros(0, np.float32)
        return FactoredWeights(self.kernel, (U, V, *empty))

    def sampler(self, epoch: int, n: int = 0) -> TripletSampler:
        """Return an epoch's triplets, with one negative each."""
        n = n or self.likes.train.nnz
        return TripletSampler(self.lists, 1 + self.seed, epoch * n, n)

    def step(
        self, sampler: TripletSampler, threads: int = 1, hogwild: bool = False
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Take an epoch's steps."""
        return self.output.train(
            self.inputs,
            sampler,
            np.full(sampler.count, RATE, np.float32),
            loss=TrainingLoss(PairwiseForm.LOGISTIC),
            penalty=RowPenalty(1.0),
            execution=Execution(self.block, hogwild, threads),
        )


def precision_of(best: NDArray[np.int64], likes: Likes) -> float:
    """Return the share of films that a user likes, of those found, on the test likes."""
    users = np.flatnonzero(np.diff(likes.test.indptr))
    hits = likes.test.toarray()[users[:, None], best[users]]
    return float(hits.mean())


def precision(result: NDArray[np.float32], likes: Likes, k: int = 10) -> float:
    """Return precision@k on the test likes, those to train on left out."""
    result = result.copy()
    result[likes.train.nonzero()] = -np.inf
    return precision_of(np.argpartition(-result, k, axis=1)[:, :k], likes)


def recall(ranker: Ranker, likes: Likes) -> float:
    """Recall at K of the test likes, those to train on left out."""
    train, test = (MatchingData(None, None, part) for part in (likes.train, likes.test))
    return ranker.score(test, exclude=train, metric=f"recall@{K}(empty=skip)")
