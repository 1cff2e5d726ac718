"""Every compiled kernel against the reference, bit for bit."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ranking.kernels.builtin import reference_kernel
from ranking.kernels.kernel import Kernel

sys.path.insert(0, str(Path(__file__).parent))  # for parity_helpers


@pytest.fixture(scope="session", params=["cython", "rust"])
def kernel(request: pytest.FixtureRequest, load_kernel: Callable[[str], Kernel]) -> Kernel:
    return load_kernel(request.param)


@pytest.fixture(scope="session")
def reference() -> Kernel:
    return reference_kernel()
