"""Kernels: the numerical loops, in several languages, behind one contract."""

from ranking.contracts.hooks import Lazy, hookimpl


@hookimpl
def ranking_kernels() -> dict[str, Lazy]:
    """Return the kernels of this distribution."""
    return {
        "cython": Lazy("ranking.kernels.builtin:cython_kernel", help="Compiled C, by Cython."),
        "reference": Lazy(
            "ranking.kernels.builtin:reference_kernel",
            help="Plain NumPy: slow, the oracle that the others must equal.",
        ),
    }
