"""Users without training data are ranked by popularity, and reported."""

from __future__ import annotations

import numpy as np
import pytest

from ranking import MatchingData, Ranker
from ranking.errors import DataWarning

USERS = ["a", "a", "b", "b", "c", "c", "d"]
ITEMS = ["w", "x", "x", "y", "x", "z", "w"]


@pytest.fixture
def train() -> MatchingData:
    return MatchingData.from_interactions(USERS, ITEMS)


@pytest.mark.parametrize("recipe", ["warp", "item-knn", "ease"])
def test_an_unknown_user_gets_the_most_popular_items(recipe: str, train: MatchingData):
    ranker = Ranker.from_recipe(recipe).fit(train)
    test = MatchingData.from_interactions(["new", "a"], ["w", "y"])
    with pytest.warns(DataWarning, match=r"1 of 2 .* 'new'.* popularity"):
        results = ranker.rank(test, 2)
    assert [name for name, _ in results["new"]] == ["x", "w"]
    assert [score for _, score in results["new"]] == [3.0, 2.0]
    known = ranker.rank(MatchingData.from_interactions(["a"], ["y"]), 2)
    assert [name for name, _ in results["a"]] == [name for name, _ in known["a"]]
    with pytest.warns(DataWarning, match="popularity"):
        evaluation = ranker.evaluate(test, metrics=["mrr"])
    assert evaluation["mrr"][evaluation.query_ids.tolist().index("new")] == 0.5


def test_known_users_keep_their_bits(train: MatchingData):
    ranker = Ranker.from_recipe("warp").fit(train)
    known = ranker.predict(train)
    best = dict(ranker.rank(train, 4))
    place = {name: at for at, name in enumerate(train.document_ids.tolist())}
    for row, user in enumerate(train.query_ids.tolist()):
        assert all(known[row, place[name]] == np.float32(score) for name, score in best[user])
