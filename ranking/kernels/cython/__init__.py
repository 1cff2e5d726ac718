"""The Cython kernel: one text of loops, built once per instruction set, chosen at run time."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any, cast

from ranking.kernels.contract import Loops
from ranking.kernels.cython import _cpu

SHARED = ("_letor",)
"""Modules that are built once, as they would gain nothing from wider instructions."""


def instruction_sets() -> list[str]:
    """Return the instruction sets that were built and that this machine has, best first."""
    return ["avx2", "baseline"] if _cpu.runs_avx2() else ["baseline"]


def load_loops(instructions: str) -> Loops:
    """Return the loops built for one of `instruction_sets`."""
    merged: dict[str, Any] = {}
    for module in (f"_loops_{instructions}", *SHARED):
        merged |= vars(importlib.import_module(f"{__name__}.{module}"))
    return cast(Loops, SimpleNamespace(**merged))


def best_loops() -> Loops:
    """Return the fastest loops that this machine can run."""
    return load_loops(instruction_sets()[0])
