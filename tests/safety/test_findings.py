"""What crashed, hung, lost data or deceived once: each stays refused, or right."""

from __future__ import annotations

import contextlib
import gzip
import json
import multiprocessing
import os
import subprocess
import sys
import threading
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import sparse

from ranking import JudgedLists, MatchingData, Ranker, TextCollection, read_data
from ranking.data.readers.read import read_any
from ranking.errors import (
    DataError,
    DataWarning,
    FileError,
    ModelFileError,
    PartError,
    TrainingWarning,
)
from ranking.io import IdWriter, encode_id
from ranking.io.tensors import read_tensors, write_tensors
from ranking.registry.manager import Registry, Source
from ranking.registry.security import PluginSecurity
from ranking_cli.main import cli

SEEDS = Path(__file__).parent / "seeds"


def call(*words: object, code: int = 0) -> str:
    """Run a command; return what it prints. An error is one line."""
    result = CliRunner().invoke(cli, [str(word) for word in words])
    assert result.exit_code == code, (result.output, result.exception)
    if code == 1:
        assert len(result.stderr.strip().splitlines()) == 1, result.stderr
    assert "Traceback" not in result.stderr
    return result.stderr if code else result.stdout


@pytest.fixture
def letor(tmp_path):
    path = tmp_path / "train.txt"
    rows = (f"{row % 3} qid:{row // 6} 1:{row % 3 + 0.1 * row} 2:{row % 5}\n" for row in range(36))
    path.write_text("".join(rows))
    return path


@pytest.fixture
def texts():
    words = ["puck ice goal", "ice team goal", "moon orbit rocket", "rocket moon launch"]
    classes = np.array(["a", "a", "b", "b"])
    ids = np.arange(4)
    return TextCollection(
        ids, words, ids, words, labels=(classes, classes), queries_are_documents=True
    )


PARTS = ("--loss", "domination", "--regularizer", "l2:strength=0.1")
CASCADE = "structured:dimensions=3,k=2"


# Crashes and hangs


@pytest.mark.parametrize("name", ["forged_offsets.arrow", "forged_offsets.bin"])
def test_forged_arrow_offsets_are_refused(name):
    pytest.importorskip("pyarrow")
    with pytest.raises(DataError, match="offsets"):
        read_any(SEEDS / name, "parquet")
    call("data", SEEDS / name, "--reader", "parquet", code=1)


@pytest.mark.parametrize("value", [-2, 4, 2**40])
def test_lists_of_a_cascade_that_point_outside_are_refused(tmp_path, texts, value):
    path = tmp_path / "m"
    Ranker(CASCADE, "warp", solver="sgd:max_steps=20").fit(texts).save(path)
    tensors, description = read_tensors(path)
    tensors["model/lists"] = np.full((4, 2), value)
    write_tensors(path, tensors, description)
    with pytest.raises(ModelFileError, match="lists"):
        Ranker.load(path)


def test_features_that_are_not_the_words_of_the_vocabulary_are_refused(tmp_path, texts):
    """Found by the fuzzer: an export looked for the words of the model in the vocabulary."""
    path = tmp_path / "m"
    Ranker("bilinear", "hinge", solver="sgd:max_steps=20").fit(texts).save(path)
    tensors, description = read_tensors(path)
    packed = [name for name in tensors if name.startswith("model/query_feature_ids")]
    next(tensors[name] for name in packed if tensors[name].dtype == np.uint8)[0] ^= 1
    write_tensors(path, tensors, description)
    with pytest.raises(ModelFileError, match="not the words of its vocabulary"):
        Ranker.load(path)


def test_folding_in_needs_the_loss_of_the_model(tmp_path):
    """Found by the fuzzer: an AttributeError for a model whose loss is not installed."""
    path = tmp_path / "m"
    data = MatchingData.from_interactions(["a", "b"], ["x", "y"])
    Ranker("factored", "warp", solver="sgd:max_steps=5").fit(data).save(path)
    tensors, description = read_tensors(path)
    description["parts"]["loss"]["spec"] = "nothing"
    write_tensors(path, tensors, description)
    with pytest.raises(PartError, match="'nothing', which is not installed"):
        Ranker.load(path).fold_in(data, {"new": ["x"]})


def test_folding_in_an_item_that_an_item_model_does_not_know(tmp_path):
    """Found by the fuzzer: a KeyError for an item of the data that is not in the model."""
    data = MatchingData.from_interactions(["a", "a", "b"], ["x", "y", "x"])
    more = MatchingData.from_interactions(["a", "b"], ["x", "z"])
    ranker = Ranker.from_recipe("ease").fit(data)
    with pytest.raises(DataError, match="does not know item 'z'"):
        ranker.fold_in(more, {"new": ["x", "z"]})


def test_a_change_of_the_gradient_that_underflows_teaches_lbfgs_nothing():
    """Found by the fuzzer: a division by the square of 1e-200."""
    from ranking_plugins.solvers.lbfgs import _Point

    point = _Point(np.zeros(1))
    point.remember(np.array([1e-3]), np.array([1e-200]), 10)
    assert np.isfinite(point.direction(np.array([1e-200]))).all()
    assert not point.steps


@pytest.mark.parametrize("column", ["epoch", "steps"])
@pytest.mark.parametrize("value", [np.inf, -1e300, 1e300, -1.0, 1.5])
def test_forged_counts_of_the_history_are_refused(tmp_path, texts, column, value):
    """Found by the fuzzer: `partial_fit` continued after infinitely many steps."""
    path = tmp_path / "m"
    Ranker("bilinear", "hinge", solver="sgd:max_steps=20").fit(texts).save(path)
    tensors, description = read_tensors(path)
    tensors[f"history/{column}"][-1] = value
    write_tensors(path, tensors, description)
    with pytest.raises(ModelFileError, match=f"history is damaged: {column}"):
        Ranker.load(path)


@pytest.mark.parametrize("pointer", [[0, 1, -(2**62)], [0, 2**63 - 1, 2], [0, 3, 2], [1, 1, 2]])
def test_forged_pointers_of_seen_items_are_refused(tmp_path, pointer):
    path = tmp_path / "m"
    data = MatchingData.from_interactions(["a", "b"], ["x", "y"])
    Ranker("factored", "warp", solver="sgd:max_steps=5").fit(data).save(path)
    tensors, description = read_tensors(path)
    tensors["seen/indptr"] = np.array(pointer)
    write_tensors(path, tensors, description)
    with pytest.raises(ModelFileError, match="seen items"):
        Ranker.load(path)


@pytest.mark.parametrize("pointer", [[0, 2**63 - 1, -2, 3], [0, -1, -1, 3], [0, 3, 3, 2**63 - 1]])
def test_pointers_whose_differences_overflow_are_refused(pointer):
    X = sparse.csr_array(np.eye(3))
    X.indptr = np.array(pointer)
    with pytest.raises(DataError, match="indptr"):
        JudgedLists(X, [0, 1, 2], [1, 1, 1])


@pytest.mark.slow
def test_a_matrix_may_be_changed_while_it_is_trained_on():
    rng = np.random.default_rng(0)
    X = sparse.random_array((2000, 50), density=0.2, format="csr", random_state=0)
    good, y, qid = X.indices.copy(), rng.integers(0, 3, 2000), np.repeat(np.arange(200), 10)
    data = JudgedLists(X, y, qid)
    assert not np.shares_memory(data.features.indices, X.indices)
    assert not np.shares_memory(data.features.indptr, X.indptr)
    stop = threading.Event()

    def change() -> None:
        while not stop.is_set():
            X.indices[rng.integers(X.nnz)] = rng.integers(-(2**31), 2**31 - 1)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for kernel in ("cython", "rust", "reference"):
            X.indices[:] = good
            try:
                Ranker(
                    loss="domination", solver="coordinate:max_epochs=2,tolerance=0", kernel=kernel
                ).fit(X, y, qid=qid)
            except DataError:
                continue
            except Exception as error:
                if type(error).__name__ != "KernelUnavailableError":
                    raise
    finally:
        stop.set()
        thread.join()


def test_relevance_has_a_structure_of_its_own():
    relevance = sparse.csr_array(np.eye(3))
    data = MatchingData(relevance=relevance)
    assert not np.shares_memory(data.relevance.indices, relevance.indices)


def _fit_with_threads(kernel: str) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(5000, 5)), rng.integers(0, 3, 5000)
    Ranker(loss="domination", kernel=kernel, threads=2).fit(X, y, qid=np.repeat(np.arange(500), 10))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("kernel", ["cython", "rust"])
def test_a_forked_child_trains_with_threads(kernel, load_kernel):
    load_kernel(kernel)
    _fit_with_threads(kernel)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # fork in a process with threads
        child = multiprocessing.get_context("fork").Process(target=_fit_with_threads, args=[kernel])
        child.start()
    child.join(60)
    alive = child.is_alive()
    child.kill()
    assert not alive, "the child hangs"
    assert child.exitcode == 0
    _fit_with_threads(kernel)  # the parent starts a new team


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs FIFOs")
def test_a_fifo_is_refused_as_data_and_as_model(tmp_path, letor):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for reader in ("auto", "letor", "parquet", "npz", "run"):
        with pytest.raises(DataError, match="FIFO"):
            read_any(fifo, reader)
    with pytest.raises(ModelFileError, match="FIFO"):
        Ranker.load(fifo)
    call("eval", fifo, letor, code=1)
    call("train", letor, *PARTS, "-o", tmp_path / "m", "--config", fifo, code=2)
    with pytest.raises(DataError, match="device"):
        read_any("/dev/zero", "letor")


# Loss of data


def test_an_output_is_never_a_device_a_fifo_or_a_folder(tmp_path, letor):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    ranker = Ranker(loss="domination").fit(read_data(letor))
    for path in (tmp_path / "fifo", Path("/dev/null"), tmp_path / "folder"):
        with pytest.raises(FileError, match="name a regular file"):
            ranker.save(path)
        call("train", letor, *PARTS, "-o", path, code=2)
    assert Path("/dev/null").is_char_device()
    assert (tmp_path / "fifo").is_fifo()


def test_a_symbolic_link_stays_and_its_file_is_written(tmp_path, letor):
    target, link = tmp_path / "real", tmp_path / "link"
    link.symlink_to(target)
    Ranker(loss="domination").fit(read_data(letor)).save(link)
    assert link.is_symlink()
    assert not target.is_symlink()
    assert Ranker.load(target).n_features_in_ == 2
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(FileError):
        Ranker.load(link).save(loop)


def test_an_output_is_never_an_input(tmp_path, letor):
    before = letor.read_bytes()
    model = tmp_path / "m.safetensors"
    call("train", letor, *PARTS, "-o", model, "--quiet")
    link = tmp_path / "link.txt"
    link.symlink_to(letor)
    hard = tmp_path / "hard.txt"
    os.link(letor, hard)
    for output in (letor, link, hard):
        assert "would be lost" in call("train", letor, *PARTS, "-o", output, code=2)
        assert "would be lost" in call("rank", model, letor, "-o", output, code=2)
        call("data", letor, "--convert", "letor", "-o", output, code=2)
    assert "would be lost" in call("report", model, "-o", model, code=2)
    valid = tmp_path / "valid.txt"
    valid.write_bytes(before.replace(b"qid:", b"qid:9"))
    call("train", letor, "--valid", valid, *PARTS, "-o", valid, code=2)
    checkpoint = tmp_path / "x.checkpoint"
    checkpoint.write_bytes(before)
    call("train", checkpoint, "--reader", "letor", *PARTS, "-o", tmp_path / "x", code=2)
    assert letor.read_bytes() == before
    assert checkpoint.read_bytes() == before


def test_a_checkpoint_of_another_training_is_not_discarded(tmp_path, letor):
    output = tmp_path / "m.safetensors"
    checkpoint = tmp_path / "m.safetensors.checkpoint"
    checkpoint.write_bytes(b"hours of work")
    assert "--resume" in call("train", letor, *PARTS, "-o", output, code=2)
    assert checkpoint.read_bytes() == b"hours of work"
    assert not output.exists()
    call("train", letor, *PARTS, "-o", output, "--resume", code=1)  # damaged
    assert checkpoint.read_bytes() == b"hours of work"


def test_two_trainings_of_one_output_exclude_each_other(tmp_path, letor):
    output = tmp_path / "m.safetensors"
    code = "from ranking.io import Output; import sys\n"
    code += f"with Output({str(output)!r}).locked(): print('held', flush=True); sys.stdin.read()"
    owner = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert owner.stdout.readline() == b"held\n"
        message = call("train", letor, *PARTS, "-o", output, code=1)
        assert f"process {owner.pid} on" in message
    finally:
        owner.kill()
        owner.communicate()
    assert (tmp_path / "m.safetensors.lock").exists()  # left by the killed owner
    call("train", letor, *PARTS, "-o", output, "--quiet")
    assert sorted(os.listdir(tmp_path)) == ["m.safetensors", "train.txt"]


# Silently wrong


@pytest.mark.parametrize("scale", [1e160, 1e300, 1e-170, 1e-300])
@pytest.mark.parametrize("loss", ["domination", "logistic"])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_features_whose_squares_cannot_be_computed_are_refused(scale, loss, layout):
    x = np.random.default_rng(0).normal(size=(60, 2))
    y, qid = np.digitize(x[:, 0], [0, 1]), np.repeat(np.arange(6), 10)
    x[:, 1] *= scale
    with pytest.raises(DataError, match=r"feature 2 is .*scale the features"):
        Ranker(loss=loss).fit(layout(x), y, qid=qid)


@pytest.mark.parametrize("scale", [1e100, 1e-100])
def test_features_of_any_usable_scale_train_the_same_ranking(scale):
    x = np.random.default_rng(0).normal(size=(60, 1))
    y, qid = np.digitize(x[:, 0], [0, 1]), np.repeat(np.arange(6), 10)
    assert Ranker(loss="logistic").fit(x * scale, y, qid=qid).score(x * scale, y, qid=qid) == 1.0


def test_a_model_that_is_worse_than_no_model_is_reported():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 5)) * [1, 1, 1, 1, 1e6]
    y, qid = rng.integers(0, 3, 300), np.repeat(np.arange(30), 10)
    solver = "sgd:learning_rate=1,max_steps=1000"
    with (
        pytest.warns(TrainingWarning, match=r"above 0\.6931.*Scale the features"),
        pytest.warns(DataWarning, match="scale='standard'"),
    ):
        Ranker(loss="logistic", solver=solver).fit(x, y, qid=qid)


HOSTILE = ["a b", "evil Q0 fake 1 99.0 t\nu1", "c\td", "\x1b[31mred", "z\u2028y", "x\x85w", ""]


def test_ids_cannot_forge_lines(tmp_path):
    users = [one or "e" for one in HOSTILE]
    data = MatchingData.from_interactions(users, [f"{one}!" for one in users])
    results = Ranker("factored", "warp", solver="sgd:max_steps=50").fit(data).rank(data)
    results.to_trec(tmp_path / "x.run")
    run = read_data(tmp_path / "x.run", "run")
    assert run.n_queries == len(users)
    assert run.n_rows == len(users) ** 2


def test_a_run_of_ids_with_blanks_is_read_back(tmp_path):
    model, output = tmp_path / "m", tmp_path / "x.run"
    call("train", SEEDS / "blanks.csv", "--recipe", "warp", "-o", model, "--quiet")
    call("rank", model, SEEDS / "blanks.csv", "-o", output)
    assert "a-b" in read_data(output, "run").query_ids
    call("rank", model, SEEDS / "blanks.csv", "-o", tmp_path / "x.csv")
    lines = (tmp_path / "x.csv").read_text().splitlines()
    assert len(lines) == 1 + 4 * 3


def test_ids_that_would_be_written_the_same_are_refused():
    write = IdWriter("trec", "document")
    assert write("a b") == write("a b") == "a-b"
    with pytest.raises(DataError, match="'a b' and 'a-b' are both written as 'a-b'"):
        write("a-b")


@pytest.mark.parametrize("form", ["trec", "csv", "tsv", "terminal", "html"])
@pytest.mark.parametrize("text", HOSTILE)
def test_encoded_ids_have_no_control_characters(form, text):
    encoded = encode_id(text, form)
    assert encoded.isprintable()
    assert encoded.split("\n") == [encoded]
    if form == "trec":
        assert len(encoded.split()) == 1


@pytest.mark.parametrize("bad", ["a\0", "a\0b", "\ud800", "x\udfffy"])
def test_ids_that_no_file_can_hold_are_refused(bad):
    with pytest.raises(DataError, match="qids: row 1"):
        JudgedLists([[1.0], [2.0]], [0, 1], ["a", bad])
    with pytest.raises(DataError):
        MatchingData.from_interactions(["a", bad], ["x", "y"])
    if not bad.endswith("\0"):  # NumPy has dropped those at the end
        with pytest.raises(DataError, match="qids: row 1"):
            JudgedLists([[1.0], [2.0]], [0, 1], np.array(["a", bad]))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_in_another_order_are_refused(tmp_path, library):
    frames = pytest.importorskip(library)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    y, qid = np.digitize(x[:, 0], [0, 1]), np.repeat(np.arange(6), 10)
    frame = frames.DataFrame({"a": x[:, 0], "b": x[:, 1]})
    ranker = Ranker(loss="domination").fit(frame, y, qid=qid)
    ranker.save(tmp_path / "m")
    for fitted in (ranker, Ranker.load(tmp_path / "m")):
        assert fitted.feature_names_in_.tolist() == ["a", "b"]
        fitted.predict(frame)
        for other in (frame[["b", "a"]], frame[["b"]]):
            with pytest.raises(DataError, match="eature names"):
                fitted.predict(other)
            with pytest.raises(DataError, match="eature names"):
                fitted.score(other, y, qid=qid)
    with pytest.raises(DataError, match="same order"):
        Ranker(loss="domination").fit(frame, y, qid=qid, valid=(frame[["b", "a"]], y, qid))


def test_users_without_training_data_are_reported():
    train = MatchingData.from_interactions(["a", "b", "b"], ["x", "y", "x"])
    valid = MatchingData.from_interactions(["a", "new"], ["y", "x"])
    ranker = Ranker("factored", "warp", solver="sgd:max_steps=20")
    with pytest.warns(DataWarning, match="1 of 2 queries .*'new', have no positives"):
        ranker.fit(train, valid=valid)
    with pytest.warns(DataWarning, match="1 of 2 queries"):
        ranker.evaluate(valid)


@pytest.mark.parametrize(("a", "b", "gain", "loss"), [([1, 0], [0, 0.25], 0.25, 1.0)])
def test_a_comparison_labels_gains_and_losses(a, b, gain, loss):
    from types import SimpleNamespace

    from ranking_cli.compare_report import _chart

    gains = np.array(b) - np.array(a)
    one = SimpleNamespace(gains=gains, wins=1, ties=0, losses=1, queries=np.array(["p", "q"]))
    page = _chart(one)
    assert f"B better by up to {gain:g}<" in page
    assert f"B worse by up to {loss:g}<" in page


# Promises


@pytest.mark.parametrize("word", ["0", "false", "No", "none", "off", "disabled", "2"])
def test_words_that_do_not_mean_on_switch_plugins_off(monkeypatch, word):
    monkeypatch.setenv("RANKING_PLUGINS", word)
    assert f"RANKING_PLUGINS={word}" in PluginSecurity().blocked_reason("someone", "x")


@pytest.mark.parametrize("word", ["", "on", "1", "true", "yes"])
def test_words_that_mean_on(monkeypatch, word):
    monkeypatch.setenv("RANKING_PLUGINS", word)
    assert PluginSecurity().blocked_reason("someone", "x") == ""


@pytest.mark.parametrize("error", [SystemExit("bye"), KeyboardInterrupt(), GeneratorExit()])
def test_a_plugin_cannot_end_the_program(error):
    def load():
        raise error

    registry = Registry([Source("p", "someone", "1", load, "someone_module")])
    assert type(error).__name__ in registry.problems[0].message


@pytest.mark.parametrize("at_import", [True, False])
def test_a_plugin_cannot_hang_the_program(monkeypatch, at_import):
    from types import SimpleNamespace

    from ranking.contracts import hookimpl

    wait = threading.Event()

    @hookimpl
    def ranking_losses():
        wait.wait(60)

    def load():
        if at_import:
            wait.wait(60)
        return SimpleNamespace(ranking_losses=ranking_losses)

    monkeypatch.setenv("RANKING_PLUGIN_TIMEOUT", "0.2")
    registry = Registry([Source("p", "someone", "1", load, "someone_module")])
    wait.set()
    assert "was not ready after 0.2 s" in registry.problems[0].message


def test_a_model_file_does_not_choose_which_files_are_read(tmp_path, texts):
    base, path = tmp_path / "base", tmp_path / "m"
    Ranker("factored:dimensions=3", "warp", solver="sgd:max_steps=20").fit(texts).save(base)
    model = f"{CASCADE},base={base}"
    Ranker(model, "warp", solver="sgd:max_steps=20").fit(texts).save(path)
    os.mkfifo(tmp_path / "trap")
    tensors, description = read_tensors(path)
    spec = description["parts"]["model"]["spec"].replace(str(base), str(tmp_path / "trap"))
    description["parts"]["model"]["spec"] = spec
    write_tensors(path, tensors, description)
    loaded = Ranker.load(path)
    assert loaded.partial_fit(texts, steps=5).n_iter_ > 0  # needs no base
    with pytest.raises(PartError, match="a model file may not choose which files are read"):
        Ranker.load(path).fit(texts)
    loaded.set_params(model=model).fit(texts)  # named by the user


@pytest.mark.parametrize(
    ("regularizer", "line"),
    [
        ("group-l1:groups", "ice\tg\nmoon\tg\n"),
        ("hierarchical-group-l1:tree", "ice\ta/b\nmoon\ta/c\n"),
        ("mask:pairs", "ice\tpuck\nmoon\trocket\n"),
        ("graph:edges", "ice\tpuck\n"),
    ],
)
def test_a_model_file_does_not_choose_the_files_of_its_regularizer(
    tmp_path, texts, regularizer, line
):
    knowledge, path = tmp_path / "knowledge.tsv", tmp_path / "m"
    knowledge.write_text(line)
    spec = f"{regularizer}={knowledge}"
    parts = {"regularizer": spec, "solver": "sgd:max_steps=20"}
    Ranker("bilinear", "hinge", **parts).fit(texts).save(path)
    for attack in (Ranker.fit, Ranker.partial_fit):
        with pytest.raises(PartError, match="a model file may not choose which files are read"):
            attack(Ranker.load(path), texts)
    Ranker.load(path).set_params(regularizer=spec).partial_fit(texts, steps=5)


def test_folders_do_not_follow_links_outside(tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("a secret")
    for name in ("a", "b"):
        (tmp_path / "texts" / name).mkdir(parents=True)
        (tmp_path / "texts" / name / "1.txt").write_text(f"text {name}")
    (tmp_path / "texts" / "a" / "inside.txt").symlink_to(tmp_path / "texts" / "a" / "1.txt")
    assert len(read_any(tmp_path / "texts", "folders").document_texts) == 3
    link = tmp_path / "texts" / "a" / "2.txt"
    link.symlink_to(secret)
    with pytest.raises(DataError, match="outside of"):
        read_any(tmp_path / "texts", "folders")
    link.unlink()
    (tmp_path / "texts" / "c").symlink_to(tmp_path)
    with pytest.raises(DataError, match="outside of"):
        read_any(tmp_path / "texts", "folders")


def test_escape_sequences_do_not_reach_the_terminal(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("user,item\n\x1b]0;title\x07u,\x1b[2Ji\nv,j\n")
    model = tmp_path / "m"
    call("train", path, "--recipe", "warp", "-o", model, "--quiet")
    for words in (["data", path], ["rank", model, path], ["eval", model, path, "-q"]):
        for form in ("table", "tsv") if words[0] != "rank" else ("trec", "csv"):
            text = call(*words, "--format", form)
            assert "\x1b" not in text
            assert "\x07" not in text


@pytest.mark.parametrize("reader", ["letor", "interactions", "svmlight"])
def test_a_line_without_end_is_not_collected(tmp_path, monkeypatch, reader):
    for module in ("lines", "rows"):
        monkeypatch.setattr(f"ranking.data.readers.{module}.LONGEST_LINE", 1 << 23)
    path = tmp_path / "x.gz"
    with gzip.open(path, "wb", compresslevel=1) as stream:
        stream.write(b"1 qid:1 1:1\n" if reader == "letor" else b"1 1:1\n")
        for _ in range(64):
            stream.write(b"x" * (1 << 20))
    with pytest.raises(DataError, match="is longer than"):
        read_any(path, reader)


def test_a_zstd_file_is_decompressed_piece_by_piece(tmp_path):
    zstandard = pytest.importorskip("zstandard")
    import tracemalloc

    from ranking.data.readers.opening import open_bytes

    path = tmp_path / "zeros.zst"
    with path.open("wb") as raw, zstandard.ZstdCompressor().stream_writer(raw) as stream:
        for _ in range(512):
            stream.write(bytes(1 << 20))
    assert path.stat().st_size < 1 << 17
    tracemalloc.start()
    try:
        with open_bytes(path) as stream:
            assert stream.read(1 << 10) == bytes(1 << 10)
        assert tracemalloc.get_traced_memory()[1] < 1 << 27
    finally:
        tracemalloc.stop()


# Unclear errors


def test_errors_of_the_system_are_one_line(tmp_path, letor):
    long = "x" * 300
    call("train", letor, *PARTS, "-o", tmp_path / long, code=2)
    call("train", letor, *PARTS, "-o", tmp_path / "absent" / "m", code=2)
    call("rank", letor, "y" * 5000, code=1)  # a query that is too long for a path
    if Path("/dev/full").exists():
        ranker = Ranker(loss="domination").fit(read_data(letor))
        with pytest.raises(FileError):
            ranker.save("/dev/full")


@pytest.mark.parametrize("threads", [0, -1, 1025, 1.5, "2", None, True])
def test_threads_of_a_wrong_type_or_size_are_refused(letor, threads):
    with pytest.raises(PartError, match="threads"):
        Ranker(loss="domination", threads=threads).fit(read_data(letor))
    with pytest.raises(PartError, match="threads"):
        read_any(letor, threads=threads)


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, "2", None, True])
def test_seeds_of_a_wrong_type_or_size_are_refused(letor, seed):
    with pytest.raises(PartError, match="random_state"):
        Ranker(loss="domination", random_state=seed).fit(read_data(letor))


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (["training", "seed"], 1.5, "training.seed is '1.5', expected a whole number"),
        (["training", "seed"], 2**64, "training.seed"),
        (["training", "features"], -1, "training.features"),
        (["training", "features"], True, "training.features"),
        (["plugins"], "text", "plugins is 'text', expected a table"),
        (["plugins"], {"x": 1}, "plugins.x is '1', expected a table"),
        (["plugins"], {"x": {"version": "1", "parts": [3]}}, "plugins.x.parts"),
        (["plugins"], {"": {"version": "1", "parts": []}}, None),
        (["parts", "loss"], [], "parts.loss is '\\[\\]', expected a table"),
        (["text"], 3, "text is '3', expected a text"),
        (["kernel"], None, "kernel"),
        (["density search"], [{"density": "x"}], "density search"),
        (["density search"], [{"density": 10**400}], "density search"),
    ],
)
def test_a_description_that_does_not_fit_the_schema(tmp_path, letor, at, value, message):
    path = tmp_path / "m"
    Ranker(loss="domination").fit(read_data(letor)).save(path)
    tensors, description = read_tensors(path)
    table = description
    for key in at[:-1]:
        table = table[key]
    table[at[-1]] = value
    write_tensors(path, tensors, description)
    if message is None:
        with pytest.warns(UserWarning, match="not installed"):
            Ranker.load(path)
        return
    with pytest.raises(ModelFileError, match=message):
        Ranker.load(path)
    call("report", path, code=1)


def raw_file(path: Path, header: str, content: bytes = b"") -> Path:
    path.write_bytes(len(header.encode()).to_bytes(8, "little") + header.encode() + content)
    return path


@pytest.mark.parametrize(
    ("tensor", "content", "message"),
    [
        ({"dtype": "F8_E4M3", "shape": [2], "data_offsets": [0, 2]}, b"ab", "F8_E4M3"),
        ({"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}, b"abcd", "expected 8"),
        ({"dtype": "U8", "shape": [2], "data_offsets": [1, 3]}, b"abc", "begins at byte 1"),
        ({"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}, b"abc", "the file at"),
        ({"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}, b"a", "the file at"),
        ({"dtype": "U8", "shape": [-2], "data_offsets": [0, 2]}, b"ab", "shape"),
        ({"dtype": "U8", "shape": 2, "data_offsets": [0, 2]}, b"ab", "shape"),
        ({"dtype": "U8", "shape": [2**40, 2**40], "data_offsets": [0, 2]}, b"ab", "expected"),
        ({"dtype": "U8", "shape": [2], "data_offsets": [0]}, b"ab", "offsets"),
        ({"dtype": "BOOL", "shape": [2], "data_offsets": [0, 2]}, b"ab", "of bool"),
        ({"dtype": "U8", "shape": [2]}, b"ab", "needs dtype"),
        ([], b"", "needs dtype"),
    ],
)
def test_tensors_that_do_not_fit_their_header(tmp_path, tensor, content, message):
    header = json.dumps({"__metadata__": {"ranking": "{}"}, "x": tensor})
    with pytest.raises(ModelFileError, match=message):
        read_tensors(raw_file(tmp_path / "x", header, content))


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ('{"a": Infinity}', "Infinity"),
        ('{"a": NaN}', "NaN"),
        ('{"a": 1, "a": 2}', "twice"),
        ("[" * 100_000 + "]" * 100_000, "nested"),
        ('{"a":' * 70 + "1" + "}" * 70, "nested"),
        ("[]", "not a table"),
        ("{", "not JSON"),
    ],
)
def test_descriptions_that_are_not_strict_json(tmp_path, description, message):
    header = json.dumps({"__metadata__": {"ranking": description}})
    with pytest.raises(ModelFileError, match=message):
        read_tensors(raw_file(tmp_path / "x", header))


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, 99])
def test_odd_zip_files_are_read_or_refused(tmp_path, method):
    plain, path = tmp_path / "plain.npz", tmp_path / "x.npz"
    np.savez(plain, X=np.eye(3), y=np.arange(3))
    with zipfile.ZipFile(plain) as source, zipfile.ZipFile(path, "w") as target:
        for name in source.namelist():
            target.writestr(name, source.read(name), method if method != 99 else None)
    content = path.read_bytes()
    if method == 99:  # a compression method that does not exist, and encryption
        path.write_bytes(
            content.replace(b"PK\1\2", b"PK\1\2").replace(b"\x14\0\0\0\0\0", b"\x14\0\1\0c\0")
        )
        with pytest.raises(DataError):
            read_any(path, "npz")
    else:
        assert read_any(path, "npz").n_queries == 3


def test_odd_parquet_types_are_read_or_refused(tmp_path):
    pytest.importorskip("pyarrow")
    from datetime import datetime
    from decimal import Decimal

    import pyarrow.parquet

    columns = [
        [b"x", b"\xff"],
        [Decimal("1.5"), Decimal("2")],
        [datetime(2020, 1, 1), datetime(9999, 1, 1)],
        [{"a": 1}, {"a": 2}],
        [[1], [2, 3]],
        [None, None],
        np.array([2**63, 2**64 - 1], np.uint64),
        [True, False],
        [1.5, float("nan")],
    ]
    for at, column in enumerate(columns):
        for role in ("user", "value", "time"):
            table = {"user": ["a", "b"], "item": ["x", "y"], role: column}
            path = tmp_path / f"{at}{role}.parquet"
            pyarrow.parquet.write_table(pyarrow.table(table), path)
            with contextlib.suppress(DataError):
                read_any(path)


@pytest.mark.parametrize("damage", ["facts", "callbacks", "history", "model", "solver", "cut"])
def test_damaged_checkpoints_are_refused(tmp_path, letor, damage):
    from ranking_plugins.callbacks import Checkpoint

    path = tmp_path / "checkpoint"
    data = read_data(letor)
    parts = {"loss": "logistic", "solver": "sgd:max_steps=40,steps_per_epoch=10"}
    Ranker(**parts, callbacks=[Checkpoint(path, every=0.0)]).fit(data)
    tensors, facts = read_tensors(path)
    if damage == "facts":
        facts["run"]["epochs before"] = "many"
    elif damage == "callbacks":
        facts["run"]["callbacks"] = {"early-stopping": []}
    elif damage == "history":
        tensors["history/epoch"] = np.zeros((2, 2))
    elif damage == "model":
        tensors = {name: one for name, one in tensors.items() if not name.startswith("model/")}
    elif damage == "solver":
        facts["run"] |= {"stopped": "", "ending": ""}
        tensors = {name: one for name, one in tensors.items() if not name.startswith("solver/")}
    write_tensors(path, tensors, facts)
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ModelFileError):
        Ranker(**parts).plan().trainer(data).train(Checkpoint(path).read())


@pytest.fixture
def interrupted_search(tmp_path, letor, monkeypatch):
    """The words of a training whose search was interrupted in its third trial."""
    import ranking_cli.train
    from ranking_plugins.callbacks import Checkpoint

    class Interrupted(Checkpoint):
        def write(self, run):
            super().write(run)
            if len(self.outer_facts["search"]["trials"]) == 2:
                raise KeyboardInterrupt

    valid = tmp_path / "valid.txt"
    rows = (f"{row % 3} qid:{row // 6} 1:{row % 5} 2:{row % 7}\n" for row in range(36))
    valid.write_text("".join(rows))
    words = ["train", letor, "--valid", valid, "--recipe", "domination", "-o", tmp_path / "m"]
    with monkeypatch.context() as patch:
        patch.setattr(ranking_cli.train, "Checkpoint", Interrupted)
        result = CliRunner().invoke(cli, [*map(str, words), "--quiet"])
    assert result.exit_code == 1, result.output
    return [*words, "--quiet", "--resume"]


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (["search"], None),
        (["search"], 3),
        (["search", "trials"], 3),
        (["search", "trials"], ["x"]),
        (["search", "best"], "x"),
        (["search", "best"], 2),
        (["search", "best"], -1),
        (["search", "trials", 0], {}),
        (["search", "trials", 1, "strength"], 123.0),
        (["search", "trials", 1, "density"], "x"),
        (["search", "trials", 1, "stopped"], 1),
        (["search", "trials", 0, "density"], 10**400),
        (["identity"], [1]),
        (["identity"], 1.5),
    ],
)
def test_forged_progress_of_a_search_is_refused(tmp_path, interrupted_search, at, value):
    """Found by the fuzzer: KeyError, TypeError and AttributeError."""
    path = tmp_path / "m.checkpoint"
    tensors, facts = read_tensors(path)
    table = facts["outer"]
    for key in at[:-1]:
        table = table[key]
    table[at[-1]] = value
    write_tensors(path, tensors, facts)
    message = call(*interrupted_search, code=1)
    assert "checkpoint" in message
    assert "defect" not in message


def test_an_interrupted_search_is_resumed(tmp_path, interrupted_search):
    call(*interrupted_search)
    assert not (tmp_path / "m.checkpoint").exists()


def test_scores_that_are_not_numbers_are_reported(tmp_path):
    """Found by the fuzzer: embeddings so large that a score is infinity minus infinity."""
    path = tmp_path / "m"
    data = MatchingData.from_interactions(["a", "a", "b"], ["x", "y", "z"])
    Ranker("factored:dimensions=2", "warp", solver="sgd:max_steps=5").fit(data).save(path)
    tensors, description = read_tensors(path)
    tensors["model/U"][:] = 3e38
    tensors["model/V"][:] = [3e38, -3e38]
    write_tensors(path, tensors, description)
    with pytest.raises(DataError, match="a score that is NaN"):
        Ranker.load(path).evaluate(data, metrics=["map"])
