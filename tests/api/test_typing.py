"""A user's script is type-checked against the installed package."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

GOOD = """
from ranking import Evaluation, JudgedLists, MatchingData, RankedResults, Ranker, read_data
from ranking.contracts import Model

data = MatchingData.from_interactions(["ann", "bob"], ["alien", "heat"])
r = Ranker("factored", "warp", solver="sgd:epochs=2", threads=2, random_state=1)
r.fit(data, valid=data, exclude_seen=True).save("model.safetensors", seen=False)
other: Ranker = Ranker.from_recipe("warp", random_state=3).set_params(threads=1)
loaded = Ranker.load("model.safetensors", threads=2)
results: RankedResults = loaded.recommend(["ann"], k=5)
for user, ranked in results:
    for item, score in ranked:
        print(user, item, score + 1.0)
best: tuple[object, float] = results["ann"][0]
text: str = results.to_trec()
nothing: None = results.to_json("all.json", lines=True)
evaluation: Evaluation = loaded.evaluate(data, metrics=["ndcg@10", "map"])
mean: float = evaluation.mean("map")
model: Model = loaded.model_
epochs: int = loaded.n_iter_
rows = JudgedLists([[1.0], [2.0]], [0, 1], ["q", "q"])
print(read_data("train.txt"), loaded.score(data, metric="map"), rows.n_rows)
"""

BAD = {
    "r.nonsense()": '"Ranker" has no attribute "nonsense"',
    'Ranker(loss="warp", threads="two")': "incompatible type",
    'Ranker(loss="warp", lr=0.1)': 'Unexpected keyword argument "lr"',
    "r.recommend(5)": "incompatible type",
    'r.rank(data, k="ten")': "incompatible type",
    "r.recommend(['ann']).nonsense": '"RankedResults" has no attribute "nonsense"',
    "number: int = r.score(data)": "Incompatible types in assignment",
    "from ranking import nonsense": 'has no attribute "nonsense"',
}


def mypy() -> list[str]:
    if importlib.util.find_spec("mypy") is not None:
        return [sys.executable, "-m", "mypy"]
    for place in (shutil.which("mypy"), ROOT / ".venv-lint" / "bin" / "mypy"):
        if place is not None and Path(place).exists():
            return [str(place), "--python-executable", sys.executable]
    pytest.skip("mypy is not installed; install it with `pip install mypy`")


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """What mypy says about a good script, and about one with a bad line per case."""
    folder = tmp_path_factory.mktemp("scripts")
    (folder / "good.py").write_text(GOOD)
    (folder / "bad.py").write_text(GOOD + "\n".join(BAD) + "\n")
    (folder / "mypy.ini").write_text("[mypy]\nstrict = true\n")
    # mypy finds what is in site-packages by itself, but not an editable install.
    where = {
        str(Path(importlib.util.find_spec(name).origin).parents[1])
        for name in ("ranking", "ranking_plugins")
    }
    where = {place for place in where if Path(place).name != "site-packages"}
    environment = {**os.environ, "MYPYPATH": os.pathsep.join(sorted(where))}
    command = [*mypy(), "--config-file", "mypy.ini", "--cache-dir", str(folder / "cache")]
    done = subprocess.run(
        [*command, "good.py", "bad.py"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    return {
        name: [line for line in lines if line.startswith(f"{name}:")]
        for name in ("good.py", "bad.py")
    }


@pytest.mark.slow
def test_a_good_script_passes(answers):
    assert answers["good.py"] == []


@pytest.mark.slow
@pytest.mark.parametrize("line", BAD, ids=str)
def test_a_bad_line_fails(answers, line):
    number = (GOOD + "\n".join(BAD)).splitlines().index(line) + 1
    result = [each for each in answers["bad.py"] if each.startswith(f"bad.py:{number}:")]
    assert any(BAD[line] in each for each in result), answers["bad.py"]
