"""`ranking train --per-query`: one file, which eval, rank and explain read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from ranking import Ranker
from ranking_cli.main import cli

WORDS = {
    "hockey": ["goalie", "puck", "ice", "team"],
    "space": ["rocket", "orbit", "moon", "shuttle"],
    "law": ["court", "judge", "trial", "jury"],
}
PARTS = ["--loss", "domination", "--regularizer", "l1:strength=0.01"]
PARTS += ["--solver", "coordinate:max_epochs=2000"]


def texts(path: Path, seed: int, words: tuple[str, ...] = tuple(WORDS)) -> str:
    rng = np.random.default_rng(seed)
    lines = ["text\tclass", "string\tdiscrete", "\tclass"]
    for topic in words:
        for _ in range(6):
            own = rng.choice(WORDS[topic], 2, replace=False).tolist()
            lines.append(
                " ".join([*own, "and", "the", str(rng.choice(WORDS["law"]))]) + f"\t{topic}"
            )
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def call(*words: str, fails: int = 0) -> str:
    result = CliRunner().invoke(cli, list(words))
    assert result.exit_code == fails, result.output
    return result.stdout if fails == 0 else result.output


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    return {
        "train": texts(tmp_path / "train.tab", 0),
        "test": texts(tmp_path / "test.tab", 1),
        "fewer": texts(tmp_path / "fewer.tab", 2, ("hockey", "law")),
        "model": str(tmp_path / "model.safetensors"),
    }


def test_labels_are_trained_measured_ranked_and_explained(files, tmp_path):
    call("train", files["train"], "--per-query", *PARTS, "-o", files["model"])
    printed = call(
        "eval", files["model"], files["test"], "--metrics", "map", "-q", "--format", "jsonl"
    )
    lines = [json.loads(line) for line in printed.splitlines()]
    values = {one["query"]: next(iter(one["metrics"].values())) for one in lines}
    assert set(values) == {*WORDS, "all"}
    assert values["hockey"] == values["space"] == 1.0  # no other topic has their words
    lines = call("rank", files["model"], files["test"], "-k", "6").splitlines()
    assert [line.split()[0] for line in lines] == [
        topic for topic in sorted(WORDS) for _ in range(6)
    ]
    explained = call("explain", files["model"], "space", "-k", "1", "--format", "jsonl")
    assert json.loads(explained)["document term"] in WORDS["space"]

    ranker = Ranker.load(files["model"])
    assert sorted(ranker.model_.query_feature_ids.tolist()) == sorted(WORDS)
    one, two = Path(files["model"]).read_bytes(), tmp_path / "two.safetensors"
    call("train", files["train"], "--per-query", *PARTS, "--threads", "2", "-o", str(two))
    assert two.read_bytes() == one  # whoever shares the work


def test_a_label_without_matches_is_reported_and_not_fatal(files):
    recipe = ["--recipe", "domination-induction", "--valid", files["fewer"]]
    result = CliRunner().invoke(
        cli, ["train", files["train"], "--per-query", *recipe, "-o", files["model"]]
    )
    assert result.exit_code == 0, result.output
    reason = "no document of the validation data matches it"
    assert f"space has no weights: {reason}" in result.stderr
    assert "2 of 3 queries trained" in result.stderr
    printed = {row["query"]: row for row in Ranker.load(files["model"]).description_["per query"]}
    assert printed["space"]["problem"] == reason
    assert printed["hockey"]["strength"] > 0.0


def test_users_with_items_that_have_features(tmp_path):
    rng = np.random.default_rng(0)
    genres = rng.integers(0, 2, (12, 3))
    items = ["item_id:token\t" + "\t".join(f"g{n}:float" for n in range(3))]
    items += [f"i{n}\t" + "\t".join(map(str, row)) for n, row in enumerate(genres)]
    (tmp_path / "films.item").write_text("\n".join(items) + "\n")
    lines = ["user_id:token\titem_id:token\trating:float"]
    lines += [
        f"u{user}\ti{item}\t1" for user in range(3) for item in range(12) if genres[item, user]
    ]
    (tmp_path / "films.inter").write_text("\n".join(lines) + "\n")
    data, model = str(tmp_path / "films.inter"), str(tmp_path / "model.safetensors")
    reader = ["--reader", f"interactions:item_features={tmp_path / 'films.item'}"]
    call("train", data, *reader, "--per-query", *PARTS, "-o", model)
    ranker = Ranker.load(model)
    largest = ranker.model_.weights.toarray().argmax(axis=1)
    names = ranker.model_.document_feature_ids[largest].tolist()
    assert dict(zip(ranker.model_.query_feature_ids.tolist(), names, strict=True)) == {
        "u0": "g0",
        "u1": "g1",
        "u2": "g2",
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--resume"], "--per-query trains without checkpoints"),
        (["--metrics", "map"], "--per-query trains without checkpoints"),
        (["--valid", "VALID"], "--valid is for the search of a recipe"),
    ],
)
def test_options_that_do_not_go_together_are_refused(files, words, message):
    words = [files["test"] if word == "VALID" else word for word in words]
    printed = call(
        "train", files["train"], "--per-query", *PARTS, *words, "-o", files["model"], fails=2
    )
    assert message in printed


def test_per_query_models_refuse_queries_in_words(files):
    call("train", files["train"], "--per-query", *PARTS, "-o", files["model"])
    assert "by id, not by words" in call("rank", files["model"], "a puck", fails=1)
    assert "the id of a query" in call(
        "explain", files["model"], "--pair", "a puck", "ice", fails=1
    )
