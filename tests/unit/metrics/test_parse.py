"""Spelling of metrics: what is read, and that what is printed is read back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranking.contracts.parameters import constraints
from ranking.errors import PartError
from ranking.metrics.ndcg import NDCG, LetorNDCG
from ranking.metrics.parse import parse_metric, parse_metrics

TREC = "gain=linear,discount=log2,ties=docid,empty=zero,short=keep,scores=float32"
LETOR = "gain=exp2,discount=letor,ties=file,empty=zero,short=zero,scores=float64"


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("ndcg", f"ndcg({TREC})"),
        ("ndcg@10", f"ndcg@10({TREC})"),
        (" ndcg@10( gain = exp2 ) ", f"ndcg@10({TREC.replace('linear', 'exp2')})"),
        ("ndcg@10()", f"ndcg@10({TREC})"),
        ("letor-ndcg@5", f"letor-ndcg@5({LETOR})"),
        ("letor-mean-ndcg", f"letor-mean-ndcg({LETOR.replace('short=zero,', '')})"),
        ("map", "map(ties=docid,empty=zero,scores=float32)"),
        ("map(empty=skip)", "map(ties=docid,empty=skip,scores=float32)"),
        ("letor-map", "letor-map(ties=file,empty=zero,scores=float64)"),
        ("p@10", "p@10(ties=docid,empty=zero,scores=float32)"),
        ("precision@10", "p@10(ties=docid,empty=zero,scores=float32)"),
        ("letor-p@3", "letor-p@3(ties=file,empty=zero,scores=float64)"),
    ],
)
def test_spelled(registry, text, spelled):
    metric = parse_metric(text, registry)
    assert metric.spelled() == spelled
    assert parse_metric(spelled, registry) == metric
    assert metric.higher_is_better


@given(
    st.one_of(st.none(), st.integers(1, 10**9)),
    st.fixed_dictionaries(
        {
            key: st.sampled_from(rule.words)
            for key, rule in constraints(NDCG).items()
            if rule.kind == "word"
        }
    ),
)
def test_every_choice_is_read_back(registry, k, choices):
    for kind in (NDCG, LetorNDCG):
        metric = kind(k, **choices)
        assert parse_metric(metric.spelled(), registry) == metric


def test_lists_split_outside_parentheses_only(registry):
    text = "ndcg@5, map,ndcg@10(gain=exp2,ties=average),letor-ndcg@10"
    parsed = parse_metrics(text, registry)
    assert ", ".join(parsed).replace(", map, ", ", map,") == text.replace(",letor", ", letor")
    metrics = list(parsed.values())
    assert parse_metrics(list(parsed), registry) == parsed
    assert [metric.name for metric in metrics] == ["ndcg", "map", "ndcg", "letor-ndcg"]
    assert metrics[2] == NDCG(10, gain="exp2", ties="average")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ndgc@10", r"unknown metric 'ndgc@10'; write 'ndcg@10'. Available metrics: ndcg, map"),
        ("ndcg@0", "ndcg has k=0; it must be an integer >= 1 or none"),
        ("ndcg@-1", "cut-off '-1' is not a whole number"),
        ("ndcg@ten", "cut-off 'ten' is not a whole number"),
        ("ndcg@", "cut-off '' is not a whole number"),
        ("ndcg@5(gian=exp2)", "has no option 'gian'; its options are gain, discount, ties"),
        ("ndcg(k=5)", "has no option 'k'"),
        ("ndcg@5(gain=cubic)", "ndcg has gain='cubic'; it must be one of linear, exp2"),
        ("map(ties=average)", "map has ties='average'; it must be one of docid, file"),
        ("ndcg@5(gain)", "cannot parse 'gain'"),
        ("ndcg@5(gain=)", "cannot parse 'gain='"),
        ("ndcg@5(gain=exp2,gain=exp2)", "gives 'gain' twice"),
        ("map@10", "metric 'map' has no cut-off; write 'map'"),
        ("p", "needs a cut-off; write for example p@10"),
        ("ndcg@5(gain=exp2", "cannot parse the metric"),
        ("ndcg@5)", "cannot parse the metric"),
        ("", "cannot parse the metric ''"),
        ("ndcg@5,,map", "cannot parse the metric ''"),
    ],
)
def test_refused(registry, text, message):
    with pytest.raises(PartError, match=message):
        parse_metrics(text, registry)


def test_parameters_are_checked_when_they_are_set():
    with pytest.raises(PartError, match=r"ndcg has ties=.random.; it must be one of docid, file"):
        NDCG().set_params(ties="random")
