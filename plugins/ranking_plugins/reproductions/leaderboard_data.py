"""Splits of public leaderboards: training and test pairs of users and items."""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse

from ranking import MatchingData


class Split(NamedTuple):
    """Training and test pairs, with the same items in the same order."""

    train: MatchingData
    test: MatchingData


Pair = tuple[int, int]


def read_gowalla(folder: Path) -> Split:
    """Read a LightGCN split: one line per user, the user and then the items."""
    return _split([_lines(folder / f"{name}.txt.gz") for name in ("train", "test")])


def read_irbench(path: Path) -> Split:
    """Read a split of IR-Benchmark: an archive with train.tsv and test.tsv."""
    with zipfile.ZipFile(path) as archive:
        parts = [
            _pairs(archive.read(f"{name}.tsv").decode().splitlines()[1:])
            for name in ("train", "test")
        ]
    return _split(parts)


def read_last_out(folder: Path) -> Split:
    """Read MovieLens 1M without the last item of each user, which is the test; ratings are 1."""
    parts, times = [], []
    for name in ("train", "test"):
        with gzip.open(folder / f"ml-1m.{name}.rating.gz", "rt") as file:
            rows = [tuple(map(int, line.split())) for line in file]
        parts.append([(user, item) for user, item, _, _ in rows])
        times.append([time for *_, time in rows])
    return _split(parts, times)


def _lines(path: Path) -> list[Pair]:
    pairs = []
    with gzip.open(path, "rt") as file:
        for line in file:
            user, *items = map(int, line.split())
            pairs += [(user, item) for item in items]
    return pairs


def _pairs(lines: Iterable[str]) -> list[Pair]:
    words = (line.split() for line in lines)
    return [(int(user), int(item)) for user, item, *_ in words]


def _split(parts: list[list[Pair]], times: list[list[int]] | None = None) -> Split:
    both = [np.array(part, np.int64) for part in parts]
    users, items = (int(max(part[:, side].max() for part in both)) + 1 for side in (0, 1))
    data = []
    for at, part in enumerate(both):
        coordinates = (part[:, 0], part[:, 1])
        relevance = sparse.coo_array((np.ones(len(part)), coordinates), shape=(users, items))
        moments = None if times is None else np.array(times[at], np.float64)
        data.append(MatchingData(relevance=relevance, times=moments))
    return Split(*data)
