"""hit, ERR, RBP and bpref against trec_eval and the published formulas; metrics of a catalogue."""

from __future__ import annotations

import dataclasses
import itertools
from typing import ClassVar

import numpy as np
import pytest
import pytrec_eval

from ranking import JudgedLists, MatchingData, Ranker, evaluate_run, parse_metric
from ranking.contracts import Metric
from ranking.data.trec import Judgements, Run
from ranking.errors import DataError, PartError
from ranking.metrics.evaluation import evaluate


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(5)


@pytest.fixture
def judged(rng: np.random.Generator) -> tuple[Run, Judgements]:
    """Return a run with unjudged documents, and judgements of others too."""
    run, qrels = [], []
    for query in map(str, range(20)):
        names = [f"d{at}" for at in rng.permutation(30)]
        run += [(query, name, float(np.round(rng.normal(), 1))) for name in names[:20]]
        some = rng.permutation(30)[:14]
        qrels += [(query, f"d{at}", int(rng.integers(0, 3))) for at in some]
    return Run(*zip(*run, strict=True)), Judgements(*zip(*qrels, strict=True))


def test_hit_and_bpref_are_those_of_trec_eval(judged: tuple[Run, Judgements]):
    run, judgements = judged
    qrel: dict[str, dict[str, int]] = {}
    for row, document, grade in zip(
        judgements.row_groups, judgements.document_ids, judgements.grades, strict=True
    ):
        qrel.setdefault(str(judgements.query_ids[row]), {})[str(document)] = int(grade)
    scores: dict[str, dict[str, float]] = {}
    for row, document, score in zip(run.row_groups, run.document_ids, run.scores, strict=True):
        scores.setdefault(str(run.query_ids[row]), {})[str(document)] = float(score)
    expected = pytrec_eval.RelevanceEvaluator(qrel, {"bpref", "success"}).evaluate(scores)
    evaluation = evaluate_run(run, judgements, ["bpref", "hit@1", "hit@5", "hit@10"])
    for name, theirs in (("bpref", "bpref"), ("hit@1", "success_1"), ("hit@5", "success_5")):
        wanted = [expected[str(query)][theirs] for query in evaluation.query_ids]
        assert evaluation[name] == pytest.approx(wanted)


def test_err_is_the_expectation_over_where_the_user_stops(rng: np.random.Generator):
    grades = rng.integers(0, 5, size=6)
    data = JudgedLists(np.zeros((6, 1)), grades, np.zeros(6, int))
    values = evaluate([parse_metric("err"), parse_metric("err@3")], data, -np.arange(6.0))
    stop = (2.0**grades - 1) / 16
    for name, depth in (("err(max_grade=4)", 6), ("err@3(max_grade=4)", 3)):
        expected = sum(stop[at] * np.prod(1 - stop[:at]) / (at + 1) for at in range(depth))
        assert values[name] == pytest.approx([expected])


def test_err_refuses_grades_beyond_its_scale():
    data = JudgedLists(np.zeros((2, 1)), [0, 7], [1, 1])
    with pytest.raises(DataError, match=r"max_grade=7"):
        evaluate([parse_metric("err")], data, np.arange(2.0))


def test_rbp_of_the_paper():
    # Moffat and Zobel, 2008: (1 - p) times the sum of relevance by p to the rank less one.
    data = JudgedLists(np.zeros((5, 1)), [1, 0, 1, 1, 0], np.zeros(5, int))
    metrics = [parse_metric("rbp(p=0.5)"), parse_metric("rbp@2")]
    values = evaluate(metrics, data, -np.arange(5.0))
    assert values["rbp(p=0.5)"] == pytest.approx([0.5 * (1 + 0.25 + 0.125)])
    assert values["rbp@2(p=0.8)"] == pytest.approx([0.2])


@pytest.fixture
def interactions(rng: np.random.Generator) -> MatchingData:
    matrix = (rng.random((12, 9)) < 0.4).astype(float)
    matrix[:, 0] = 1.0
    return MatchingData(None, None, matrix)


def test_catalogue_metrics_are_those_of_the_lists(interactions: MatchingData):
    ranker = Ranker.from_recipe("item-knn").fit(interactions)
    names = ["coverage@3", "novelty@3", "popularity@3", "diversity@3", "hit@3"]
    evaluation = ranker.evaluate(interactions, metrics=names)
    lists = {q: [name for name, _ in best] for q, best in ranker.rank(interactions, 3)}
    matrix = interactions.relevance.toarray()
    place = {name: at for at, name in enumerate(interactions.document_ids.tolist())}
    share = matrix.mean(axis=0)
    everything = set(itertools.chain.from_iterable(lists.values()))
    assert evaluation.mean("coverage@3") == pytest.approx(len(everything) / 9)
    for row, query in enumerate(interactions.query_ids.tolist()):
        items = [place[name] for name in lists[query]]
        assert evaluation["novelty@3"][row] == pytest.approx(-np.log2(share[items]).mean())
        assert evaluation["popularity@3"][row] == pytest.approx(share[items].mean())
        unit = matrix[:, items] / np.linalg.norm(matrix[:, items], axis=0)
        cosines = [unit[:, a] @ unit[:, b] for a, b in itertools.combinations(range(3), 2)]
        assert evaluation["diversity@3"][row] == pytest.approx(1 - np.mean(cosines))
        assert evaluation["hit@3"][row] == float(matrix[row, items].any())


def test_catalogue_metrics_refuse_judged_rows():
    data = JudgedLists(np.eye(2), [0, 1], [1, 1])
    with pytest.raises(PartError, match="catalogue"):
        evaluate([parse_metric("novelty@1")], data, np.arange(2.0))


@dataclasses.dataclass
class _Highest(Metric):
    """The grade of the first document, as a plugin may compute it."""

    name: ClassVar[str] = "highest"

    def per_query(self, data, scores):
        """Return the grades."""
        bounds = itertools.pairwise(data.group_ptr)
        return np.array([data.grades[a:b][np.argmax(scores[a:b])] for a, b in bounds])

    def spelled(self) -> str:
        """Return the name."""
        return "highest"


def test_a_metric_of_a_plugin_measures_matching_data(interactions: MatchingData):
    from ranking.metrics.evaluation import evaluate_model

    ranker = Ranker.from_recipe("item-knn").fit(interactions)
    values = evaluate_model(ranker.model_, [_Highest()], interactions, ranker.kernel_)
    expected = ranker.evaluate(interactions, metrics=["p@1"])["p@1"]
    assert values["highest"] == pytest.approx(expected)
