"""One model per query: the same as each by itself, whoever shares the work."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from joblib import parallel_config

from ranking import JudgedLists, MatchingData, Ranker, get_kernel
from ranking.contracts.recipe import Search
from ranking.data.own_queries import own_queries
from ranking.errors import DataError
from ranking.metrics.evaluation import evaluate_model
from ranking.metrics.parse import parse_metric
from ranking.training.plan import TrainingPlan
from ranking.training.wrappers.per_query import PerQuery, problems

RANKER = Ranker(loss="domination", regularizer="l1:strength=0.01")
PLAN = RANKER.plan()


def make(seed: int, n_documents: int = 40) -> MatchingData:
    rng = np.random.default_rng(seed)
    documents = sp.csr_array(rng.random((n_documents, 10)) * (rng.random((n_documents, 10)) < 0.5))
    taste = np.random.default_rng(9).normal(size=(5, 10))
    grades = (taste @ documents.toarray().T > 0.7) * 1.0 + (taste @ documents.toarray().T > 1.5)
    grades[3] = 0.0  # nobody
    grades[4] = 1.0  # everybody
    return MatchingData(None, documents, sp.csr_array(grades), query_ids=list("abcde"))


def test_each_is_the_model_of_its_query():
    data = make(0)
    result = PerQuery(PLAN).fit(data)
    weights = result.model.weights.toarray()
    for query in range(3):
        grades = data.relevance[[query]].toarray()[0]
        alone = JudgedLists(data.document_rows, grades, np.zeros(data.n_documents, int))
        np.testing.assert_array_equal(weights[query], RANKER.fit(alone).model_.weights)
        assert result.report[query].facts["nonzero"] == np.count_nonzero(weights[query])
        assert result.report[query].relevant == np.count_nonzero(grades)
    assert not weights[3:].any()
    assert problems(result.report) == {
        "d": "no document matches it",
        "e": "every document matches it equally",
    }


def test_the_model_ranks_other_documents():
    data, other = make(0), make(1)
    metric = parse_metric("map")
    values = evaluate_model(PerQuery(PLAN).fit(data).model, [metric], other, get_kernel())
    assert np.nanmean(values[metric.spelled()][:3]) > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_jobs_change_nothing(backend):
    data = make(2)
    with parallel_config(backend=backend):
        shared = PerQuery(PLAN, jobs=2).fit(data)
    alone = PerQuery(PLAN).fit(data)
    assert shared.model.weights.toarray().tobytes() == alone.model.weights.toarray().tobytes()
    assert problems(shared.report) == problems(alone.report)


def test_labels_are_queries_too():
    rng = np.random.default_rng(0)
    documents = sp.csr_array(rng.random((20, 4)))
    labels = np.arange(20) % 2
    data = MatchingData(None, documents, labels=([0, 1], labels))
    result = PerQuery(PLAN).fit(data)
    grades = (labels == 1).astype(float)
    alone = RANKER.fit(JudgedLists(documents, grades, np.zeros(20, int))).model_.weights
    np.testing.assert_array_equal(result.model.weights.toarray()[1], alone)


def test_a_search_chooses_for_each_query():
    search = Search("regularizer", "strength", (0.3, 0.03, 0.003), "map")
    result = PerQuery(PLAN, search).fit(make(0), make(1))
    assert all(report.facts["strength"] in search.values for report in result.report[:3])
    assert set(problems(result.report)) == {"d", "e"}


def test_what_does_not_belong_together_is_refused():
    data, search = make(0), Search("regularizer", "strength", (0.1,), "map")
    with pytest.raises(DataError, match="give both"):
        PerQuery(PLAN, search).fit(data)
    with pytest.raises(DataError, match="other queries"):
        PerQuery(PLAN, search).fit(data, data.select([0, 1]))


def test_a_label_that_the_validation_data_lack_is_reported():
    search = Search("regularizer", "strength", (0.3, 0.03), "map")
    data, valid = make(0), make(1).select([0, 2])
    result = PerQuery(PLAN, search).fit(own_queries(data), own_queries(valid, data.query_ids))
    assert problems(result.report)["b"] == "no document of the validation data matches it"
    assert set(problems(result.report)) == {"b", "d", "e"}


def test_labelled_data_have_a_query_a_label():
    rng = np.random.default_rng(0)
    rows, labels = rng.random((6, 3)), np.array(["x", "y", "x", "z", "y", "x"])
    data = own_queries(
        MatchingData(rows, rows, labels=(labels, labels), queries_are_documents=True)
    )
    assert data.query_ids.tolist() == ["x", "y", "z"]
    np.testing.assert_array_equal(
        data.relevance.toarray(), labels == np.array([["x"], ["y"], ["z"]])
    )
    again = own_queries(data, np.array(["z", "nobody", "x"]))
    np.testing.assert_array_equal(again.relevance.toarray()[0], labels == "z")
    assert not again.relevance.toarray()[1].any()
    with pytest.raises(DataError, match="these documents have none"):
        own_queries(MatchingData(rows, None, labels=(labels, labels)))


def test_a_ranker_adopts_them_saves_them_and_scores_queries_by_their_ids(tmp_path):
    data, path = make(0), tmp_path / "model.safetensors"
    ranker = Ranker(loss="domination", regularizer="l1:strength=0.01")
    result = PerQuery(ranker.plan(), jobs=2).fit(data)
    ranker.adopt(result)
    ranker.save(path)
    again = Ranker.load(path)
    # Features of queries do not matter, and the order of the queries follows their ids.
    other = MatchingData(np.ones((2, 3)), data.documents, np.ones((2, 40)), query_ids=["c", "a"])
    expected = result.model.weights.toarray()[[2, 0]] @ data.document_rows.toarray().T
    for each in (ranker, again):
        np.testing.assert_allclose(each.predict(other), expected, rtol=1e-12)
    output = again.description_["per query"]
    assert [row["problem"] for row in output][3] == "no document matches it"
    assert output[0]["nonzero"] == result.report[0].facts["nonzero"]
    assert "seconds" not in output[0]


def test_nothing_to_adopt_is_refused():
    data = make(0).select([3, 4])
    with pytest.raises(DataError, match="none of the 2 queries could be trained"):
        PerQuery(PLAN).fit(data)


def test_threads_of_the_ranker_do_not_multiply_those_of_the_jobs(monkeypatch):
    seen = []
    fit = TrainingPlan.fit
    monkeypatch.setattr(
        TrainingPlan, "fit", lambda self, data: (seen.append(self.threads), fit(self, data))[1]
    )
    plan = TrainingPlan(loss="domination", solver="coordinate:max_epochs=3,tolerance=0", threads=2)
    PerQuery(plan, jobs=1).fit(make(0))
    PerQuery(plan, jobs=2).fit(make(0))
    assert seen == [2] * 3 + [1] * 3
