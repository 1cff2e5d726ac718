"""The command line: what scripts rely on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import call, call_and_signal
from conftest import make_judged, write_letor

from ranking import Ranker
from ranking.data.readers.read import read
from ranking.io.tensors import read_tensors
from ranking.kernels.letor import LetorKernel
from ranking.kernels.select import get_kernel
from ranking.metrics.parse import parse_metric
from ranking_cli.main import COMMANDS


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Training, validation and test files."""
    return {
        name: write_letor(tmp_path / f"{name}.txt", make_judged(seed))
        for seed, name in enumerate(("train", "valid", "test"))
    }


@pytest.fixture
def model(files, tmp_path) -> Path:
    """A trained model."""
    path = tmp_path / "model.safetensors"
    call("train", files["train"], "--recipe", "domination", "-o", path)
    return path


def test_train_chooses_on_the_validation_data(files, tmp_path):
    path = tmp_path / "model.safetensors"
    result = call(
        "train", files["train"], "--valid", files["valid"], "--recipe", "domination", "-o", path
    )
    assert result.stdout == ""
    assert "chosen" in result.stderr
    assert str(path) in result.stderr
    assert not list(tmp_path.glob("*.checkpoint"))
    search = Ranker.load(path).description_["search"]
    assert len(search["trials"]) == len(search["values"]) * len(search["outer"]["values"])


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["reference", "cython"])
def test_the_same_tensors_whatever_the_kernel_and_threads(files, tmp_path, kernel):
    results = []
    for number, words in enumerate((["--kernel", kernel], ["--kernel", "cython", "--threads", 2])):
        path = tmp_path / f"{number}.safetensors"
        call(
            "train",
            files["train"],
            "--valid",
            files["valid"],
            "--recipe",
            "domination",
            "-o",
            path,
            *words,
        )
        tensors, _ = read_tensors(path)
        results.append({name: tensor.tobytes() for name, tensor in tensors.items()})
    assert results[0] == results[1]


def test_callbacks_are_named_on_the_command_line(files, tmp_path):
    path = tmp_path / "model.safetensors"
    words = ["train", files["train"], "--valid", files["valid"], "--loss", "domination", "-o", path]
    stopping = "early-stopping:metric=map,patience=2"
    call(*words, "--callback", stopping, "--callback", "curve:metrics=mrr")
    columns = {name.partition("(")[0] for name in Ranker.load(path).history_[0]}
    assert {"map", "mrr"} <= columns
    assert "ndcg@10" not in columns  # the named one took the place of the one that --valid brings
    assert "there is no callback 'curv'" in call(*words, "--callback", "curv", code=2).stderr


def test_several_files_are_one(files, tmp_path):
    for name, queries in (("a", slice(0, 5)), ("b", slice(5, None))):
        data = make_judged(0)
        part = data.select(np.arange(data.n_queries)[queries])
        write_letor(tmp_path / f"{name}.txt", part)
    call(
        "train",
        tmp_path / "a.txt",
        tmp_path / "b.txt",
        "--recipe",
        "domination",
        "-o",
        tmp_path / "ab",
    )
    call("train", files["train"], "--recipe", "domination", "-o", tmp_path / "whole")
    assert read_tensors(tmp_path / "ab")[0]["model/weights"].tobytes() == (
        read_tensors(tmp_path / "whole")[0]["model/weights"].tobytes()
    )


def test_flags_win_over_the_file_over_the_recipe(files, tmp_path):
    config = tmp_path / "settings.toml"
    config.write_text('recipe = "domination"\nseed = 7\nregularizer = "l1:strength=0.5"\n')
    words = ["train", files["train"], "--config", config, "--seed", 3, "--dry-run"]
    rows = {line.split()[0]: line for line in call(*words).stdout.splitlines()[2:]}
    assert "3" in rows["seed"]
    assert rows["seed"].endswith("flag")
    assert "l1:strength=0.5" in rows["regularizer"]
    assert rows["regularizer"].endswith("file settings.toml")
    assert rows["loss"].endswith("recipe")
    assert rows["kernel"].endswith("default")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("threads = 0", "threads = 0; it must be a whole number from 1 to 1024"),
        ("seed = 'x'", "seed = 'x'; it must be a whole number"),
        ("kernel = 3", "kernel = 3; it must be a text in quotes"),
        ("regularizer = {strength = 1}", "it must be a text in quotes"),
        ("valid = [1]", "it must be a path or a list of paths"),
        ("frobnicate = 1", "unknown settings frobnicate"),
        ("seed = = 1", "is not TOML"),
    ],
)
def test_settings_file_is_checked_like_flags(files, tmp_path, line, message):
    config = tmp_path / "settings.toml"
    config.write_text(f'recipe = "domination"\n{line}\n')
    result = call("train", files["train"], "--config", config, "--dry-run", code=2)
    assert message in result.stderr.replace("\n", " ")


@pytest.mark.filterwarnings("always")
def test_warnings_are_one_line(files, model, tmp_path):
    wide = tmp_path / "wide.txt"
    wide.write_text("1 qid:1 1:0.5 99:1\n0 qid:1 1:0.1 99:2\n")
    printed = call("eval", model, wide).stderr.splitlines()
    assert [line.startswith("Warning: ") for line in printed] == [True]


def test_a_given_strength_is_not_searched(files, tmp_path):
    words = [
        "train",
        files["train"],
        "--valid",
        files["valid"],
        "--recipe",
        "domination",
        "--dry-run",
    ]
    assert "search" in call(*words).stdout
    assert "search" in call(*words, "--regularizer", "l1").stdout
    assert "search" not in call(*words, "--regularizer", "l2:strength=0.1").stdout
    assert "search" not in call(*words, "--regularizer", "none").stdout


def test_quiet_is_quiet(files, tmp_path):
    result = call(
        "train", files["train"], "--recipe", "domination", "-o", tmp_path / "m", "--quiet"
    )
    assert result.output == ""


def test_eval_formats(files, model):
    metrics = "ndcg@5,letor-ndcg@10,map,p@3"
    test = read(files["test"])
    scores = Ranker.load(model).score_rows(test)
    expected = {m: parse_metric(m).mean(test, scores) for m in metrics.split(",")}
    words = ["eval", model, files["test"], "--metrics", metrics, "--format"]

    lines = [json.loads(line) for line in call(*words, "jsonl").stdout.splitlines()]
    assert len(lines) == test.n_queries + 1
    assert [line["query"] for line in lines[:-1]] == [str(query) for query in test.query_ids]
    assert lines[-1]["query"] == "all"
    for name, value in expected.items():
        assert lines[-1]["metrics"][name] == value
        assert lines[-1]["metrics"][parse_metric(name).spelled()] == value

    header, *rows = [line.split("\t") for line in call(*words, "tsv").stdout.splitlines()]
    assert header == ["metric", "mean", "queries", "low", "high"]
    assert [row[0] for row in rows] == [parse_metric(m).spelled() for m in expected]
    assert [float(row[1]) for row in rows] == list(expected.values())

    table = call(*words, "table").stdout
    assert f"{expected['map']:.4f}" in table
    assert "gain=exp2" in table
    assert call(*words, "markdown").stdout.startswith("| metric | mean | queries | low |")

    per_query = call(*words, "tsv", "-q").stdout.splitlines()
    assert len(per_query) == test.n_queries + 2
    assert per_query[-1].startswith("all\t")


def test_rank_writes_a_run(files, model, tmp_path):
    run = tmp_path / "test.run"
    call("rank", model, files["test"], "-o", run)
    test = read(files["test"])
    lines = [line.split() for line in run.read_text().splitlines()]
    assert len(lines) == test.n_rows
    by_query: dict[str, list[tuple[float, str]]] = {}
    for query, q0, document, rank, score, tag in lines:
        result = by_query.setdefault(query, [])
        result.append((-float(score), document))
        assert (q0, tag, int(rank)) == ("Q0", "ranking", len(result))
    assert all(result == sorted(result) for result in by_query.values())
    # Scores have full precision, ids are those of the file.
    scores = dict(
        zip(test.doc_ids[: test.group_ptr[1]], Ranker.load(model).score_rows(test), strict=False)
    )
    first = str(test.query_ids[0])
    assert {document: -score for score, document in by_query[first]} == scores


def test_rank_formats_and_depth(files, model, tmp_path):
    rows = [
        json.loads(x)
        for x in call(
            "rank", model, files["test"], "-k", 2, "--format", "jsonl"
        ).stdout.splitlines()
    ]
    assert set(rows[0]) == {"query", "document", "rank", "score"}
    assert max(row["rank"] for row in rows) == 2
    call("rank", model, files["test"], "-o", tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_text().startswith("query,document,rank,score\n")
    assert call("rank", model, files["test"]).stdout.split()[1] == "Q0"


def test_plugins_lists_everything():
    rows = [json.loads(line) for line in call("plugins", "--format", "jsonl").stdout.splitlines()]
    assert set(rows[0]) == {"kind", "name", "origin", "version", "help"}
    assert {"kind": "loss", "name": "domination"}.items() <= next(
        row for row in rows if row["name"] == "domination" and row["kind"] == "loss"
    ).items()
    assert "coordinate" in call("plugins").stdout


def test_plugins_describes_a_part():
    text = call("plugins", "warp").stdout
    assert "loss warp, of ranking-kit" in text
    assert "max_trials=30\n      an integer in [2, 10000]\n" in text
    assert "recipe warp, of ranking-kit" in text  # of each kind that has the name
    assert "  model=factored\n  loss=warp\n" in text
    rows = [json.loads(x) for x in call("plugins", "sgd", "--format", "jsonl").stdout.splitlines()]
    described = {row["name"]: row for row in rows}
    assert described["schedule"]["kind"] == "solver"
    assert "inverse-sqrt" in described["schedule"]["allowed"]
    assert all(row["meaning"] for row in rows)
    assert "It has no parameters." in call("plugins", "hinge").stdout
    assert "| max_trials | 30" in call("plugins", "warp", "--format", "markdown").stdout


def test_plugins_refuses_an_unknown_part():
    result = call("plugins", "warpp", code=2)
    assert "there is no part 'warpp'" in result.stderr
    assert "Did you mean 'warp'?" in result.stderr
    result = call("plugins", "warp", "--matrix", code=2)
    assert "give NAME, --matrix or --kernels, one of them." in result.stderr


def test_plugins_shows_which_kernel_serves_which_family():
    output = call("plugins", "--kernels", "--format", "jsonl").stdout
    rows = {row.pop("family"): row for row in map(json.loads, output.splitlines())}
    assert {"random", "linear", "bilinear", "factored", "metrics"} <= set(rows)
    for row in rows.values():
        assert row["reference"] == "reference"
        assert row["cython"] in ("cython", "reference")
        assert set(row.values()) <= set(row)


@pytest.mark.slow
def test_the_matrix_says_what_combines():
    rows = [
        json.loads(x) for x in call("plugins", "--matrix", "--format", "jsonl").stdout.splitlines()
    ]
    assert set(rows[0]) == {"model", "loss", "regularizer", "solver", "works", "reason", "instead"}
    cell = {"model": "linear", "loss": "domination", "regularizer": "l2", "solver": "coordinate"}
    (result,) = [row for row in rows if cell.items() <= row.items()]
    assert result["works"] is True
    assert all(row["works"] or (row["reason"] and row["instead"]) for row in rows)
    # The table has a line a model, loss and regularizer, and the reasons once, by number.
    table = call("plugins", "--matrix").stdout.splitlines()
    (line,) = [words for words in map(str.split, table) if words[:3] == ["linear", "hinge", "l2"]]
    solvers = table[0].split()[3:-1]
    printed = dict(zip(solvers, line[3:], strict=True))
    assert printed["coordinate"] == printed["sgd"] == "yes"
    (result,) = [
        row for row in rows if {**cell, "loss": "hinge", "solver": "svd"}.items() <= row.items()
    ]
    assert f"{printed['svd']} {result['reason']}" in table
    (empty,) = [row for row in table if row.split()[:3] == ["linear", "hinge", "orthonormal"]]
    assert "yes" not in empty
    assert empty.endswith("regularizer l1")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["train", "{train}", "-o", "{out}"], 2, "--recipe"),
        (["train", "{train}", "--recipe", "domination"], 2, "-o"),
        (
            ["train", "{train}", "--recipe", "dominaton", "-o", "{out}"],
            2,
            "Did you mean 'domination'",
        ),
        (["train", "{train}", "--loss", "hing", "-o", "{out}"], 2, "no loss 'hing'"),
        (
            [
                "train",
                "{train}",
                "--recipe",
                "domination",
                "--regularizer",
                "l2:x=1",
                "-o",
                "{out}",
            ],
            2,
            "strength",
        ),
        (["train", "{out}", "--recipe", "domination", "-o", "{out}"], 2, "does not exist"),
        (["train", "{train}", "--recipe", "domination", "-o", "{out}/no/model"], 2, "folder"),
        (
            ["train", "{train}", "--recipe", "domination", "-o", "{out}", "--resume"],
            1,
            "no checkpoint",
        ),
        (
            ["train", "{train}", "--recipe", "domination", "-o", "{out}", "--kernel", "cuda"],
            1,
            "no kernel 'cuda'",
        ),
        (["train", "{bad}", "--recipe", "domination", "-o", "{out}"], 1, "bad.txt, line 2"),
        (["eval", "{train}", "{train}", "--metrics", "map"], 1, "not a model"),
        (["eval", "{model}", "{train}", "--metrics", "ndgc@5"], 2, "ndcg"),
        (["frobnicate"], 2, "frobnicate"),
    ],
)
def test_misuse_and_failure(files, model, tmp_path, words, code, message):
    bad = tmp_path / "bad.txt"
    bad.write_text("1 qid:1 1:0.5\n0 qid:1 1:oops\n")
    names = {**files, "model": model, "bad": bad, "out": tmp_path / "out"}
    result = call(*[word.format(**names) for word in words], code=code)
    assert message in result.stderr.replace("\n", " ")
    assert "Traceback" not in result.output


def test_every_command_has_help_with_an_example():
    for name in COMMANDS:
        lines = [line.strip() for line in call(name, "--help").stdout.splitlines()]
        assert any(line.startswith(f"ranking {name}") for line in lines), name
        assert "\\b" not in "".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_killed_training_is_resumed(files, tmp_path, number):
    path, checkpoint = tmp_path / "model.safetensors", tmp_path / "model.safetensors.checkpoint"
    words = ["train", files["train"], "--loss", "domination", "-o", path]
    words += ["--solver", "coordinate:max_epochs=9,tolerance=0"]

    def epochs() -> list[float]:
        return read_tensors(checkpoint)[0]["history/epoch"].tolist()

    killed = call_and_signal(*words, number=number, epoch=3)
    assert epochs() == [1, 2, 3]
    if number == signal.SIGINT:
        assert killed.returncode == 1
        assert "--resume" in killed.stderr
        assert Ranker.load(path).stopped_ == "interrupted"
    else:
        assert killed.returncode == -signal.SIGKILL
    assert "seed" in call(*words, "--seed", "9", "--resume", code=1).stderr

    # The same words go on where it stopped; a second signal ends it again, further on.
    call_and_signal(*words, "--resume", number=signal.SIGINT, epoch=5)
    assert epochs() == [1, 2, 3, 4, 5]
    call(*words, "--resume")
    assert not checkpoint.exists()
    call(*words[:-3], tmp_path / "whole", *words[-2:])
    assert path.read_bytes() == (tmp_path / "whole").read_bytes()


def test_script_is_installed():
    command = Path(sys.executable).with_name("ranking")
    done = subprocess.run([command, "--version"], capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0
    assert done.stdout.startswith("ranking, version")


@pytest.mark.parametrize("command", ["train", "eval", "rank", "compare", "data"])
def test_kernel_and_threads_reach_the_reader(files, model, tmp_path, monkeypatch, command):
    parse, used = LetorKernel.parse, []

    def spy(letor, *args, **kwargs):
        used.append((letor.implementation, kwargs["threads"]))
        return parse(letor, *args, **kwargs)

    other = tmp_path / "other.safetensors"
    other.write_bytes(model.read_bytes())
    words = {
        "train": [files["train"], "--valid", files["valid"], "--recipe", "domination", "-o", other],
        "eval": [model, files["test"]],
        "rank": [model, files["test"]],
        "compare": [model, other, files["test"]],
        "data": [files["test"]],
    }
    monkeypatch.setattr(LetorKernel, "parse", spy)
    monkeypatch.setenv("RANKING_KERNEL", "reference")
    call(command, *words[command], "--kernel", "cython", "--threads", 2)
    assert set(used) == {(get_kernel("cython").letor.implementation, 2)}
