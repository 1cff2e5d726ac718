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


@pytest.fixture(autouse=True)
def _implements_family(request: pytest.FixtureRequest) -> None:
    """Skip a kernel that inherits the family of a test module: its fallback is tested itself."""
    if "kernel" in request.fixturenames:
        kernel = request.getfixturevalue("kernel")
        family = request.path.stem.removeprefix("test_")
        server = kernel.families().get(family, kernel.name)
        if server != kernel.name:
            pytest.skip(f"kernel {kernel.name!r} inherits {family} from {server!r}")


@pytest.fixture(scope="session")
def reference() -> Kernel:
    return reference_kernel()
