"""WARP on MovieLens 100K: LightFM's published floors and its values, in its tests' protocol."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from ranking import Ranker
from ranking.registry import get_registry
from ranking_plugins.reproductions.held_out import read_likes

# test_warp_precision of LightFM's test_movielens.py; measured here on another draw of ten ratings
# a user, in lists of all items.
TRAIN_PRECISION, TEST_PRECISION, TRAIN_AUC, TEST_AUC = 0.45, 0.07, 0.94, 0.90


# What lightfm-next 1.19 came to on the splits of seeds 0 to 4, on the mean: precision@10 and AUC of
# training items, of test items, and the precision of test items among those not known.
LIGHTFM = {
    (10, False): (0.4911, 0.0767, 0.9419, 0.9129, 0.1263),
    (32, False): (0.5511, 0.0753, 0.9602, 0.9214, 0.1368),
    (10, True): (0.4514, 0.0589, 0.9306, 0.8968, 0.1004),
    (32, True): (0.5444, 0.0686, 0.9611, 0.9137, 0.1263),
}


def report() -> ModuleType:
    path = Path(__file__).parents[2] / "asv_benchmarks" / "movielens_report.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# The split leaves two users without a positive in training.
@pytest.mark.filterwarnings("ignore:.* have no positives in the training data")
@pytest.mark.parametrize("seed", [0, 1])
def test_warp_reaches_lightfms_floors(real_data: Path, seed: int):
    train, test = read_likes(real_data / "interactions", seed)
    ranker = Ranker(**get_registry().create("recipe", "warp").parts, random_state=seed).fit(train)
    assert ranker.score(train, metric="p@10(empty=skip)") > TRAIN_PRECISION
    assert ranker.score(test, metric="p@10(empty=skip)") > TEST_PRECISION
    assert ranker.score(train, metric="auc") > TRAIN_AUC
    assert ranker.score(test, metric="auc") > TEST_AUC


@pytest.mark.parametrize("features", [False, True])
@pytest.mark.parametrize("dimensions", [10, 32])
def test_warp_is_not_behind_lightfm(real_data: Path, dimensions: int, features: bool):
    module = report()
    splits = [read_likes(real_data / "interactions", seed, features=features) for seed in range(5)]
    case = dimensions, features
    values = module.measured(module.ours("auto"), splits, dimensions, module.BEST_SETTINGS[case])
    for (metric, result), theirs in zip(values.items(), LIGHTFM[case], strict=True):
        assert result.mean() > theirs, metric


def test_ten_ratings_of_each_user_are_held_out(real_data: Path):
    train, test = read_likes(real_data / "interactions", 0)
    assert train.n_queries == 943
    assert train.n_documents == 1682
    assert int(train.n_relevant.sum() + test.n_relevant.sum()) == 55_375
    assert test.n_relevant.max() <= 10
    described, _ = read_likes(real_data / "interactions", 0, features=True)
    assert (described.relevance != train.relevance).nnz == 0
    assert described.query_rows[[0]].nnz == 4


def test_settings_are_chosen_without_the_test_ratings(real_data: Path):
    folder = real_data / "interactions"
    train, test = read_likes(folder, 0)
    chosen_on, chosen_by = read_likes(folder, 0, validate=True)
    assert ((chosen_on.relevance + chosen_by.relevance) > 0).multiply(test.relevance).nnz == 0
    assert chosen_on.relevance.multiply(chosen_by.relevance).nnz == 0
    whole = chosen_on.relevance + chosen_by.relevance
    assert (whole != train.relevance).nnz == 0
