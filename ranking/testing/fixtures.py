"""Fixtures for pytest: ``pytest_plugins = ["ranking.testing.fixtures"]`` in a conftest.py.

They are `ranking_judged`, `ranking_matching` and `ranking_kernel`, which runs a test in every
kernel that is installed.
"""

from __future__ import annotations

import pytest

from ranking.data.judged_lists import JudgedLists
from ranking.data.matching_data import MatchingData
from ranking.kernels.kernel import Kernel
from ranking.kernels.select import get_kernel
from ranking.testing.common import installed_kernels, small_judged, small_matching


@pytest.fixture
def ranking_judged() -> JudgedLists:
    """Return judged lists that a linear model can learn."""
    return small_judged()


@pytest.fixture
def ranking_matching() -> MatchingData:
    """Return queries and documents of three topics, with features."""
    return small_matching()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that asks for `ranking_kernel` in every kernel that is installed."""
    if "ranking_kernel" in metafunc.fixturenames:
        names = [kernel.name for kernel in installed_kernels()]
        metafunc.parametrize("ranking_kernel", names, indirect=True)


@pytest.fixture
def ranking_kernel(request: pytest.FixtureRequest) -> Kernel:
    """Return a kernel; a test that asks for it runs in every one that is installed."""
    return get_kernel(request.param)
