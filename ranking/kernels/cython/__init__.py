"""The Cython kernel: loops that are compiled once per instruction set and selected at run time."""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Iterator
from typing import Any

from ranking.kernels.cython import _cpu

WAIT_POLICY = "OMP_WAIT_POLICY"

SHARED = ("sampling", "metrics", "letor", "native")
"""Families that are built once, as they would gain nothing from wider instructions."""

BUILT = ("random", "linear", "domination", "bilinear", "factored", "alternating")
"""Families that are built once per instruction set."""


def instruction_sets() -> list[str]:
    """Return the instruction sets that were built and that this machine has, best first."""
    return ["avx2", "baseline"] if _cpu.runs_avx2() else ["baseline"]


def implementations(instructions: str | None = None) -> dict[str, Any]:
    """Return the module of each family, built for one of `instruction_sets` (or the best one)."""
    selected = instructions or instruction_sets()[0]
    modules = {family: f"_{family}" for family in SHARED}
    modules |= {family: f"_{family}_{selected}" for family in BUILT}
    with _sleeping_threads():
        return {
            family: importlib.import_module(f"{__name__}.{module}")
            for family, module in modules.items()
        }


def describe(instructions: str | None = None) -> dict[str, Any]:
    """Return the self-description of the kernel; see :mod:`ranking.kernels.contract`."""
    description: dict[str, Any] = implementations(instructions)["random"].describe()
    return description


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
