"""WARP on MovieLens 100K: LightFM's published floors, in the protocol of its tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from ranking import Ranker
from ranking.registry import get_registry
from ranking_plugins.reproductions.held_out import read_likes

# test_warp_precision of LightFM's test_movielens.py; measured here on another draw of ten ratings
# a user, in lists of all items.
TRAIN_PRECISION, TEST_PRECISION, TRAIN_AUC, TEST_AUC = 0.45, 0.07, 0.94, 0.90


@pytest.mark.parametrize("seed", [0, 1])
def test_warp_reaches_lightfms_floors(real_data: Path, seed: int):
    train, test = read_likes(real_data / "interactions", seed)
    ranker = Ranker(**get_registry().create("recipe", "warp").parts, seed=seed).fit(train)
    assert ranker.score(train, metric="p@10(empty=skip)") > TRAIN_PRECISION
    assert ranker.score(test, metric="p@10(empty=skip)") > TEST_PRECISION
    assert ranker.score(train, metric="auc") > TRAIN_AUC
    assert ranker.score(test, metric="auc") > TEST_AUC


def test_ten_ratings_of_each_user_are_held_out(real_data: Path):
    train, test = read_likes(real_data / "interactions", 0)
    assert train.n_queries == 943
    assert train.n_documents == 1682
    assert int(train.n_relevant.sum() + test.n_relevant.sum()) == 55_375
    assert test.n_relevant.max() <= 10
    described, _ = read_likes(real_data / "interactions", 0, features=True)
    assert (described.relevance != train.relevance).nnz == 0
    assert described.query_rows[[0]].nnz == 4
