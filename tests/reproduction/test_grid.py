"""`ranking reproduce grid`: all 36 cells of losses, regularizers and solvers train."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import pytest

from ranking_plugins.reproductions import Options, grid

pytestmark = [pytest.mark.slow, pytest.mark.reproduction]


def test_every_cell_trains_and_has_the_property_of_its_regularizer(real_data: Path):
    options = Options(real_data, True, "cython", 1, 0, lambda text: None)
    rows = {}
    for row in grid.rows(options):
        if row.dataset != "MovieLens 100K":
            break
        rows[row.method] = row
    cells = {}
    for method, row in rows.items():
        if " x " in method:
            loss, regularizer, solver = method.split(" x ")
            cells[loss, regularizer.partition(":")[0], solver] = row.metrics
    names = itertools.product(grid.LOSSES, grid.REGULARIZERS, grid.SOLVERS)
    assert set(names) <= set(cells)
    for (loss, regularizer, solver), metrics in cells.items():
        assert math.isfinite(metrics["map"])
        assert metrics["last"] < metrics.get("start", metrics["first"])
        if solver == "coordinate" or (solver == "alternating" and loss != "warp"):
            assert metrics["falls"] == 1.0
        if regularizer == "l1l2-row":
            assert metrics["largest norm"] <= 1.0 + 1e-5
        if regularizer in ("l1", "l1l2-row"):
            assert metrics["zeros"] > 0.0
        if regularizer == "orthonormal":
            assert metrics["off"] < 1e-4
    popularity, untrained = (rows[name].metrics["map"] for name in ("popularity", "untrained"))
    assert popularity > untrained
