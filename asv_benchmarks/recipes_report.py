"""Print quality and processor time of recommender recipes with their default settings.

    python -P asv_benchmarks/recipes_report.py [--data FOLDER]

MovieLens 100K (`interactions/movielens100k/ml-100k.inter.gz` in $RANKING_DATA, as RecBole has it):
every rating is a view; a fifth of them, at random, is held out. Users are ranked all items that
they have not seen in training. Nothing is tuned: this is what a first try gives. One thread.
"""

from __future__ import annotations

import argparse
import gzip
import os
import time
from pathlib import Path

from ranking import MatchingData, Ranker, split_data

RECIPES = (
    *("popularity", "item-knn", "graph-filter", "ease", "slim", "ials"),
    *("warp", "bpr", "softmax", "ccl"),
)
METRICS = ("ndcg@10(empty=skip)", "recall@10(empty=skip)")


def read_views(folder: Path) -> MatchingData:
    """Return the views of MovieLens 100K."""
    path = folder / "interactions" / "movielens100k" / "ml-100k.inter.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        next(lines)
        rows = [line.split("\t")[:2] for line in lines]
    return MatchingData.from_interactions(*zip(*rows, strict=True))


def main() -> None:
    """Train every recipe once and measure it on the held-out views."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("RANKING_DATA", "."))
    train, test = split_data(read_views(parser.parse_args().data), "random", share=0.2)
    print(f"{'recipe':<14} {'ndcg@10':>8} {'recall@10':>9} {'seconds':>8} {'MB':>6}")  # noqa: T201
    for recipe in RECIPES:
        start = time.process_time()
        ranker = Ranker.from_recipe(recipe, threads=1).fit(train)
        seconds = time.process_time() - start
        ndcg, recall = (ranker.score(test, metric=name, exclude=train) for name in METRICS)
        size = sum(tensor.nbytes for tensor in ranker.model_.tensors().values()) / 1e6
        print(f"{recipe:<14} {ndcg:8.4f} {recall:9.4f} {seconds:8.2f} {size:6.2f}")  # noqa: T201


if __name__ == "__main__":
    main()
