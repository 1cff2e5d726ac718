"""`make demo`: from nothing to a trained, evaluated ranker, through the command line.

Makes a small data set of its own (search results with twelve signals each, graded 0 to 3),
then calls the commands that a user would call, and shows them.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np

from ranking import Ranker, read
from ranking.metrics.parse import parse_metrics

FOLDER = Path("demo")
METRICS = "ndcg@5,ndcg@10,map,p@5"
SIGNALS = 12


def write_letor(path: Path, rng: np.random.Generator, queries: range, taste: np.ndarray) -> None:
    """Write judged search results: what the judges like is in some signals, under noise."""
    lines = []
    for query in queries:
        documents = int(rng.integers(12, 40))
        signals = rng.gamma(2.0, 1.0, size=(documents, SIGNALS)) * rng.uniform(0.5, 2.0)
        signals /= signals.max(axis=0)
        liked = signals @ taste + rng.normal(scale=0.35, size=documents)
        grades = np.searchsorted(np.quantile(liked, [0.55, 0.8, 0.93]), liked)
        for number, (grade, row) in enumerate(zip(grades, signals, strict=True)):
            values = " ".join(f"{k}:{v:.4f}" for k, v in enumerate(row, start=1))
            lines.append(f"{grade} qid:{query} {values} #docid = D{query}-{number}\n")
    path.write_text("".join(lines))


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
    FOLDER.mkdir(exist_ok=True)
    rng = np.random.default_rng(7)
    taste = np.where(rng.random(SIGNALS) < 0.5, rng.normal(size=SIGNALS), 0.0)
    for name, queries in (
        ("train", range(1, 121)),
        ("valid", range(121, 161)),
        ("test", range(161, 221)),
    ):
        write_letor(FOLDER / f"{name}.txt", rng, queries, taste)

    model = FOLDER / "model.safetensors"
    train = f"ranking train {FOLDER}/train.txt"
    show(f"{train} --valid {FOLDER}/valid.txt --recipe domination -o {model}")
    show(f"ranking eval {model} {FOLDER}/test.txt --metrics {METRICS}")
    show(f"ranking rank {model} {FOLDER}/test.txt -k 3 -o {FOLDER}/top3.run")

    valid, test = read(FOLDER / "valid.txt"), read(FOLDER / "test.txt")
    metrics = parse_metrics(METRICS)
    best = max(
        range(SIGNALS), key=lambda k: metrics[0].mean(valid, np.array(valid.features[:, k], float))
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
