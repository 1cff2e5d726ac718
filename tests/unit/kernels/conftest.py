"""The same tests for every kernel, the reference included."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ranking.kernels.kernel import Kernel


@pytest.fixture(scope="session", params=["reference", "cython", "rust"])
def kernel(request: pytest.FixtureRequest, load_kernel: Callable[[str], Kernel]) -> Kernel:
    return load_kernel(request.param)
