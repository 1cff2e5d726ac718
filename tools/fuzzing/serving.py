"""Targets of `ranking serve`: requests whose bodies are mutated, through the whole application."""

from __future__ import annotations

import asyncio
import functools
import json
import os
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fuzzing.models import not_json, small_data, small_texts
from fuzzing.target import Target
from ranking import Ranker
from ranking.errors import DataError

BODIES = {
    "rank": {"model": "linear", "documents": [{"id": "a", "features": [1, 2.5, -3]}], "k": 3},
    "recommend": {"model": "films", "user": "u1", "k": 3, "exclude_seen": False},
    "similar": {"model": "films", "item": "i2", "k": 2},
    "explain": {"model": "words", "query": "ice moon", "document": "moon puck", "k": 4},
}


class AtOnce(Executor):
    """Compute in the calling thread: handing over to another takes longer than most answers."""

    def submit(self, fn: Any, /, *args: Any, **options: Any) -> Future[Any]:
        """Return a future that is done."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **options))
        except Exception as error:
            future.set_exception(error)
        return future


@functools.cache
def event_loop(process: int) -> asyncio.AbstractEventLoop:
    """Return the loop of a process: a forked worker needs its own."""
    return asyncio.new_event_loop()


def request(app: Any, path: str, body: bytes) -> tuple[int, bytes]:
    """Send a request to the application in this process; return the status and the answer."""
    sent: list[Any] = []
    scope = {
        **{"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST"},
        **{"path": path, "raw_path": path.encode(), "query_string": b"", "headers": []},
    }

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    event_loop(os.getpid()).run_until_complete(app(scope, receive, send))
    return sent[0]["status"], b"".join(part.get("body", b"") for part in sent[1:])


def serve_targets(folder: Path) -> Iterator[Target]:
    """Yield a request for each path: an answer or a status of the client's fault, in JSON."""
    if not find_spec("starlette"):
        return
    from ranking_cli.serving.app import Limits, build_app
    from ranking_cli.serving.models import Models, ServedModel

    judged, matching, _ = small_data()
    rankers = {
        "linear": Ranker(loss="domination", scale="standard").fit(judged),
        "films": Ranker("factored:dimensions=3", "warp", solver="sgd:max_steps=20").fit(matching),
        "words": Ranker("bilinear", "hinge", solver="sgd:max_steps=20").fit(small_texts()),
    }
    served = []
    for name, ranker in rankers.items():
        path = folder / f"served-{name}.safetensors"
        ranker.save(path)
        served.append(ServedModel(name, path, "auto", 1))
    app = build_app(Models(served), Limits(workers=AtOnce()))

    def ask(path: Path, name: str) -> None:
        status, content = request(app, f"/{name}", path.read_bytes())
        answer = json.loads(content, parse_constant=not_json)
        assert status in (200, 400), f"status {status}: {answer}"
        if status == 400:
            raise DataError(answer["error"])

    for name, body in BODIES.items():
        content = json.dumps(body).encode()
        run = functools.partial(ask, name=name)
        yield Target(f"serve {name}", "a.json", content, run)
