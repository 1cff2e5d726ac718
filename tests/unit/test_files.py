"""Files: written whole or not at all, read without running anything."""

from __future__ import annotations

import json
import os
import struct

import numpy as np
import pytest

from ranking._utils.files import write_bytes
from ranking.errors import ModelFileError
from ranking.io.tensors import HEADER_LIMIT, read_tensors, write_tensors

TENSORS = {"a": np.arange(6.0).reshape(2, 3), "b": np.array([1, 2], dtype=np.int64)}


def test_what_was_written_is_read(tmp_path):
    write_tensors(tmp_path / "x", TENSORS, {"told": [1, "two"]})
    tensors, description = read_tensors(tmp_path / "x")
    assert description == {"told": [1, "two"]}
    assert {k: v.tolist() for k, v in tensors.items()} == {
        k: v.tolist() for k, v in TENSORS.items()
    }


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "x"
    write_bytes(path, b"old")
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["x"]


def test_the_file_has_ordinary_permissions(tmp_path):
    write_bytes(tmp_path / "x", b"")
    (tmp_path / "y").write_bytes(b"")
    assert (tmp_path / "x").stat().st_mode == (tmp_path / "y").stat().st_mode


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not a model"),
        (b"\x80\x04pickle", "not a model"),
        (struct.pack("<Q", HEADER_LIMIT + 1) + b"{", "not a model"),
        (struct.pack("<Q", 2) + b"{}", "not written by"),
        (struct.pack("<Q", 2) + b"[]", "damaged"),
        (struct.pack("<Q", 40) + b"{}", "damaged"),
    ],
)
def test_strange_files_are_refused(tmp_path, content, words):
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=words):
        read_tensors(path)


def test_a_missing_file(tmp_path):
    with pytest.raises(ModelFileError, match="No such file"):
        read_tensors(tmp_path / "x")


def test_every_truncation_is_refused(tmp_path):
    path = tmp_path / "x"
    write_tensors(path, TENSORS, {})
    content = path.read_bytes()
    for length in range(0, len(content), 7):
        path.write_bytes(content[:length])
        with pytest.raises(ModelFileError):
            read_tensors(path)


def test_a_description_that_is_no_table(tmp_path):
    from safetensors.numpy import save

    (tmp_path / "x").write_bytes(save(TENSORS, metadata={"ranking": json.dumps([1])}))
    with pytest.raises(ModelFileError, match="not a table"):
        read_tensors(tmp_path / "x")
