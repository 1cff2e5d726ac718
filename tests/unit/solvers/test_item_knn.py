"""Nearest neighbours of items against loops, and the numerical minimum of their objective."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

from ranking import MatchingData, Ranker
from ranking.errors import DataWarning
from ranking_plugins.solvers import ItemKNN


def make_counts(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    counts = rng.poisson(1.2, (15, 8)) * (rng.random((15, 8)) < 0.5)
    counts[:, 3] = 0  # an item that nobody has
    counts[0, 0] = counts[0, 1] = 1
    return counts.astype(float)


def neighbours(counts: np.ndarray, k: int, shrinkage: float) -> np.ndarray:
    """Return the weights, one column per item that is scored, by loops."""
    n = counts.shape[1]
    weights = np.zeros((n, n))
    for j in range(n):
        result = []
        for i in range(n):
            product = counts[:, i] @ counts[:, j]
            if i != j and product > 0:
                lengths = np.linalg.norm(counts[:, i]) * np.linalg.norm(counts[:, j])
                result.append((-product / (lengths + shrinkage), i))
        for negative, i in sorted(result)[:k]:
            weights[i, j] = -negative
    return weights


@pytest.mark.parametrize(("k", "shrinkage"), [(100, 0.0), (3, 0.0), (2, 5.0)])
def test_weights_and_scores_are_those_of_loops(seed, k, shrinkage):
    counts = make_counts(seed)
    data = MatchingData(None, None, sp.csr_array(counts))
    solver = ItemKNN(neighbors=k, shrinkage=shrinkage)
    ranker = Ranker.from_recipe("item-knn", solver=solver).fit(data)
    expected = neighbours(counts, k, shrinkage)
    np.testing.assert_allclose(ranker.model_.weights.toarray(), expected, rtol=1e-6)
    np.testing.assert_allclose(ranker.predict(data), counts @ expected, rtol=1e-5, atol=1e-6)


def test_the_weights_minimise_the_objective(seed):
    counts, shrinkage = make_counts(seed), 2.0
    data = MatchingData(None, None, sp.csr_array(counts))
    solver = ItemKNN(neighbors=100, shrinkage=shrinkage)
    ranker = Ranker.from_recipe("item-knn", solver=solver).fit(data)
    gram = counts.T @ counts
    norms = np.sqrt(np.diag(gram))
    penalty = np.outer(norms, norms) + shrinkage
    off = ~np.eye(8, dtype=bool)

    def objective(flat):
        weights = np.zeros((8, 8))
        weights[off] = flat
        value = (penalty * weights**2 / 2 - gram * weights)[off].sum()
        return value, (penalty * weights - gram)[off]

    result = minimize(objective, np.zeros(56), jac=True, method="L-BFGS-B", options={"ftol": 1e-15})
    assert ranker.objective_ == pytest.approx(result.fun, rel=1e-6)
    np.testing.assert_allclose(ranker.model_.weights.toarray()[off], result.x, atol=1e-4)


def test_users_are_recommended_folded_in_explained_and_stored(tmp_path):
    seen = MatchingData.from_interactions(
        ["ann", "ann", "bob", "cy", "cy", "dan", "dan"],
        ["alien", "heat", "heat", "heat", "brazil", "heat", "alien"],
    )
    ranker = Ranker.from_recipe("item-knn", solver="item-knn:shrinkage=0").fit(seen)
    # heat and alien: 2 common users of 4 and 2; heat and brazil: 1 of 4 and 1.
    expected = [("alien", 2 / np.sqrt(8)), ("brazil", 1 / 2)]
    for results in (ranker.recommend(["bob"])["bob"], ranker.fold_in(seen, [["heat"]])[0]):
        assert [item for item, _ in results] == [item for item, _ in expected]
        assert [score for _, score in results] == pytest.approx([score for _, score in expected])
    (part,) = ranker.explain("bob", "alien")
    assert part.contribution == pytest.approx(2 / np.sqrt(8))
    ranker.save(tmp_path / "model.safetensors")
    loaded = Ranker.load(tmp_path / "model.safetensors")
    assert list(loaded.recommend(["bob"])) == list(ranker.recommend(["bob"]))


def test_features_are_left_out_with_a_warning():
    with pytest.warns(DataWarning, match="knows queries .* by id only"):
        Ranker.from_recipe("item-knn").fit(
            MatchingData(None, np.eye(8), sp.csr_array(make_counts(0)))
        )
