"""Every compiled kernel against the reference, bit for bit."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ranking.kernels.builtin import reference_kernel
from ranking.kernels.kernel import Kernel


@pytest.fixture(scope="session", params=["cython", "rust"])
def kernel_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def kernel(kernel_name: str, load_kernel: Callable[[str], Kernel]) -> Kernel:
    return load_kernel(kernel_name)


@pytest.fixture(scope="session")
def reference() -> Kernel:
    return reference_kernel()
