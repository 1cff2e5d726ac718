"""The kernels of this distribution."""

from importlib import metadata
from types import SimpleNamespace

from ranking.kernels import (
    reference,
    reference_alternating,
    reference_bilinear,
    reference_factored,
    reference_letor,
    reference_metrics,
    reference_native,
)
from ranking.kernels.kernel import Kernel


def reference_kernel() -> Kernel:
    """Return the reference kernel."""
    loops = SimpleNamespace(**vars(reference))
    loops.contract = reference.describe
    loops.rank_lists = reference_metrics.rank_lists
    loops.ranked_metrics = reference_metrics.ranked_metrics
    loops.parse_letor = reference_letor.parse_letor
    for name in ("draw_tuples", "bilinear", "bilinear_scores"):
        setattr(loops, name, getattr(reference_bilinear, name))
    for name in ("half_step", "half_step_sparse"):
        setattr(loops, name, getattr(reference_alternating, name))
    for name in ("vectors", "scores", "top", "search", "update", "steps"):
        setattr(loops, f"factored_{name}", getattr(reference_factored, f"factored_{name}"))
    for name in ("pairs", "list_values", "list_slopes", "penalties", "prox", "maximize"):
        setattr(loops, f"native_{name}", getattr(reference_native, f"native_{name}"))
    return Kernel("reference", loops, metadata.version("ranking-kit"))


def cython_kernel() -> Kernel:
    """Return the Cython kernel, built for the best instruction set that this machine has."""
    from ranking.kernels.cython import best_loops

    return Kernel("cython", best_loops(), metadata.version("ranking-kit"))
