"""`ranking tune`: a table, a model and a report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_helpers import call

from ranking.data.synthetic import demo
from ranking.data.writers import write


@pytest.fixture
def train(tmp_path: Path) -> Path:
    path = tmp_path / "train.txt"
    write(demo()["train"], "letor", path)
    return path


def test_the_best_model_and_a_line_per_trial_are_written(train: Path, tmp_path: Path):
    model, report = tmp_path / "best.safetensors", tmp_path / "trials.jsonl"
    options = ("--recipe", "listnet", "--recipe", "warp", "--budget", "5trials")
    result = call("tune", train, "-o", model, *options, "--report", report)
    trials = [json.loads(line) for line in report.read_text().splitlines()]
    assert 1 < len(trials) <= 5
    assert trials[0]["recipe"] == "listnet"
    assert trials[0]["parameters"] == "defaults"
    assert "warp was left out: " in result.stderr
    assert "chosen: listnet, " in result.stderr
    assert f"after {len(trials)} trainings." in result.stderr
    table = result.stdout.splitlines()
    assert table[0].split() == ["recipe", "ndcg@10", "seconds", "chosen", "parameters"]
    assert sum(" yes " in line for line in table) == 1
    assert max(map(len, table)) <= 90
    call("eval", model, train)


def test_seconds_are_kept(train: Path, tmp_path: Path):
    result = call(
        "tune", train, "-o", tmp_path / "m.safetensors", "--budget", "0.5s", "--recipe", "listnet"
    )
    assert "trainings." in result.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--budget", "0s"), "write 60s, 5m, 2h or 40trials"),
        (("--recipe", "nothing"), "there is no recipe 'nothing'"),
        (("--metrics", "ndgc@10"), "ndcg"),
    ],
)
def test_what_cannot_be_read_is_refused(train: Path, tmp_path: Path, options, words):
    result = call("tune", train, "-o", tmp_path / "m.safetensors", *options, code=2)
    assert words in result.stderr
    assert not (tmp_path / "m.safetensors").exists()


def test_the_data_are_not_overwritten(train: Path):
    before = train.read_bytes()
    result = call("tune", train, "-o", train, code=2)
    assert "train.txt" in result.stderr
    assert train.read_bytes() == before
