"""Call code of third-party plugins so that it can neither end nor hang the program."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

Result = TypeVar("Result")

TIMEOUT: Final = "RANKING_PLUGIN_TIMEOUT"
"""The environment variable for the number of seconds that loading a plugin may take."""

SECONDS: Final = 10.0


class PluginTimeoutError(Exception):
    """A plugin was still loading when its time was over."""


class Outcome(NamedTuple):
    """What a call returned, or the error that it raised."""

    value: object
    error: BaseException | None


def allowed_seconds() -> float:
    """Return how long a plugin may take to load."""
    try:
        seconds = float(os.environ.get(TIMEOUT, ""))
    except ValueError:
        return SECONDS
    return seconds if 0.0 < seconds < threading.TIMEOUT_MAX else SECONDS


def call_isolated(function: Callable[[], object], module: str) -> Outcome:
    """Call a function of a plugin; catch whatever it raises, and give up when it takes too long.

    It runs in a thread: there SystemExit and KeyboardInterrupt are the plugin's own, and Ctrl-C
    still reaches the main thread. A call that takes too long is left behind.

    Parameters
    ----------
    function : callable
    module : str
        The module of the plugin. If it is being imported right now, the call is made in this
        thread, because another one would wait for that import.
    """
    outcome: list[Outcome] = []

    def call() -> None:
        try:
            outcome.append(Outcome(function(), None))
        except BaseException as error:
            outcome.append(Outcome(None, error))

    if _is_importing(module):
        call()
        return outcome[0]
    seconds = allowed_seconds()
    thread = threading.Thread(target=call, name=f"load {module}", daemon=True)
    thread.start()
    thread.join(seconds)
    if outcome:
        return outcome[0]
    return Outcome(
        None,
        PluginTimeoutError(
            f"it was not ready after {seconds:g} s ({TIMEOUT} sets another limit); uninstall it, "
            "or set RANKING_DISABLED_PLUGINS"
        ),
    )


def _is_importing(module: str) -> bool:
    """Return whether a module or a package above it is being imported."""
    parts = module.partition(":")[0].split(".")
    for end in range(1, len(parts) + 1):
        spec = getattr(sys.modules.get(".".join(parts[:end])), "__spec__", None)
        if getattr(spec, "_initializing", False):
            return True
    return False
