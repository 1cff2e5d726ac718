"""Fixtures that several rooms of the tests share."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from ranking import Judged
from ranking.errors import KernelUnavailableError
from ranking.kernels.contract import LANES
from ranking.kernels.kernel import Columns, Kernel
from ranking.kernels.lists import Lists
from ranking.kernels.select import get_kernel

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


@pytest.fixture(scope="session")
def load_kernel() -> Callable[[str], Kernel]:
    """Load a kernel by name, or skip; fail instead if RANKING_REQUIRE_KERNELS names it."""

    def load(name: str) -> Kernel:
        try:
            return get_kernel(name)
        except KernelUnavailableError as error:
            required = os.environ.get("RANKING_REQUIRE_KERNELS", "").split(",")
            if name in (word.strip() for word in required):
                pytest.fail(f"RANKING_REQUIRE_KERNELS names {name!r}, but: {error}")
            remedy = "pip install ./rust" if name == "rust" else "pip install ."
            pytest.skip(f"kernel {name!r} is missing ({error}); install it with `{remedy}`.")

    return load


class Problem(NamedTuple):
    """Features by column, the layout of their lists, and margins (0 on padding)."""

    features: Columns
    lists: Lists
    margins: NDArray[np.float64]

    @property
    def columns(self) -> NDArray[np.int64]:
        return np.arange(self.features.shape[1])

    def bounds(self, kernel: Kernel) -> NDArray[np.float64]:
        """Return what a sweep wants: Popoviciu's bound, range and peak."""
        return np.ascontiguousarray(kernel.domination_bounds(self.features, self.lists)[[0, 2, 3]])


MakeProblem: TypeAlias = Callable[..., Problem]


@pytest.fixture(scope="session")
def make_problem() -> MakeProblem:
    """Make a random problem for the domination loops, dense or sparse."""

    def make(
        seed: int,
        *,
        sizes: Sequence[int] = (7, 2, 40, 1, 13, 25),
        grades: int = 4,
        n_features: int = 5,
        scale: float = 1.0,
        spread: float = 1.0,
        density: float = 0.6,
        sparse: bool = False,
        dtype: str = "float64",
        index: str = "int32",
    ) -> Problem:
        rng = np.random.default_rng(seed)
        group_ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        rows = int(group_ptr[-1])
        grade = rng.integers(0, grades, size=rows).astype(np.float64)
        omega = rng.random(rows) * (rng.random(rows) < 0.9)  # a weight may be 0
        lists = Lists.build(group_ptr, grade, omega, pad=1 if sparse else LANES)
        x = rng.normal(size=(rows, n_features)) * scale
        x *= rng.random(x.shape) < density
        x = np.where(lists.source[:, None] >= 0, x[lists.source], 0.0).astype(dtype)
        margins = lists.take(rng.normal(size=rows) * spread)
        if not sparse:
            return Problem(np.asfortranarray(x), lists, margins)
        csc = sp.csc_array(x)
        csc.indptr, csc.indices = csc.indptr.astype(index), csc.indices.astype(index)
        return Problem(csc, lists, margins)

    return make
