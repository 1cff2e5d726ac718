"""Targets of files of data: one small seed per format, compression and folder of files."""

from __future__ import annotations

import contextlib
import gzip
import io
import lzma
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np

from fuzzing.target import Target
from ranking import parse_metrics
from ranking.data.readers.interactions import read_features
from ranking.data.readers.read import read_any
from ranking.errors import DataError
from ranking.registry import get_registry
from ranking_cli.settings import read_config

LETOR = b"2 qid:1 1:0.5 2:-1e3 #docid = a\n0 qid:1 1:1 3:2 # b\n1 qid:q 2:7\n"


def text_formats() -> dict[str, tuple[str, bytes]]:
    """Return a file name and a content for each reader of a single file of text."""
    return {
        "letor": ("a.txt", LETOR),
        "svmlight": ("a.svm", b"1 1:0.5 3:2\n-1 2:1e-3\n"),
        "qrels": ("a.qrels", b"q1 0 d1 1\nq1 0 d2 0\nq2 0 d1 2\n"),
        "run": ("a.run", b"q1 Q0 d1 1 2.5 t\nq1 Q0 d2 2 1.5 t\n"),
        "clicks": ("a.tsv", b"red shoes\ta shoe\t3\nblue hat\ta hat\t1\n"),
        "interactions": ("a.csv", b'user,item,rating,time\n"a,b",x,1,10\nc,y,2.5,11\n'),
        "movielens": ("a.dat", b"1::2::5::978300760\n1::3::4::978300761\n"),
        "tab": ("a.tab", b"text\tclass\nstring\tdiscrete\n\tclass\na b c\tone\nd e f\ttwo\n"),
        "arff": (
            "a.arff",
            b"@relation 'x: -C 1'\n@attribute a {0,1}\n@attribute b numeric\n@data\n1,0.5\n{1 2}\n",
        ),
        "adjacency": ("a.lists", b"2 0 1\n1 3\n0\n"),
    }


def binary_formats() -> dict[str, tuple[str, bytes]]:
    """Return a file name and a content for NumPy's, Parquet and Arrow files."""
    npz = io.BytesIO()
    np.savez_compressed(npz, X=np.arange(6.0).reshape(3, 2), y=np.array([0, 1, 0]))
    formats = {"npz": ("a.npz", npz.getvalue())}
    with contextlib.suppress(ImportError):
        import pyarrow
        import pyarrow.feather
        import pyarrow.parquet

        table = pyarrow.table({"user": ["a", "b"], "item": [1, 2], "rating": [0.5, 2.0]})
        users = pyarrow.array(["a", "b", "a", "c"]).dictionary_encode()
        rich = pyarrow.table(
            {"user": users, "item": ["x", "y", "z", "x"], "time": pyarrow.array([1, 2, 3, 9])}
        )
        for name, content in (("parquet", table), ("parquet, rich", rich)):
            stream = io.BytesIO()
            pyarrow.parquet.write_table(
                content, stream, compression="snappy" if content is table else "zstd"
            )
            formats[name] = ("a.parquet", stream.getvalue())
        for name, content in (("arrow", table), ("arrow, rich", rich)):
            stream = io.BytesIO()
            pyarrow.feather.write_feather(content, stream, compression="uncompressed")
            formats[name] = ("a.arrow", stream.getvalue())
    return formats


def beside(name: str, content: bytes, read: Callable[[Path], object]) -> Callable[[Path], object]:
    """Return a function that reads a path after it has put another file in its folder."""

    def run(path: Path) -> object:
        other = path.parent / name
        other.parent.mkdir(parents=True, exist_ok=True)
        if not other.exists():
            other.write_bytes(content)
        return read(path)

    return run


def folder_targets() -> Iterator[Target]:
    """Yield targets that are one file of several."""
    images = b"\0\0\x08\x03\0\0\0\2\0\0\0\1\0\0\0\2\x01\x02\x03\x04"
    labels = b"\0\0\x08\x01\0\0\0\2\0\1"
    yield Target(
        "reader idx",
        "a-images-idx3-ubyte",
        images,
        beside("a-labels-idx1-ubyte", labels, lambda path: read_any(path, "idx")),
    )
    corpus = b'{"_id": "d1", "title": "a", "text": "b c"}\n{"_id": "d2", "text": "d"}\n'
    queries = b'{"_id": "q1", "text": "b"}\n{"_id": "q2", "text": "d e"}\n'
    qrels = b"query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td2\t2\n"

    def beir(path: Path) -> object:
        return read_any(path.parent, "beir")

    with_queries = beside("beir/queries.jsonl", queries, lambda path: path)
    with_qrels = beside("beir/qrels/test.tsv", qrels, lambda path: path)

    def corpus_file(path: Path) -> object:
        with_queries(path)
        with_qrels(path)
        (path.parent / "beir" / "corpus.jsonl").write_bytes(path.read_bytes())
        return beir(path.parent / "beir" / "corpus.jsonl")

    yield Target("reader beir", "a.jsonl", corpus, corpus_file)

    def smart_file(path: Path) -> object:
        folder = path.parent / "smart"
        folder.mkdir(exist_ok=True)
        (folder / "X.ALL").write_bytes(path.read_bytes())
        (folder / "X.QRY").write_bytes(b".I 1\n.W\na b\n.I 2\n.W\nc\n")
        (folder / "X.REL").write_bytes(b"1 1 1\n2 2 1\n")
        return read_any(folder, "smart")

    yield Target("reader smart", "a.all", b".I 1\n.T\na\n.W\nb c\n.I 2\n.W\nd\n", smart_file)


def reader_targets() -> Iterator[Target]:
    """Yield a small file of each format, for its reader and for recognition."""
    for name, (file, content) in (text_formats() | binary_formats()).items():
        short = "parquet" if name.startswith(("arrow", "parquet")) else name
        reader = get_registry().create("reader", short)
        yield Target(f"reader {name}", file, content, reader.read)
    typed = b"user_id:token\titem_id:token\trating:float\na\tx\t1\nb\ty\t2.5\n"
    yield Target("reader interactions, typed", "a.inter", typed, read_any)
    table = b"id,age,genre\na,3,x|y\nb,4,z\n"
    yield Target("features", "features.csv", table, read_features)
    yield from folder_targets()
    yield Target("recognise", "a.txt", LETOR, read_any)
    yield Target("gzip", "a.txt.gz", gzip.compress(LETOR), read_any)
    yield Target("xz", "a.txt.xz", lzma.compress(LETOR), read_any)
    with contextlib.suppress(ImportError):
        import zstandard

        yield Target("zstd", "a.txt.zst", zstandard.compress(LETOR), read_any)


def setting_targets() -> Iterator[Target]:
    """Yield specs of parts, names of metrics, and a file of settings."""
    specs = b"l2:strength=0.1 sgd:max_steps=20,learning_rate=1e-3 factored:dimensions=3,biases=true"
    kinds = ("regularizer", "solver", "model", "reader")

    def create(path: Path) -> object:
        words = path.read_bytes().decode("utf-8", "surrogateescape").split(" ")
        return [get_registry().create(kind, word) for kind, word in zip(kinds, words, strict=False)]

    def metrics(path: Path) -> object:
        return parse_metrics(path.read_bytes().decode("utf-8", "surrogateescape"))

    def config(path: Path) -> Any:
        try:
            return read_config(path)
        except click.ClickException as error:
            raise DataError(error.message) from error

    yield Target("specs", "specs", specs, create, 10)
    yield Target("metrics", "metrics", b"ndcg@10,map,recall@5,mrr,precision@3", metrics, 5)
    toml = b'loss = "warp"\nseed = 3\nmodel = "factored"\nthreads = 2\n'
    yield Target("settings", "settings.toml", toml, config, 5)
