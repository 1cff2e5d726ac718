"""The kernels of this distribution."""

from importlib import metadata

from ranking.kernels import reference
from ranking.kernels.kernel import Kernel


def reference_kernel() -> Kernel:
    """Return the reference kernel."""
    version = metadata.version("ranking-kit")
    return Kernel("reference", reference.IMPLEMENTATIONS, version, reference.describe())


def cython_kernel(instructions: str | None = None) -> Kernel:
    """Return the Cython kernel for an instruction set; by default the best of this machine."""
    from ranking.kernels.cython import best_instructions, describe, implementations

    instructions = instructions or best_instructions()
    version = metadata.version("ranking-kit")
    return Kernel("cython", implementations(instructions), version, describe(instructions))
