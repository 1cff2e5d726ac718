"""The bilingual topic model against loops over words and topics."""

from __future__ import annotations

from math import log

import numpy as np
import pytest
import scipy.sparse as sp

from ranking import MatchingData, Ranker
from ranking.errors import DataError, ModelFileError

SETTINGS = "topics:dimensions=3,topic_prior=0.2,fold_in=4,words=0.6,smoothing=0.25"


def counted(seed: int) -> MatchingData:
    rng = np.random.default_rng(seed)
    queries, documents = rng.poisson(0.6, (5, 6)), rng.poisson(0.9, (7, 5))
    queries[:, 0] = documents[:, 0] = 1
    clicks = rng.poisson(0.5, (5, 7)).astype(float)
    clicks[0, 0] = 2.0
    return MatchingData(
        queries.astype(float),
        documents.astype(float),
        sp.csr_array(clicks),
        query_feature_ids=["a", "b", "c", "d", "e", "f"],
        document_feature_ids=["b", "x", "a", "y", "d"],
    )


def em_by_loops(data, tables, epochs, weighting, topic_prior=0.2, word_prior=0.05):
    """Expected counts, word by word: topics of pairs, words of topics, objectives."""
    sides = (data.query_rows.toarray(), data.document_rows.toarray())
    grades = data.relevance.toarray()
    pairs = [(q, d) for q in range(5) for d in range(7) if grades[q, d] > 0]
    theta = {pair: np.full(3, 1 / 3) for pair in pairs}
    objectives = []
    for _ in range(epochs):
        new_theta = {pair: np.full(3, topic_prior) for pair in pairs}
        new_tables = [np.full_like(table, word_prior) for table in tables]
        for pair in pairs:
            weight = grades[pair] if weighting == "clicks" else 1.0
            for side in (0, 1):
                for word, count in enumerate(sides[side][pair[side]]):
                    chances = theta[pair] * tables[side][word]
                    expected = weight * count * chances / chances.sum()
                    new_theta[pair] += expected
                    new_tables[side][word] += expected
        theta = {pair: each / each.sum() for pair, each in new_theta.items()}
        tables = [table / table.sum(axis=0) for table in new_tables]
        total, words = 0.0, 0.0
        for pair in pairs:
            weight = grades[pair] if weighting == "clicks" else 1.0
            total += topic_prior * np.log(theta[pair]).sum()
            for side in (0, 1):
                for word, count in enumerate(sides[side][pair[side]]):
                    if count:
                        words += weight * count
                        total += weight * count * log(theta[pair] @ tables[side][word])
        total += sum(word_prior * np.log(table).sum() for table in tables)
        objectives.append(-total / words)
    return tables, objectives


@pytest.mark.parametrize("weighting", ["uniform", "clicks"])
def test_em_is_that_of_loops_and_never_worse(weighting, seed):
    data = counted(seed)
    solver = f"em:max_epochs=6,tolerance=0,word_prior=0.05,weighting={weighting}"
    start = Ranker(SETTINGS, "likelihood", "none", solver, random_state=seed)
    trainer = start.plan().trainer(data)
    tables = [trainer.model.query_words.copy(), trainer.model.document_words.copy()]
    ranker = start.fit(data)
    expected, objectives = em_by_loops(data, tables, 6, weighting)
    np.testing.assert_allclose(ranker.model_.query_words, expected[0], rtol=1e-10)
    np.testing.assert_allclose(ranker.model_.document_words, expected[1], rtol=1e-10)
    history = [row["objective"] for row in ranker.history_]
    np.testing.assert_allclose(history, objectives, rtol=1e-10)
    assert (np.diff(history) <= 1e-12).all()


def test_scores_are_log_probabilities_of_queries(seed):
    data = counted(seed)
    model = Ranker(SETTINGS, "likelihood", "none", "em:max_epochs=3").fit(data)
    ranker, model = model, model.model_
    Q, D = data.query_rows.toarray(), data.document_rows.toarray()
    names = data.query_feature_ids.tolist(), data.document_feature_ids.tolist()
    collection = np.array(
        [
            1.0 + Q[:, at].sum() + (D[:, names[1].index(name)].sum() if name in names[1] else 0.0)
            for at, name in enumerate(names[0])
        ]
    )
    collection /= collection.sum()
    wanted = np.zeros((5, 7))
    for d in range(7):
        theta = np.full(3, 1 / 3)
        for _ in range(4):
            counts = np.full(3, 0.2)
            for word in range(5):
                chances = theta * model.document_words[word]
                counts += D[d, word] * chances / chances.sum()
            theta = counts / counts.sum()
        length = sum(D[d, names[1].index(name)] for name in names[0] if name in names[1])
        for q in range(5):
            for at, name in enumerate(names[0]):
                own = D[d, names[1].index(name)] / length if name in names[1] else 0.0
                mixed = 0.6 * own + 0.4 * theta @ model.query_words[at]
                wanted[q, d] += Q[q, at] * log(0.25 * collection[at] + 0.75 * mixed)
    np.testing.assert_allclose(ranker.predict(data), wanted, rtol=1e-9)


def test_topics_relate_words_that_never_meet():
    """Queries say 'car', documents 'auto': only the clicks connect them."""
    rng = np.random.default_rng(0)
    subject = np.repeat([0, 1, 2], 20)
    queries = np.zeros((60, 9))
    documents = np.zeros((60, 9))
    for at, one in enumerate(subject):
        queries[at, 3 * one + rng.integers(0, 3, 2)] = 1.0
        documents[at, 3 * one + rng.integers(0, 3, 4)] += 1.0
    names = [f"q{i}" for i in range(9)], [f"d{i}" for i in range(9)]
    data = MatchingData(
        queries,
        documents,
        sp.csr_array((subject[:, None] == subject[None, :]).astype(float)),
        query_feature_ids=names[0],
        document_feature_ids=names[1],
    )
    ranker = Ranker("topics:dimensions=3", "likelihood", "none", "em", random_state=1).fit(data)
    assert ranker.score(data, metric="p@10") > 0.9


def test_a_resumed_run_has_the_same_bits(seed):
    data = counted(seed)
    spec = (SETTINGS, "likelihood", "none", "em:max_epochs=5,tolerance=0")
    whole = Ranker(*spec).fit(data)
    trainer = Ranker(*spec).plan().trainer(data)
    epochs = trainer.solver.run_epochs(trainer.problem())
    next(epochs)
    state = dict(next(epochs).state())
    rest = list(trainer.solver.run_epochs(trainer.problem(state)))
    assert [one.epoch for one in rest] == [3, 4, 5]
    assert np.array_equal(trainer.model.query_words, whole.model_.query_words)


def test_what_is_no_count_and_damaged_files_are_refused():
    data = counted(0)
    negative = data._replace(queries=-data.query_rows)
    with pytest.raises(DataError, match="topics need counts of words, and the queries"):
        Ranker(SETTINGS, "likelihood", "none", "em").fit(negative)
    model = Ranker(SETTINGS, "likelihood", "none", "em:max_epochs=2").fit(data).model_
    for name, change in (
        ("query_words", np.zeros((6, 2))),
        ("document_words", np.full((5, 3), np.nan)),
        ("collection", np.zeros(6)),
    ):
        with pytest.raises(ModelFileError, match=name):
            type(model)(dimensions=3).restore(model.tensors() | {name: change})
