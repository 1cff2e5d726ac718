"""The examples run, and say what they promise."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


USERS = {
    "search_results": "feature",
    "recommend": "because of",
    "pipeline": "ranker__regularizer",
    "trec_run": "bpref",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", USERS)
def test_the_scripts_for_four_users_run(name: str, tmp_path: Path):
    script = EXAMPLES / f"{name}.py"
    assert len(script.read_text().splitlines()) < 40
    clean = {key: value for key, value in os.environ.items() if not key.startswith("RANKING_")}
    done = subprocess.run(
        [sys.executable, "-P", str(script)], cwd=tmp_path, env=clean, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert USERS[name] in done.stdout


def test_films(tmp_path: Path):
    clean = {key: value for key, value in os.environ.items() if not key.startswith("RANKING_")}
    done = subprocess.run(
        [sys.executable, "-P", "-W", "error", str(EXAMPLES / "films.py"), "made"],
        cwd=tmp_path,
        env=clean,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "made" / "training.html").read_text().startswith("<!DOCTYPE html>")
    shares = [float(line.split()[-1]) for line in done.stdout.splitlines() if "by WARP" in line]
    popular = [
        float(line.split()[5]) for line in done.stdout.splitlines() if "by what most" in line
    ]
    assert shares[0] > 1.5 * popular[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "script", sorted((EXAMPLES / "gallery").glob("plot_*.py")), ids=lambda p: p.stem
)
def test_an_example_of_the_gallery_runs(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pyplot, "show", lambda: None)
    runpy.run_path(str(script), run_name="__main__")
    figures = [pyplot.figure(number) for number in pyplot.get_fignums()]
    pyplot.close("all")
    assert any(axes.has_data() for figure in figures for axes in figure.axes)
