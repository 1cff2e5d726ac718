"""The kernel: the compiled loops behind the shared door."""

from importlib import metadata

from ranking.kernels.kernel import Kernel
from ranking_rust import _core


def rust_kernel() -> Kernel:
    """Return the Rust kernel."""
    return Kernel("rust", _core, metadata.version("ranking-kit-rust"))
