"""Kill trainings at random moments, resume them, and compare the models bit for bit.

Five algorithms are trained by `ranking train` without interruption; then each is killed (SIGKILL)
at uniformly random moments and resumed until it ends. The model file must have the same tensors.

    python tools/kill_training.py --kills 100
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ranking import JudgedLists, write_data
from ranking.io.tensors import read_tensors

SOLVERS = {
    "domination, coordinate descent": (
        "--loss",
        "domination",
        "--regularizer",
        "l2:strength=0.001",
    ),
    "logistic, SGD": ("--loss", "logistic", "--solver", "sgd:max_steps=6000000"),
    "WARP, factored": (
        *("--model", "factored:dimensions=16", "--loss", "warp"),
        *("--solver", "sgd:max_steps=3000000,steps_per_epoch=100000"),
    ),
    "alignment, alternating": (
        *("--model", "factored:dimensions=16", "--loss", "alignment"),
        *("--regularizer", "l1l2-row", "--solver", "alternating:max_epochs=400,tolerance=0"),
    ),
    "hinge, passive-aggressive": ("--loss", "hinge", "--solver", "passive-aggressive"),
}

PROGRAM = """
import functools
import ranking_cli.train
from ranking_cli.main import cli
from ranking_plugins.callbacks import Checkpoint

ranking_cli.train.Checkpoint = functools.partial(Checkpoint, every=0.0)
cli()
"""
"""`ranking`, with a checkpoint after each epoch, so that a kill finds one also in a short run."""


class Plan(NamedTuple):
    """An algorithm, its data, and the model and the seconds of an uninterrupted training."""

    label: str
    source: Path
    parts: tuple[str, ...]
    whole: Path
    seconds: float


class Counts(NamedTuple):
    """How often a training was killed, and how often it resumed from a checkpoint."""

    kills: int
    resumes: int


def write_inputs(folder: Path) -> dict[str, Path]:
    """Write judged lists and interactions."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 30))
    grades = np.digitize(x[:, 0] + rng.normal(size=4000), [-1.0, 1.0])
    judged = JudgedLists(x, grades, np.repeat(np.arange(200), 20))
    write_data(judged, "letor", folder / "judged.txt")
    pairs = sorted({(int(a), int(b)) for a, b in rng.integers(0, 300, size=(9000, 2))})
    rows = "".join(f"u{a},i{b}\n" for a, b in pairs)
    (folder / "ratings.csv").write_text("user,item\n" + rows)
    return {"judged": folder / "judged.txt", "matching": folder / "ratings.csv"}


def command(data: Path, output: Path, parts: tuple[str, ...]) -> list[str]:
    """Return the command that trains."""
    start = [sys.executable, "-P", "-c", PROGRAM]
    return [*start, "train", str(data), "-o", str(output), *parts, "--quiet"]


def train(words: list[str], kill_after: float | None) -> bool:
    """Train; kill it after some seconds. Return whether it ended by itself."""
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    try:
        _, message = process.communicate(timeout=kill_after)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return False
    if process.returncode:
        raise SystemExit(f"{' '.join(words)} failed: {message}")
    return True


def same_model(one: Path, other: Path) -> bool:
    """Return whether two model files have the same tensors and descriptions."""
    (a, facts), (b, other_facts) = read_tensors(one), read_tensors(other)
    return (
        facts == other_facts
        and a.keys() == b.keys()
        and all(np.array_equal(a[name], b[name], equal_nan=True) for name in a)
    )


def kill_and_resume(words: list[str], output: Path, seconds: float, draw: random.Random) -> Counts:
    """Kill and resume a training until it ends; count the kills and the resumed checkpoints."""
    checkpoint = output.with_name(output.name + ".checkpoint")
    kills = resumes = 0
    while True:
        resume = ["--resume"] if checkpoint.exists() else []
        resumes += len(resume)
        # The third kill on lets it end, so that one slow machine does not loop for ever.
        limit = draw.uniform(0.0, seconds) if kills < 3 else None
        if train([*words, *resume], limit):
            return Counts(kills, resumes)
        kills += 1


def measure(folder: Path) -> list[Plan]:
    """Train each algorithm without interruption, and see how long it takes."""
    data = write_inputs(folder)
    plans = []
    for at, (label, parts) in enumerate(SOLVERS.items()):
        source = data["matching" if "factored" in " ".join(parts) else "judged"]
        whole = folder / f"whole{at}.safetensors"
        begin = time.monotonic()
        train(command(source, whole, parts), None)
        plans.append(Plan(label, source, parts, whole, time.monotonic() - begin))
    return plans


def main() -> int:
    """Kill until the number is reached; return 1 if a model differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    draw = random.Random(options.seed)  # noqa: S311
    wrong = runs = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plans = measure(folder)
        counts = [Counts(0, 0) for _ in plans]
        while sum(count.kills for count in counts) < options.kills:
            at = runs % len(plans)
            plan = plans[at]
            output = folder / f"run{runs}.safetensors"
            words = command(plan.source, output, plan.parts)
            begin = time.monotonic()
            count = kill_and_resume(words, output, plan.seconds, draw)
            if not count.kills:  # the machine may have become faster
                faster = min(plan.seconds, time.monotonic() - begin)
                plans[at] = plan._replace(seconds=faster)
            counts[at] = Counts(counts[at].kills + count.kills, counts[at].resumes + count.resumes)
            runs += 1
            left = sorted(file.name for file in folder.glob(f"*{output.name}*"))
            if left != [output.name] or not same_model(plan.whole, output):
                wrong += 1
                print(f"{plan.label}: another model, or files left: {left}")  # noqa: T201
            output.unlink()
    for plan, count in zip(plans, counts, strict=True):
        print(  # noqa: T201
            f"  {plan.label:32} {plan.seconds:5.1f} s, {count.kills:3} kills, "
            f"{count.resumes:3} resumed from a checkpoint"
        )
    kills, resumes = (sum(column) for column in zip(*counts, strict=True))
    print(  # noqa: T201
        f"{kills} kills in {runs} trainings of {len(plans)} algorithms, "
        f"{resumes} resumed from a checkpoint, {wrong} wrong"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
