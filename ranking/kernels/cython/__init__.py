"""The Cython kernel: one text of loops, built once per instruction set, chosen at run time."""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

from ranking.kernels.contract import Loops
from ranking.kernels.cython import _cpu

WAIT_POLICY = "OMP_WAIT_POLICY"

SHARED = ("_metrics", "_letor", "_native")
"""Modules that are built once, as they would gain nothing from wider instructions."""


BUILT = ("_loops", "_bilinear", "_factored", "_alternating")
"""Modules that are built once per instruction set."""


def instruction_sets() -> list[str]:
    """Return the instruction sets that were built and that this machine has, best first."""
    return ["avx2", "baseline"] if _cpu.runs_avx2() else ["baseline"]


def load_loops(instructions: str) -> Loops:
    """Return the loops built for one of `instruction_sets`."""
    merged: dict[str, Any] = {}
    with _sleeping_threads():
        for module in (*SHARED, *(f"{name}_{instructions}" for name in BUILT)):
            merged |= vars(importlib.import_module(f"{__name__}.{module}"))
    return cast(Loops, SimpleNamespace(**merged))


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


def best_loops() -> Loops:
    """Return the fastest loops that this machine can run."""
    return load_loops(instruction_sets()[0])
