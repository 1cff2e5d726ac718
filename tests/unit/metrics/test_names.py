"""Names of other tools: those of equal metrics are accepted, the others named in an error."""

from __future__ import annotations

import numpy as np
import pytest

from ranking import evaluate_run
from ranking.data.trec import Judgements, Run
from ranking.errors import PartError
from ranking.metrics.parse import parse_metric, parse_metrics


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("ndcg_at_10", "ndcg@10"),
        ("ndgc@5", "ndcg@5"),
        ("precison@5", "precision@5"),
        ("map_cut_10", "map"),
        ("HR@10", "hit@10"),
        ("roc_auc", "auc"),
        ("letor_ndcg@10", "letor-ndcg@10"),
    ],
)
def test_a_foreign_name_suggests_the_metric(name, suggestion):
    with pytest.raises(PartError, match="unknown metric") as error:
        parse_metric(name)
    assert f"write '{suggestion}'." in str(error.value)
    parse_metric(suggestion)


def test_a_name_like_no_other_lists_the_metrics():
    with pytest.raises(PartError, match=r"unknown metric 'zzz'\. Available metrics: ndcg, map"):
        parse_metric("zzz")


@pytest.mark.parametrize(
    ("name", "metric"),
    [
        ("nDCG@10", "ndcg@10"),
        ("NDCG", "ndcg"),
        ("ndcg_cut_10", "ndcg@10"),
        ("ndcg_cut.5", "ndcg@5"),
        ("P_10", "p@10"),
        ("P@10(empty=skip)", "p@10(empty=skip)"),
        ("MRR", "mrr"),
        ("RR@10", "mrr@10"),
        ("recip_rank", "mrr"),
        ("AP", "map"),
        ("Rprec", "r-precision"),
        ("recall_1000", "recall@1000"),
        ("success_1", "hit@1"),
        ("Success@5", "hit@5"),
    ],
)
def test_a_name_of_an_equal_metric_means_it(name, metric):
    assert parse_metric(name).spelled() == parse_metric(metric).spelled()
    assert list(parse_metrics(f"{name},map")) == [name, "map"]


def test_trec_eval_agrees_by_its_own_names():
    """The names mean what trec_eval computes under them."""
    pytrec_eval = pytest.importorskip("pytrec_eval", reason="pytrec_eval is not installed")
    rng = np.random.default_rng(0)
    documents = [f"d{at}" for at in range(30)]
    judged = {"q": dict(zip(documents, rng.integers(0, 3, 30).tolist(), strict=True))}
    run = {"q": dict(zip(documents, rng.normal(size=30).tolist(), strict=True))}
    names = ["ndcg_cut_10", "P_10", "recip_rank", "Rprec", "success_1", "recall_10", "bpref"]
    measures = {name.rpartition("_")[0] if name[-1].isdigit() else name for name in names}
    wanted = pytrec_eval.RelevanceEvaluator(judged, measures).evaluate(run)["q"]
    values = evaluate_run(
        Run(["q"] * 30, documents, list(run["q"].values())),
        Judgements(["q"] * 30, documents, list(judged["q"].values())),
        names,
    )
    for name in names:
        assert values[name][0] == pytest.approx(wanted[name], abs=1e-9)
