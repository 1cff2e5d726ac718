"""The Cython kernel: loops that are compiled once per instruction set and selected at run time."""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Iterator
from typing import Any, cast

from ranking.kernels.contract import Implementations
from ranking.kernels.cython import _cpu

WAIT_POLICY = "OMP_WAIT_POLICY"

SHARED = ("sampling", "metrics", "letor", "native")
"""Families that are built once, as they would gain nothing from wider instructions."""

BUILT = (
    "random",
    "linear",
    "domination",
    "pairwise_lists",
    "bilinear",
    "factored",
    "alternating",
    "item_item",
    "listwise",
)
"""Families that are built once per instruction set."""


def instruction_sets() -> list[str]:
    """Return the instruction sets that were built and that this machine has, best first."""
    return ["avx2", "baseline"] if _cpu.runs_avx2() else ["baseline"]


def best_instructions() -> str:
    """Return the best instruction set of this machine."""
    return instruction_sets()[0]


def implementations(instructions: str) -> Implementations:
    """Return the module of each family, built for one of `instruction_sets`."""
    modules = {family: f"_{family}" for family in SHARED}
    modules |= {family: f"_{family}_{instructions}" for family in BUILT}
    with _sleeping_threads():
        families = {
            family: importlib.import_module(f"{__name__}.{module}")
            for family, module in modules.items()
        }
    return cast(Implementations, families)


def describe(instructions: str) -> dict[str, Any]:
    """Return the self-description of the kernel; see :mod:`ranking.kernels.contract`."""
    random: Any = implementations(instructions)["random"]
    return dict(random.describe())


@contextlib.contextmanager
def _sleeping_threads() -> Iterator[None]:
    """Let OpenMP's idle threads sleep, unless the user has decided otherwise.

    By default they spin at the end of every parallel loop. Beside any other busy process that
    makes two threads several times slower than one. OpenMP reads the variable once, when it is
    loaded, so it need not stay set.
    """
    if WAIT_POLICY in os.environ:
        yield
        return
    os.environ[WAIT_POLICY] = "passive"
    try:
        yield
    finally:
        del os.environ[WAIT_POLICY]
