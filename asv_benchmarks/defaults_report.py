"""Print the quality of WARP by strength of L2 and epochs, on sets of different density.

    python -P asv_benchmarks/defaults_report.py [--data FOLDER] [--sets NAMES] [--loss NAME]
                                                [--strengths LIST] [--rates LIST] [--test]

Such runs chose the defaults of the recipes. Each is measured on a tenth of the training positives,
which is held out from training; with --test on the test part instead, by which nothing was chosen.
Strengths are times 1 / (number of rows of U and V). 64 dimensions, one thread, 4,000 users at most
to validate. Columns are recall@20 / NDCG@20 after so many epochs.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from recommender_sets import SETS, matching_data, quality, read_set

from ranking import Ranker

EPOCHS = (5, 10, 20, 30, 40)
HELD_OUT_SET = "citeulike"
"""Not looked at until the defaults were chosen."""


def show(cells: list[str]) -> None:
    """Print a line."""
    print(f"{cells[0]:14}" + "".join(f"{cell:>16}" for cell in cells[1:]), flush=True)  # noqa: T201


def main() -> None:
    """Print one line per set, strength and learning rate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("RANKING_DATA"))
    parser.add_argument("--sets", default=",".join(name for name in SETS if name != HELD_OUT_SET))
    parser.add_argument("--loss", default="warp")
    parser.add_argument("--strengths", default="0,1,2,3")
    parser.add_argument("--rates", default="0.05")
    parser.add_argument("--test", action="store_true")
    options = parser.parse_args()
    if options.data is None:
        sys.exit("say where the data sets are: --data FOLDER, or RANKING_DATA.")
    show(["set", "L2 x rows", "rate", *map(str, EPOCHS), "seconds"])
    for name in options.sets.split(","):
        parts = read_set(name, Path(options.data), validate=not options.test)
        data, rows = matching_data(parts.train), sum(parts.train.shape)
        for strength in map(float, options.strengths.split(",")):
            for rate in map(float, options.rates.split(",")):
                regularizer = f"l2:strength={strength / rows}" if strength else "none"
                ranker = Ranker(
                    "factored:dimensions=64",
                    options.loss,
                    regularizer,
                    f"sgd:learning_rate={rate}",
                    random_state=0,
                    threads=1,
                )
                cells, done, spent = [], 0, 0.0
                for epochs in EPOCHS:
                    start = time.process_time()
                    ranker.partial_fit(data, steps=(epochs - done) * parts.train.nnz)
                    spent, done = spent + time.process_time() - start, epochs
                    values = quality(ranker, data, parts, None if options.test else 4000)
                    cells.append("{:.4f} / {:.4f}".format(*values))
                show([name, f"{strength:g}", f"{rate:g}", *cells, f"{spent:.0f}"])


if __name__ == "__main__":
    main()
