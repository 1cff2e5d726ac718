"""`ranking reproduce leaderboards`, on a made-up split, interrupted and resumed."""

from __future__ import annotations

import gzip
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from ranking_cli.main import cli
from ranking_plugins.families import Trial
from ranking_plugins.reproductions import leaderboards
from ranking_plugins.reproductions.leaderboards import Method

METHODS = [
    Method("graph-filter", [Trial("graph-filter", {}, [{"low_pass": 0.1}, {"low_pass": 1.0}])]),
    Method("ials", [Trial("ials", {"model": "factored:dimensions=8,biases=false"})]),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rng = np.random.default_rng(0)
    tastes = rng.normal(size=(40, 2)) @ rng.normal(size=(2, 30))
    pairs = np.argwhere(tastes > 0.8)
    test = rng.random(len(pairs)) < 0.2
    irbench = tmp_path / "interactions" / "irbench"
    irbench.mkdir(parents=True)
    with zipfile.ZipFile(irbench / "amazon2014-health.zip", "w") as archive:
        for name, part in (("train", pairs[~test]), ("test", pairs[test])):
            lines = [f"{user}\t{item}\n" for user, item in part.tolist()]
            archive.writestr(f"{name}.tsv", "user\titem\n" + "".join(lines))
    monkeypatch.setattr(leaderboards, "METHODS", METHODS)
    return tmp_path


def run(folder: Path, out: Path, *options: str):
    words = ["reproduce", "leaderboards", "--data", str(folder), "--quick", "-o", str(out)]
    return CliRunner().invoke(cli, [*words, *options])


def test_rows_of_an_interrupted_run_are_kept(folder: Path, tmp_path: Path):
    out = tmp_path / "out"
    first = run(folder, out)
    assert first.exit_code == 0, first.output
    facts = json.loads((out / "results.json").read_text())
    methods = [row["method"].split()[0] for row in facts["rows"]]
    assert methods == ["published", "published", "published", "graph-filter", "ials"]
    measured = facts["rows"][3]["metrics"]
    assert 0.0 < measured["recall@20"] <= measured["recall@20/min"] <= 1.0

    facts["rows"][3]["metrics"]["recall@20"] = 0.125  # to see that it is not computed again
    facts["rows"], facts["complete"] = facts["rows"][:4], False
    (out / "results.json").write_text(json.dumps(facts))
    resumed = run(folder, out)
    assert resumed.exit_code == 0, resumed.output
    again = json.loads((out / "results.json").read_text())["rows"]
    assert again[3] == facts["rows"][3]
    assert again[4]["method"].startswith("ials")

    facts["rows"] = facts["rows"][:4]
    (out / "results.json").write_text(json.dumps(facts))
    other = run(folder, out, "--seed", "3")
    assert other.exit_code == 0, other.output
    assert json.loads((out / "results.json").read_text())["rows"][3] != facts["rows"][3]


def test_last_items_are_chosen_for_by_last_items(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Settings are chosen by the last training item of each user; the last of all tests once."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "interactions" / "movielens1m"
    folder.mkdir(parents=True)
    # The items of a user in time: a few of one group of ten, then those of the next.
    parts: dict[str, list[str]] = {"train": [], "test": []}
    for user in range(40):
        early, late = (rng.permutation(10)[:6] + 10 * ((user + step) % 3) for step in (0, 1))
        items = [*early, *late]
        for time, item in enumerate(items):
            part = "test" if time == len(items) - 1 else "train"
            parts[part].append(f"{user}\t{item}\t5\t{time}\n")
    for name, lines in parts.items():
        with gzip.open(folder / f"ml-1m.{name}.rating.gz", "wt") as file:
            file.writelines(lines)
    board = next(one for one in leaderboards.BOARDS if one.last_out)
    monkeypatch.setattr(leaderboards, "BOARDS", [board])
    monkeypatch.setattr(leaderboards, "METHODS", METHODS[:1])
    split = board.read(folder)
    assert split.train.times is not None
    halves: list[tuple[int, float]] = []
    measure = leaderboards.measure

    def recorded(board, ranker, split, seed):
        latest = split.test.times.min() if split.test.times is not None else 0.0
        halves.append((int(split.test.relevance.nnz), float(latest)))
        return measure(board, ranker, split, seed)

    monkeypatch.setattr(leaderboards, "measure", recorded)
    out = tmp_path / "out"
    words = ["reproduce", "leaderboards", "--data", str(tmp_path), "-o", str(out)]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output
    rows = json.loads((out / "results.json").read_text())["rows"]
    measured = [row for row in rows if not row["method"].startswith("published")]
    assert [row["method"].split()[0] for row in measured] == ["graph-filter"]
    assert 0.0 <= measured[0]["metrics"]["ndcg@10"] <= measured[0]["metrics"]["hr@10"] <= 1.0
    # Two variants on each user's last training item, then the last item of all, once.
    assert halves == [(40, 10.0), (40, 10.0), (40, 11.0)]
