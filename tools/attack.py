"""Read every file of a folder of hostile files, load its plugins, and say whether `ranking` held.

A file must end with status 1 or 2 and one line, or, if only its ids are hostile, with a run that
has the lines it should have. A plugin must not end, hang or be imported against the settings. Then
three attacks from within are tried: a matrix that changes during training, a fork after training,
and features of extreme scale.

    python tools/attack.py FOLDER
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from scipy import sparse

from ranking import Ranker, read_data
from ranking.io.tensors import looks_like_tensors

PROGRAM = "from ranking_cli.main import cli; cli()"

SECONDS = 120
"""Longest run of a command, which counts as a hang after that."""


def call(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command line in its own process."""
    command = [sys.executable, "-P", "-c", PROGRAM, *map(str, words)]
    done = {**os.environ, **environment}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS, check=False, env=done
    )


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """Return why a command did not end as it should; empty if it was refused in one line."""
    lines = done.stderr.strip().splitlines()
    errors = [line for line in lines if line.startswith("Error: ")]
    if done.returncode not in (1, 2):
        return f"status {done.returncode}"
    if len(errors) != 1 or (done.returncode == 1 and len(lines) != 1) or "defect" in errors[0]:
        return f"{len(lines)} lines: {done.stderr[-200:]!r}"
    return ""


def read_run(path: Path, folder: Path) -> str:
    """Train on interactions with hostile ids and write a run; return what is wrong with it."""
    model, run = folder / f"{path.name}.model", folder / f"{path.name}.run"
    done = call("train", path, "--recipe", "popularity", "-o", model, "--quiet")
    if done.returncode:
        return refused(done)
    done = call("rank", model, path, "--format", "trec", "-k", "3", "-o", run)
    if done.returncode:
        return refused(done)
    lines = run.read_text(encoding="utf-8").split("\n")[:-1]
    if not lines or any(len(line.split(" ")) != 6 for line in lines):
        return f"the run has the lines {lines[:3]}"
    done = call("data", run, "--reader", "run")
    return "" if done.returncode == 0 else f"the run cannot be read: {done.stderr}"


def attack_files(folder: Path, scratch: Path) -> Iterator[tuple[str, str]]:
    """Yield each file with what went wrong, or an empty string."""
    texts = folder / "texts.tab"
    for path in sorted(one for one in folder.iterdir() if one.is_file()):
        if path == texts or path.suffix in (".py", ".md"):
            continue
        if looks_like_tensors(path.read_bytes()[:9]):
            yield path.name, refused(call("evaluate", path, texts))
        elif path.suffix in (".arrow", ".bin"):
            yield path.name, refused(call("data", path, "--reader", "parquet"))
        else:
            yield path.name, read_run(path, scratch)


def attack_plugins(folder: Path, scratch: Path) -> Iterator[tuple[str, str]]:
    """Yield each plugin with what went wrong: it must be left out, and not stop the program."""
    mark = scratch / "mark"
    for path in sorted(one for one in folder.iterdir() if one.is_dir()):
        settings = {
            "PYTHONPATH": os.pathsep.join((str(path), os.environ.get("PYTHONPATH", ""))),
            "RANKING_PLUGIN_TIMEOUT": "1",
            "MARKER_FILE": str(mark),
        }
        done = call("plugins", "--load", **settings)
        problem = "" if done.returncode == 0 and "logistic" in done.stdout else done.stderr[-200:]
        mark.unlink(missing_ok=True)
        for word in ("0", "false", "no", "none", "off"):
            done = call("plugins", "--load", RANKING_PLUGINS=word, **settings)
            if done.returncode or mark.exists():
                problem += f" RANKING_PLUGINS={word}: status {done.returncode}"
        yield path.name, problem


def judged() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return features, grades and queries."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(5000, 20)), rng.integers(0, 3, 5000), np.repeat(np.arange(500), 10)


def change_while_training() -> str:
    """Change the indices of a matrix while kernels train on it."""
    x, grades, queries = judged()
    matrix = sparse.csr_array(np.where(np.abs(x) > 1.0, x, 0.0))
    right, rng, over = matrix.indices.copy(), np.random.default_rng(1), threading.Event()

    def change() -> None:
        while not over.is_set():
            at = rng.integers(matrix.indices.size)
            matrix.indices[at] = rng.integers(-(2**31), 2**31 - 1)
            time.sleep(0)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for kernel in ("cython", "rust") * 3:
            matrix.indices[:] = right
            try:
                Ranker(loss="domination", solver="coordinate:max_epochs=5", kernel=kernel).fit(
                    matrix, grades, qid=queries
                )
            except ValueError:  # the change came before the copy, and was seen
                continue
    finally:
        over.set()
        thread.join()
    return ""


def fit_with_threads() -> None:
    """Train on two threads."""
    x, grades, queries = judged()
    Ranker(loss="domination", kernel="cython", threads=2).fit(x, grades, qid=queries)


def fork_after_training() -> str:
    """Train with threads, fork, and train again in the child."""
    fit_with_threads()
    child = multiprocessing.get_context("fork").Process(target=fit_with_threads)
    child.start()
    child.join(SECONDS)
    if child.is_alive():
        child.kill()
        return "the child hangs"
    return f"the child ended with {child.exitcode}" if child.exitcode else ""


def scale_features() -> str:
    """Train on features of extreme scale: weights, or a warning or an error."""
    rng = np.random.default_rng(0)
    x, queries = rng.normal(size=(300, 1)), np.repeat(np.arange(30), 10)
    grades = np.digitize(x[:, 0], [0, 1])
    silent = []
    for loss in ("domination", "hinge", "logistic", "squared-hinge"):
        for scale in (1e10, 1e100, 1e160, 1e300, 1e-150, 1e-170, 1e-300):
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                try:
                    ranker = Ranker(loss=loss).fit(x * scale, grades, qid=queries)
                except ValueError:
                    continue
            if not ranker.model_.weights.any() and not seen:
                silent.append(f"{loss} x {scale:g}")
    return f"w = 0 without a word: {', '.join(silent)}" if silent else ""


def load_damaged_model(folder: Path) -> str:
    """Load a model whose lists point outside the data, and train on."""
    model, texts = folder / "model_lists_oob.safetensors", folder / "texts.tab"
    if not model.exists():
        return ""
    try:
        Ranker.load(model).partial_fit(read_data(texts))
    except ValueError:
        return ""
    return "accepted"


def main() -> int:
    """Attack, and print what held; return 1 if anything did not."""
    if len(sys.argv) != 2:
        print(__doc__)  # noqa: T201
        return 2
    folder, wrong = Path(sys.argv[1]), 0
    scripts: dict[str, Callable[[], str]] = {
        "change a matrix while training": change_while_training,
        "fork after training": fork_after_training,
        "features of extreme scale": scale_features,
        "model with damaged lists": lambda: load_damaged_model(folder),
    }
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        outcomes = [*attack_files(folder, scratch), *attack_plugins(folder, scratch)]
    outcomes += [(label, attack()) for label, attack in scripts.items()]
    for label, problem in outcomes:
        print(f"{label}: {f'NOT held: {problem}' if problem else 'held'}")  # noqa: T201
        wrong += bool(problem)
    print(f"{len(outcomes) - wrong} of {len(outcomes)} held")  # noqa: T201
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
