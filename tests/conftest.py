"""Fixtures that several rooms of the tests share."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from ranking import Judged

ROOT = Path(__file__).parent.parent


@pytest.fixture
def seed() -> int:
    """A seed that tests must not depend on; set RANKING_TEST_SEED to try another."""
    return int(os.environ.get("RANKING_TEST_SEED", "42"))


@pytest.fixture
def real_data() -> Path:
    """The folder of real data sets."""
    folder = os.environ.get("RANKING_DATA")
    if not folder:
        pytest.skip("RANKING_DATA is not set: the folder of real data sets")
    return Path(folder)


def make_judged(
    seed: int = 0,
    n_queries: int = 12,
    n_features: int = 6,
    dtype: type = np.float64,
    density: float = 1.0,
) -> Judged:
    """Judged lists that a linear model can learn, of 1 to 15 documents and up to 4 grades."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 16, size=n_queries)
    qids = np.repeat(np.arange(n_queries) + 100, sizes)
    X = rng.normal(size=(qids.size, n_features)) * (rng.random((qids.size, n_features)) < density)
    truth = rng.normal(size=n_features)
    grades = np.digitize(X @ truth + rng.normal(size=qids.size), [-1.0, 0.5, 2.0])
    return Judged(X.astype(dtype), grades, qids)


@pytest.fixture
def judged(seed: int) -> Judged:
    """A small data set to train on."""
    return make_judged(seed)


@pytest.fixture
def valid(seed: int) -> Judged:
    """A small data set to validate on."""
    return make_judged(seed + 1)


def write_letor(path: Path, data: Judged) -> Path:
    """Write data as a LETOR file, with full precision and document ids."""
    lines = []
    for row in range(data.n_rows):
        values = " ".join(
            f"{number}:{float(value)!r}"
            for number, value in zip(data.feature_ids, data.features[row], strict=True)
        )
        query = data.query_ids[data.row_groups[row]]
        lines.append(f"{data.grades[row]:g} qid:{query} {values} #docid = d{data.doc_ids[row]}\n")
    path.write_text("".join(lines))
    return path
