"""The Rust kernel: the training loops.

It inherits from Cython what gains nothing in Rust: the families `letor`, `metrics`, `linear`,
`native` and `sampling`, random numbers and sums, the scores of both models, top-k retrieval, steps
with known slopes, triplets sampled without a step, half-steps of sparse embeddings, and value,
bounds and slopes of domination.
"""

from importlib import metadata

from ranking.kernels.builtin import cython_kernel
from ranking.kernels.contract import Implementations
from ranking.kernels.kernel import Kernel
from ranking_rust import _core


def rust_kernel() -> Kernel:
    """Return the Rust kernel."""
    families = Implementations(
        random=_core.random,
        domination=_core.domination,
        pairwise_lists=_core.pairwise_lists,
        bilinear=_core.bilinear,
        factored=_core.factored,
        alternating=_core.alternating,
        item_item=_core.item_item,
        listwise=_core.listwise,
        shared_lists=_core.shared_lists,
    )
    version = metadata.version("ranking-kit-rust")
    return Kernel("rust", families, version, _core.describe(), fallback=cython_kernel())
