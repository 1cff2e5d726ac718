"""The engine for several processes or machines: a Ray actor holds each part.

Functions travel by their names, data as arrays. Ray itself pickles what it moves, within a cluster
whose members trust each other; so nobody else may join it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import ipaddress
import logging
import os
import secrets
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from ranking.contracts.engine import Engine, Shards, address_of
from ranking.contracts.parameters import integer
from ranking.errors import EngineError, PartError
from ranking.registry import Lazy

RESTARTS = 3
"""How often a part may lose its worker."""

logger = logging.getLogger(__name__)


@dataclasses.dataclass
class Ray(Engine):
    """Workers of a Ray cluster, each with its part of the data.

    Parameters
    ----------
    workers : int
        Processes, each with as many threads as the training has.
    address : str or None
        ``host:port`` of a cluster that runs, or "auto"; it must have token login, unless it is on
        this machine. By default a cluster is started for the training, on this machine alone.
    """

    name: ClassVar[str] = "ray"

    workers: int = integer(2, minimum=1)
    address: str | None = None

    def _setup(self) -> None:
        if self.address is not None and "://" in str(self.address):
            raise PartError(
                f"ray has address={self.address}; write host:port of the cluster's head, or auto."
            )

    def n_parts(self) -> int:
        """Return one part a worker."""
        return int(self.workers)

    def scatter(self, parts: Sequence[Any], threads: int = 1) -> RayShards:
        """Start a worker for each part."""
        return RayShards(parts, threads, self.address)


class Worker:
    """What runs in a worker's process."""

    def __init__(self, part: Any) -> None:
        self.part = part
        self.kept: dict[str, Any] = {}

    def run(self, address: str, anew: bool, broadcast: tuple[Any, ...]) -> Any:
        """Run a function, the first since a checkpoint if it is to begin anew."""
        if anew:
            self.kept.clear()
        return Lazy(address, help="").load()(self.part, self.kept, *broadcast)


class RayShards(Shards):
    """Parts, each with an actor; what ran since the checkpoint is known, to be repeated."""

    def __init__(self, parts: Sequence[Any], threads: int, address: str | None) -> None:
        self.parts, self.threads = list(parts), threads
        self.ray, self.ours = enter(address, len(self.parts) * threads)
        self.steps: list[tuple[str, Any]] = []
        self.restarts = [0] * len(self.parts)
        try:
            self._refuse_too_many()
            self.workers = [self._worker(part) for part in self.parts]
        except BaseException:
            self.workers = []
            self.close()
            raise

    def _refuse_too_many(self) -> None:
        """Refuse workers for which Ray would wait without an end."""
        there, wanted = self.ray.cluster_resources().get("CPU", 0), len(self.parts) * self.threads
        if there < wanted:
            raise EngineError(
                f"the Ray cluster has {there:g} processors, and {len(self.parts)} workers with "
                f"{self.threads} threads each need {wanted}; take fewer of either."
            )

    def _worker(self, part: Any) -> Any:
        actor = self.ray.remote(num_cpus=self.threads, scheduling_strategy="SPREAD")(Worker)
        return actor.remote(part)

    def run(self, function: Callable[..., Any], broadcast: tuple[Any, ...]) -> Iterator[Any]:
        """Yield what a function makes of each part."""
        self.steps.append((address_of(function), self.ray.put(broadcast)))
        last = len(self.steps) - 1
        for number, asked in enumerate([self._ask(worker, last) for worker in self.workers]):
            yield self._answer(number, asked)

    def _ask(self, worker: Any, step: int) -> Any:
        address, broadcast = self.steps[step]
        return worker.run.remote(address, step == 0, broadcast)

    def _answer(self, number: int, asked: Any) -> Any:
        """Wait for the answer of a worker; if it is lost, that of the next in its place."""
        errors = self.ray.exceptions
        while True:
            try:
                return self.ray.get(asked)
            except errors.RayTaskError as error:
                raise error.cause from error
            except (errors.RayActorError, errors.ObjectLostError) as error:
                self._replace(number, error)
                # An actor takes its calls in order, and only the last answer is new.
                asked = [self._ask(self.workers[number], step) for step in range(len(self.steps))]
                asked = asked[-1]

    def _replace(self, number: int, error: Exception) -> None:
        reason = str(error).strip().partition("\n")[0]
        self.restarts[number] += 1
        if self.restarts[number] > RESTARTS:
            raise EngineError(
                f"worker {number} of engine 'ray' was lost {self.restarts[number]} times "
                f"({reason}); if memory is short, take more workers or machines."
            ) from error
        logger.warning("worker %d was lost (%s); another takes its part.", number, reason)
        self.ray.kill(self.workers[number])
        self.workers[number] = self._worker(self.parts[number])

    def checkpoint(self) -> None:
        """Forget what ran: a new worker need not repeat it."""
        self.steps = []

    def close(self) -> None:
        """End the workers, and the cluster if it was started for them."""
        self.parts, self.steps = [], []
        for worker in self.workers:
            self.ray.kill(worker)
        self.workers = []
        if self.ours:
            self.ray.shutdown()
            self.ours = False


def enter(address: str | None, cpus: int) -> tuple[Any, bool]:
    """Enter a cluster; return Ray, and whether it must be left."""
    if address is None:
        _keep_to_ourselves()
    else:
        refuse_open(address)
    try:
        import ray
    except ImportError as error:
        raise EngineError(
            f"engine 'ray' needs Ray ({error}); install it with `pip install ranking-kit[ray]`."
        ) from error
    if ray.is_initialized():  # by whoever called: it is theirs, but must be as safe
        if address is not None:
            raise EngineError(
                f"this program is in a Ray cluster already, so it cannot enter {address}; leave "
                "the address out."
            )
        refuse_open(ray.get_runtime_context().gcs_address)
        return ray, False
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    settings: dict[str, Any] = {"address": address}
    if address is None:
        settings = {"address": "local", "num_cpus": cpus, "include_dashboard": False}
    try:
        # Ray lets workers import from the folder it is called in before anything installed.
        with tempfile.TemporaryDirectory() as empty, contextlib.chdir(empty):
            ray.init(configure_logging=False, log_to_driver=False, **settings)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise EngineError(
            f"cannot enter the Ray cluster {settings['address']!r} ({error}); start one with "
            "`ray start --head`, or leave the address out."
        ) from error
    return ray, True


def _keep_to_ourselves() -> None:
    """Let a cluster that Ray starts here be for this process alone: loopback, and a fresh token."""
    if "ray" not in sys.modules:  # which looks at these when it is imported
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # else all interfaces
        os.environ.setdefault("RAY_AUTH_MODE", "token")  # Ray's default too, but with a remark
    kept = Path.home() / ".ray" / "auth_token"
    if not (os.environ.keys() & {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} or kept.exists()):
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)  # else Ray writes one to that file


def refuse_open(address: str) -> None:
    """Refuse a cluster that others can reach, if it has no token login.

    Whoever reaches a Ray cluster can run anything on it, so on a network it needs the login.
    """
    host = address.rpartition(":")[0].strip("[]")
    try:
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback and os.environ.get("RAY_AUTH_MODE", "").lower() != "token":
        raise EngineError(
            f"the Ray cluster at {address} may be open to others, and token login is off: whoever "
            "reaches it can run anything on it. Set RAY_AUTH_MODE=token on all its machines and "
            "here."
        )
