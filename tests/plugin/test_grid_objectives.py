"""The reported objective of every cell of the grid over a whole run.

`coordinate`, and `alternating` for losses of fixed lists, never raise it. SGD is stochastic: an
epoch may raise it by its stochastic error, for which the test takes three standard errors of the
mean loss of the evaluation sample, from the losses of that sample after the epoch.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ranking import Ranker
from ranking_plugins.solvers.steps import Steps

LOSSES = ("hinge", "warp:max_trials=5", "domination")
REGULARIZERS = ("l1", "l2", "l1l2-row", "orthonormal")
SOLVERS = (
    "sgd:epochs=25",
    "coordinate:max_epochs=15,tolerance=0",
    "alternating:max_epochs=12,tolerance=0",
)
CELLS = list(itertools.product(LOSSES, REGULARIZERS, SOLVERS))


@pytest.mark.slow
@pytest.mark.parametrize(("loss", "regularizer", "solver"), CELLS, ids=" x ".join)
def test_the_objective_of_a_run_does_not_rise(make_tastes, monkeypatch, loss, regularizer, solver):
    errors = []

    def mean_loss(self, source):
        losses = self._losses(*self.margins(source))
        errors.append(float(losses.std() / np.sqrt(losses.size)))
        return float(losses.mean())

    monkeypatch.setattr(Steps, "mean_loss", mean_loss)
    data = make_tastes(1, 60, 80, share=0.4)
    model = "factored:dimensions=8,init_scale=0.1"
    fitted = Ranker(model, loss, regularizer, solver, random_state=1).fit(data)
    objectives = [row["objective"] for row in fitted.history_]
    fixed = solver.startswith("coordinate") or (
        solver.startswith("alternating") and not loss.startswith("warp")
    )
    assert len(objectives) > 2
    assert objectives[-1] < objectives[0]
    if fixed:
        assert objectives == sorted(objectives, reverse=True)
        return
    assert len(errors) == len(objectives)
    for (before, after), error in zip(itertools.pairwise(objectives), errors[1:], strict=True):
        assert after <= before + 3.0 * error
    # Nor does the sum of small rises exceed that.
    assert objectives[-1] <= min(objectives) + 3.0 * max(errors)
