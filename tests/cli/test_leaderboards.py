"""`ranking reproduce leaderboards`, on a made-up split, interrupted and resumed."""

from __future__ import annotations

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
