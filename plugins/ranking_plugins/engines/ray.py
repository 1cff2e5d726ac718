"""The engine for several processes or machines: each shard has a Ray actor.

Functions are sent by name, data as arrays. Ray itself pickles what it sends within a cluster, so
all members of the cluster must be trusted.
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
from ranking.contracts.hooks import Lazy
from ranking.contracts.parameters import integer
from ranking.errors import EngineError, PartError

RESTARTS = 3
"""How often a shard may lose its worker."""

logger = logging.getLogger(__name__)


@dataclasses.dataclass
class Ray(Engine):
    """Workers of a Ray cluster, each with a shard of the data.

    Parameters
    ----------
    workers : int
        Number of processes, each with the threads of the training.
    address : str or None
        ``host:port`` of a running cluster, or "auto"; it must have token authentication, unless it
        is on this machine. By default a cluster is started on this machine for the training.
    """

    name: ClassVar[str] = "ray"

    workers: int = integer(2, minimum=1)
    address: str | None = None

    def _setup(self) -> None:
        if self.address is not None and "://" in str(self.address):
            raise PartError(
                f"ray has address={self.address}; it must be host:port of the head node, or auto."
            )

    def n_parts(self) -> int:
        """Return one shard per worker."""
        return int(self.workers)

    def scatter(self, shards: Sequence[Any], threads: int = 1) -> RayShards:
        """Start a worker for each shard."""
        return RayShards(shards, threads, self.address)


class Worker:
    """The actor in the process of a worker."""

    def __init__(self, shard: Any) -> None:
        self.shard = shard
        self.cache: dict[str, Any] = {}

    def run(self, address: str, first: bool, broadcast: tuple[Any, ...]) -> Any:
        """Run a function; clear the cache if it is the first one since a checkpoint."""
        if first:
            self.cache.clear()
        return Lazy(address, help="").load()(self.shard, self.cache, *broadcast)


class RayShards(Shards):
    """Shards, each with an actor; the calls since the checkpoint are stored to repeat them."""

    def __init__(self, shards: Sequence[Any], threads: int, address: str | None) -> None:
        self.shards, self.threads = list(shards), threads
        self.ray, self.ours = connect(address, len(self.shards) * threads)
        self.steps: list[tuple[str, Any]] = []
        self.restarts = [0] * len(self.shards)
        try:
            self._refuse_too_many()
            self.workers = [self._worker(shard) for shard in self.shards]
        except BaseException:
            self.workers = []
            self.close()
            raise

    def _refuse_too_many(self) -> None:
        """Refuse more workers than there are processors, for which Ray would wait forever."""
        available = self.ray.cluster_resources().get("CPU", 0)
        needed = len(self.shards) * self.threads
        if available < needed:
            raise EngineError(
                f"the Ray cluster has {available:g} processors, and {len(self.shards)} workers "
                f"with {self.threads} threads each need {needed}; use fewer of either."
            )

    def _worker(self, shard: Any) -> Any:
        actor = self.ray.remote(num_cpus=self.threads, scheduling_strategy="SPREAD")(Worker)
        return actor.remote(shard)

    def run(self, function: Callable[..., Any], broadcast: tuple[Any, ...]) -> Iterator[Any]:
        """Yield the result of a function for each shard."""
        self.steps.append((address_of(function), self.ray.put(broadcast)))
        last = len(self.steps) - 1
        requests = [self._request(worker, last) for worker in self.workers]
        for number, request in enumerate(requests):
            yield self._result(number, request)

    def _request(self, worker: Any, step: int) -> Any:
        address, broadcast = self.steps[step]
        return worker.run.remote(address, step == 0, broadcast)

    def _result(self, number: int, request: Any) -> Any:
        """Wait for the result of a worker; if it is lost, for that of its replacement."""
        errors = self.ray.exceptions
        while True:
            try:
                return self.ray.get(request)
            except errors.RayTaskError as error:
                raise error.cause from error
            except (errors.RayActorError, errors.ObjectLostError) as error:
                self._replace(number, error)
                # An actor runs its calls in order, and only the last result is new.
                for step in range(len(self.steps)):
                    request = self._request(self.workers[number], step)

    def _replace(self, number: int, error: Exception) -> None:
        reason = str(error).strip().partition("\n")[0]
        self.restarts[number] += 1
        if self.restarts[number] > RESTARTS:
            raise EngineError(
                f"worker {number} of engine 'ray' was lost {self.restarts[number]} times "
                f"({reason}); if memory is short, use more workers or machines."
            ) from error
        logger.warning("worker %d was lost (%s); another one gets its shard.", number, reason)
        self.ray.kill(self.workers[number])
        self.workers[number] = self._worker(self.shards[number])

    def checkpoint(self) -> None:
        """Discard the calls so far: a new worker need not repeat them."""
        self.steps = []

    def close(self) -> None:
        """Stop the workers, and the cluster if it was started for them."""
        self.shards, self.steps = [], []
        for worker in self.workers:
            self.ray.kill(worker)
        self.workers = []
        if self.ours:
            self.ray.shutdown()
            self.ours = False


def connect(address: str | None, cpus: int) -> tuple[Any, bool]:
    """Connect to a cluster; return Ray, and whether to disconnect at the end."""
    if address is None:
        _isolate()
    else:
        refuse_open(address)
    try:
        import ray
    except ImportError as error:
        raise EngineError(
            f"engine 'ray' needs Ray ({error}); install it with `pip install ranking-kit[ray]`."
        ) from error
    if ray.is_initialized():  # by the caller, but it must be as safe
        if address is not None:
            raise EngineError(
                f"this program is connected to a Ray cluster already, so it cannot connect to "
                f"{address}; leave the address out."
            )
        refuse_open(ray.get_runtime_context().gcs_address)
        return ray, False
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    settings: dict[str, Any] = {"address": address}
    if address is None:
        settings = {"address": "local", "num_cpus": cpus, "include_dashboard": False}
    try:
        # Workers of Ray import from the current folder before installed packages.
        with tempfile.TemporaryDirectory() as empty, contextlib.chdir(empty):
            ray.init(configure_logging=False, log_to_driver=False, **settings)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise EngineError(
            f"cannot connect to the Ray cluster {settings['address']!r} ({error}); start one with "
            "`ray start --head`, or leave the address out."
        ) from error
    return ray, True


def _isolate() -> None:
    """Restrict a cluster that Ray starts here to this process: loopback and a new token."""
    if "ray" not in sys.modules:  # which reads these when it is imported
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # else all interfaces
        os.environ.setdefault("RAY_AUTH_MODE", "token")  # Ray's default too, but with a remark
    token = Path.home() / ".ray" / "auth_token"
    if not (os.environ.keys() & {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} or token.exists()):
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)  # else Ray writes one to that file


def refuse_open(address: str) -> None:
    """Refuse a cluster that others can reach, if it has no token authentication.

    Anybody who reaches a Ray cluster can run code on it.
    """
    host = address.rpartition(":")[0].strip("[]")
    try:
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback and os.environ.get("RAY_AUTH_MODE", "").lower() != "token":
        raise EngineError(
            f"the Ray cluster at {address} may be open to others, and token authentication is off: "
            "anybody who reaches it can run code on it. Set RAY_AUTH_MODE=token on all its "
            "machines and here."
        )
