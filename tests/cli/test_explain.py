"""`ranking explain`: linear models, past items, and plots."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_helpers import call
from conftest import make_judged, write_letor

from ranking import Ranker, read_data

LOG = "user,item\nann,alien\nann,moon\nbob,alien\nbob,heat\ncleo,moon\ncleo,alien\n"


@pytest.fixture
def judged(tmp_path: Path) -> Path:
    path = write_letor(tmp_path / "test.txt", make_judged(1, n_queries=5))
    Ranker.from_recipe("listnet").fit(read_data(path)).save(tmp_path / "model.safetensors")
    return tmp_path


def test_weights_contributions_and_swaps_of_a_linear_model(judged: Path):
    model, data, page = judged / "model.safetensors", judged / "test.txt", judged / "why.html"
    lines = call("explain", model, "--format", "jsonl").stdout.splitlines()
    weights = [abs(json.loads(line)["weight"]) for line in lines]
    assert weights == sorted(weights, reverse=True)
    query = read_data(data).query_ids[1]
    words = ["explain", model, "--data", data, "--query", query]
    rows = [json.loads(line) for line in call(*words, "--format", "jsonl").stdout.splitlines()]
    scores = [row["score"] for row in rows]
    assert scores == sorted(scores, reverse=True)
    assert rows[-1]["swap"] == ""
    assert "swap: the change" in call(*words, "-o", page).stdout
    assert page.read_text().count("<figure>") == len(rows)
    best = rows[0]["document"]
    last = call("explain", model, "--data", data, "--pair", query, best).stderr
    assert f"score {scores[0]:.6g}" in last


def test_past_items_of_a_user(tmp_path: Path):
    (tmp_path / "log.csv").write_text(LOG)
    model = tmp_path / "films.safetensors"
    Ranker.from_recipe("ials").fit(read_data(tmp_path / "log.csv")).save(model)
    printed = call("explain", model, "--pair", "ann", "heat")
    assert "alien" in printed.stdout
    assert "contributions" in printed.stderr
    assert "no weights of features" in call("explain", model, code=2).output
