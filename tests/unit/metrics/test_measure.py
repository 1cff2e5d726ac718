"""Metrics of queries against all documents, against trec_eval and plain sorting."""

from __future__ import annotations

import numpy as np
import pytest
import pytrec_eval

from ranking import Ranker
from ranking.contracts.metric import Metric
from ranking.data.trec import Judgements, Run, join_run
from ranking.errors import DataError, PartError
from ranking.kernels.select import get_kernel
from ranking.metrics import evaluation as module
from ranking.metrics.evaluation import evaluate_model, evaluate_run, query_blocks
from ranking.metrics.parse import parse_metric
from ranking.models.bilinear import Bilinear
from ranking.models.linear import Linear

KINDS = [(kind, same) for kind in ("labels", "relevance") for same in (False, True)]
NAMES = {"map": "map", "ndcg@5": "ndcg_cut_5", "precision@5": "P_5"}


def started(data, scale=1.0):
    model = Bilinear()
    model.initialize(data, 0, get_kernel())
    model.weights = model.weights * np.float32(scale)
    return model


def parse(*names):
    return [parse_metric(name) for name in names]


def trec_eval(data, scores):
    qrels, run = {}, {}
    for query in range(data.n_queries):
        itself = None if data.own_document is None else data.own_document[query]
        others = [d for d in range(data.n_documents) if d != itself]
        if data.labels is not None:
            grades = {d: int(data.is_relevant(query, [d])[0]) for d in others}
        else:
            row = data.relevance[[query]].toarray()[0]
            grades = {d: int(row[d]) for d in others}
        qrels[str(query)] = {str(data.document_ids[d]): grades[d] for d in others}
        run[str(query)] = {str(data.document_ids[d]): float(scores[query, d]) for d in others}
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, {"map", "ndcg_cut.5", "P.5"})
    return evaluator.evaluate(run)


@pytest.mark.parametrize(("kind", "queries_are_documents"), KINDS)
@pytest.mark.parametrize("scale", [1.0, 0.0], ids=["scores", "all tied"])
def test_trec_eval_agrees(matching_kernel, make_matching, kind, queries_are_documents, scale):
    data = make_matching(3, n_documents=15, kind=kind, queries_are_documents=queries_are_documents)
    model = started(data, scale)
    values = evaluate_model(model, parse(*NAMES), data, matching_kernel)
    expected = trec_eval(data, model.scores(data, matching_kernel))
    for metric, (ours, theirs) in zip(parse(*NAMES), NAMES.items(), strict=True):
        want = [expected[str(query)][theirs] for query in range(data.n_queries)]
        np.testing.assert_allclose(values[metric.spelled()], want, atol=1e-9, err_msg=ours)


@pytest.mark.parametrize(("kind", "queries_are_documents"), KINDS)
def test_the_pair_error_counts_ties_as_errors(
    matching_kernel, make_matching, kind, queries_are_documents
):
    data = make_matching(3, kind=kind, queries_are_documents=queries_are_documents)
    model = started(data)
    metric = parse_metric("pair-error")
    values = evaluate_model(model, [metric], data, matching_kernel)[metric.spelled()]
    scores = model.scores(data, matching_kernel)
    for query in range(data.n_queries):
        itself = None if data.own_document is None else data.own_document[query]
        others = [d for d in range(data.n_documents) if d != itself]
        grade = (
            data.is_relevant(query, np.arange(data.n_documents)).astype(float)
            if data.relevance is None
            else data.relevance[[query]].toarray()[0]
        )
        pairs = [(a, b) for a in others for b in others if grade[a] > grade[b]]
        wrong = [scores[query, a] <= scores[query, b] for a, b in pairs]
        assert values[query] == pytest.approx(np.mean(wrong))


@pytest.mark.parametrize(("kind", "queries_are_documents"), KINDS)
@pytest.mark.parametrize("block", [1, 30, 45])
def test_blocks_change_nothing(
    matching_kernel, make_matching, monkeypatch, kind, queries_are_documents, block
):
    data = make_matching(3, kind=kind, queries_are_documents=queries_are_documents)
    model = started(data)
    metrics = parse("map", "ndcg@3", "precision@2", "pair-error", "mean-rank")
    whole = evaluate_model(model, metrics, data, matching_kernel)
    sizes = []
    scorer = Bilinear.scorer

    def watched(self, *args):
        inner = scorer(self, *args)

        def scores(selection):
            sizes.append(selection.size * data.n_documents)
            return inner(selection)

        return scores

    monkeypatch.setattr(Bilinear, "scorer", watched)
    monkeypatch.setattr(module, "BLOCK", block)
    parts = evaluate_model(model, metrics, data, matching_kernel)
    assert max(sizes) <= max(block, data.n_documents)
    assert sum(sizes) == data.n_queries * data.n_documents
    assert set(parts) == set(whole)
    for name, values in whole.items():
        assert parts[name].tobytes() == values.tobytes()


def test_blocks_hold_every_query_once(make_matching, monkeypatch):
    data = make_matching(0, n_queries=7, n_documents=5)
    for block in (1, 5, 9, 10, 11, 34, 35, 36, 1000):
        monkeypatch.setattr(module, "BLOCK", block)
        blocks = query_blocks(data)
        assert np.concatenate(blocks).tolist() == list(range(7))
        assert max(map(len, blocks)) <= max(block // 5, 1)


def test_a_score_is_the_mean(matching_kernel, make_matching):
    data = make_matching(3)
    ranker = Ranker(loss="hinge", solver="sgd:max_steps=0", kernel=matching_kernel).fit(data)
    metric = parse_metric("map")
    values = evaluate_model(ranker.model_, [metric], data, matching_kernel)[metric.spelled()]
    assert ranker.score(data, metric="map") == pytest.approx(values.mean())
    some = data.select([2, 0])
    assert ranker.score(some, metric="map") == pytest.approx(values[[2, 0]].mean())


def test_other_data_are_refused(matching_kernel, make_matching, judged):
    data = make_matching(3)
    with pytest.raises(DataError, match=r"'bilinear' scores queries and documents.*LETOR"):
        evaluate_model(started(data), parse("map"), judged, matching_kernel)
    linear = Linear()
    linear.initialize(judged, 0, matching_kernel)
    with pytest.raises(DataError, match="'linear' scores rows of features"):
        evaluate_model(linear, parse("map"), data, matching_kernel)


def test_metrics_in_python_are_of_models_not_of_runs(matching_kernel, make_matching):
    class Odd(Metric):
        name = "odd"
        higher_is_better = True

        def per_query(self, data, scores):
            return np.zeros(data.n_queries)

        def spelled(self):
            return "odd"

    data = make_matching(3)
    values = evaluate_model(started(data), [Odd()], data, matching_kernel)
    assert values["odd"].tolist() == [0.0] * data.n_queries
    run = join_run(Run(["q"], ["d"], [1.0]), Judgements(["q"], ["d"], [1]))
    with pytest.raises(PartError, match="'odd' measures judged data, not runs"):
        evaluate_run([Odd()], run, matching_kernel)
