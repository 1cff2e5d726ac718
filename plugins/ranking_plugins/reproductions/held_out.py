"""Held-out positives and their recall: the protocol of the tables of LaSR."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ranking.contracts.model import MatchingModel
from ranking.data.exclusions import Pairs
from ranking.data.matching_data import MatchingData
from ranking.data.readers.read import read_any
from ranking.errors import DataError
from ranking.inference.retrieval import top_k
from ranking.kernels.kernel import Kernel

Ints = NDArray[np.int64]

CUTS = (5, 10, 30, 50)

TRAIN, VALID, TEST = range(3)


class Split(NamedTuple):
    """Data in three parts, over the same queries and documents.

    Attributes
    ----------
    exclusions : pair of int64 arrays or None
        Known documents of each query, which are excluded from its list.
    """

    train: MatchingData
    valid: MatchingData
    test: MatchingData
    exclusions: Pairs | None = None


class Successions(NamedTuple):
    """Consecutive items of users: a query, and the next item."""

    users: Ints
    queries: Ints
    items: Ints
    n_items: int


def read_successions(folder: Path, n_users: int | None = None) -> Successions:
    """Read the ratings of MovieLens 1M; two consecutive ones of a user are a pair.

    The ratings of a user are ordered by time, simultaneous ones as in the files, the training file
    first.

    Parameters
    ----------
    n_users : int, optional
        Use only the first users.
    """
    names = ("ml-1m.train.rating.gz", "ml-1m.test.rating.gz")
    table = np.concatenate([_numbers(folder / "movielens1m" / name) for name in names])
    user, item, _, moment = table.T
    order = np.lexsort((np.arange(user.size), moment, user))
    user, item = user[order], item[order]
    if n_users is not None:
        selected = user <= np.unique(user)[:n_users].max()
        user, item = user[selected], item[selected]
    _, item = np.unique(item, return_inverse=True)
    same = user[1:] == user[:-1]
    return Successions(user[1:][same], item[:-1][same], item[1:][same], int(item.max()) + 1)


def split_users(pairs: Successions, seed: int) -> Split:
    """Hold out one random user in five for testing and one in ten for validation."""
    users, position = np.unique(pairs.users, return_inverse=True)
    parts = _random_parts(users.size, seed)[position]
    shape = (pairs.n_items, pairs.n_items)
    splits = []
    for part in (TRAIN, VALID, TEST):
        selected = parts == part
        positions = (pairs.queries[selected], pairs.items[selected])
        counts = sparse.coo_array((np.ones(positions[0].size), positions), shape=shape).tocsr()
        splits.append(MatchingData(None, None, counts))
    return Split(splits[TRAIN], splits[VALID], splits[TEST])


def read_listeners(folder: Path, n_users: int | None = None) -> MatchingData:
    """Read users and artists of Last.fm; frequencies are ignored."""
    path = folder / "lastfm_hetrec2011" / "user_artists.dat.gz"
    user, artist, _ = _numbers(path, header=True).T
    if n_users is not None:
        selected = user <= np.unique(user)[:n_users].max()
        user, artist = user[selected], artist[selected]
    return MatchingData.from_interactions(user, artist)


def split_positives(data: MatchingData, seed: int) -> Split:
    """Hold out one positive in five for testing and one in ten for validation.

    Lists exclude the training positives.
    """
    parts = _random_parts(data.relevance.nnz, seed)
    train, valid, test = (data.keep_entries(parts == part) for part in (TRAIN, VALID, TEST))
    known = train.relevance
    return Split(
        train, valid, test, (known.indptr.astype(np.int64), known.indices.astype(np.int64))
    )


def split_examples(data: MatchingData, seed: int) -> Split:
    """Hold out one query in ten for validation, for every seed, and a random one in five to test.

    So the data on which settings were selected are never test data.
    """
    order = np.random.default_rng(0).permutation(data.n_queries)
    valid, others = order[: order.size // 10], order[order.size // 10 :]
    others = np.random.default_rng([1, seed]).permutation(others)
    test, train = others[: order.size // 5], others[order.size // 5 :]
    trains, validates, tests = (data.select(np.sort(part)) for part in (train, valid, test))
    return Split(trains, validates, tests)


def read_likes(
    folder: Path, seed: int, *, features: bool = False, validate: bool = False
) -> tuple[MatchingData, MatchingData]:
    """Read MovieLens 100K; ten random ratings of each user are for testing.

    Ratings of 4 and 5 are positives, as in the tests of LightFM.

    Parameters
    ----------
    features : bool
        Whether users have age, gender and occupation and films have genres, besides their
        indicators; else only indicators.
    validate : bool
        Whether to leave those ten out and to test with ten others, to choose settings.
    """
    path = folder / "movielens100k" / "ml-100k.inter.gz"
    _refuse_missing(path)
    data = read_any(path)
    assert isinstance(data, MatchingData)
    ratings = data.relevance
    # The random position of a rating among those of its user.
    user = np.repeat(np.arange(data.n_queries), np.diff(ratings.indptr))
    order = np.lexsort((np.random.default_rng(seed).random(user.size), user))
    position = np.empty(user.size, np.int64)
    position[order] = np.arange(user.size) - ratings.indptr[user]
    first = 10 if validate else 0
    liked = ratings.data >= 4.0
    described = _described(data) if features else MatchingData(None, None, ratings)
    trained, tested = position >= first + 10, (position >= first) & (position < first + 10)
    train, test = (described.keep_entries(liked & part) for part in (trained, tested))
    return train, test


def _described(data: MatchingData) -> MatchingData:
    """Keep the features that many share: ages, genders, occupations and genres."""
    sides = []
    for rows, names, prefixes in (
        (data.query_rows, data.query_feature_ids, ("age=", "gender=", "occupation=")),
        (data.document_rows, data.document_feature_ids, ("class=",)),
    ):
        selected = np.flatnonzero([name.startswith(prefixes) for name in names.tolist()])
        sides.append((rows[:, selected], names[selected]))
    (queries, query_names), (documents, document_names) = sides
    return MatchingData(
        queries,
        documents,
        data.relevance,
        query_feature_ids=query_names,
        document_feature_ids=document_names,
    ).with_indicators()


def recall(
    model: MatchingModel, data: MatchingData, exclusions: Pairs | None, kernel: Kernel, threads: int
) -> dict[str, float]:
    """Return the share of held-out positives, weighted by relevance, among the first k."""
    hits = np.zeros(max(CUTS))
    row = np.zeros(data.n_documents)
    for result in top_k(model, data, hits.size, kernel, threads, exclusions=exclusions):
        entries = slice(*data.relevance.indptr[result.query : result.query + 2])
        held_out = data.relevance.indices[entries]
        row[held_out] = data.relevance.data[entries]
        hits[: result.documents.size] += row[result.documents]
        row[held_out] = 0.0
    shares = np.cumsum(hits) / data.relevance.data.sum()
    return {f"r@{cut}": float(shares[cut - 1]) for cut in CUTS}


def _random_parts(size: int, seed: int) -> Ints:
    """Return a random part for each: a fifth TEST, a tenth VALID, the others TRAIN."""
    order = np.random.default_rng(seed).permutation(size)
    parts = np.full(size, TRAIN)
    parts[order[: size // 5]] = TEST
    parts[order[size // 5 : size // 5 + size // 10]] = VALID
    return parts


def _numbers(path: Path, header: bool = False) -> Ints:
    _refuse_missing(path)
    with gzip.open(path, "rt") as lines:
        table: Ints = np.loadtxt(lines, dtype=np.int64, skiprows=int(header))
    return table


def _refuse_missing(path: Path) -> None:
    if not path.exists():
        raise DataError(f"{path} does not exist; pass its folder with --data.")
