"""Every compiled kernel against the reference, bit for bit."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from parity_helpers import Same

from ranking.kernels.builtin import cython_kernel, reference_kernel
from ranking.kernels.cython import instruction_sets
from ranking.kernels.kernel import Kernel


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


@pytest.fixture(scope="session")
def same(kernel: Kernel, reference: Kernel) -> Same:
    return Same(kernel, reference)


@pytest.fixture(scope="session", params=instruction_sets())
def cython_build(request: pytest.FixtureRequest, reference: Kernel) -> Same:
    """The Cython kernel for every instruction set of this processor."""
    kernel = cython_kernel(request.param)
    assert kernel.describe()["instructions"] == request.param
    return Same(kernel, reference)
