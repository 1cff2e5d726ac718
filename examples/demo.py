"""`make demo`: from nothing to a trained, evaluated ranker, through the command line.

Calls the commands that a user would call, and shows them. The data, search results with twelve
signals each, graded 0 to 3, are made by one of them.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np

from ranking import Ranker, parse_metrics, read_data

FOLDER = Path("demo")
METRICS = "ndcg@5,ndcg@10,map,p@5"


def show(command: str) -> None:
    """Print a command and run it as a user would."""
    print(f"\n$ {command}", flush=True)  # noqa: T201
    words = shlex.split(command)
    subprocess.run([str(Path(sys.executable).with_name(words[0])), *words[1:]], check=True)


def table(rows: dict[str, np.ndarray], scores_of: str) -> None:
    """Print one row a method."""
    names = [metric.split("(")[0] for metric in scores_of.split(",")]
    print(f"\n{'on the test queries':28}" + "".join(f"{name:>9}" for name in names))  # noqa: T201
    for method, values in rows.items():
        print(f"{method:28}" + "".join(f"{value:9.4f}" for value in values))  # noqa: T201


def main() -> None:
    """Run the demonstration."""
    for part in ("train", "valid", "test"):
        (FOLDER / f"{part}.txt").unlink(missing_ok=True)
    show(f"ranking data get demo -o {FOLDER}")

    model = FOLDER / "model.safetensors"
    train = f"ranking train {FOLDER}/train.txt"
    show(f"{train} --valid {FOLDER}/valid.txt --recipe domination -o {model}")
    show(f"ranking eval {model} {FOLDER}/test.txt --metrics {METRICS}")
    show(f"ranking rank {model} {FOLDER}/test.txt -k 3 -o {FOLDER}/top3.run")

    valid, test = read_data(FOLDER / "valid.txt"), read_data(FOLDER / "test.txt")
    metrics = list(parse_metrics(METRICS).values())
    best = max(
        range(valid.n_features),
        key=lambda k: metrics[0].mean(valid, np.array(valid.features[:, k], float)),
    )
    methods = {
        "in the order of the file": -np.arange(test.n_rows, dtype=float),
        f"by the best signal ({best + 1})": np.array(test.features[:, best], dtype=float),
        "by the trained model": Ranker.load(model).score_rows(test),
    }
    table(
        {
            name: np.array([m.mean(test, scores) for m in metrics])
            for name, scores in methods.items()
        },
        METRICS,
    )
    print(  # noqa: T201
        f"""
What to try next
  {train} --loss domination --regularizer l1:strength=0.01 -o {FOLDER}/sparse.safetensors
  {train} --recipe domination --kernel reference -o {FOLDER}/same.safetensors
  ranking plugins --matrix
  your own LETOR/SVMlight files in place of {FOLDER}/*.txt, and `ranking --help`"""
    )


if __name__ == "__main__":
    main()
