"""Metrics from the k best documents are equal to those of the full sort."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from ranking import MatchingData
from ranking.data.exclusions import find_exclusions
from ranking.kernels.contract import Factors
from ranking.kernels.select import get_kernel
from ranking.metrics import evaluation
from ranking.metrics.evaluation import evaluate_model
from ranking.metrics.parse import parse_metric
from ranking.models.factored import Factored

NAMES = (
    "ndcg@5",
    "ndcg@3(gain=exp2)",
    "precision@4",
    "recall@20",
    "recall@5(ties=file)",
    "mrr@3",
    "letor-ndcg@5",
    "letor-p@3",
)


def interactions(seed, shape=(25, 40), ids=None):
    rng = np.random.default_rng(seed)
    grades = rng.integers(1, 4, shape) * (rng.random(shape) < 0.15)
    document_ids = np.arange(shape[1]) if ids is None else ids
    return MatchingData(None, None, sp.csr_array(grades.astype(float)), document_ids=document_ids)


def model_with_ties(data, seed, levels):
    """Embeddings of few small integers, so that many scores are equal."""
    model = Factored(dimensions=8, biases=True)
    model.initialize(data, seed, get_kernel())
    rng = np.random.default_rng(seed)
    draw = [rng.integers(-levels, levels + 1, part.shape) for part in model.factors]
    model.factors = Factors(*(part.astype(np.float32) for part in draw))
    return model


@pytest.mark.parametrize("levels", [0, 1, 40], ids=["all tied", "many ties", "few ties"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("seen", [False, True])
def test_top_k_values_equal_those_of_the_full_sort(
    matching_kernel, monkeypatch, levels, threads, seen
):
    data = interactions(1, ids=np.array([f"d{i * 7 % 41}" for i in range(40)]))
    other = interactions(2, ids=data.document_ids)
    exclusions = find_exclusions(data, other) if seen else None
    model = model_with_ties(data, 3, levels)
    metrics = [parse_metric(name) for name in NAMES]
    best = evaluate_model(model, metrics, data, matching_kernel, threads, exclusions)
    monkeypatch.setattr(evaluation, "evaluate_top_k", lambda *_: None)
    full = evaluate_model(model, metrics, data, matching_kernel, threads, exclusions)
    assert list(best) == list(full)
    for name, values in full.items():
        np.testing.assert_array_equal(best[name], values, err_msg=name)


def test_no_score_outside_the_top_k_is_kept(matching_kernel, monkeypatch):
    data = interactions(1)
    model = model_with_ties(data, 0, 3)

    def refuse(self, *_):
        raise AssertionError("the scorer of all documents was called")

    monkeypatch.setattr(Factored, "scorer", refuse)
    evaluate_model(model, [parse_metric("recall@20")], data, matching_kernel)
    with pytest.raises(AssertionError, match="all documents"):
        evaluate_model(model, [parse_metric("map")], data, matching_kernel)


@pytest.mark.parametrize("scale", [1e25, np.nan], ids=["huge", "NaN"])
def test_scores_that_may_overflow_take_the_full_sort(matching_kernel, monkeypatch, scale):
    data = interactions(1)
    model = model_with_ties(data, 0, 3)
    model.factors = Factors(*(part * np.float32(scale) for part in model.factors))
    used = []
    monkeypatch.setattr(
        evaluation,
        "_evaluate_all",
        lambda _, measures, *__: used.append(1) or dict.fromkeys(measures),
    )
    evaluate_model(model, [parse_metric("recall@20")], data, matching_kernel)
    assert used
