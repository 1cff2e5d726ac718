"""Validation data have a reader of their own, and are not the training data."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from cli_helpers import call
from conftest import make_judged, write_letor

from ranking import Ranker

SOLVER = ["--loss", "hinge", "--solver", "sgd:max_steps=200,steps_per_epoch=100"]
SAME = "--valid holds the same data as DATA"


def error(*words: object) -> str:
    """Return the one message of a command that is misused."""
    return " ".join(call(*words, code=2).stderr.split())


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    """A BEIR collection with two splits."""
    folder = tmp_path / "collection"
    (folder / "qrels").mkdir(parents=True)
    topics = {"hockey": "puck goal ice", "space": "orbit moon rocket"}
    texts = [(f"d{n}", topic, words) for n in range(4) for topic, words in topics.items()]
    documents = [
        {"_id": f"{name}-{topic}", "title": "", "text": f"{words} {topic}"}
        for name, topic, words in texts
    ]
    queries = [{"_id": f"q{n}", "text": words} for n in range(2) for words in topics.values()]
    queries = [{**query, "_id": f"q{at}"} for at, query in enumerate(queries)]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(one) + "\n" for one in documents))
    (folder / "queries.jsonl").write_text("".join(json.dumps(one) + "\n" for one in queries))
    for split, selection in (("train", (0, 1)), ("dev", (2, 3))):
        lines = [
            f"q{query}\td{n}-{list(topics)[query % 2]}\t1\n"
            for query in selection
            for n in range(4)
        ]
        text = "query-id\tcorpus-id\tscore\n" + "".join(lines)
        (folder / "qrels" / f"{split}.tsv").write_text(text)
    return folder


def test_each_split_is_read_by_its_own_reader(collection, tmp_path):
    model = tmp_path / "model.safetensors"
    words = ["train", collection, "--reader", "beir:split=train", "--valid", collection]
    result = call(*words, "--valid-reader", "beir:split=dev", *SOLVER, "-o", model)
    assert "2 queries" in result.stderr
    evaluated = ["eval", model, collection, "--reader", "beir:split=dev", "--format", "jsonl"]
    rows = [json.loads(line) for line in call(*evaluated, "--metrics", "map").stdout.splitlines()]
    assert [row["query"] for row in rows] == ["q2", "q3", "all"]
    curve = {
        name.partition("(")[0]: value for name, value in Ranker.load(model).history_[-1].items()
    }
    assert curve["map"] == rows[-1]["metrics"]["map"]


def test_the_split_of_the_training_data_is_not_used_for_the_validation_data(collection, tmp_path):
    words = ["train", collection, "--reader", "beir:split=train", "--valid", collection, *SOLVER]
    message = error(*words, "-o", tmp_path / "model")
    assert "--reader beir:split=train selects the split of DATA" in message
    assert "--valid-reader beir:split=NAME" in message
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("extra", [[], ["--per-query", "--recipe", "domination-induction"]])
def test_equal_splits_are_refused(collection, tmp_path, extra):
    reader = "beir:split=train"
    words = ["train", collection, "--reader", reader, "--valid", collection]
    parts = extra or SOLVER
    message = error(*words, "--valid-reader", reader, *parts, "-o", tmp_path / "model")
    assert SAME in message
    assert "--valid-reader NAME:split=dev" in message
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("command", ["train", "path"])
def test_a_copy_of_the_training_data_is_refused(tmp_path, command):
    data = write_letor(tmp_path / "train.txt", make_judged(0))
    copy = shutil.copy(data, tmp_path / "copy.txt")
    output = ["-o", tmp_path / "model"] if command == "train" else []
    assert SAME in error(command, data, "--valid", copy, "--recipe", "domination", *output)
    other = write_letor(tmp_path / "other.txt", make_judged(1))
    strengths = ["--strengths", "0.1"] if command == "path" else []
    call(command, data, "--valid", other, "--recipe", "domination", *strengths, *output)


def test_the_reader_of_the_validation_data_is_a_setting(tmp_path):
    data = write_letor(tmp_path / "train.txt", make_judged(0))
    config = tmp_path / "settings.toml"
    config.write_text('recipe = "domination"\nvalid-reader = "letor:dtype=float64"\n')
    words = ["train", data, "--config", config, "--dry-run"]
    rows = {line.split()[0]: line for line in call(*words).stdout.splitlines()}
    assert "letor:dtype=float64" in rows["valid-reader"]
    assert rows["valid-reader"].endswith("file settings.toml")
    rows = {
        line.split()[0]: line
        for line in call(*words, "--reader", "letor", "--valid-reader", "svm").stdout.splitlines()
    }
    assert rows["valid-reader"].split()[1:] == ["svm", "flag"]
