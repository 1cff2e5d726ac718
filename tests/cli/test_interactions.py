"""The command line with interactions: vectors trained, stopped early, resumed, ranked."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import call
from conftest import make_judged, make_tastes, write_letor

from ranking import Ranker
from ranking.data.exclusions import find_exclusions
from ranking.data.readers.read import read_any
from ranking.io.tensors import read_tensors
from ranking.metrics.evaluation import evaluate_model, mean
from ranking.metrics.parse import parse_metric
from ranking_plugins.callbacks import Checkpoint

P5 = "p@5(ties=docid,empty=zero,scores=float32)"
SHORT = "sgd:max_steps=300,steps_per_epoch=100"


def write_interactions(path: Path, pairs: list[tuple[int, int]]) -> Path:
    rows = [f"u{user},item {item},{1 + item % 3}\n" for user, item in pairs]
    path.write_text("user,item,rating\n" + "".join(rows))
    return path


@pytest.fixture(scope="module")
def kernel(request: pytest.FixtureRequest) -> str:
    return request.getfixturevalue("fast_kernel").name


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, kernel: str) -> Path:
    """Interactions of tastes in two halves, and a model of the one."""
    directory = tmp_path_factory.mktemp("interactions")
    data = make_tastes(1, 18, 24, share=0.8)
    pairs = np.argwhere(data.relevance.toarray() > 0).tolist()
    order = np.random.default_rng(0).permutation(len(pairs))
    cut = 2 * len(pairs) // 3
    for name, selection in (("train", order[:cut]), ("valid", order[cut:])):
        write_interactions(directory / f"{name}.csv", [tuple(pairs[i]) for i in sorted(selection)])
    write_letor(directory / "judged.txt", make_judged(1))
    words = ["train", directory / "train.csv", "--recipe", "warp", "--kernel", kernel]
    call(*words, "-o", directory / "warp.safetensors")
    return directory


@pytest.mark.parametrize(
    ("recipe", "model", "loss"),
    [
        ("warp", "factored:dimensions=32,biases=True,", "warp:max_trials=30"),
        ("wsabie", "factored:dimensions=32,biases=True,", "warp:max_trials=30"),
        ("auc", "factored:dimensions=32,biases=True,", "auc"),
        ("bpr", "factored:dimensions=32,biases=True,", "bpr"),
        ("lasr", "structured:dimensions=32", "warp:max_trials=30"),
    ],
)
def test_recipes_train(folder, tmp_path, kernel, recipe, model, loss):
    path = tmp_path / "model.safetensors"
    words = ["train", folder / "train.csv", "--recipe", recipe, "--kernel", kernel, "-o", path]
    printed = call(*words, "--threads", 2).stderr
    assert model in printed
    assert f" x {loss} x " in printed
    assert "stopped: max_epochs" in printed
    assert "18 queries" in printed
    ranker = Ranker.load(path, kernel=kernel)
    assert ranker.n_iter_ == (20 if recipe == "lasr" else 30)
    data = read_any(folder / "train.csv")
    assert ranker.score(data, metric="map") > 0.5
    assert not list(tmp_path.glob("*.checkpoint"))


def test_a_dry_run_shows_the_parts(folder):
    output = {
        line.split()[0]: line.split()[1:]
        for line in call(
            "train", folder / "train.csv", "--recipe", "lasr", "--dry-run"
        ).stdout.splitlines()
    }
    assert output["model"] == ["structured", "recipe"]
    assert output["loss"] == ["warp", "recipe"]
    assert output["regularizer"] == ["max-norm:limit=3", "recipe"]
    assert output["solver"] == ["sgd", "recipe"]


def test_embeddings_are_stopped_early_and_the_best_epoch_is_kept(folder, tmp_path, kernel):
    path = tmp_path / "model.safetensors"
    words = ["train", folder / "train.csv", "--recipe", "warp", "--kernel", kernel, "-o", path]
    words += ["--valid", folder / "valid.csv", "--metrics", "p@5", "--exclude-seen"]
    solver = ["--solver", "sgd:max_steps=40000,steps_per_epoch=400,learning_rate=0.3"]
    printed = call(*words, *solver).stderr
    assert "stopped: early-stopping" in printed
    ranker = Ranker.load(path, kernel=kernel)
    values = [row[P5] for row in ranker.history_]
    assert len(values) - 1 - int(np.argmax(values)) == 5
    train, valid = (read_any(folder / f"{name}.csv") for name in ("train", "valid"))
    valid = valid.with_documents(train.document_ids)
    exclusions = find_exclusions(valid, train, but_relevant=True)
    result = evaluate_model(
        ranker.model_, [parse_metric("p@5")], valid, ranker.kernel_, 1, exclusions
    )
    assert mean(result[P5]) == max(values)
    # And eval measures the same, with the training data left out.
    words = ["eval", path, folder / "valid.csv", "--metrics", "p@5", "--format", "jsonl"]
    words += ["--kernel", kernel]
    rows = call(*words, "--exclude", folder / "train.csv").stdout.splitlines()
    assert json.loads(rows[-1])["metrics"]["p@5"] == max(values)
    plain = json.loads(call(*words).stdout.splitlines()[-1])["metrics"]["p@5"]
    assert plain < max(values)


@pytest.mark.parametrize("loss", ["hinge", "warp"])
def test_a_matrix_is_measured_and_not_stopped(folder, tmp_path, kernel, loss):
    path = tmp_path / "model.safetensors"
    words = [
        "train",
        folder / "train.csv",
        "--model",
        "bilinear",
        "--loss",
        loss,
        "--solver",
        "sgd:max_steps=60,steps_per_epoch=30",
    ]
    call(*words, "--valid", folder / "valid.csv", "--kernel", kernel, "-o", path)
    ranker = Ranker.load(path)
    assert ranker.model_.name == "bilinear"
    assert ranker.stopped_ == "max_epochs"
    assert any(name.startswith("pair-error") for name in ranker.history_[0])


# --- resuming -----------------------------------------------------------------------------------


@pytest.mark.parametrize("recipe", ["warp", "lasr"])
def test_a_killed_training_is_resumed(folder, tmp_path, kernel, monkeypatch, recipe):
    """Killed after an epoch of the last stage: the file has the same bytes in the end."""

    def words(path, *more):
        return [
            *["train", folder / "train.csv", "--recipe", recipe, "--solver", SHORT, "--quiet"],
            *["--valid", folder / "valid.csv", "--metrics", "map", "--exclude-seen"],
            *["--kernel", kernel, "-o", path, *more],
        ]

    call(*words(tmp_path / "whole"))
    path, checkpoint = tmp_path / "model", tmp_path / "model.checkpoint"
    last_epoch = 5 if recipe == "lasr" else 2

    def on_epoch_end(self, run, result):
        self.write(run)
        if result.epoch == last_epoch:
            raise MemoryError("killed")
        return False

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "on_epoch_end", on_epoch_end)
        call(*words(path), code=1)
    assert not path.exists()
    tensors, _ = read_tensors(checkpoint)
    assert tensors["history/epoch"].tolist() == list(range(1, last_epoch + 1))
    assert ("model/S" in tensors) == (recipe == "lasr")
    # What is not the same training is refused.
    for change, name in (
        (["--seed", "9"], "seed"),
        (["--regularizer", "l2:strength=0.5"], "regularizer"),
    ):
        assert (
            f"another training ({name} differ)"
            in call(*words(path, "--resume", *change), code=1).stderr
        )
    without = [word for word in words(path, "--resume") if word != "--exclude-seen"]
    assert "exclude-seen differ" in call(*without, code=1).stderr
    call(*words(path, "--resume", "--threads", "2"))
    assert not checkpoint.exists()
    assert path.read_bytes() == (tmp_path / "whole").read_bytes()


def test_ctrl_c_keeps_the_stage_that_is_trained(folder, tmp_path, kernel, monkeypatch):
    path = tmp_path / "model"
    words = ["train", folder / "train.csv", "--recipe", "lasr", "--solver", SHORT]
    words += ["--kernel", kernel, "-o", path]
    call(*words)
    whole = path.read_bytes()

    def on_epoch_end(self, run, result):
        self.write(run)
        if result.epoch == 4:
            raise KeyboardInterrupt
        return False

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "on_epoch_end", on_epoch_end)
        assert "--resume continues" in call(*words, code=1).stderr
    ranker = Ranker.load(path, kernel=kernel)
    assert (ranker.stopped_, ranker.n_iter_, ranker.model_.stage) == ("interrupted", 4, 1)
    call(*words, "--resume")
    assert path.read_bytes() == whole


def test_a_base_by_its_file(folder, tmp_path, kernel):
    spec = f"structured:dimensions=8,stages=1,base={folder / 'warp.safetensors'}"
    words = ["train", folder / "train.csv", "--model", spec, "--loss", "warp", "--solver", SHORT]
    call(*words, "--kernel", kernel, "-o", tmp_path / "model")
    model = Ranker.load(tmp_path / "model", kernel=kernel).model_
    base = Ranker.load(folder / "warp.safetensors", kernel=kernel).model_
    assert model.stage == 1
    assert model.at_stage(0).tensors()["U"].tobytes() == base.tensors()["U"].tobytes()


# --- ranking ------------------------------------------------------------------------------------


def ranked(text: str, form: str) -> list[tuple[str, str, int, float]]:
    if form == "jsonl":
        rows = [json.loads(line) for line in text.splitlines()]
    elif form == "csv":
        rows = list(csv.DictReader(io.StringIO(text)))
    else:
        names = ("query", "document", "rank", "score")
        words = [line.rsplit(" ", 3) for line in text.splitlines()]
        rows = [
            dict(zip(names, (*head.split(" Q0 "), rank, score), strict=True))
            for head, rank, score, _ in words
        ]
    return [(r["query"], r["document"], int(r["rank"]), float(r["score"])) for r in rows]


@pytest.mark.parametrize("form", ["trec", "jsonl", "csv"])
def test_rank_excludes_positives_of_other_data(folder, tmp_path, kernel, form):
    model, train = folder / "warp.safetensors", folder / "train.csv"
    selection = [f"item {i}" for i in (0, 1, 2, 5, 7, 20, 21)]
    names = tmp_path / "candidates.txt"
    names.write_text("\n".join([*selection, "", "  item 23  ", "unheard of"]) + "\n")
    words = ["rank", model, train, "-k", 4, "--kernel", kernel, "--exclude", train]
    output = tmp_path / f"out.{'run' if form == 'trec' else form}"
    call(*words, "--candidates", names, "-o", output)
    result = ranked(output.read_text(), form)
    blank = "-" if form == "trec" else " "  # fields of a TREC line have no blanks
    on_screen = call(*words, "--candidates", names, "--format", form).stdout
    assert ranked(on_screen, form) == result
    ranker, data = Ranker.load(model, kernel=kernel), read_any(train)
    scores, known = ranker.predict(data), data.relevance.toarray() > 0
    expected = []
    for query, user in enumerate(data.query_ids.tolist()):
        pool = [
            d
            for d, name in enumerate(data.document_ids.tolist())
            if name in {*selection, "item 23"} and not known[query, d]
        ]
        pool.sort(key=lambda d, q=query: (-scores[q, d], data.document_ids[d]))
        expected += [
            (user, str(data.document_ids[d]).replace(" ", blank), at, scores[query, d])
            for at, d in enumerate(pool[:4], start=1)
        ]
    assert result == expected


def test_rank_excludes_positives_of_several_files(folder, kernel):
    model = folder / "warp.safetensors"
    words = ["rank", model, folder / "train.csv", "--kernel", kernel, "--format", "jsonl"]
    every = len(call(*words).stdout.splitlines())
    train, valid = (read_any(folder / f"{name}.csv") for name in ("train", "valid"))
    assert every == train.n_queries * train.n_documents
    less = call(*words, "--exclude", folder / "train.csv").stdout.splitlines()
    assert len(less) == every - int(train.n_relevant.sum())
    least = call(
        *words, "--exclude", folder / "train.csv", "--exclude", folder / "valid.csv"
    ).stdout.splitlines()
    shared = len(find_exclusions(train, valid)[1])
    assert len(least) == every - int(train.n_relevant.sum()) - shared


# --- refusals -----------------------------------------------------------------------------------


def test_options_for_queries_and_documents_are_refused_for_judged_rows(folder, tmp_path):
    linear, judged = tmp_path / "linear.safetensors", folder / "judged.txt"
    call("train", judged, "--recipe", "domination", "-o", linear)
    for words in (
        ["eval", linear, judged, "--exclude", judged],
        ["rank", linear, judged, "--exclude", judged],
        ["rank", linear, judged, "--candidates", judged],
    ):
        assert "not for judged rows" in call(*words, code=2).stderr
    words = ["train", judged, "--recipe", "domination", "--valid", judged, "--exclude-seen"]
    printed = call(*words, "-o", tmp_path / "m", code=2).stderr
    assert "--exclude-seen" in printed


def test_exclude_seen_needs_validation_data(folder, tmp_path):
    words = ["train", folder / "train.csv", "--recipe", "warp", "--exclude-seen"]
    assert "--valid" in call(*words, "-o", tmp_path / "m", code=2).stderr


def test_refusals_name_the_remedy(folder, tmp_path, kernel):
    model, train = folder / "warp.safetensors", folder / "train.csv"
    for words in (
        ["--model", "factored:dimensions=0", "--loss", "warp"],
        ["--model", "factored", "--loss", "alignment", "--regularizer", "group-l1"],
        ["--model", "bilinear", "--loss", "warp", "--regularizer", "orthonormal"],
        ["--model", "structured:inference=best", "--loss", "warp"],
        ["--recipe", "warp", "--regularizer", "max-norm:limit=0"],
        ["--recipe", "warp", "--solver", "sgd:negatives=all"],
    ):
        result = call("train", train, *words, "-o", tmp_path / "m", code=2)
        assert "Traceback" not in result.output
        assert not (tmp_path / "m").exists()
    nobody = tmp_path / "nobody.txt"
    nobody.write_text("unheard of\n")
    printed = call("rank", model, train, "--candidates", nobody, "--kernel", kernel, code=2).stderr
    assert "candidate" in printed
    assert "give" in printed
    assert (
        "--exclude and --candidates are for"
        in call("rank", model, "some words", "--exclude", train, code=2).stderr
    )
    for option in ("--exclude", "--candidates"):
        printed = call("rank", model, train, option, tmp_path / "nowhere", code=2).stderr
        assert "does not exist" in printed


def test_held_out_items_are_ranked_among_all_that_the_model_knows(folder, tmp_path, kernel):
    """A file of one pair has one item, and would be ranked perfectly if that were all."""
    train = read_any(folder / "train.csv")
    lines = (folder / "valid.csv").read_text().splitlines()
    few = tmp_path / "few.csv"
    few.write_text("\n".join(lines[:2]) + "\n")
    model = folder / "warp.safetensors"
    data = read_any(few)
    words = ["eval", model, few, "--exclude", folder / "train.csv", "--metrics", "mean-rank"]
    printed = json.loads(call(*words, "--format", "jsonl").output.splitlines()[-1])

    ranker = Ranker.load(model, kernel=kernel)
    user = train.query_ids.tolist().index(data.query_ids[0])
    scores = dict(zip(train.document_ids.tolist(), ranker.predict(train)[user], strict=True))
    known = set(train.document_ids[train.relevant(user)].tolist())
    expected = scores[data.document_ids[0]]
    rank = 1 + sum(score > expected for item, score in scores.items() if item not in known)
    assert printed["metrics"]["mean-rank"] == rank > 1
    exclude = {"exclude": train, "metric": "mean-rank"}
    assert ranker.score(data, **exclude) == rank

    listed = call("rank", model, few, "--format", "jsonl").output.splitlines()
    assert {json.loads(line)["document"] for line in listed} == set(train.document_ids.tolist())
