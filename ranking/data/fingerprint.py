"""A short name for the content of data, to know them again."""

from __future__ import annotations

import hashlib

import numpy as np

from ranking.data.judged import Judged


def fingerprint(data: Judged) -> str:
    """Return a hash of features, grades and queries."""
    digest = hashlib.blake2b(digest_size=16)
    features = data.features
    stored = (
        [features]
        if isinstance(features, np.ndarray)
        else [features.indptr, features.indices, features.data]
    )
    for array in [*stored, data.grades, data.group_ptr, data.feature_ids]:
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
