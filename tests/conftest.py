"""Fixtures shared by several test packages, and the tiers of the test suite."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

# Before NumPy is imported: the threads of BLAS wait actively, so SciPy's L-BFGS of 93 numbers takes
# 60 times the processor time on two of them.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import settings
from numpy.typing import NDArray

from ranking import JudgedLists
from ranking.data.matching_data import MatchingData
from ranking.errors import KernelUnavailableError
from ranking.kernels.contract import LANES
from ranking.kernels.domination import Columns, LayeredLists
from ranking.kernels.kernel import Kernel
from ranking.kernels.select import get_kernel

ROOT = Path(__file__).parent.parent

# No test may depend on the speed of the machine.
settings.register_profile("ranking", deadline=None)
settings.load_profile("ranking")

TIERS = {
    "reproduction": ("reproduction/",),
    "ray": ("plugin/test_ray.py",),
    "native_build": ("plugin/test_native_examples.py", "plugin/test_new_plugin.py"),
}
"""Markers of whole files, by path; `make test-fast` leaves these tests out, and slow ones."""

SLOW_FIXTURES = frozenset({"real_data"})
"""Fixtures whose tests are slow."""


def pytest_configure() -> None:
    """Restore the handler of SIGINT, which is ignored by processes started in the background.

    Child processes inherit an ignored signal, so tests of interrupts would fail.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if in_main_thread and signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by tier."""
    for item in items:
        path = item.path.relative_to(Path(__file__).parent).as_posix()
        for tier, starts in TIERS.items():
            if path.startswith(starts):
                item.add_marker(tier)
        if SLOW_FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker("slow")


@pytest.fixture
def seed() -> int:
    """A seed that tests must not depend on; set RANKING_TEST_SEED to use another."""
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
) -> JudgedLists:
    """Judged lists that a linear model can learn, of 1 to 15 documents and up to 4 grades."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 16, size=n_queries)
    qids = np.repeat(np.arange(n_queries) + 100, sizes)
    X = rng.normal(size=(qids.size, n_features)) * (rng.random((qids.size, n_features)) < density)
    truth = rng.normal(size=n_features)
    grades = np.digitize(X @ truth + rng.normal(size=qids.size), [-1.0, 0.5, 2.0])
    return JudgedLists(X.astype(dtype), grades, qids)


@pytest.fixture
def judged(seed: int) -> JudgedLists:
    """A small data set to train on."""
    return make_judged(seed)


@pytest.fixture
def valid(seed: int) -> JudgedLists:
    """A small data set to validate on."""
    return make_judged(seed + 1)


def write_letor(path: Path, data: JudgedLists) -> Path:
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
    lists: LayeredLists
    margins: NDArray[np.float64]

    @property
    def columns(self) -> NDArray[np.int64]:
        return np.arange(self.features.shape[1])

    def bounds(self, kernel: Kernel) -> NDArray[np.float64]:
        """Return what a sweep wants: Popoviciu's bound, range and peak."""
        return np.ascontiguousarray(kernel.domination.bounds(self.features, self.lists)[[0, 2, 3]])


class ProblemSize(NamedTuple):
    """Sizes and scales of a random problem."""

    sizes: Sequence[int] = (7, 2, 40, 1, 13, 25)
    grades: int = 4
    n_features: int = 5
    scale: float = 1.0
    spread: float = 1.0
    density: float = 0.6


MakeProblem: TypeAlias = Callable[..., Problem]


@pytest.fixture(scope="session")
def make_problem() -> MakeProblem:
    """Build random problems for the domination loops, dense or sparse."""

    def make(
        seed: int,
        *,
        sparse: bool = False,
        dtype: str = "float64",
        index: str = "int32",
        **size: Any,
    ) -> Problem:
        sizes, grades, n_features, scale, spread, density = ProblemSize(**size)
        rng = np.random.default_rng(seed)
        group_ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        rows = int(group_ptr[-1])
        grade = rng.integers(0, grades, size=rows).astype(np.float64)
        omega = rng.random(rows) * (rng.random(rows) < 0.9)  # a weight may be 0
        lists = LayeredLists.build(group_ptr, grade, omega, pad=1 if sparse else LANES)
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


@pytest.fixture(scope="session", params=["reference", "cython", "rust"])
def matching_kernel(request: pytest.FixtureRequest, load_kernel: Callable[[str], Kernel]) -> Kernel:
    """Every kernel that trains and scores bilinear models."""
    return load_kernel(request.param)


@pytest.fixture(scope="session", params=["reference", "cython", "rust"])
def factored_kernel(request: pytest.FixtureRequest, load_kernel: Callable[[str], Kernel]) -> Kernel:
    """Every kernel that trains and scores factored models."""
    return load_kernel(request.param)


@pytest.fixture(scope="session")
def fast_kernel() -> Kernel:
    """A compiled kernel that trains factored models, for tests that need many steps."""
    for name in ("cython", "rust"):
        with contextlib.suppress(KernelUnavailableError):
            return get_kernel(name)
    return get_kernel("reference")


def make_tastes(
    seed: int = 0,
    n_queries: int = 12,
    n_documents: int = 15,
    *,
    tastes: int = 3,
    share: float = 0.6,
    features: str = "none",
    counts: bool = False,
) -> MatchingData:
    """Interactions of users with items of their own taste: data for recommenders.

    `features` is "none", "queries", "documents" or "both": one column per taste, one per row, and a
    constant one. With `counts` a positive has a relevance of 1 to 3.
    """
    rng = np.random.default_rng(seed)
    sides, tastes_of = [], []
    for side, size in (("queries", n_queries), ("documents", n_documents)):
        taste = np.arange(size) % tastes
        tastes_of.append(taste)
        if features not in (side, "both"):
            sides.append(None)
            continue
        rows = np.hstack((np.eye(tastes)[taste], np.eye(size), np.full((size, 1), 0.5)))
        sides.append(sp.csr_array((rows * rng.uniform(0.5, 1.0, rows.shape)).astype(np.float32)))
    same = tastes_of[0][:, None] == tastes_of[1][None, :]
    positive = same & (rng.random(same.shape) < share)
    positive[np.arange(n_queries), tastes_of[0]] = True  # every user has a positive
    values = rng.integers(1, 4, same.shape) if counts else 1
    names = {
        "query_ids": [f"u{i}" for i in range(n_queries)],
        "document_ids": [f"i{i}" for i in range(n_documents)],
    }
    return MatchingData(*sides, sp.csr_array((positive * values).astype(np.float64)), **names)


MakeTastes: TypeAlias = Callable[..., MatchingData]


@pytest.fixture(scope="session", name="make_tastes")
def make_tastes_fixture() -> MakeTastes:
    """Build interactions of users and items of a few tastes; see `make_tastes`."""
    return make_tastes


def make_matching(
    seed: int = 0,
    n_queries: int = 8,
    n_documents: int = 14,
    n_features: int = 9,
    *,
    widths: tuple[int, int] | None = None,
    kind: str = "labels",
    queries_are_documents: bool = False,
    dtype: type = np.float32,
) -> MatchingData:
    """Queries and documents of a few classes, by labels or by grades, with rows of unit length.

    Each class has features of its own, so that there is something to learn.
    """
    rng = np.random.default_rng(seed)
    n_queries = n_documents if queries_are_documents else n_queries
    widths = widths or (n_features, n_features)
    classes = 3
    sides, labels = [], []
    for n_rows, width in zip((n_queries, n_documents), widths, strict=True):
        label = rng.permutation(np.arange(n_rows) % classes)
        rows = rng.random((n_rows, width)) * (rng.random((n_rows, width)) < 0.5)
        rows += rng.random(rows.shape) * (np.arange(width) % classes == label[:, None])
        sides.append(sp.csr_array((rows / np.linalg.norm(rows, axis=1)[:, None]).astype(dtype)))
        labels.append(label)
    if queries_are_documents:
        sides[1], labels[1] = sides[0], labels[0]
    if kind == "labels":
        return MatchingData(
            *sides, labels=tuple(labels), queries_are_documents=queries_are_documents
        )
    same = labels[0][:, None] == labels[1][None, :]
    grades = np.where(same, rng.integers(1, 4, same.shape), 0) * (rng.random(same.shape) < 0.7)
    judged = sp.coo_array(np.where(rng.random(same.shape) < 0.1, -1.0, grades))
    return MatchingData(*sides, judged, queries_are_documents=queries_are_documents)


MakeMatching: TypeAlias = Callable[..., MatchingData]


@pytest.fixture(scope="session", name="make_matching")
def make_matching_fixture() -> MakeMatching:
    """Build data of queries and documents; see `make_matching`."""
    return make_matching
