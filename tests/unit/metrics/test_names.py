"""A name of another tool, or a misspelt one, gets an error that names the right metric."""

from __future__ import annotations

import pytest

from ranking.errors import PartError
from ranking.metrics.parse import parse_metric


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("nDCG@10", "ndcg@10"),
        ("NDCG", "ndcg"),
        ("ndcg_cut_10", "ndcg@10"),
        ("ndcg_at_10", "ndcg@10"),
        ("ndgc@5", "ndcg@5"),
        ("P_10", "p@10"),
        ("P@10", "p@10"),
        ("precison@5", "precision@5"),
        ("MRR", "mrr"),
        ("RR@10", "mrr@10"),
        ("recip_rank", "mrr"),
        ("map_cut_10", "map"),
        ("AP", "map"),
        ("Rprec", "r-precision"),
        ("recall_1000", "recall@1000"),
        ("HR@10", "hit@10"),
        ("success_1", "hit@1"),
        ("Success@5", "hit@5"),
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
