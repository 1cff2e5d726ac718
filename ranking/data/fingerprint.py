"""A hash of the content of data, to recognise the same data."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranking.data.judged_lists import JudgedLists
from ranking.data.matching_data import MatchingData


def fingerprint(data: JudgedLists | MatchingData) -> str:
    """Return a hash of everything that training depends on."""
    digest = hashlib.blake2b(digest_size=16)
    for array in _content(data):
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _content(data: JudgedLists | MatchingData) -> Iterator[NDArray[Any]]:
    if isinstance(data, JudgedLists):
        yield from _stored(data.features)
        yield from (data.grades, data.group_ptr, data.feature_ids)
        return
    yield from _stored(data.query_rows)
    yield from _stored(data.document_rows)
    if data.relevance is not None:
        yield from _stored(data.relevance)
    if data.labels is not None:
        yield from data.labels
    if data.own_document is not None:
        yield data.own_document
    for ids in (data.query_feature_ids, data.document_feature_ids):
        yield ids.view(np.uint8) if ids.dtype.kind == "U" else ids


def _stored(matrix: Any) -> tuple[NDArray[Any], ...]:
    if isinstance(matrix, np.ndarray):
        return (matrix,)
    return matrix.indptr, matrix.indices, matrix.data
