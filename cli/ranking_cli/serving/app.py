"""The HTTP application: limits, token, JSON, and what is answered where."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import hmac
import json
import time
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from ranking import RankingError
from ranking_cli.serving.answers import ANSWERS, RequestError
from ranking_cli.serving.description import PAGE, openapi
from ranking_cli.serving.measurements import Measurements
from ranking_cli.serving.models import Models
from ranking_cli.terminal import echo

MOST_ANSWERS = 16
"""Answers that are computed at the same time."""

LONGEST_ERROR = 1000
"""Characters of a message, which may repeat what was sent."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """What a request may cost.

    Attributes
    ----------
    body : int
        Bytes of a request.
    seconds : float
        Until an answer, the time to send the body included; then the status is 503.
    token : str
        What ``Authorization: Bearer`` must say, or empty.
    workers : Executor
        The threads that compute answers; further requests wait for one.
    """

    body: int = 1_000_000
    seconds: float = 10.0
    token: str = ""
    workers: Executor = dataclasses.field(
        default_factory=lambda: ThreadPoolExecutor(MOST_ANSWERS, "answer")
    )


class RefusedError(Exception):
    """A request that is refused before it is understood."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def build_app(models: Models, limits: Limits) -> Starlette:
    """Return the application that serves models."""
    measurements = Measurements()
    routes = [
        Route(
            f"/{name}",
            functools.partial(_answer, name, models, limits, measurements),
            methods=["POST"],
        )
        for name in ANSWERS
    ]
    routes += [
        Route("/health", functools.partial(_health, models)),
        Route("/metrics", functools.partial(_metrics, measurements)),
        Route("/openapi.json", _openapi),
        Route("/", _page),
    ]
    return Starlette(routes=routes)


async def _answer(
    name: str, models: Models, limits: Limits, measurements: Measurements, request: Request
) -> Response:
    """Answer a request, and count it."""
    start = time.perf_counter()
    status, content = 200, b""
    try:
        _check_token(request, limits.token)
        # Not the default executor: `wait_for` leaves a thread that still computes behind.
        async with asyncio.timeout(limits.seconds):
            body = _parse(await _read(request, limits.body))
            loop = asyncio.get_running_loop()
            content = await loop.run_in_executor(limits.workers, _compute, name, models, body)
    except RefusedError as error:
        status, content = error.status, _error(str(error))
    except (RequestError, RankingError) as error:
        status, content = 400, _error(" ".join(str(error).split()))
    except TimeoutError:
        status, content = 503, _error(f"no answer within {limits.seconds:g} s; ask for less.")
    except ClientDisconnect:
        status, content = 499, _error("the client has gone.")
    except Exception as error:
        echo(f"/{name}: {type(error).__name__}: {error}", err=True)
        status, content = 500, _error("a defect of ranking; the log of the server says more.")
    measurements.record(f"/{name}", status, time.perf_counter() - start)
    return Response(content, status, media_type="application/json")


def _error(message: str) -> bytes:
    shown = message if len(message) <= LONGEST_ERROR else message[:LONGEST_ERROR] + "..."
    return json.dumps({"error": shown}).encode()


def _compute(name: str, models: Models, body: dict[str, Any]) -> bytes:
    model = models.find(body.get("model"))
    answer = {"model": model.name, **ANSWERS[name](model.ranker(), body)}
    return json.dumps(answer, ensure_ascii=False, allow_nan=False).encode()


def _check_token(request: Request, token: str) -> None:
    if token:
        sent = request.headers.get("authorization", "")
        if not hmac.compare_digest(sent.encode(), f"Bearer {token}".encode()):
            raise RefusedError(401, "send the token as Authorization: Bearer TOKEN.")


async def _read(request: Request, limit: int) -> bytes:
    """Return the body, or refuse one that is too long, as soon as that is known."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise RefusedError(413, f"the body is longer than {limit} bytes; send less.")
        parts.append(part)
    return b"".join(parts)


def _parse(content: bytes) -> dict[str, Any]:
    try:
        body = json.loads(content, parse_constant=_refuse_constant)
        if b"\\u" in content:  # half a character, which no answer could repeat
            json.dumps(body, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise RefusedError(400, f"the body is not JSON: {error}.") from error
    if not isinstance(body, dict):
        raise RefusedError(400, "the body must be a JSON object.")
    return body


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number of JSON")


async def _health(models: Models, request: Request) -> Response:
    """Say which models are served, and which file could not be read."""

    def states() -> list[dict[str, str]]:
        return [
            {"name": model.name, "model": model.ranker().model_.name, "problem": model.problem}
            for model in models
        ]

    listed = await run_in_threadpool(states)
    healthy = not any(one["problem"] for one in listed)
    return JSONResponse({"status": "ok" if healthy else "degraded", "models": listed})


async def _metrics(measurements: Measurements, request: Request) -> Response:
    return PlainTextResponse(measurements.text(), media_type="text/plain; version=0.0.4")


async def _openapi(request: Request) -> Response:
    return JSONResponse(openapi())


async def _page(request: Request) -> Response:
    return HTMLResponse(PAGE)
