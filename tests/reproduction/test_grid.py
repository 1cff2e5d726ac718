"""`ranking reproduce grid`: all 36 cells of losses, regularizers and solvers train."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import pytest

from ranking import Ranker
from ranking_plugins.reproductions import Options, grid
from ranking_plugins.reproductions.held_out import read_likes

pytestmark = [pytest.mark.slow, pytest.mark.reproduction]


@pytest.mark.filterwarnings("ignore:.* sets all .* to 0")  # of the strengths that are tried
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


@pytest.mark.filterwarnings("ignore:.*sets all embeddings to 0")
@pytest.mark.parametrize("solver", ["sgd:epochs=6", "alternating:max_epochs=4,tolerance=0"])
def test_a_strength_of_2_percent_does_not_raise_the_objective(real_data: Path, solver: str):
    """SGD may raise it by three standard errors of the mean of its evaluation sample.

    The losses of that sample have a deviation of less than 1 here.
    """
    train, _ = read_likes(real_data / "interactions", 0, validate=True)
    model = "factored:dimensions=16,init_scale=0.1"
    fitted = Ranker(model, "hinge", "l2:strength=0.02", solver).fit(train)
    objectives = [row["objective"] for row in fitted.history_]
    error = 3.0 / math.sqrt(train.relevance.nnz) if solver.startswith("sgd") else 0.0
    assert all(after <= before + error for before, after in itertools.pairwise(objectives))
    assert objectives[-1] < 0.6  # of 1 at the start
