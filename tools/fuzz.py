"""Mutate data files, model files and checkpoints, and check that they are read or refused.

Every input is either accepted or refused with an error of `ranking`; anything else (another
exception, a crash, more than five seconds) is a failure, whose input is kept. The same seed gives
the same inputs. A forked worker takes thousands of inputs; the parent watches it, so that a crash,
a hang (also in compiled code) and the use of too much memory are seen, and goes on behind it.

The targets "kernels" are differential: random small problems, and mutated judged lists, on which
all kernels must give the same bits or the same error.

    python tools/fuzz.py --seconds 60
    python tools/fuzz.py --inputs 1000000 --seed 7 --keep failures
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import mmap
import os
import random
import re
import resource
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

from ranking import JudgedLists, MatchingData, Ranker, RankingError, TextCollection, get_kernel
from ranking.data.readers.letor import Letor
from ranking.data.readers.read import read_any
from ranking.errors import KernelUnavailableError
from ranking.io.tensors import KEY
from ranking.registry.compatibility import Grid
from ranking.registry.manager import Registry, installed_sources
from ranking_plugins.callbacks import Checkpoint

LIMIT = 5
"""Seconds after which an input counts as a hang."""

MEMORY = 2 << 30
"""Bytes that a worker may use more than its parent."""

BATCH = 5000
"""Inputs per forked worker."""

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
    weight: int = 20
    """How many inputs of a round are for it: fewer where one takes long."""


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


def available_kernels() -> list[Any]:
    """Return the kernels that are installed, the reference first."""
    kernels = []
    for name in ("reference", "cython", "rust"):
        with contextlib.suppress(KernelUnavailableError):
            kernels.append(get_kernel(name))
    return kernels


def kernel_targets() -> Iterator[Target]:
    """Yield differential targets: all kernels give the same bits, or the same error."""
    kernels = available_kernels()

    def parse_letor(path: Path) -> None:
        def read(kernel: Any) -> dict[str, Any]:
            data = Letor(kernel=kernel).read(path)
            dense = getattr(data.features, "toarray", lambda: data.features)()
            return {"grades": data.grades, "features": dense, "ids": np.array(data.query_ids)}

        same_outcomes(kernels, read)

    def train(path: Path) -> None:
        draw = random.Random(path.read_bytes())  # noqa: S311
        rng = np.random.default_rng(draw.getrandbits(32))
        judged = draw.random() < 0.5
        data = random_lists(draw, rng) if judged else random_matching(draw, rng)
        parts = random_parts(draw, judged)

        def fit(kernel: Any) -> dict[str, Any]:
            ranker = Ranker(**parts, kernel=kernel, threads=draw.choice((1, 2))).fit(data)
            measured = ranker.evaluate(data, metrics=["ndcg@3", "map", "auc"])
            return {
                **ranker.model_.tensors(),
                "objective": np.array(ranker.objective_),
                "scores": ranker.predict(data),
                "measured": np.array(list(measured.values.values())),
            }

        same_outcomes(kernels, fit)

    letor = b"2 qid:1 1:0.5 2:-1e3\n0 qid:1 1:1 3:2\n1 qid:q 2:7\n"
    yield Target("kernels letor", "k.txt", letor, parse_letor, 4)
    yield Target("kernels training", "k.seed", b"a random problem", train, 1)


def same_outcomes(kernels: list[Any], compute: Callable[[Any], dict[str, Any]]) -> None:
    """Fail unless all kernels compute the same bits; raise the error that they share."""
    outcomes: list[Any] = []
    for kernel in kernels:
        try:
            outcomes.append({name: one.tobytes() for name, one in compute(kernel).items()})
        except RankingError as error:
            outcomes.append(error)
    for kernel, other in zip(kernels, outcomes, strict=True):
        if isinstance(outcomes[0], RankingError) or isinstance(other, RankingError):
            assert str(other) == str(outcomes[0]), f"{kernel.name}: {other} / {outcomes[0]}"
        else:
            differ = [name for name in outcomes[0] if outcomes[0][name] != other.get(name)]
            assert not differ, f"{kernel.name} differs from {kernels[0].name} in {differ}"
    if isinstance(outcomes[0], RankingError):
        raise outcomes[0]


def random_lists(draw: random.Random, rng: np.random.Generator) -> JudgedLists:
    """Draw judged lists: ties, empty columns, large and small numbers, sparse or dense."""
    rows, columns = draw.randint(2, 30), draw.randint(1, 6)
    x = rng.normal(size=(rows, columns))
    if draw.random() < 0.4:
        x = np.round(x)  # ties, zeros
    x *= np.array([draw.choice((1, 1, 1, 0, 1e5, 1e-5, 1e60)) for _ in range(columns)])
    qids = np.sort(rng.integers(0, draw.randint(1, 6), rows))
    features = sparse.csr_array(x) if draw.random() < 0.4 else x
    return JudgedLists(features, rng.integers(0, draw.randint(2, 5), rows), qids)


def random_matching(draw: random.Random, rng: np.random.Generator) -> MatchingData:
    """Draw queries, documents and relevance, with or without features."""
    queries, documents = draw.randint(1, 9), draw.randint(2, 9)
    relevance = (rng.random((queries, documents)) < 0.4) * rng.integers(1, 4, (queries, documents))
    features: dict[str, Any] = {}
    if draw.random() < 0.5:
        width = draw.randint(1, 5)
        for side, n in (("queries", queries), ("documents", documents)):
            dense = rng.normal(size=(n, width)) * (rng.random((n, width)) < 0.6)
            features[side] = sparse.csr_array(dense)
    return MatchingData(**features, relevance=sparse.csr_array(relevance.astype(float)))


@functools.cache
def combinations(judged: bool) -> list[list[str]]:
    """Return the parts of ours that combine, for judged lists or for matching."""
    ours = [each for each in installed_sources() if each.distribution.startswith("ranking-kit")]
    cells = [str(cell) for cell in Grid(Registry(ours)).cells() if cell.compatibility().works]
    combinations_of_parts = [cell.split(" x ") for cell in cells]
    return [parts for parts in combinations_of_parts if (parts[0] == "linear") == judged]


def random_parts(draw: random.Random, judged: bool) -> dict[str, Any]:
    """Draw a model, a loss, a regularizer and a solver that combine, and their settings."""
    names = ("model", "loss", "regularizer", "solver")
    parts = dict(zip(names, draw.choice(combinations(judged)), strict=True))
    if parts["model"] in ("factored", "sparse-factored", "structured"):
        parts["model"] += f":dimensions={draw.randint(1, 9)}"
    if parts["model"].startswith("structured"):
        parts["model"] += ",k=2"
    if parts["regularizer"] in ("l1", "l2", "elastic"):
        parts["regularizer"] += f":strength={draw.choice((0, 0.001, 0.1, 10))}"
    if parts["solver"] in ("sgd", "passive-aggressive"):
        parts["solver"] += f":max_steps={draw.randint(1, 60)},steps_per_epoch={draw.randint(1, 40)}"
    elif parts["solver"] in ("coordinate", "alternating"):
        parts["solver"] += f":max_epochs={draw.randint(1, 4)}"
    return {**parts, "random_state": draw.getrandbits(16)}


def mutate(content: bytes, draw: random.Random) -> bytes:
    """Return the content with a few random changes; of a model, also of its description."""
    if content[8:9] == b"{" and draw.random() < 0.8:
        change = mutate_header if draw.random() < 0.6 else mutate_tensors
        with contextlib.suppress(ValueError, KeyError, IndexError):
            return change(content, draw)
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


def mutate_tensors(content: bytes, draw: random.Random) -> bytes:
    """Overwrite some words of 4 or 8 bytes behind the header, which stays as it is."""
    start = 8 + int.from_bytes(content[:8], "little")
    data = bytearray(content)
    for _ in range(draw.choice((1, 1, 2, 4, 16))):
        size = draw.choice((4, 8))
        at = start + draw.randrange((len(data) - start) // size) * size
        if draw.random() < 0.5:
            word = draw.choice((0, 1, 2, 7, -1, -2, 1 << 31, 1 << 62, -(1 << 63), 1 << 20))
            data[at : at + size] = (word % (1 << 8 * size)).to_bytes(size, "little")
        else:
            value = draw.choice((np.nan, np.inf, -np.inf, 1e30, -1e-40, 0.5, 3.0, -0.0))
            data[at : at + size] = np.array(value, f"<f{size}").tobytes()
    return bytes(data)


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


def one_round(targets: list[Target]) -> list[Target]:
    """Return every target as often as its weight says, mixed, in an order that is always equal."""
    targets = [target for target in targets for _ in range(target.weight)]
    random.Random(0).shuffle(targets)  # noqa: S311
    return targets


class Hang(Exception):  # noqa: N818
    """An input took too long."""


def _alarm(*_: object) -> None:
    raise Hang


class Worker(NamedTuple):
    """What a forked worker shares with its parent: a round of targets and the input in work."""

    targets: list[Target]
    seed: int
    folder: Path
    current: mmap.mmap

    def input(self, number: int) -> tuple[Target, bytes]:
        """Return the target and the content of an input."""
        target = self.targets[number % len(self.targets)]
        draw = random.Random(f"{self.seed} {number}")  # noqa: S311
        return target, mutate(target.content, draw)

    def run(self, numbers: range) -> dict[str, int]:
        """Run some inputs in this process and count the outcomes by target."""
        signal.signal(signal.SIGALRM, _alarm)
        counts: Counter[str] = Counter()
        for number in numbers:
            target, content = self.input(number)
            path = self.folder / target.file
            path.write_bytes(content)
            self.current[:8] = number.to_bytes(8, "little")
            signal.alarm(LIMIT)
            try:
                target.run(path)
                counts[f"{target.name}: accepted"] += 1
            except RankingError:
                counts[f"{target.name}: refused"] += 1
            except BaseException as error:
                counts[self.failure(number, f"{type(error).__name__}: {str(error)[:200]}")] += 1
            finally:
                signal.alarm(0)
        return counts

    def failure(self, number: int, reason: str) -> str:
        """Report an input that failed, and return the line that counts it."""
        name = self.targets[number % len(self.targets)].name
        line = f"FAILED {number} {name}: {reason}"
        print(line, flush=True)  # noqa: T201
        return line

    def fork(self, numbers: range) -> Counter[str]:
        """Run some inputs in forked workers, a new one behind each that crashes or hangs."""
        counts: Counter[str] = Counter()
        result = self.folder / "counts"
        while numbers:
            result.unlink(missing_ok=True)
            self.current[:8] = numbers.start.to_bytes(8, "little")
            child = os.fork()
            if child == 0:
                with contextlib.suppress(BaseException):
                    limit_memory()
                    result.write_text(json.dumps(self.run(numbers)))
                os._exit(0)
            status = self.watch(child)
            if status == 0 and result.exists():
                return counts + Counter(json.loads(result.read_text()))
            stopped = int.from_bytes(self.current[:8], "little")
            counts[self.failure(stopped, f"the process ended with status {status}")] += 1
            # What the worker had counted before is lost; those inputs are run again, alone.
            if stopped > numbers.start:
                counts += self.fork(range(numbers.start, stopped))
            numbers = range(stopped + 1, numbers.stop)
        return counts

    def watch(self, child: int) -> int:
        """Wait for a worker; kill it if one input takes too long, also in compiled code."""
        seen, since = bytes(8), time.monotonic()
        while True:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return status
            now = self.current[:8]
            if now != seen:
                seen, since = now, time.monotonic()
            elif time.monotonic() - since > LIMIT + 3:  # the alarm had its chance
                os.kill(child, signal.SIGKILL)
            time.sleep(0.05)


def limit_memory() -> None:
    """Bound the memory of this process, so that an input that wants much is seen."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * mmap.PAGESIZE + MEMORY,) * 2)


def keep(worker: Worker, failed: list[str], folder: Path) -> None:
    """Write the inputs that failed, to become seeds of regression tests."""
    folder.mkdir(parents=True, exist_ok=True)
    for line in failed:
        number = int(line.split()[1])
        target, content = worker.input(number)
        (folder / f"{number}-{target.file}").write_bytes(content)


def report(counts: Counter[str], targets: list[Target]) -> None:
    """Print how many inputs each target accepted and refused."""
    for target in targets:
        accepted, refused = (counts[f"{target.name}: {word}"] for word in ("accepted", "refused"))
        print(f"  {target.name:24} {accepted:9,} accepted {refused:9,} refused")  # noqa: T201


def parse() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--inputs", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0, help="number of the first input")
    parser.add_argument("--only", default="", help="regular expression of targets")
    parser.add_argument("--keep", type=Path, default=None, help="folder for inputs that failed")
    return parser.parse_args()


def main() -> int:
    """Run inputs until the time or the number is over; return 1 if any failed."""
    options = parse()
    warnings.simplefilter("ignore")
    counts: Counter[str] = Counter()
    number = options.start
    last = None if options.inputs is None else options.start + options.inputs
    with tempfile.TemporaryDirectory() as name, mmap.mmap(-1, 8) as current:
        folder = Path(name)
        every_target = [*text_targets(), *model_targets(folder), *kernel_targets()]
        targets = [target for target in every_target if re.search(options.only, target.name)]
        for target in targets:  # imports and caches, before the first fork
            path = folder / target.file
            path.write_bytes(target.content)
            with contextlib.suppress(RankingError):
                target.run(path)
        begin = time.monotonic()
        worker = Worker(one_round(targets), options.seed, folder, current)
        batch = BATCH if last is not None else 500
        while number < last if last is not None else time.monotonic() - begin < options.seconds:
            stop = number + batch if last is None else min(number + batch, last)
            counts += worker.fork(range(number, stop))
            number = stop
            if number % (20 * BATCH) == 0:
                print(f"{number:,} inputs, {time.monotonic() - begin:.0f} s", flush=True)  # noqa: T201
                report(counts, targets)
        failed = [line for line in counts if line.startswith("FAILED")]
        accepted = sum(n for line, n in counts.items() if line.endswith(": accepted"))
        print(  # noqa: T201
            f"{number - options.start} inputs over {len(targets)} targets in "
            f"{time.monotonic() - begin:.0f} s: {accepted} accepted, "
            f"{number - options.start - accepted - len(failed)} refused, {len(failed)} failed"
        )
        report(counts, targets)
        if options.keep is not None and failed:
            keep(worker, failed, options.keep)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
