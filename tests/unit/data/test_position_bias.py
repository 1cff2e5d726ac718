"""Position bias: simulated clicks of known propensities, and a direct maximum of the likelihood."""

from __future__ import annotations

import numpy as np
import polars
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from ranking import MatchingData, Ranker, estimate_position_bias, read_data
from ranking.errors import DataError
from ranking_plugins.solvers import SGD

THETA = np.array([0.9, 0.6, 0.35, 0.2, 0.1])


def simulate(n_impressions=60_000, n_queries=20, n_documents=8, seed=0):
    """Return a log of lists whose order is often, but not always, the same for a query."""
    rng = np.random.default_rng(seed)
    relevance = rng.uniform(0.05, 0.95, (n_queries, n_documents))
    favourite = rng.permuted(np.tile(np.arange(n_documents), (n_queries, 1)), axis=1)
    lists = n_impressions // THETA.size
    queries = rng.integers(0, n_queries, lists)
    orders = favourite[queries].copy()
    mixed = rng.random(lists) < 0.5
    orders[mixed] = rng.permuted(orders[mixed], axis=1)
    shown = orders[:, : THETA.size]
    clicks = rng.random(shown.shape) < THETA * relevance[queries[:, None], shown]
    positions = np.tile(np.arange(1, THETA.size + 1), (lists, 1))
    columns = np.repeat(queries, THETA.size), shown.ravel(), positions.ravel(), clicks.ravel()
    return relevance, columns


def test_propensities_of_simulated_clicks_are_found():
    relevance, log = simulate()
    bias = estimate_position_bias(*log)
    assert bias.positions.tolist() == [1, 2, 3, 4, 5]
    np.testing.assert_allclose(bias.propensities, THETA / THETA[0], rtol=0.06)
    # The scale of the two factors is not known, so the relevance is that of clicks at the top.
    expected = THETA[0] * relevance[bias.query_ids, bias.document_ids]
    counts = np.zeros(relevance.shape)
    np.add.at(counts, log[:2], 1.0)
    often = counts[bias.query_ids, bias.document_ids] > 500
    assert np.abs(bias.relevance[often] - expected[often]).mean() < 0.03
    # Plain click rates are further off, because of the favourite orders.
    clicks = np.zeros(relevance.shape)
    np.add.at(clicks, log[:2], log[3])
    rates = (clicks / np.maximum(counts, 1))[bias.query_ids, bias.document_ids]
    assert np.corrcoef(bias.relevance, expected)[0, 1] > np.corrcoef(rates, expected)[0, 1] + 0.1


def test_em_reaches_the_maximum_of_the_likelihood():
    _, log = simulate(n_impressions=3_000, n_queries=2, n_documents=6)
    bias = estimate_position_bias(*log, max_epochs=20_000, tolerance=1e-13)
    assert (np.diff(bias.log_likelihoods) >= -1e-9).all()
    pairs, pair = np.unique(log[0] * 100 + log[1], return_inverse=True)

    def loss(x):
        p = (expit(x[:5])[log[2] - 1] * expit(x[5:])[pair]).clip(1e-12, 1.0 - 1e-12)
        return -np.where(log[3], np.log(p), np.log1p(-p)).sum()

    best = minimize(loss, np.zeros(5 + pairs.size), method="L-BFGS-B", options={"maxfun": 10**6})
    assert -bias.log_likelihoods[-1] <= best.fun + 1e-3
    estimates = expit(best.x[:5])
    np.testing.assert_allclose(bias.propensities, estimates / estimates.max(), rtol=0.02)


@pytest.mark.filterwarnings("ignore:.*repeat a user and an item")
def test_inverse_propensities_make_clicks_unbiased():
    relevance, log = simulate()
    queries, documents, positions, clicks = log
    clicked = np.flatnonzero(clicks)
    data = MatchingData.from_interactions(
        queries[clicked],
        documents[clicked],
        propensities=THETA[positions[clicked] - 1],
        duplicates="sum",
    )
    estimated = np.zeros(relevance.shape)
    rows, columns = data.relevance.tocoo().coords
    estimated[data.query_ids[rows], data.document_ids[columns]] = data.relevance.data
    shown, squares = np.zeros(relevance.shape), np.zeros(relevance.shape)
    np.add.at(shown, (queries, documents), 1.0)
    # The variance of a click over its propensity t is r / t - r**2.
    chance = relevance[queries, documents]
    np.add.at(squares, (queries, documents), chance / THETA[positions - 1] - chance**2)
    errors = (estimated - shown * relevance) / np.sqrt(np.maximum(squares, 1.0))
    assert np.abs(errors).max() < 4.5
    assert np.square(errors).mean() == pytest.approx(1.0, abs=0.4)


@pytest.mark.filterwarnings("ignore:.*repeat a user and an item")
@pytest.mark.parametrize("loss", ["bpr", "softmax:temperature=1", "domination"])
def test_training_with_propensities_ranks_by_relevance(loss):
    # Item 0 is better, and shown last; item 1 is shown first and has more clicks.
    rng = np.random.default_rng(1)
    users = np.arange(3000)
    first = rng.random(users.size) < 0.9 * 0.4
    last = rng.random(users.size) < 0.2 * 0.8
    clicks = {
        "users": np.zeros(first.sum() + last.sum(), int),
        "items": np.concatenate((np.ones(first.sum(), int), np.zeros(last.sum(), int))),
    }
    propensities = np.where(clicks["items"] == 1, 0.9, 0.2)
    filler = {"users": np.arange(1, 21), "items": rng.integers(2, 6, 20)}
    ends = []
    for weights in (np.ones(propensities.size), propensities):
        data = MatchingData.from_interactions(
            np.concatenate((clicks["users"], filler["users"])),
            np.concatenate((clicks["items"], filler["items"])),
            propensities=np.concatenate((weights, np.ones(20))),
        )
        # Item 0 is sampled more often than item 1 if, and only if, its weight is larger.
        options = {"sampling": "weighted", "schedule": "constant", "batch_size": 8}
        solver = SGD(epochs=1, steps_per_epoch=800, learning_rate=0.01, **options)
        ranker = Ranker("factored:dimensions=4", loss, "none", solver, random_state=2)
        scores = ranker.fit(data).predict(data)[0]
        ends.append(scores[0] - scores[1])
    assert ends[0] < 0.0 < ends[1]


def test_a_column_of_propensities_divides_the_values(tmp_path):
    lines = ["user,item,rating,propensity", "a,x,3,1", "a,y,3,0.5", "b,x,1,0.01"]
    path = tmp_path / "clicks.csv"
    path.write_text("\n".join(lines) + "\n")
    data = read_data(path, reader="interactions")
    assert data.relevance.toarray().tolist() == [[3.0, 6.0], [20.0, 0.0]]
    clipped = read_data(path, reader="interactions:min_propensity=0.5")
    assert clipped.relevance.toarray().tolist() == [[3.0, 6.0], [2.0, 0.0]]
    frame = polars.read_csv(path)
    same = MatchingData.from_interactions(frame, min_propensity=0.5)
    assert (same.relevance != clipped.relevance).nnz == 0
    # A rating counts as it is, not over its propensity.
    assert MatchingData.from_interactions(frame, min_rating=2).relevance.nnz == 2
    frame.write_parquet(tmp_path / "clicks.parquet")
    parquet = read_data(tmp_path / "clicks.parquet", reader="parquet:min_propensity=0.5")
    assert (parquet.relevance != clipped.relevance).nnz == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"propensities": [1.0, 0.0]}, "a propensity is a probability above 0, and one is 0"),
        ({"propensities": [1.0, 1.5]}, "and one is 1.5"),
        ({"propensities": [1.0, np.nan]}, "and one is nan"),
        ({"propensities": [1.0]}, "expected 2 propensities"),
        ({"propensities": [1.0, 0.5], "min_propensity": 0.0}, "min_propensity is 0"),
    ],
)
def test_impossible_propensities_are_refused(options, message):
    with pytest.raises(DataError, match=message):
        MatchingData.from_interactions(["a", "b"], ["x", "y"], **options)


@pytest.mark.parametrize(
    ("log", "message"),
    [
        ((["a", "a"], ["x", "y"], [1, 2], [1, 0]), "positions 1 and 2 cannot be compared"),
        ((["a", "a"], ["x", "x"], [1, 0], [1, 0]), "positions must be whole numbers from 1"),
        ((["a", "a"], ["x", "x"], [1, 1.5], [1, 0]), "positions must be whole numbers from 1"),
        ((["a", "a"], ["x", "x"], [1, 2], [1, 2]), "a click is 0 or 1, and one is 2"),
        ((["a"], ["x", "x"], [1, 2], [1, 0]), "one entry per impression; there are 1, 2, 2, 2"),
    ],
)
def test_logs_without_an_answer_are_refused(log, message):
    with pytest.raises(DataError, match=message):
        estimate_position_bias(*log)


def test_propensities_are_looked_up_by_position():
    _, log = simulate(n_impressions=5_000)
    bias = estimate_position_bias(*log)
    np.testing.assert_array_equal(bias.at([2, 2, 5]), bias.propensities[[1, 1, 4]])
    with pytest.raises(DataError, match="position 6 is not in the log"):
        bias.at([6])
