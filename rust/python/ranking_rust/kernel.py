"""The Rust kernel: all families but `letor` and `metrics`, which Cython computes as fast."""

from importlib import metadata

from ranking.kernels.builtin import cython_kernel
from ranking.kernels.contract import Implementations
from ranking.kernels.kernel import Kernel
from ranking_rust import _core


def rust_kernel() -> Kernel:
    """Return the Rust kernel."""
    families = Implementations(
        random=_core.random,
        linear=_core.linear,
        domination=_core.domination,
        sampling=_core.sampling,
        bilinear=_core.bilinear,
        factored=_core.factored,
        alternating=_core.alternating,
        listwise=_core.listwise,
        native=_core.native,
    )
    version = metadata.version("ranking-kit-rust")
    return Kernel("rust", families, version, _core.describe(), fallback=cython_kernel())
