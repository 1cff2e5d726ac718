"""The command line with texts: train, eval, rank, explain, report, reproduce."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import call, call_and_signal
from conftest import make_judged, write_letor

from ranking import Ranker
from ranking.data.readers.read import read_any
from ranking.io.tensors import read_tensors

TOPICS = {
    "hockey": ["puck", "goal", "goalie", "ice", "team", "playoffs", "skate", "league", "coach"],
    "space": [
        "orbit",
        "launch",
        "nasa",
        "moon",
        "shuttle",
        "rocket",
        "satellite",
        "mission",
        "astronaut",
    ],
    "autos": ["engine", "car", "brake", "wheel", "dealer", "mileage", "clutch", "tire", "motor"],
}
COMMON = ["people", "think", "time", "good", "know", "year", "make", "work", "first", "last"]
SGD = "sgd:max_steps=300,steps_per_epoch=100,learning_rate=5"
CURVE = {
    "map": "map(ties=docid,empty=zero,scores=float32)",
    "pair-error": "pair-error(empty=skip,scores=float32)",
}


def write_texts(path: Path, seed: int, n_texts: int) -> Path:
    """Write texts of three classes, whose words overlap little from one class to another."""
    rng = np.random.default_rng(seed)
    lines = ["class\ttext", "discrete\tstring", "class\t"]
    for number in range(n_texts):
        topic = list(TOPICS)[number % len(TOPICS)]
        words = [*rng.choice(TOPICS[topic], 4), *rng.choice(COMMON, 3)]
        lines.append(f"{topic}\t{' '.join(rng.permutation(words))}")
    path.write_text("\n".join(lines) + "\n")
    return path


def lines(*words: object) -> list[dict]:
    """Call the command with --format jsonl, and return its rows."""
    return [json.loads(line) for line in call(*words, "--format", "jsonl").stdout.splitlines()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts, judged lists, and a model of each."""
    directory = tmp_path_factory.mktemp("texts")
    for seed, name in enumerate(("train", "valid")):
        write_texts(directory / f"{name}.tab", seed, 45)
        write_letor(directory / f"{name}.txt", make_judged(seed))
    (directory / "pixels.svm").write_text("1 1:0.5 2:0.2\n2 1:0.1 3:1\n1 2:1 3:0.5\n2 1:1 2:1\n")
    words = ["train", directory / "train.tab", "--valid", directory / "valid.tab", "--solver"]
    words += [
        f"{SGD},refit=true",
        "--recipe",
        "sparse-sgd-refit",
        "-o",
        directory / "words.safetensors",
    ]
    (directory / "printed.txt").write_text(call(*words).stderr)
    call(
        "train",
        directory / "train.txt",
        "--recipe",
        "domination",
        "-o",
        directory / "linear.safetensors",
    )
    return directory


@pytest.fixture
def model(folder: Path) -> Path:
    """A model of texts."""
    return folder / "words.safetensors"


def test_training_reports_parts_and_sizes(folder, model):
    printed = (folder / "printed.txt").read_text()
    assert "pilot training: strength" in printed
    assert "bilinear:initial=auto,dtype=float32 x hinge x l1:strength=" in printed
    assert "45 queries, 45 documents" in printed
    assert "6 epochs" in printed
    assert str(model) in printed
    assert not list(folder.glob("*.checkpoint"))
    ranker = Ranker.load(model)
    assert ranker.text_.stop_words == "english"  # from the recipe
    assert 1 <= len(ranker.description_["density search"]) <= 2
    assert abs(ranker.model_.density - 0.09) < 0.04


def test_a_dry_run_shows_the_features(folder, tmp_path):
    words = ["train", folder / "train.tab", "--recipe", "sparse-sgd", "--dry-run"]
    output = {line.split()[0]: line for line in call(*words).stdout.splitlines()}
    assert "text:words=10000,stop_words=english,sublinear=true" in output["features"]
    assert output["features"].endswith("recipe")
    assert output["regularizer"].split()[1:] == ["l1:density=0.09", "recipe"]
    assert output["metrics"].split()[1:] == ["map,pair-error", "default"]
    config = tmp_path / "settings.toml"
    config.write_text('features = "text:words=7"\nmetrics = "mrr"\n')
    output = {
        line.split()[0]: line.split()[1]
        for line in call(*words, "--config", config).stdout.splitlines()
    }
    assert (output["features"], output["metrics"]) == ("text:words=7", "mrr")
    assert not list(tmp_path.glob("*.safetensors"))


def test_features_reach_the_model(folder, tmp_path):
    path = tmp_path / "few.safetensors"
    words = ["train", folder / "train.tab", "--loss", "logistic", "--solver", SGD, "-o", path]
    call(*words, "--features", "text:words=20")
    ranker = Ranker.load(path)
    assert ranker.text_.n_features == 20
    assert ranker.model_.weights.shape == (20, 20)


def test_eval_agrees_with_python(folder, model):
    ranker = Ranker.load(model)
    test = read_any(folder / "valid.tab")
    *queries, total = lines("eval", model, folder / "valid.tab", "--metrics", "map,pair-error")
    assert [row["query"] for row in queries] == [str(one) for one in test.query_ids]
    assert total["metrics"]["map"] == ranker.score(test, metric="map")
    assert total["metrics"]["pair-error"] == ranker.score(test, metric="pair-error")
    assert total["metrics"]["map"] > 0.8


def test_the_learning_curve_is_kept_and_drawn(folder, model, tmp_path):
    rows = lines("report", model)
    assert [row["epoch"] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert [row["steps"] for row in rows] == [100, 200, 300, 400, 500, 600]
    assert {"model", "objective", "loss", "density", *CURVE.values()} <= set(rows[0])
    # The last point of the curve is what eval measures, and refitting leaves the support alone.
    total = lines("eval", model, folder / "valid.tab", "--metrics", "map,pair-error")[-1]
    for name, spelled in CURVE.items():
        assert rows[-1][spelled] == total["metrics"][name]
    assert len({row["density"] for row in rows[2:]}) == 1
    linear = folder / "linear.safetensors"
    page = tmp_path / "report.html"
    assert "wrote" in call("report", model, linear, "-o", page).stderr
    html = page.read_text()
    assert html.count("<svg") == 6  # objective, decrease, loss, density and two metrics
    for text in (*CURVE.values(), "bilinear:initial=identity", str(linear), "600"):
        assert text in html
    assert "http" not in html.replace("http-equiv", "")


def test_curve_measures_the_requested_metrics(folder, tmp_path):
    path = tmp_path / "m.safetensors"
    words = ["train", folder / "train.tab", "--valid", folder / "valid.tab", "--loss", "hinge"]
    call(*words, "--solver", SGD, "--metrics", "mrr,p@5", "-o", path)
    assert {
        "mrr(ties=docid,empty=zero,scores=float32)",
        "p@5(ties=docid,empty=zero,scores=float32)",
    } <= set(Ranker.load(path).history_[0])


def test_rank_searches_the_texts_for_words(model):
    rows = lines("rank", model, "Goalie, on the ICE!")
    assert len(rows) == 10  # unless -k says otherwise
    assert [row["rank"] for row in rows] == list(range(1, 11))
    assert {row["query"] for row in rows} == {"Goalie,-on-the-ICE!"}
    results = Ranker.load(model).search(["goalie ice"], k=10)["goalie ice"]
    assert [(row["document"], row["score"]) for row in rows] == [(str(i), s) for i, s in results]
    # Rows 0, 3, 6, ... of the file are about hockey.
    assert sum(int(row["document"]) % 3 == 0 for row in rows) >= 7
    trec = call("rank", model, "goalie ice", "nasa", "-k", 2, "--tag", "t").stdout.splitlines()
    assert [line.split()[0] for line in trec] == ["goalie-ice", "goalie-ice", "nasa", "nasa"]
    assert all(len(line.split()) == 6 for line in trec)


def test_rank_of_data_leaves_the_query_itself_out(folder, model):
    rows = lines("rank", model, folder / "valid.tab", "-k", 3)
    assert len(rows) == 45 * 3
    assert not any(row["query"] == row["document"] for row in rows)


def test_words_that_the_model_does_not_know(model):
    result = call("rank", model, "goalie xylophone", "-k", 1)
    assert "does not know 1 word of 'goalie xylophone'" in result.stderr
    assert result.stdout.startswith("goalie-xylophone Q0 ")
    assert (
        "no query feature 'goali'; there are goal, goalie"
        in call("explain", model, "goali", code=1).stderr
    )
    assert (
        "none of the words in 'zzz'"
        in call("explain", model, "--pair", "puck", "zzz", code=1).stderr
    )


def test_explain_shows_the_largest_weights(model):
    ranker = Ranker.load(model)
    words = ranker.model_.query_feature_ids.tolist()
    row = ranker.model_.weights[[words.index("goalie")]].toarray()[0]
    output = lines("explain", model, "GOALIE", "-k", 3)
    sizes = [abs(one["weight"]) for one in output]
    assert sizes == sorted(np.abs(row).tolist(), reverse=True)[:3]
    assert all(row[words.index(one["document term"])] == one["weight"] for one in output)
    assert {one["term"] for one in output} == {"GOALIE"}
    assert len(lines("explain", model, "goalie", "nasa")) <= 10


def test_explain_pair_adds_up_to_the_score(model):
    results = Ranker.load(model).search(["goalie ice team"], k=1)["goalie ice team"]
    document, score = results[0]
    result = call(
        "explain", model, "--pair", "goalie ice team", document, "-k", 1000, "--format", "jsonl"
    )
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert sum(row["contribution"] for row in rows) == pytest.approx(score, rel=1e-12)
    assert f"score {score:.6g}, from {len(rows)} pairs of words" in result.stderr
    texts = call("explain", model, "--pair", "goalie ice", "puck and skate").stdout
    assert texts.split()[:4] == ["query", "document", "weight", "contribution"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (
            ["train", "train.txt", "--recipe", "sparse-sgd", "-o", "x"],
            1,
            "'bilinear' scores queries",
        ),
        (["train", "train.tab", "--recipe", "domination", "-o", "x"], 1, "'linear' scores rows"),
        (
            ["train", "train.txt", "--recipe", "domination", "--features", "text", "-o", "x"],
            2,
            "features=text represent texts, and the data are a JudgedLists",
        ),
        (
            ["train", "train.tab", "--loss", "hinge", "--valid", "valid.txt", "-o", "x"],
            1,
            "and the validation data are rows",
        ),
        (
            ["train", "train.txt", "--recipe", "domination", "--valid", "valid.tab", "-o", "x"],
            1,
            "these are texts, and the training data were not",
        ),
        (
            ["train", "train.tab", "valid.tab", "--loss", "hinge", "-o", "x"],
            1,
            "join these into one",
        ),
        (
            ["train", "train.tab", "--loss", "hinge", "--features", "text:wrds=3", "-o", "x"],
            2,
            "words, min_count",
        ),
        (
            ["train", "train.tab", "--loss", "hinge", "--metrics", "map", "-o", "x"],
            2,
            "or without --valid",
        ),
        (
            ["train", "train.tab", "--loss", "hinge", "--solver", "sgd:max_steps=many", "-o", "x"],
            2,
            "max_steps='many'",
        ),
        (
            ["train", "train.tab", "--loss", "hinge", "--regularizer", "l1:density=2", "-o", "x"],
            2,
            "[0, 1)",
        ),
        (["eval", "words.safetensors", "valid.txt"], 1, "'bilinear' scores queries"),
        (["eval", "linear.safetensors", "valid.tab"], 1, "these are texts"),
        (["eval", "words.safetensors", "pixels.svm"], 1, "share no query feature"),
        (["rank", "words.safetensors", "valid.txt"], 1, "'bilinear' scores queries"),
        (["rank", "linear.safetensors", "some query"], 2, "holds no texts"),
        (["rank", "words.safetensors", "xyzzy"], 2, "none of the words in 'xyzzy'"),
        (["rank", "words.safetensors", ""], 2, "none of the words in ''"),
        (["rank", "words.safetensors", "valid.tab", "puck"], 2, "puck does not exist"),
        (["explain", "words.safetensors"], 2, "--pair"),
        (["explain", "words.safetensors", "puck", "--pair", "a", "b"], 2, "--pair"),
        (["explain", "linear.safetensors", "puck"], 2, "and this one is linear"),
        (["reproduce", "nothing"], 2, "sparse-preference"),
        (["reproduce", "sparse-preference", "--data", "."], 1, "does not exist; give the folder"),
        (["reproduce", "sparse-preference"], 2, "--data FOLDER"),
    ],
)
def test_misuse_and_failure(folder, monkeypatch, words, code, message):
    monkeypatch.chdir(folder)
    monkeypatch.delenv("RANKING_DATA", raising=False)
    result = call(*words, code=code)
    assert message in " ".join(result.stderr.split())
    assert "Traceback" not in result.output
    assert not Path("x").exists()


def test_hashed_words_cannot_be_read(folder, tmp_path):
    path = tmp_path / "hashed.safetensors"
    words = ["train", folder / "train.tab", "--loss", "hinge", "--solver", SGD, "-o", path]
    call(*words, "--features", "text:hashing=64")
    assert "hashes words" in call("explain", path, "puck", code=1).stderr
    assert lines("rank", path, "puck", "-k", 1)
    assert lines("explain", path, "--pair", "puck", "goal")[0]["query"].startswith("#")


@pytest.mark.slow
@pytest.mark.parametrize("batch", ["auto", 16])
def test_the_same_tensors_whatever_the_kernel_and_threads(folder, tmp_path, load_kernel, batch):
    words = ["train", folder / "train.tab", "--loss", "warp", "--regularizer", "l1:strength=0.003"]
    words += [
        "--solver",
        f"sgd:max_steps=200,learning_rate=5,refit=true,batch_size={batch}",
        "--quiet",
    ]
    call(*words, "--kernel", "reference", "-o", tmp_path / "reference")
    expected = tensors(tmp_path / "reference")
    for name in ("cython", "rust"):
        load_kernel(name)
        for threads in (1, 2, 3):
            path = tmp_path / f"{name}-{threads}"
            call(*words, "--kernel", name, "--threads", threads, "-o", path)
            assert tensors(path) == expected, (name, threads)


def tensors(path: Path) -> dict[str, bytes]:
    return {name: tensor.tobytes() for name, tensor in read_tensors(path)[0].items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("signal_number", "epoch"),
    [(signal.SIGINT, 30), (signal.SIGKILL, 110)],
    ids=["first", "refit"],
)
def test_a_killed_training_is_resumed(folder, tmp_path, signal_number, epoch):
    # Epochs 81 to 160 refit. Another kernel goes on with the same bits.
    path = tmp_path / "model.safetensors"
    checkpoint = tmp_path / "model.safetensors.checkpoint"
    words = ["train", folder / "train.tab", "--loss", "hinge"]
    words += ["--regularizer", "l1:strength=0.005", "--quiet", "--solver"]
    words += ["sgd:max_steps=8000,steps_per_epoch=100,learning_rate=5,refit=true", "-o"]
    killed = call_and_signal(
        *words, path, "--kernel", "reference", number=signal_number, epoch=epoch
    )
    assert read_tensors(checkpoint)[0]["history/epoch"].size == epoch, killed.stderr
    if signal_number == signal.SIGINT:
        assert killed.returncode == 1
        assert "--resume" in killed.stderr
        assert Ranker.load(path).stopped_ == "interrupted"
    assert "seed" in call(*words, path, "--seed", "9", "--resume", code=1).stderr
    call(*words, path, "--resume", "--threads", "2")
    call(*words, tmp_path / "whole")
    assert not checkpoint.exists()
    assert tensors(path) == tensors(tmp_path / "whole")
    assert Ranker.load(path).n_iter_ == 160


def test_a_quick_reproduction(real_data, tmp_path, monkeypatch):
    def unreachable(**settings):
        raise OSError("no network")

    monkeypatch.setattr("sklearn.datasets.fetch_rcv1", unreachable)
    result = call("reproduce", "sparse-preference", "--data", real_data, "--quick", "-o", tmp_path)
    assert "sparse-sgd-refit" in result.stdout
    facts = json.loads((tmp_path / "results.json").read_text())
    assert facts["name"] == "sparse-preference"
    methods = [
        "identity",
        "diagonal",
        "sgd-fixed",
        "sgd-decaying",
        "sparse-sgd",
        "sparse-sgd-refit",
    ]
    assert "RCV1 is left out" in result.stderr
    tables = [row for row in facts["rows"] if row["dataset"] in ("20 Newsgroups", "MNIST")]
    assert [row["method"] for row in tables] == methods * 2
    others = [row for row in facts["rows"] if row not in tables]
    assert {row["dataset"].split(": ")[1] for row in others} == {"statistics", "related words"}
    related = next(row for row in others if row["method"] == "hockey")
    assert len(related["texts"]["related words"].split()) == 5
    assert related["texts"]["paper words"] == "hockey game espn colorado team"
    for row in tables:
        assert set(row) == {
            "dataset",
            "method",
            "metrics",
            "paper",
            "seconds",
            "model_bytes",
            "density",
            "history",
            "by_seed",
            "texts",
        }
        assert set(row["metrics"]) == {"map", "error"}
        assert set(row["paper"]) == {"map", "error", "megabytes"}
        assert 0.0 < row["density"] <= 1.0
        steps = {"identity": 0, "sparse-sgd-refit": 4000}.get(row["method"], 2000)
        assert row["history"][-1]["steps"] == steps
    html = (tmp_path / "index.html").read_text()
    assert all(method in html for method in methods)
    assert "<svg" in html
