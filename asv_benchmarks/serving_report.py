"""Latency and memory of `ranking serve` under a steady load.

Usage: ``python asv_benchmarks/serving_report.py [--seconds N] [--rate N] [--items N]``. The server
is a process on one processor, the client another; requests are sent at fixed times over one
connection per request in flight, so that a late answer does not delay the next request, and a
latency counts from when the request should have been sent. Three loads: `rank` of 100 documents of
20 and of 136 features, and `recommend` for one of 1,000 users among `--items` items by embeddings
of 64 dimensions, one request after the other.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from ranking import JudgedLists, MatchingData, Ranker

N_DOCUMENTS = 100
N_USERS = 1_000
DIMENSIONS = 64


def judged_model(folder: Path, n_features: int) -> tuple[Path, list[bytes]]:
    """Write a linear model, and return its path and bodies to rank."""
    rng = np.random.default_rng(n_features)
    X = rng.normal(size=(2_000, n_features))
    data = JudgedLists(X, rng.integers(0, 3, 2_000), np.repeat(np.arange(100), 20))
    path = folder / f"rank{n_features}.safetensors"
    Ranker.from_recipe("listnet").fit(data).save(path)
    bodies = []
    for _ in range(20):
        features = rng.normal(size=(N_DOCUMENTS, n_features)).round(4).tolist()
        documents = [{"id": f"d{at}", "features": row} for at, row in enumerate(features)]
        bodies.append(json.dumps({"model": path.stem, "documents": documents}).encode())
    return path, bodies


def embedding_model(folder: Path, n_items: int) -> tuple[Path, list[bytes]]:
    """Write a model of embeddings of many items, and return its path and bodies to recommend."""
    rng = np.random.default_rng(1)
    items = np.arange(n_items)
    users = np.concatenate([items % N_USERS, rng.integers(0, N_USERS, 50_000)])
    items = np.concatenate([items, rng.integers(0, n_items, 50_000)])
    data = MatchingData.from_interactions(users, items)
    path = folder / "recommend.safetensors"
    parts = (f"factored:dimensions={DIMENSIONS}", "bpr", "none", "sgd:epochs=1")
    Ranker(*parts).fit(data).save(path)
    return path, [json.dumps({"model": path.stem, "user": user}).encode() for user in range(200)]


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

    def __init__(self, port: int, name: str) -> None:
        self.port, self.name = port, name
        self.idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def post(self, body: bytes) -> None:
        """Send a request and read its answer."""
        if not self.idle:
            self.idle.append(await asyncio.open_connection("127.0.0.1", self.port))
        reader, writer = self.idle.pop(0)  # the one that was idle longest, so that none times out
        header = f"POST /{self.name} HTTP/1.1\r\nHost: here\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(header.encode() + body)
        head = await reader.readuntil(b"\r\n\r\n")
        answer = await reader.readexactly(int(re.search(rb"(?i)content-length: (\d+)", head)[1]))
        if not head.startswith(b"HTTP/1.1 200"):
            raise SystemExit(answer.decode())
        self.idle.append((reader, writer))

    async def load(self, bodies: Sequence[bytes], rate: float, seconds: float) -> list[float]:
        """Send requests at a rate; return their latencies. A rate of 0 waits for each answer."""
        latencies: list[float] = []

        async def one(body: bytes, due: float) -> None:
            await self.post(body)
            latencies.append(time.perf_counter() - due)

        for body in bodies[:20]:  # what a model prepares at its first request
            await self.post(body)
        start, number, tasks = time.perf_counter(), 0, set()
        while (now := time.perf_counter()) - start < seconds:
            due = start + number / rate if rate else now
            if due > now:
                await asyncio.sleep(due - now)
            task = asyncio.create_task(one(bodies[number % len(bodies)], due))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            number += 1
            if not rate:
                await task
        await asyncio.gather(*tasks)
        for _, writer in self.idle:
            writer.close()
        return latencies


def resident(pid: int) -> float:
    """Return the resident memory of a process in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024


def processor_seconds(pid: int) -> float:
    """Return what a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rate", type=float, default=200.0)
    parser.add_argument("--items", type=int, default=1_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models = {
            "rank, 20 features": ("rank", options.rate, judged_model(folder, 20)),
            "rank, 136 features": ("rank", options.rate, judged_model(folder, 136)),
            f"recommend, {options.items:,} items": (
                "recommend",
                0.0,
                embedding_model(folder, options.items),
            ),
        }
        paths = [path for _, _, (path, _) in models.values()]
        processors = sorted(os.sched_getaffinity(0))
        with serving(paths, processors[-1]) as (port, pid):
            os.sched_setaffinity(0, processors[:1])
            print(  # noqa: T201
                "| request | per second | p50 ms | p99 ms | processor ms | MB before | MB after |"
            )
            print("|---|---:|---:|---:|---:|---:|---:|")  # noqa: T201
            for label, (path, rate, (_, bodies)) in models.items():
                asyncio.run(Client(port, path).load(bodies, rate, 2.0))
                before, used = resident(pid), processor_seconds(pid)
                timings = asyncio.run(Client(port, path).load(bodies, rate, options.seconds))
                used = 1e3 * (processor_seconds(pid) - used) / len(timings)
                p50, p99 = 1e3 * np.percentile(timings, [50, 99])
                print(  # noqa: T201
                    f"| {label} | {len(timings) / options.seconds:.0f} | {p50:.2f} | {p99:.2f} | "
                    f"{used:.2f} | {before:.0f} | {resident(pid):.0f} |"
                )


if __name__ == "__main__":
    main()
