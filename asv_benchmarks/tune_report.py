"""What `Ranker.tune` gains over a recipe's defaults on test data, over seeds.

    python asv_benchmarks/tune_report.py [--data FOLDER] [--budget 60s] [--seeds 5]

MovieLens 100K (`interactions/movielens100k/ml-100k.inter.gz` in $RANKING_DATA): every rating is a
view, a fifth of them tests. MQ2008 (`letor/mq2008`, its five parts together): a fifth of its
queries tests. A synthetic set in the manner of MSLR-WEB: 136 features that are not scaled (counts,
lengths, probabilities, with ranges from .01 to 10^8), grades from 0 to 4, most of them 0, and noise
that no model can explain; a fifth of its 2,000 queries tests. The seed chooses the test part and is
that of the search. One thread; a budget in seconds is wall-clock time, so nothing else should run,
and one in trials, such as 40trials, gives the same results on every machine.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from recipes_report import read_views

from ranking import JudgedLists, Ranker, read_data, split_data

METRIC = "ndcg@10(empty=skip)"


def read_judged(folder: Path) -> JudgedLists:
    """Return all queries of MQ2008."""
    paths = sorted((folder / "letor" / "mq2008").glob("S?.txt*"))
    return read_data(paths)


def make_mslr_like(folder: Path, n_queries: int = 2_000) -> JudgedLists:
    """Return synthetic rows as those of a web search: skewed features, few high grades."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(20, 60, n_queries)
    queries = np.repeat(np.arange(n_queries), sizes)
    hidden = rng.normal(size=(queries.size, 20)) + 0.7 * rng.normal(size=(n_queries, 20))[queries]
    mixed = hidden @ (rng.normal(size=(20, 136)) * (rng.random((20, 136)) < 0.2))
    X = mixed + rng.normal(size=mixed.shape)
    X[:, :40] = np.exp(1.2 * X[:, :40]) * 10 ** rng.uniform(-1.0, 3.0, 40)  # lengths, sums
    X[:, 40:70] = np.floor(np.exp(X[:, 40:70]))  # counts
    X[:, 70:100] *= 10 ** rng.uniform(-2.0, 4.0, 30)  # scores of other models
    X[:, 100:125] = 1.0 / (1.0 + np.exp(-X[:, 100:125]))  # probabilities
    X[:, 125:] = np.floor(np.exp(1.5 * X[:, 125:]) * 10 ** rng.uniform(0.0, 5.0, 11))  # links
    use = hidden @ rng.normal(size=20) / np.sqrt(20.0) + 0.6 * np.tanh(hidden[:, 0] * hidden[:, 1])
    use += 1.2 * rng.normal(size=use.size)
    return JudgedLists(X, np.digitize(use, np.quantile(use, [0.52, 0.84, 0.97, 0.99])), queries)


class DataSet(NamedTuple):
    """Data, how they are split, and the recipes that are tuned on them."""

    read: Callable[[Path], Any]
    split: str
    recipes: Sequence[str]


SETS: Mapping[str, DataSet] = {
    "views": DataSet(read_views, "random", ("ials",)),
    "judged": DataSet(read_judged, "by-query", ("listnet",)),
    "mslr-like": DataSet(make_mslr_like, "by-query", ("listnet", "lambdamart")),
}


def row(data: Any, name: str, recipe: str, seed: int, budget: str) -> str:
    """Return a row of the table: a recipe with its defaults, and tuned."""
    train, test = split_data(data, SETS[name].split, share=0.2, seed=seed)
    exclude = {"exclude": train} if name == "views" else {}
    start = time.process_time()
    tuned = Ranker.tune(train, recipes=[recipe], budget=budget, random_state=seed)
    seconds = time.process_time() - start
    plain = Ranker.from_recipe(recipe, random_state=seed).fit(train)
    values = [one.score(test, metric=METRIC, **exclude) for one in (plain, tuned)]
    report = tuned.report_
    return (
        f"| {name} | {recipe} | {seed} | {values[0]:.4f} | {values[1]:.4f} | "
        f"{values[1] - values[0]:+.4f} | {len(report.trials)} | {seconds:.0f} | "
        f"{report.best.label()} | {report.reason} |"
    )


def main() -> None:
    """Print a row per data set, recipe and seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("RANKING_DATA", "."))
    parser.add_argument("--budget", default="60s")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", choices=SETS)
    parser.add_argument("--recipe", help="Instead of those of each data set.")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    columns = "data,recipe,seed,defaults,tuned,difference,trials,processor s,chosen,why"
    print(f"| {columns.replace(',', ' | ')} |")  # noqa: T201
    print("|---|---|" + "---:|" * 6 + "---|---|")  # noqa: T201
    for name in SETS if options.only is None else [options.only]:
        data = SETS[name].read(options.data)
        for recipe in [options.recipe] if options.recipe else SETS[name].recipes:
            for seed in range(options.seeds):
                print(row(data, name, recipe, seed, options.budget), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
