"""The peak memory of a process that trains with a penalty, as a multiple of that without one."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

REPORT = Path(__file__).parents[3] / "asv_benchmarks" / "penalty_memory_report.py"
TRAININGS = [
    ("hinge", "sgd:epochs=1", ("l1:strength=1e-7", "l2:strength=1e-7,scaling=frequency")),
    ("softmax", "sgd:epochs=1,n_negatives=64", ("l2:strength=1e-7", "orthonormal")),
    ("domination", "coordinate:max_epochs=1,tolerance=0,n_negatives=2", ("l1-row:limit=4",)),
    ("warp", "alternating:max_epochs=1,tolerance=0", ("l1l2-row:strength=1e-7",)),
]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss has other units elsewhere")
@pytest.mark.parametrize(("loss", "solver", "penalties"), TRAININGS)
def test_a_penalty_takes_little_memory(loss, solver, penalties):
    """38 MB of embeddings; in the report, with 73 MB, the largest multiple is no larger."""
    source = importlib.util.spec_from_file_location("penalty_memory_report", REPORT)
    report = importlib.util.module_from_spec(source)
    source.loader.exec_module(report)
    _, free = report.measure((loss, "none", solver), 150_000, 64)
    for penalty in penalties:
        _, peak = report.measure((loss, penalty, solver), 150_000, 64)
        assert peak <= 1.3 * free, penalty
