"""The plugin that brings the kernel; importing it does not load the compiled module."""

from ranking.contracts.hooks import Lazy, hookimpl


@hookimpl
def ranking_kernels() -> dict[str, Lazy]:
    """Return the kernel of this distribution."""
    return {
        "rust": Lazy(
            "ranking_rust.kernel:rust_kernel",
            help="Compiled Rust, with threads from rayon.",
        )
    }
