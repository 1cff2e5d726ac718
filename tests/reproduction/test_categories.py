"""Topics of Reuters-21578: PAMIR's quality with a fiftieth of its weights, or fewer."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ranking import Ranker, get_kernel
from ranking.metrics.evaluation import evaluate_model
from ranking.metrics.parse import parse_metric
from ranking.training.wrappers.per_query import PerQuery, problems
from ranking_plugins.recipes.domination import domination_induction
from ranking_plugins.reproductions import categories


def test_feature_induction_needs_few_weights(real_data: Path):
    parts = categories.read(real_data / "text" / "reuters21578", quick=False, seed=0)
    solver = "passive-aggressive:max_steps=1000000,aggressiveness=0.01,steps_per_epoch=1000000"
    pamir = Ranker("bilinear:initial=zero", "hinge", solver=solver).fit(parts.train).model_
    # What the search on the validation part comes to.
    recipe = {**domination_induction().parts, "regularizer": "l1:strength=0.1"}
    result = PerQuery(Ranker(**recipe).plan()).fit(parts.train)
    assert not problems(result.report)
    metrics = [parse_metric(name) for name in ("map", "p@10")]
    for metric in metrics:
        mine, theirs = (
            np.nanmean(evaluate_model(model, [metric], parts.test, get_kernel())[metric.spelled()])
            for model in (result.model, pamir)
        )
        assert mine >= 0.98 * theirs, metric.spelled()
    assert result.model.weights.nnz <= 0.02 * pamir.weights.nnz
