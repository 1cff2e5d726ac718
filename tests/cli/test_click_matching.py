"""Matching from clicks on the command line: train, evaluate by bins, features, bound."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

from ranking import read_data
from ranking_cli.main import cli

TOPICS = {
    "cats": ["kitten sleeps", "cat food", "tom cat", "cat toys for kittens"],
    "cars": ["used car", "car engine", "motor oil", "engine of a car"],
    "music": ["guitar song", "piano lesson", "song book", "lesson for guitar"],
}


def call(*words):
    return CliRunner().invoke(cli, [str(word) for word in words])


@pytest.fixture
def log(tmp_path):
    """A click log in which words of one topic go together."""
    lines = []
    for texts in TOPICS.values():
        for at, query in enumerate(texts):
            for shift, document in enumerate(texts):
                lines.append(f"{query}\tabout {document}\t{(at + shift) ** 3 + 1}\n")
    path = tmp_path / "log.tsv"
    path.write_text("".join(lines))
    return path


@pytest.fixture(params=["rmls", "pls", "lsi"])
def model(request, tmp_path, log):
    path = tmp_path / "model.safetensors"
    small = {"rmls": "sparse-factored:dimensions=8", "pls": "factored:dimensions=3,biases=false"}
    words = ("--recipe", request.param, "--model", small.get(request.param, small["pls"]))
    done = call("train", log, *words, "--kernel", "reference", "-o", path)
    assert done.exit_code == 0, done.output
    return path


def test_a_recipe_learns_topics(model, log):
    result = call(
        "eval", model, log, "--metrics", "p@4", "--kernel", "reference", "--format", "tsv"
    )
    assert result.exit_code == 0, result.output
    assert float(result.stdout.splitlines()[1].split("\t")[1]) > 0.9
    result = call("rank", model, "guitar", "-k", "2", "--kernel", "reference")
    assert result.exit_code == 0, result.output
    assert all("son" in line for line in result.stdout.splitlines())


def test_only_judged_documents_are_ranked(model, log, tmp_path):
    judged = tmp_path / "judged.tsv"
    # Beside one relevant document, each query has one judged document of another topic.
    judged.write_text("cat food\tabout tom cat\t1\ncat food\tabout used car\t0\n")
    words = ("eval", model, judged, "--metrics", "p@1", "--kernel", "reference")
    result = call(*words, "--judged-only", "--format", "jsonl")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout.splitlines()[0])["metrics"]["p@1"] == 1.0
    for wrong in (("--exclude", log), ("--run", log, "--qrels", log)):
        result = call(*words, "--judged-only", *wrong)
        assert result.exit_code == 2
        assert "--judged-only" in result.output


def test_means_by_bins_of_clicks(model, log):
    words = ("eval", model, log, "--metrics", "p@4", "--kernel", "reference", "--bins", "60,150")
    result = call(*words, "--format", "jsonl")
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["clicks"] for row in rows] == ["<= 60", "> 60, <= 150", "> 150"]
    # A topic's queries have 40, 104, 228 and 436 clicks.
    assert [row["queries"] for row in rows] == [3, 3, 6]
    assert call(*words, "--clicks", log).stdout == call(*words).stdout
    assert call("eval", model, log, "--clicks", log).exit_code == 2
    assert call("eval", model, log, "--bins", "some").exit_code == 2


def test_scores_become_features(model, log, tmp_path):
    pairs, more = tmp_path / "pairs.txt", tmp_path / "more.txt"
    words = ("features", model, log, "--kernel", "reference")
    done = call(*words, "--model", model, "-o", pairs)
    assert done.exit_code == 0, done.output
    first = pairs.read_text().splitlines()[0].split()
    assert first[:2] == ["9", "qid:car-engine"]
    assert first[2].removeprefix("1:") == first[3].removeprefix("2:")
    assert first[4:] == ["#docid", "=", "about-car-engine"]
    rows = tmp_path / "rows.txt"
    rows.write_text("1 qid:x 1:0.5 #docid = y\n")
    refused = call(*words, "--append", rows, "-o", more)
    assert refused.exit_code == 1
    assert "query 'x' of the judged rows is not in the data" in refused.output
    assert call("features", model, rows, "-o", more).exit_code == 2


def test_bound_prints_its_quantities(model, log):
    result = call("bound", model, log, "--delta", "0.1", "--format", "jsonl")
    assert result.exit_code == 0, result.output
    rows = {row["quantity"]: row["value"] for row in map(json.loads, result.stdout.splitlines())}
    assert rows["n_x"] == 12
    assert rows["n_y"] == 4.0
    assert rows["response"] == 217.0
    assert rows["gap"] > rows["alignment"] > 0.0


def test_words_and_clicks_as_features(log, tmp_path):
    reader = "clicks:features=words+clicks"
    path = tmp_path / "both.safetensors"
    done = call("train", log, "--recipe", "pls", "--model", "factored:dimensions=3,biases=false",
                "--reader", reader, "-o", path)  # fmt: skip
    assert done.exit_code == 0, done.output
    # Of another file, the clicks are those of the log: judgements are not features.
    judged = tmp_path / "judged.tsv"
    judged.write_text("".join(line for line in log.read_text().splitlines(True)[::2]))
    data = read_data(judged, f"{reader},log={log}")
    whole = read_data(log, reader)
    assert np.array_equal(data.query_feature_ids, whole.query_feature_ids)
    names = data.query_feature_ids.tolist()
    assert {"cat", "click:about kitten sleeps"} <= set(names)
    same = whole.query_ids.tolist().index(data.query_ids[0])
    assert np.array_equal(data.query_rows[[0]].toarray(), whole.query_rows[[same]].toarray())
    result = call("eval", path, judged, "--metrics", "p@2", "--reader", f"{reader},log={log}")
    assert result.exit_code == 0, result.output
    wrong = call("train", log, "--recipe", "pls", "--reader", "clicks:features=all", "-o", path)
    assert "text or words+clicks" in wrong.output
