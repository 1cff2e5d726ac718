"""Exports lose no file, and names from outside are refused or written as they are."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from click.testing import CliRunner

from ranking import JudgedLists, MatchingData, Ranker
from ranking.errors import DataError, FileError
from ranking_cli.main import cli


def call(*words):
    return CliRunner().invoke(cli, [str(word) for word in words])


@pytest.fixture
def films():
    data = MatchingData.from_interactions(["u\x1b[2J", "a b"], ["../../x", "y\n"])
    return Ranker("factored:dimensions=3", "warp", solver="sgd:max_steps=9").fit(data)


@pytest.fixture
def linear():
    return Ranker(loss="domination").fit(JudgedLists(np.eye(3), [0, 1, 2], [0, 0, 0]))


def test_a_folder_that_holds_the_model_is_refused(tmp_path, films):
    model = tmp_path / "documents.npy"
    films.save(model)
    before = model.read_bytes()
    done = call("export", model, "--to", "npy", "-o", tmp_path, "--overwrite")
    assert (done.exit_code, "may be replaced" in done.stderr) == (2, True)
    assert model.read_bytes() == before


@pytest.mark.parametrize("kind", ["fifo", "device"])
def test_nothing_is_written_if_one_file_cannot_be(tmp_path, films, kind):
    last = tmp_path / "document_ids.json"
    os.mkfifo(last) if kind == "fifo" else last.symlink_to("/dev/null")
    with pytest.raises(FileError, match="name a regular file"):
        films.export(tmp_path, "npy", overwrite=True)
    assert list(tmp_path.iterdir()) == [last]


def test_ids_stay_within_the_files_of_an_export(tmp_path, films):
    folder = tmp_path / "films"
    written = films.export(folder, "npy")
    assert {file.parent for file in written} == {folder}
    assert json.loads((folder / "document_ids.json").read_text()) == ["../../x", "y\n"]


@pytest.mark.parametrize("content", [b"\xff\n" * 3, None])
def test_names_that_cannot_be_read_are_refused(tmp_path, linear, content):
    linear.save(tmp_path / "m")
    names = tmp_path / "names"
    os.mkfifo(names) if content is None else names.write_bytes(content)
    words = ("export", tmp_path / "m", "--to", "json", "-o", tmp_path / "o", "--names", names)
    done = call(*words)
    assert (done.exit_code, "defect" in done.stderr) == (2, False)
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("options", [{"name": "\udcff"}, {"feature_names": ["a", "b", "\ud800"]}])
def test_half_characters_are_refused(tmp_path, linear, options):
    with pytest.raises(DataError, match="not valid Unicode"):
        linear.export(tmp_path / "o", "solr-ltr", **options)
