"""Print the quality of a recipe by one of its settings, on sets of different density.

    python asv_benchmarks/settings_report.py ials --regularizer l2:strength={},frequency=1 \
        --values 0.05,0.1,0.15,0.2,0.4 [--loss SPEC] [--solver SPEC] [--data FOLDER] [--sets NAMES]

The braces stand for the value. Each is measured on a tenth of the training positives, which is
held out from training, for at most 2,000 users; a cell is recall@20 / NDCG@20. The data sets are
those of `recommender_sets.py`. One thread.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from recommender_sets import SETS, matching_data, quality, read_set

from ranking import Ranker

N_USERS = 2_000
PARTS = ("model", "loss", "regularizer", "solver")


def main() -> None:
    """Print one line per set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe")
    for kind in PARTS:
        parser.add_argument(f"--{kind}")
    parser.add_argument("--values", required=True)
    parser.add_argument("--data", default=os.environ.get("RANKING_DATA"))
    parser.add_argument("--sets", default=",".join(SETS))
    options = parser.parse_args()
    if options.data is None:
        sys.exit("say where the data sets are: --data FOLDER, or RANKING_DATA.")
    warnings.simplefilter("ignore")
    values = options.values.split(",")
    print(f"{'set':14}" + "".join(f"{value:>16}" for value in values) + " seconds")  # noqa: T201
    for name in options.sets.split(","):
        parts = read_set(name, Path(options.data), validate=True)
        data = matching_data(parts.train)
        cells = []
        for value in values:
            patterns = {kind: getattr(options, kind) for kind in PARTS}
            specs = {kind: spec.replace("{}", value) for kind, spec in patterns.items() if spec}
            start = time.process_time()
            ranker = Ranker.from_recipe(options.recipe, threads=1, **specs).fit(data)
            seconds = time.process_time() - start
            recall, ndcg = quality(ranker, data, parts, N_USERS)
            cells.append(f"{recall:.4f} / {ndcg:.4f}")
        line = f"{name:14}" + "".join(f"{cell:>16}" for cell in cells)
        print(f"{line} {seconds:7.1f}", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
