"""`ranking benchmark`: files, a BEIR folder, and what is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_helpers import call

from ranking.data.synthetic import demo
from ranking.data.writers import write
from ranking_cli.benchmark_pages import ranges

WORDS = ("goalie puck ice", "rocket moon orbit", "flour oven bread", "engine road wheel")


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    paths = {name: tmp_path / f"{name}.txt" for name in ("train", "valid", "test")}
    for name, path in paths.items():
        write(demo()[name], "letor", path)
    return paths


def test_results_are_printed_and_written(files: dict[str, Path], tmp_path: Path):
    options = ("--valid", files["valid"], "--test", files["test"], "--budget", "1trials")
    recipes = ("--recipe", "regression", "--recipe", "listnet", "--recipe", "warp")
    out = tmp_path / "out"
    result = call("benchmark", files["train"], *options, *recipes, "-o", out)
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 90
    assert {line.split()[1] for line in lines[2:]} == {"regression", "listnet"}
    assert "left out: warp: " in result.stderr
    content = json.loads((out / "results.json").read_text())
    assert list(content["left out"]) == ["warp"]
    best = content["rows"][0]
    value = call("eval", out / "models" / f"{best['recipe']}.safetensors", files["test"])
    assert f"{best['ndcg@5']:.4f}" in value.stdout
    page, tex = ((out / name).read_text() for name in ("index.html", "table.tex"))
    assert "<svg" in page
    assert "regression" in page
    assert tex.count(r"\\") == 3
    assert f"{best['ndcg@10']:.4f}" in tex


def test_a_beir_folder_brings_its_splits(tmp_path: Path):
    folder = tmp_path / "collection"
    (folder / "qrels").mkdir(parents=True)
    corpus = [{"_id": f"d{i}", "text": text} for i, text in enumerate(WORDS)]
    queries = [{"_id": f"q{i}", "text": WORDS[i % 4].split()[i // 4]} for i in range(12)]
    for name, rows in (("corpus", corpus), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name, start, stop in (("train", 0, 8), ("test", 8, 12)):
        rows = [f"q{i}\td{i % 4}\t1" for i in range(start, stop)]
        text = "\n".join(["query-id\tcorpus-id\tscore", *rows, ""])
        (folder / "qrels" / f"{name}.tsv").write_text(text)
    out = tmp_path / "out"
    call("benchmark", folder, "--recipe", "bm25", "--budget", "1trials", "-o", out)
    content = json.loads((out / "results.json").read_text())
    assert content["rows"][0]["ndcg@10"] == 1.0
    assert content["facts"]["test"] == "4 queries, 4 documents"
    assert content["facts"]["train"] == "6 queries, 4 documents"  # two of eight validate


def test_a_wrong_budget_is_misuse(files: dict[str, Path]):
    result = call("benchmark", files["train"], "--budget", "soon", code=2)
    assert "the budget is 'soon'; write 60s, 5m, 2h or 40trials" in result.output


def test_letters_in_a_row_are_shortened():
    assert [ranges(text) for text in ("", "ab", "abc", "acdeg")] == ["", "ab", "a-c", "ac-eg"]
