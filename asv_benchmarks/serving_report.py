"""Latency and memory of `ranking serve` under a steady load.

Usage: ``python asv_benchmarks/serving_report.py [--seconds N] [--rate N] [--items N]
[--minutes N]``. The server is a process on one processor, the client another; requests are sent at
fixed times over one connection per request in flight, so that a late answer does not delay the next
request, and a latency counts from when the request should have been sent. Three loads: `rank` of
100 documents of 20 and of 136 features, and `recommend` for one of 1,000 users among `--items`
items by embeddings of 64 dimensions, one request after the other.

With `--minutes` one load takes their place: `rank`, `recommend`, `similar`, `/health`, `/metrics`
and requests that are refused, in turn, at `--rate`. One row per minute has the memory of the
server; every `--replace` minutes the model files are replaced, and read again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ranking import JudgedLists, MatchingData, Ranker

N_DOCUMENTS = 100
N_USERS = 1_000
DIMENSIONS = 64


class Wanted(NamedTuple):
    """A request, and the status of its answer."""

    line: str
    body: bytes = b""
    status: int = 200


def judged_model(folder: Path, n_features: int) -> tuple[Path, list[Wanted]]:
    """Write a linear model, and return its path and requests to rank."""
    rng = np.random.default_rng(n_features)
    X = rng.normal(size=(2_000, n_features))
    data = JudgedLists(X, rng.integers(0, 3, 2_000), np.repeat(np.arange(100), 20))
    path = folder / f"rank{n_features}.safetensors"
    Ranker.from_recipe("listnet").fit(data).save(path)
    requests = []
    for _ in range(20):
        features = rng.normal(size=(N_DOCUMENTS, n_features)).round(4).tolist()
        documents = [{"id": f"d{at}", "features": row} for at, row in enumerate(features)]
        body = json.dumps({"model": path.stem, "documents": documents}).encode()
        requests.append(Wanted("POST /rank", body))
    return path, requests


def embedding_model(folder: Path, n_items: int) -> tuple[Path, list[Wanted]]:
    """Write a model of embeddings of many items, and return its path and users' requests."""
    rng = np.random.default_rng(1)
    items = np.arange(n_items)
    users = np.concatenate([items % N_USERS, rng.integers(0, N_USERS, 50_000)])
    items = np.concatenate([items, rng.integers(0, n_items, 50_000)])
    data = MatchingData.from_interactions(users, items)
    path = folder / "recommend.safetensors"
    parts = (f"factored:dimensions={DIMENSIONS}", "bpr", "none", "sgd:epochs=1")
    Ranker(*parts).fit(data).save(path)
    bodies = [json.dumps({"model": path.stem, "user": user}).encode() for user in range(200)]
    return path, [Wanted("POST /recommend", body) for body in bodies]


@contextmanager
def serving(paths: Sequence[Path], processor: int) -> Iterator[tuple[int, int]]:
    """Serve models in a process on one processor; yield its port and its id."""
    command = [
        str(Path(sys.executable).parent / "ranking"),
        "serve",
        *map(str, paths),
        "--port",
        "0",
    ]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    os.sched_setaffinity(server.pid, {processor})
    try:
        assert server.stderr is not None
        for line in server.stderr:
            if match := re.search(r":(\d+)$", line.strip()):
                break
        else:
            raise SystemExit("the server did not start; run `ranking serve` to see why.")
        yield int(match[1]), server.pid
    finally:
        server.terminate()
        server.wait()


class Client:
    """Connections to the server that are kept and used again."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def send(self, wanted: Wanted) -> None:
        """Send a request and read its answer."""
        if not self.idle:
            self.idle.append(await asyncio.open_connection("127.0.0.1", self.port))
        reader, writer = self.idle.pop(0)  # the one that was idle longest, so that none times out
        header = f"{wanted.line} HTTP/1.1\r\nHost: here\r\nContent-Length: {len(wanted.body)}\r\n"
        writer.write(header.encode() + b"\r\n" + wanted.body)
        head = await reader.readuntil(b"\r\n\r\n")
        answer = await reader.readexactly(int(re.search(rb"(?i)content-length: (\d+)", head)[1]))
        if int(head.split()[1]) != wanted.status:
            raise SystemExit(f"{wanted.line}: {answer.decode()}")
        if b"connection: close" in head.lower():
            writer.close()
        else:
            self.idle.append((reader, writer))

    async def load(self, requests: Sequence[Wanted], rate: float, seconds: float) -> list[float]:
        """Send requests at a rate; return their latencies. A rate of 0 waits for each answer."""
        latencies: list[float] = []

        async def one(wanted: Wanted, due: float) -> None:
            await self.send(wanted)
            latencies.append(time.perf_counter() - due)

        for wanted in requests[:20]:  # what a model prepares at its first request
            await self.send(wanted)
        start, number, tasks = time.perf_counter(), 0, set()
        while (now := time.perf_counter()) - start < seconds:
            due = start + number / rate if rate else now
            if due > now:
                await asyncio.sleep(due - now)
            task = asyncio.create_task(one(requests[number % len(requests)], due))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            number += 1
            if not rate:
                await task
        await asyncio.gather(*tasks)
        for _, writer in self.idle:
            writer.close()
        self.idle.clear()
        return latencies


def resident(pid: int) -> float:
    """Return the resident memory of a process in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024


def processor_seconds(pid: int) -> float:
    """Return what a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def mixed(judged: Sequence[Wanted], users: Sequence[Wanted]) -> list[Wanted]:
    """Return requests of every kind, some of which are refused."""
    items = [json.loads(one.body) for one in users[:50]]
    similar = [json.dumps({"model": one["model"], "item": one["user"]}) for one in items]
    others = [
        Wanted("GET /health"),
        Wanted("GET /metrics"),
        Wanted("POST /rank", b"{", 400),
        Wanted("POST /recommend", b'{"model": "recommend", "user": "nobody"}', 400),
        Wanted("POST /rank", b" " * 1_000_001, 413),
    ]
    requests = []
    for at, body in enumerate(similar):
        requests += [judged[at % len(judged)], users[at], Wanted("POST /similar", body.encode())]
        requests += [others[at % len(others)]] if at % 5 == 0 else []
    return requests


def replace(path: Path) -> None:
    """Replace a file by a copy, atomically."""
    copy = path.with_suffix(".new")
    shutil.copyfile(path, copy)
    copy.replace(path)


def soak(folder: Path, options: argparse.Namespace, processors: Sequence[int]) -> None:
    """Print latencies and memory of each minute of a mixed load."""
    judged_path, judged = judged_model(folder, 136)
    users_path, users = embedding_model(folder, options.items)
    requests = mixed(judged, users)
    with serving([judged_path, users_path], processors[-1]) as (port, pid):
        os.sched_setaffinity(0, processors[:1])
        print("| minute | requests | p50 ms | p99 ms | MB | threads |")  # noqa: T201
        print("|---:|---:|---:|---:|---:|---:|")  # noqa: T201
        for minute in range(1, options.minutes + 1):
            latencies = asyncio.run(Client(port).load(requests, options.rate, 60.0))
            p50, p99 = 1e3 * np.percentile(latencies, [50, 99])
            print(  # noqa: T201
                f"| {minute} | {len(latencies)} | {p50:.2f} | {p99:.2f} | {resident(pid):.1f} | "
                f"{len(os.listdir(f'/proc/{pid}/task'))} |",
                flush=True,
            )
            if minute % options.replace == 0:
                replace(judged_path)
                replace(users_path)


def steady(folder: Path, options: argparse.Namespace, processors: Sequence[int]) -> None:
    """Print latencies of three loads."""
    models = {
        "rank, 20 features": (options.rate, judged_model(folder, 20)),
        "rank, 136 features": (options.rate, judged_model(folder, 136)),
        f"recommend, {options.items:,} items": (0.0, embedding_model(folder, options.items)),
    }
    paths = [path for _, (path, _) in models.values()]
    with serving(paths, processors[-1]) as (port, pid):
        os.sched_setaffinity(0, processors[:1])
        print(  # noqa: T201
            "| request | per second | p50 ms | p99 ms | processor ms | MB before | MB after |"
        )
        print("|---|---:|---:|---:|---:|---:|---:|")  # noqa: T201
        for label, (rate, (_, requests)) in models.items():
            asyncio.run(Client(port).load(requests, rate, 2.0))
            before, used = resident(pid), processor_seconds(pid)
            latencies = asyncio.run(Client(port).load(requests, rate, options.seconds))
            used = 1e3 * (processor_seconds(pid) - used) / len(latencies)
            p50, p99 = 1e3 * np.percentile(latencies, [50, 99])
            print(  # noqa: T201
                f"| {label} | {len(latencies) / options.seconds:.0f} | {p50:.2f} | {p99:.2f} | "
                f"{used:.2f} | {before:.0f} | {resident(pid):.0f} |"
            )


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rate", type=float, default=200.0)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--minutes", type=int, default=0)
    parser.add_argument("--replace", type=int, default=5, help="Minutes between two new models.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        run = soak if options.minutes else steady
        run(Path(name), options, sorted(os.sched_getaffinity(0)))


if __name__ == "__main__":
    main()
