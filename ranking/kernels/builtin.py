"""The kernels of this distribution."""

from importlib import metadata

from ranking.kernels import reference
from ranking.kernels.kernel import Kernel


def reference_kernel() -> Kernel:
    """Return the reference kernel."""
    version = metadata.version("ranking")
    return Kernel("reference", reference.IMPLEMENTATIONS, version, reference.describe())


def cython_kernel() -> Kernel:
    """Return the Cython kernel, built for the best instruction set of this machine."""
    from ranking.kernels.cython import describe, implementations

    return Kernel("cython", implementations(), metadata.version("ranking"), describe())
