"""The reference kernel: plain NumPy, slow, and the oracle for the others.

It is also the normative text for the order of operations: where :mod:`ranking.kernels.contract`
says *what* is computed, the module of the same name here says *in which order*, and the compiled
kernels return the same bits.
"""

from typing import Any

from ranking.kernels.contract import ABI, BLOCK, LANES, Implementations
from ranking.kernels.reference import (
    alternating,
    bilinear,
    domination,
    factored,
    item_item,
    letor,
    linear,
    listwise,
    metrics,
    native,
    pairwise_lists,
    random,
    sampling,
)

IMPLEMENTATIONS: Implementations = {
    "random": random,
    "linear": linear,
    "domination": domination,
    "pairwise_lists": pairwise_lists,
    "metrics": metrics,
    "letor": letor,
    "sampling": sampling,
    "bilinear": bilinear,
    "factored": factored,
    "alternating": alternating,
    "item_item": item_item,
    "listwise": listwise,
    "native": native,
}


def describe() -> dict[str, Any]:
    """Return the self-description of the contract."""
    return {
        "abi": ABI,
        "lanes": LANES,
        "block": BLOCK,
        "rng": "splitmix64",
        "exp": "minimax-11",
        "threads": "none",
        "instructions": "numpy",
    }
