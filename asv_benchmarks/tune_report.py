"""What `Ranker.tune` gains over a recipe's defaults on test data, over seeds.

    python asv_benchmarks/tune_report.py [--data FOLDER] [--budget 60s] [--seeds 5]

MovieLens 100K (`interactions/movielens100k/ml-100k.inter.gz` in $RANKING_DATA): every rating is a
view, a fifth of them tests. MQ2008 (`letor/mq2008`, its five parts together): a fifth of its
queries tests. The seed chooses the test part and is that of the search. One thread; the budget is
wall-clock time, so nothing else should run.
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path
from typing import Any

from recipes_report import read_views

from ranking import JudgedLists, Ranker, read_data, split_data

METRIC = "ndcg@10(empty=skip)"


def read_judged(folder: Path) -> JudgedLists:
    """Return all queries of MQ2008."""
    paths = sorted((folder / "letor" / "mq2008").glob("S?.txt*"))
    return read_data(paths)


def main() -> None:
    """Print a row per data set, recipe and seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("RANKING_DATA", "."))
    parser.add_argument("--budget", default="60s")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", choices=("views", "judged"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    sets: dict[str, Any] = {
        "views": (read_views, "random", ("ials",)),
        "judged": (read_judged, "by-query", ("listnet",)),
    }
    print("| data | recipe | seed | defaults | tuned | difference | trials | chosen |")  # noqa: T201
    print("|---|---|---:|---:|---:|---:|---:|---|")  # noqa: T201
    for name, (read, how, recipes) in sets.items():
        if options.only not in (None, name):
            continue
        data = read(options.data)
        for recipe in recipes:
            for seed in range(options.seeds):
                train, test = split_data(data, how, share=0.2, seed=seed)
                exclude = {} if name == "judged" else {"exclude": train}
                plain = Ranker.from_recipe(recipe).fit(train)
                tuned = Ranker.tune(
                    train, recipes=[recipe], budget=options.budget, random_state=seed
                )
                values = [one.score(test, metric=METRIC, **exclude) for one in (plain, tuned)]
                trials, label = tuned.report_.trials, tuned.report_.best.label()
                print(  # noqa: T201
                    f"| {name} | {recipe} | {seed} | {values[0]:.4f} | {values[1]:.4f} | "
                    f"{values[1] - values[0]:+.4f} | {len(trials)} | {label} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
