"""Mutate data files, model files and checkpoints, and check that they are read or refused.

Every input is either accepted or refused with an error of `ranking`; anything else (another
exception, a crash, more than five seconds) is a failure, whose input is kept. The same seed gives
the same inputs. Inputs run in child processes, so that a crash is seen.

    python tools/fuzz.py --seconds 60
    python tools/fuzz.py --inputs 1000000 --seed 7 --keep failures
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ranking import JudgedLists, MatchingData, Ranker, RankingError, TextCollection
from ranking.data.readers.read import read_any
from ranking.io.tensors import KEY
from ranking_plugins.callbacks import Checkpoint

LIMIT = 5
"""Seconds after which an input counts as a hang."""

BATCH = 500
"""Inputs per child process."""

WORDS = (
    *(b"nan", b"inf", b"-inf", b"1e999", b"-1", b"0", b"99999999999999999999", b"1_0", b"0x10"),
    *(b"\0", b"\xff", b"\xed\xa0\x80", b"\xe2\x80\xa8", b"\r", b"\n\n", b"\t", b" ", b'"', b"'"),
    *(b"::", b":", b"#", b"{", b"}", b"[", b"]", b"\\", b"%", b"@data", b"qid:", b"\xef\xbb\xbf"),
)

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 3, 2**31, 2**63, 2**64, 2**70, 1.5, 1e308, "", "x", "auto"),
    *([], {}, [1], ["x"], {"a": 1}, "structured:base=/etc/passwd", "l1", "linear", "inf", "\0"),
)


class Target(NamedTuple):
    """What is fuzzed: the name of the file, its content, and what is done with the path."""

    name: str
    file: str
    content: bytes
    run: Callable[[Path], object]


def text_targets() -> Iterator[Target]:
    """Yield a small file of each format, for its reader and for recognition."""
    import gzip
    import io
    import lzma

    letor = b"2 qid:1 1:0.5 2:-1e3 #docid = a\n0 qid:1 1:1 3:2 # b\n1 qid:q 2:7\n"
    arff = b"@relation 'x: -C 1'\n@attribute a {0,1}\n@attribute b numeric\n@data\n1,0.5\n{1 2}\n"
    npz = io.BytesIO()
    np.savez_compressed(npz, X=np.arange(6.0).reshape(3, 2), y=np.array([0, 1, 0]))
    formats = {
        "letor": ("a.txt", letor),
        "svmlight": ("a.svm", b"1 1:0.5 3:2\n-1 2:1e-3\n"),
        "qrels": ("a.qrels", b"q1 0 d1 1\nq1 0 d2 0\nq2 0 d1 2\n"),
        "run": ("a.run", b"q1 Q0 d1 1 2.5 t\nq1 Q0 d2 2 1.5 t\n"),
        "clicks": ("a.tsv", b"red shoes\ta shoe\t3\nblue hat\ta hat\t1\n"),
        "interactions": ("a.csv", b'user,item,rating,time\n"a,b",x,1,10\nc,y,2.5,11\n'),
        "movielens": ("a.dat", b"1::2::5::978300760\n1::3::4::978300761\n"),
        "tab": ("a.tab", b"text\tclass\nstring\tdiscrete\n\tclass\na b c\tone\nd e f\ttwo\n"),
        "arff": ("a.arff", arff),
        "adjacency": ("a.lists", b"2 0 1\n1 3\n0\n"),
        "npz": ("a.npz", npz.getvalue()),
    }
    with contextlib.suppress(ImportError):
        import pyarrow
        import pyarrow.feather
        import pyarrow.parquet

        table = pyarrow.table({"user": ["a", "b"], "item": [1, 2], "rating": [0.5, 2.0]})
        parquet, arrow = io.BytesIO(), io.BytesIO()
        pyarrow.parquet.write_table(table, parquet)
        pyarrow.feather.write_feather(table, arrow, compression="uncompressed")
        formats["parquet"] = ("a.parquet", parquet.getvalue())
        formats["arrow"] = ("a.arrow", arrow.getvalue())
    for name, (file, content) in formats.items():
        reader = "parquet" if name == "arrow" else name
        yield Target(f"reader {name}", file, content, lambda path, r=reader: read_any(path, r))
    yield Target("recognise", "a.txt", letor, read_any)
    yield Target("gzip", "a.txt.gz", gzip.compress(letor), read_any)
    yield Target("xz", "a.txt.xz", lzma.compress(letor), read_any)


def small_texts() -> TextCollection:
    """Return four texts in two classes."""
    texts = ["puck ice goal", "ice team goal", "moon orbit rocket", "rocket moon launch"]
    classes = np.array(["a", "a", "b", "b"])
    ids = np.arange(4)
    return TextCollection(
        ids, texts, ids, texts, labels=(classes, classes), queries_are_documents=True
    )


def model_targets(folder: Path) -> Iterator[Target]:
    """Yield a small model file of each kind, which is loaded and used."""
    rng = np.random.default_rng(0)
    judged = JudgedLists(rng.normal(size=(12, 3)), rng.integers(0, 3, 12), np.repeat([1, 2], 6))
    ratings = sparse.csr_array((rng.random((6, 7)) < 0.5).astype(float))
    ids = {"query_ids": [f"u{i}" for i in range(6)], "document_ids": [f"i{i}" for i in range(7)]}
    matching = MatchingData(relevance=ratings, **ids)
    texts = small_texts()
    sgd = "sgd:max_steps=20"
    rankers = {
        "linear": (Ranker(loss="domination"), judged),
        "bilinear": (Ranker("bilinear", "hinge", "l1:strength=0.001", sgd), texts),
        "factored": (Ranker("factored:dimensions=3,biases=true", "warp", solver=sgd), matching),
        "structured": (Ranker("structured:dimensions=3,k=3", "warp", solver=sgd), matching),
    }
    for name, (ranker, data) in rankers.items():
        path = folder / f"{name}.safetensors"
        ranker.fit(data).save(path)

        def use(path: Path, data: Any = data) -> None:
            loaded = Ranker.load(path)
            loaded.evaluate(data, metrics=["map"])
            if not isinstance(data, JudgedLists):
                loaded.partial_fit(data, steps=3)

        yield Target(f"model {name}", "a.safetensors", path.read_bytes(), use)
    yield from checkpoint_targets(folder, judged, matching)


def checkpoint_targets(folder: Path, judged: Any, matching: Any) -> Iterator[Target]:
    """Yield checkpoints, from which a training is resumed."""
    kinds: dict[str, tuple[dict[str, str], Any]] = {
        "coordinate": ({"loss": "domination", "solver": "coordinate:max_epochs=4"}, judged),
        "factored": ({"loss": "warp", "model": "factored:dimensions=3"}, matching),
        "sgd": ({"loss": "logistic", "solver": "sgd:max_steps=40,steps_per_epoch=10"}, judged),
    }
    for name, (parts, data) in kinds.items():
        path = folder / f"{name}.checkpoint"
        options = dict(parts)
        if name == "factored":
            options["solver"] = "sgd:max_steps=40,steps_per_epoch=10"
        Ranker(**options, callbacks=[Checkpoint(path, every=0.0)]).fit(data)  # type: ignore[arg-type]

        def resume(path: Path, options: Any = options, data: Any = data) -> None:
            checkpoint = Checkpoint(path, every=1e9)
            Ranker(**options).plan().trainer(data).train(checkpoint.read())

        yield Target(f"checkpoint {name}", "a.checkpoint", path.read_bytes(), resume)


def mutate(content: bytes, draw: random.Random) -> bytes:
    """Return the content with a few random changes; of a model, also of its description."""
    if content[8:9] == b"{" and draw.random() < 0.6:
        with contextlib.suppress(ValueError, KeyError, IndexError):
            return mutate_header(content, draw)
    data = bytearray(content)
    for _ in range(draw.choice((1, 1, 1, 2, 3, 8))):
        at = draw.randrange(len(data) + 1)
        span = draw.choice((1, 1, 2, 4, 8, 32))
        kind = draw.randrange(7)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << draw.randrange(8)
        elif kind == 1:
            data[at : at + span] = bytes(draw.randrange(256) for _ in range(span))
        elif kind == 2:
            del data[at : at + span]
        elif kind == 3:
            data[at:at] = draw.choice(WORDS)
        elif kind == 4:
            data[at : at + span] = draw.choice(WORDS)
        elif kind == 5:
            start = draw.randrange(len(data) + 1)
            data[at:at] = data[start : start + span * draw.choice((1, 1, 16))]
        else:
            del data[at:]
        data = data or bytearray(b"\n")
    return bytes(data)


def mutate_header(content: bytes, draw: random.Random) -> bytes:
    """Change a value of the header or of the description, and write a header that fits it."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    if draw.random() < 0.5:
        description = json.loads(header["__metadata__"][KEY])
        change_value(description, draw)
        header["__metadata__"][KEY] = json.dumps(description)
    else:
        change_value(header, draw)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + content[8 + length :]


def change_value(table: Any, draw: random.Random) -> None:
    """Replace, remove, rename or swap one value somewhere in nested tables."""
    while True:
        keys = list(table) if isinstance(table, dict) else list(range(len(table)))
        key = draw.choice(keys)
        deeper = isinstance(table[key], dict | list) and table[key]
        if not deeper or draw.random() < 0.2:
            break
        table = table[key]
    kind = draw.randrange(6)
    if kind == 0:
        del table[key]
    elif kind == 1 and isinstance(table, dict):
        table[draw.choice(keys) + draw.choice(("", "x"))] = table.pop(key)
    elif kind == 2:
        other = draw.choice(keys)
        table[key], table[other] = table[other], table[key]
    elif kind == 3 and isinstance(table[key], int):
        table[key] = table[key] + draw.choice((-1, 1, 8, -8, 2**32))
    else:
        table[key] = draw.choice(VALUES)


class Hang(Exception):  # noqa: N818
    """An input took too long."""


def _alarm(*_: object) -> None:
    raise Hang


def run_batch(targets: list[Target], seed: int, numbers: range, folder: Path) -> Counter[str]:
    """Run some inputs in this process; the input in work is in a file, in case of a crash."""
    signal.signal(signal.SIGALRM, _alarm)
    counts: Counter[str] = Counter()
    for number in numbers:
        target = targets[number % len(targets)]
        draw = random.Random(f"{seed} {number}")  # noqa: S311
        path = folder / target.file
        path.write_bytes(mutate(target.content, draw))
        (folder / "current").write_text(f"{number} {target.file} {target.name}")
        signal.alarm(LIMIT)
        try:
            target.run(path)
            counts["accepted"] += 1
        except RankingError:
            counts["refused"] += 1
        except BaseException as error:
            reason = f"{type(error).__name__}: {str(error)[:100]}"
            counts[f"FAILED {target.name}, input {number}: {reason}"] += 1
            print(f"failed: {target.name}, input {number}: {reason}", flush=True)  # noqa: T201
        finally:
            signal.alarm(0)
    return counts


def run_child(targets: list[Target], seed: int, numbers: range, folder: Path) -> Counter[str]:
    """Run some inputs in a child process and return what it counted; a crash is counted too."""
    result = folder / "counts"
    result.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os.nice(5)
            warnings.simplefilter("ignore")
            result.write_text(json.dumps(run_batch(targets, seed, numbers, folder)))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status == 0 and result.exists():
        return Counter(json.loads(result.read_text()))
    current = (folder / "current").read_text()
    print(f"crashed with status {status}: {current}", flush=True)  # noqa: T201
    counts: Counter[str] = Counter({f"FAILED {current}: ended with status {status}": 1})
    stopped = int(current.split()[0])
    if stopped + 1 < numbers.stop:
        counts += run_child(targets, seed, range(stopped + 1, numbers.stop), folder)
    return counts


def keep(targets: list[Target], seed: int, counts: Counter[str], folder: Path) -> None:
    """Write the inputs that failed, to become seeds of regression tests."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in counts:
        words = name.replace(":", " ").replace(",", " ").split()
        numbers = [int(word) for word in words if word.isdecimal()]
        if name.startswith("FAILED") and numbers:
            target = targets[numbers[0] % len(targets)]
            draw = random.Random(f"{seed} {numbers[0]}")  # noqa: S311
            (folder / f"{numbers[0]}-{target.file}").write_bytes(mutate(target.content, draw))


def main() -> int:
    """Run inputs until the time or the number is over; return 1 if any failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--inputs", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0, help="number of the first input")
    parser.add_argument("--only", default="", help="targets whose names contain this")
    parser.add_argument("--keep", type=Path, default=None, help="folder for inputs that failed")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    counts: Counter[str] = Counter()
    begin, number = time.monotonic(), options.start
    last = None if options.inputs is None else options.start + options.inputs
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        targets = [
            target
            for target in [*text_targets(), *model_targets(folder)]
            if options.only in target.name
        ]
        while number < last if last is not None else time.monotonic() - begin < options.seconds:
            stop = number + BATCH if last is None else min(number + BATCH, last)
            counts += run_child(targets, options.seed, range(number, stop), folder)
            number = stop
    failed = {name: count for name, count in counts.items() if name.startswith("FAILED")}
    print(  # noqa: T201
        f"{number - options.start} inputs over {len(targets)} targets in "
        f"{time.monotonic() - begin:.0f} s: {counts['accepted']} accepted, {counts['refused']} "
        f"refused, {len(failed)} failed"
    )
    for name in failed:
        print(name)  # noqa: T201
    if options.keep is not None and failed:
        keep(targets, options.seed, counts, options.keep)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
