"""Matches of which some are held out, and the recall of those: the protocol of LaSR's tables."""

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
from ranking.inference.retrieval import top
from ranking.kernels.kernel import Kernel

Ints = NDArray[np.int64]

CUTS = (5, 10, 30, 50)

TRAIN, VALID, TEST = range(3)


class Split(NamedTuple):
    """Data in three parts, over the same queries and documents.

    Attributes
    ----------
    barred : pair of int64 arrays or None
        What is known of a query and is therefore left out of its list.
    """

    train: MatchingData
    valid: MatchingData
    test: MatchingData
    barred: Pairs | None = None


class Successions(NamedTuple):
    """Items that a user took one after the other: a query, and the item that came next."""

    users: Ints
    queries: Ints
    items: Ints
    n_items: int


def read_successions(folder: Path, n_users: int | None = None) -> Successions:
    """Read the ratings of MovieLens 1M; two that a user gave in succession are a pair.

    A user's ratings are ordered by their times, those of one moment as in the files, the training
    file first.

    Parameters
    ----------
    n_users : int, optional
        Takes the first so many only.
    """
    names = ("ml-1m.train.rating.gz", "ml-1m.test.rating.gz")
    table = np.concatenate([_numbers(folder / "movielens1m" / name) for name in names])
    user, item, _, moment = table.T
    order = np.lexsort((np.arange(user.size), moment, user))
    user, item = user[order], item[order]
    if n_users is not None:
        kept = user <= np.unique(user)[:n_users].max()
        user, item = user[kept], item[kept]
    _, item = np.unique(item, return_inverse=True)
    same = user[1:] == user[:-1]
    return Successions(user[1:][same], item[:-1][same], item[1:][same], int(item.max()) + 1)


def split_users(pairs: Successions, seed: int) -> Split:
    """Let one user in five test and one in ten validate, drawn by the seed."""
    users, place = np.unique(pairs.users, return_inverse=True)
    parts = _drawn(users.size, seed)[place]
    shape = (pairs.n_items, pairs.n_items)
    made = []
    for part in (TRAIN, VALID, TEST):
        chosen = parts == part
        places = (pairs.queries[chosen], pairs.items[chosen])
        counts = sparse.coo_array((np.ones(places[0].size), places), shape=shape).tocsr()
        made.append(MatchingData(None, None, counts))
    return Split(made[TRAIN], made[VALID], made[TEST])


def read_listeners(folder: Path, n_users: int | None = None) -> MatchingData:
    """Read who listened to which artist of Last.fm; how often does not count."""
    path = folder / "lastfm_hetrec2011" / "user_artists.dat.gz"
    user, artist, _ = _numbers(path, header=True).T
    if n_users is not None:
        kept = user <= np.unique(user)[:n_users].max()
        user, artist = user[kept], artist[kept]
    return MatchingData.from_interactions(user, artist)


def split_matches(data: MatchingData, seed: int) -> Split:
    """Let one match in five test and one in ten validate; lists are without what trained."""
    parts = _drawn(data.relevance.nnz, seed)
    train, valid, test = (data.keep_entries(parts == part) for part in (TRAIN, VALID, TEST))
    known = train.relevance
    return Split(
        train, valid, test, (known.indptr.astype(np.int64), known.indices.astype(np.int64))
    )


def split_examples(data: MatchingData, seed: int) -> Split:
    """Let one query in ten validate, whatever the seed, and one in five test, drawn by it.

    So what settings were chosen on never tests.
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
    """Read MovieLens 100K; ten ratings of each user, drawn by the seed, are to test.

    Ratings of 4 and 5 are matches, and others none, as in LightFM's tests.

    Parameters
    ----------
    features : bool
        Whether users have their age, gender and occupation, and films their genres, each beside
        an indicator of its own; else indicators alone.
    validate : bool
        Whether to leave those ten out, and to test with ten others: to choose settings.
    """
    path = folder / "movielens100k" / "ml-100k.inter.gz"
    _refuse_missing(path)
    data = read_any(path)
    assert isinstance(data, MatchingData)
    ratings = data.relevance
    # The place of a rating among those of its user, by random numbers.
    user = np.repeat(np.arange(data.n_queries), np.diff(ratings.indptr))
    order = np.lexsort((np.random.default_rng(seed).random(user.size), user))
    place = np.empty(user.size, np.int64)
    place[order] = np.arange(user.size) - ratings.indptr[user]
    first = 10 if validate else 0
    liked = ratings.data >= 4.0
    described = _described(data) if features else MatchingData(None, None, ratings)
    trained, tested = place >= first + 10, (place >= first) & (place < first + 10)
    train, test = (described.keep_entries(liked & part) for part in (trained, tested))
    return train, test


def _described(data: MatchingData) -> MatchingData:
    """Keep what is shared by many: ages, genders, occupations and genres."""
    sides = []
    for rows, names, kept in (
        (data.query_rows, data.query_feature_ids, ("age=", "gender=", "occupation=")),
        (data.document_rows, data.document_feature_ids, ("class=",)),
    ):
        chosen = np.flatnonzero([name.startswith(kept) for name in names.tolist()])
        sides.append((rows[:, chosen], names[chosen]))
    (queries, query_names), (documents, document_names) = sides
    return MatchingData(
        queries,
        documents,
        data.relevance,
        query_feature_ids=query_names,
        document_feature_ids=document_names,
    ).with_indicators()


def recall(
    model: MatchingModel, data: MatchingData, barred: Pairs | None, kernel: Kernel, threads: int
) -> dict[str, float]:
    """Return the share of held-out matches, each as often as it counts, among the first k."""
    hits = np.zeros(max(CUTS))
    row = np.zeros(data.n_documents)
    for found in top(model, data, hits.size, kernel, threads, barred=barred):
        entries = slice(*data.relevance.indptr[found.query : found.query + 2])
        held_out = data.relevance.indices[entries]
        row[held_out] = data.relevance.data[entries]
        hits[: found.documents.size] += row[found.documents]
        row[held_out] = 0.0
    shares = np.cumsum(hits) / data.relevance.data.sum()
    return {f"r@{cut}": float(shares[cut - 1]) for cut in CUTS}


def _drawn(size: int, seed: int) -> Ints:
    """Draw a part for each: a fifth tests, a tenth validates, the others train."""
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
        raise DataError(f"{path} does not exist; give the folder that holds it with --data.")
