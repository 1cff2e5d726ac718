"""Rankers for judged lists on OHSUMED: LETOR's published baselines are reached.

Everything is chosen on the validation part of each fold, as `ranking reproduce letor` does it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ranking_plugins.reproductions import Options, letor

NEAR = 0.02
"""How far below the published NDCG@5 a method may be."""

MEASURED = {"RankSVM": 0.4695}
"""NDCG@5 that was measured when no published value was at hand: docs/judged-lists.md."""


@pytest.mark.parametrize("name", ["ListNet", "AdaRank-MAP", "AdaRank-NDCG", "RankBoost", "RankSVM"])
def test_methods_reach_the_published_values(name: str, real_data: Path):
    collection = letor.COLLECTIONS[0]
    options = Options(real_data, False, "auto", 1, 0, lambda text: None)
    parts = [letor._read(real_data / collection.folder, number) for number in range(letor.FOLDS)]
    rows = [letor.run("OHSUMED", name, parts, fold, options) for fold in range(letor.FOLDS)]
    reached = np.mean([row.metrics["ndcg@5"] for row in rows])
    expected = MEASURED[name] if name in MEASURED else collection.paper[name][0]
    assert reached >= expected - NEAR
