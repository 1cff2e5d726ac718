"""Fault injection, as SQLite does it: every call of the system fails or is the last one, in turn.

A training with checkpoints is run in forked children. In each, one of the calls that open, write,
sync, rename or remove a file fails (a full disk, an I/O error), or the process is killed before or
after it. Afterwards there is the old model or the new one, never a third; a checkpoint is whole;
and resuming gives the bits of a training without faults.
"""

from __future__ import annotations

import errno
import functools
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import ranking_cli.train
from ranking import get_kernel
from ranking.io.tensors import read_tensors
from ranking_cli.main import cli
from ranking_plugins.callbacks import Checkpoint

CALLS = ("open", "write", "fsync", "chmod", "replace", "unlink", "ftruncate")
PARTS = ("--loss", "domination", "--solver", "coordinate:max_epochs=3,tolerance=0", "--quiet")

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.slow,
]


class Faults:
    """Counts the calls that concern a folder, and lets one of them fail or be the last."""

    def __init__(self, folder: Path, at: int = -1, fault: str = "") -> None:
        self.folder, self.at, self.fault = str(folder), at, fault
        self.names: list[str] = []
        self.handles: set[int] = set()
        for name in CALLS:
            setattr(os, name, functools.partial(self.call, name, getattr(os, name)))

    def concerns(self, name: str, args: tuple) -> bool:
        if isinstance(args[0], int):
            return args[0] in self.handles
        path = os.fspath(args[0])
        reads = name == "open" and not args[1] & (os.O_WRONLY | os.O_RDWR)
        folder = os.path.isdir(path)
        return str(path).startswith(self.folder) and (folder or not reads)

    def call(self, name, function, *args, **options):
        if not self.concerns(name, args):
            return function(*args, **options)
        number = len(self.names)
        self.names.append(name)
        if number == self.at:
            if self.fault == "before":
                os._exit(9)
            if self.fault == "after":
                function(*args, **options)
                os._exit(9)
            if self.fault == "torn" and name == "write":
                function(args[0], bytes(args[1])[: len(args[1]) // 2])
                os._exit(9)
            if self.fault == "error":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        result = function(*args, **options)
        if name == "open":
            self.handles.add(result)
        return result


def train(folder: Path, *options: str, at: int = -1, fault: str = "") -> tuple[int, str, list[str]]:
    """Train in a child; return its exit code, what it printed, and the calls that it made."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        code = 70
        try:
            ranking_cli.train.Checkpoint = functools.partial(Checkpoint, every=0.0)
            faults = Faults(folder, at, fault)
            words = ["train", str(folder / "train.txt"), "-o", str(folder / "model")]
            result = CliRunner().invoke(cli, [*words, *PARTS, *options])
            code = result.exit_code
            with os.fdopen(writer, "wb") as stream:
                stream.write(pickle.dumps((result.output, faults.names)))
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        content = stream.read()
    _, status = os.waitpid(child, 0)
    output, names = pickle.loads(content) if content else ("", [])
    return os.waitstatus_to_exitcode(status), output, names


def content(path: Path) -> dict[str, list] | None:
    """The tensors of a file, which must be whole; None if there is none."""
    if not path.exists():
        return None
    return {name: tensor.tolist() for name, tensor in read_tensors(path)[0].items()}


@pytest.fixture
def folder(tmp_path):
    get_kernel()  # loaded before the fork
    rng = np.random.default_rng(0)
    rows = (f"{rng.integers(3)} qid:{row // 5} 1:{rng.random():.3f}\n" for row in range(40))
    (tmp_path / "train.txt").write_text("".join(rows))
    return tmp_path


@pytest.fixture
def expected(folder):
    code, output, names = train(folder)
    assert code == 0, output
    model = content(folder / "model")
    (folder / "model").unlink()
    assert {"open", "write", "fsync", "replace", "unlink"} <= set(names)
    return model, names


@pytest.mark.parametrize("fault", ["error", "before", "after", "torn"])
@pytest.mark.parametrize("old", [False, True])
def test_every_call_fails_in_turn(folder, expected, fault, old):
    new, names = expected
    before = None
    for at in range(len(names)):
        for file in folder.iterdir():
            if file.name != "train.txt":
                file.unlink()
        if old:  # a model of other settings
            (folder / "model").write_bytes(Path(make_old(folder)).read_bytes())
            before = content(folder / "model")
        code, output, _ = train(folder, at=at, fault=fault)
        if code == 1:
            assert len(output.strip().splitlines()) == 1, output
        assert code in (0, 1, 2, 9), (at, names[at], output)
        assert "Traceback" not in output
        assert content(folder / "model") in (before, new), (at, names[at])
        checkpoint = folder / "model.checkpoint"
        content(checkpoint)  # whole
        if fault == "error" and names[at] != "unlink":
            assert not [file for file in folder.iterdir() if file.name.endswith(".partial")]
        resume = ["--resume"] if checkpoint.exists() else []
        code, output, _ = train(folder, *resume)
        assert code == 0, (at, names[at], output)
        assert content(folder / "model") == new, (at, names[at])
        assert sorted(file.name for file in folder.iterdir()) in (
            ["model", "train.txt"],
            ["model", "old", "train.txt"],
        )


def make_old(folder: Path) -> Path:
    """A model that another training left."""
    old = folder / "old"
    if not old.exists():
        words = [
            "train",
            str(folder / "train.txt"),
            "-o",
            str(old),
            "--loss",
            "logistic",
            "--quiet",
        ]
        assert CliRunner().invoke(cli, words).exit_code == 0
    return old
