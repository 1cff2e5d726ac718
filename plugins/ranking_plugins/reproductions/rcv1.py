"""RCV1 by scikit-learn's fetcher: topics of the second level, documents of one topic."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from ranking.data.matching_data import MatchingData

READER = "rcv1"
FOLDER = Path("text", "rcv1")
WORDS, TESTED = 10_000, 10_000

SECOND_LEVEL = re.compile(r"[CEM]\d\d|G15|G[A-Z]+")
"""Codes below CCAT, ECAT, MCAT and GCAT; GCAT itself is not one."""


class UnavailableError(Exception):
    """The files are missing and cannot be fetched."""


def read(data: Path) -> tuple[MatchingData, MatchingData]:
    """Return the training and the test part, or raise `UnavailableError`."""
    from sklearn.datasets import fetch_rcv1

    folder = data / FOLDER
    try:
        parts = [fetch_rcv1(data_home=folder, subset=subset) for subset in ("train", "test")]
    except OSError as error:
        raise UnavailableError(
            f"scikit-learn's fetch_rcv1 could not get it ({type(error).__name__}: {error}); run "
            f"fetch_rcv1(data_home={str(folder)!r}) where there is a network, and place the folder "
            f"RCV1 that it makes in {folder}."
        ) from error
    train = parts[0].data
    frequent = np.argsort(-np.bincount(train.indices, minlength=train.shape[1]), kind="stable")
    columns = np.sort(frequent[:WORDS])
    return (
        _labelled(parts[0], columns, None),
        _labelled(parts[1], columns, TESTED),
    )


def _labelled(part: Any, columns: Any, limit: int | None) -> MatchingData:
    """Return documents of one topic, as queries and as documents, with unit length."""
    names = [str(name) for name in part.target_names]
    topics = [
        at for at, name in enumerate(names) if SECOND_LEVEL.fullmatch(name) and name != "GCAT"
    ]
    membership = sparse.csr_array(part.target)[:, topics]
    single = np.flatnonzero(np.diff(membership.indptr) == 1)
    if limit is not None and single.size > limit:
        single = single[np.linspace(0, single.size - 1, limit).astype(np.int64)]
    rows = sparse.csr_array(part.data)[single][:, columns]
    labels = membership[single].indices
    ids = np.asarray(part.sample_id)[single]
    data = MatchingData(
        rows,
        rows,
        labels=(labels, labels),
        query_ids=ids,
        document_ids=ids,
        queries_are_documents=True,
    )
    return data.unit_length()
