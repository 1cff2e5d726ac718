"""Which functions Rust leaves to Cython: those that gained nothing in it when measured."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ranking.kernels import contract
from ranking.kernels.kernel import Kernel

INHERITED = {
    "random": {"block_sum", "dot", "random_below", "random_bits", "random_uniform"},
    "domination": {"domination_bounds", "domination_slopes", "domination_value"},
    "bilinear": {"bilinear_scores"},
    "factored": {
        *("factored_embeddings", "factored_prox", "factored_sample", "factored_scores"),
        *("factored_top_k", "factored_update"),
    },
    "alternating": {"half_step_sparse"},
}
"""By family. A function that is missing here was forgotten in Rust: its parity test would compare
Cython with the reference twice."""


@pytest.fixture(scope="module")
def rust(load_kernel: Callable[[str], Kernel]) -> Kernel:
    return load_kernel("rust")


def functions(family: str) -> set[str]:
    """Return the names of the functions of a family, by its protocol."""
    protocol = getattr(contract, f"{family.title().replace('_', '')}Family")
    return {name for name in vars(protocol) if not name.startswith("_")}


def test_rust_leaves_out_only_what_is_listed(rust: Kernel):
    own = [family for family in contract.FAMILIES if family in rust.implementations]
    assert len(own) == 9
    left_out = {
        family: {
            name for name in functions(family) if not hasattr(rust.implementations[family], name)
        }
        for family in own
    }
    assert {family: names for family, names in left_out.items() if names} == INHERITED
