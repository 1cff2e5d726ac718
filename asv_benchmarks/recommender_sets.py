"""Seven sets of interactions of different density, their splits, and quality at 20.

The files are those of $RANKING_DATA. Gowalla and the sets of IR-Benchmark come with a test part;
elsewhere a random fifth is the test part. The validation part is a random tenth of what is left to
train on. recall@20 is hits over the held-out items of a user, NDCG is binary with the ideal cut at
the number of held-out items; users without held-out items do not count.
"""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ranking import MatchingData, Ranker

Ints: TypeAlias = NDArray[np.int64]
Pairs: TypeAlias = tuple[Ints, Ints]
K = 20
USERS_AT_A_TIME = 512


class Parts(NamedTuple):
    """What a model is trained on, and what is held out from it, as matrices of 0 and 1."""

    train: sp.csr_array
    held_out: sp.csr_array


def _gowalla(folder: Path) -> tuple[Pairs, Pairs | None]:
    def read(name: str) -> Pairs:
        users, items = [], []
        with gzip.open(folder / "gowalla_lightgcn" / name, "rt") as lines:
            for line in lines:
                user, *rest = map(int, line.split())
                users += [user] * len(rest)
                items += rest
        return np.array(users), np.array(items)

    return read("train.txt.gz"), read("test.txt.gz")


def _irbench(name: str) -> Callable[[Path], tuple[Pairs, Pairs | None]]:
    def read(folder: Path) -> tuple[Pairs, Pairs | None]:
        parts = []
        with zipfile.ZipFile(folder / "irbench" / name) as archive:
            for part in ("train.tsv", "test.tsv"):
                with archive.open(part) as lines:
                    parts.append(np.loadtxt(lines, dtype=np.int64, skiprows=1, usecols=(0, 1)).T)
        return (parts[0][0], parts[0][1]), (parts[1][0], parts[1][1])

    return read


def _movielens100k(folder: Path) -> tuple[Pairs, Pairs | None]:
    with gzip.open(folder / "movielens100k" / "ml-100k.inter.gz", "rt") as lines:
        users, items, ratings = np.loadtxt(lines, skiprows=1, usecols=(0, 1, 2)).astype(int).T
    return (users[ratings > 3], items[ratings > 3]), None


def _lastfm(folder: Path) -> tuple[Pairs, Pairs | None]:
    with gzip.open(folder / "lastfm_hetrec2011" / "user_artists.dat.gz", "rt") as lines:
        users, items = np.loadtxt(lines, dtype=np.int64, skiprows=1, usecols=(0, 1)).T
    return (users, np.unique(items, return_inverse=True)[1]), None


def _citeulike(folder: Path) -> tuple[Pairs, Pairs | None]:
    users, items = [], []
    with gzip.open(folder / "citeulike_a" / "users.dat.gz", "rt") as lines:
        for user, line in enumerate(lines):
            rest = list(map(int, line.split()))[1:]
            users += [user] * len(rest)
            items += rest
    return (np.array(users), np.array(items)), None


SETS: dict[str, Callable[[Path], tuple[Pairs, Pairs | None]]] = {
    "movielens100k": _movielens100k,
    "movielens1m": _irbench("movielens-1m.zip"),
    "lastfm": _lastfm,
    "citeulike": _citeulike,
    "gowalla": _gowalla,
    "health": _irbench("amazon2014-health.zip"),
    "electronic": _irbench("amazon2014-electronic.zip"),
}
"""Every set; MovieLens 1M, Health and Electronic are those of IR-Benchmark."""


def read_set(name: str, folder: Path, *, validate: bool) -> Parts:
    """Return the training and test parts; or, to validate, two parts of the training part."""
    train, test = SETS[name](folder / "interactions")
    every = [train] if test is None else [train, test]
    shape = tuple(1 + max(int(pairs[side].max()) for pairs in every) for side in (0, 1))
    known = _matrix(train, shape)
    parts = Parts(known, _matrix(test, shape)) if test is not None else _split(known, 0.2, 0)
    return _split(parts.train, 0.1, 1) if validate else parts


def _matrix(pairs: Pairs, shape: tuple[int, ...]) -> sp.csr_array:
    matrix = sp.csr_array((np.ones(pairs[0].size), pairs), shape=shape)
    matrix.data[:] = 1.0
    return matrix


def _split(matrix: sp.csr_array, share: float, seed: int) -> Parts:
    mask = np.random.default_rng(seed).random(matrix.nnz) < share
    entries = matrix.tocoo()
    train, held_out = (
        _matrix((entries.row[part], entries.col[part]), matrix.shape) for part in (~mask, mask)
    )
    return Parts(train, held_out)


def matching_data(matrix: sp.csr_array) -> MatchingData:
    """Return users and items without features."""
    return MatchingData(None, None, matrix)


def quality(
    ranker: Ranker, data: MatchingData, parts: Parts, n_users: int | None = None
) -> tuple[float, float]:
    """Return recall@20 and NDCG@20, of all users or of a random number of them."""
    users = np.flatnonzero(np.diff(parts.held_out.indptr))
    if n_users is not None and users.size > n_users:
        users = np.sort(np.random.default_rng(2).choice(users, n_users, replace=False))
    kernel, model = ranker.kernel_, ranker.model_
    queries, documents, biases = model.embedding(data, kernel)
    known = parts.train[users]
    exclusions = known.indptr.astype(np.int64), known.indices.astype(np.int64)
    queries = np.ascontiguousarray(queries[users])
    best = kernel.factored.top_k(queries, documents, biases, K, exclusions).documents
    return at_20(best, parts.held_out[users])


def at_20(best: Ints, held_out: sp.csr_array) -> tuple[float, float]:
    """Return recall@20 and NDCG@20 of the best documents of some users."""
    discounts = 1.0 / np.log2(np.arange(2, K + 2))
    recall, ndcg, n_held = [], [], np.diff(held_out.indptr)
    for start in range(0, best.shape[0], USERS_AT_A_TIME):
        rows = slice(start, start + USERS_AT_A_TIME)
        dense = held_out[start : start + USERS_AT_A_TIME].toarray()
        hits = np.take_along_axis(dense, best[rows], axis=1)
        recall.append(hits.sum(axis=1) / n_held[rows])
        ideal = np.cumsum(discounts)[np.minimum(n_held[rows], K) - 1]
        ndcg.append((hits @ discounts) / ideal)
    return float(np.concatenate(recall).mean()), float(np.concatenate(ndcg).mean())
