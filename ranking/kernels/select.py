"""Which kernel runs: an argument, then RANKING_KERNEL, then whatever is installed."""

from __future__ import annotations

import functools
import logging
import os

from ranking.errors import KernelUnavailableError, PartError
from ranking.kernels._old_contract import ABI
from ranking.kernels.kernel import Kernel
from ranking.registry import Registry, get_registry

VARIABLE = "RANKING_KERNEL"
PREFERENCE = ("cython", "reference")
"""Where `auto` looks after all kernels that come from other distributions."""

logger = logging.getLogger(__name__)


def get_kernel(name: str | Kernel | None = "auto", registry: Registry | None = None) -> Kernel:
    """Return a kernel.

    Parameters
    ----------
    name : str, Kernel or None
        A kernel's name; a missing one raises `KernelUnavailableError` and says how to install it.
        "auto" (or None) asks the environment variable RANKING_KERNEL, then takes the best that
        works, and says so when that is not the first choice.
    registry : Registry, optional
        By default that of what is installed.
    """
    if isinstance(name, Kernel):
        return name
    registry = registry or get_registry()
    chosen = name or "auto"
    if chosen == "auto":
        chosen = os.environ.get(VARIABLE) or "auto"
    if chosen != "auto":
        return _load(chosen, registry)
    return _auto(registry)


@functools.cache
def _auto(registry: Registry) -> Kernel:
    strangers = [entry.name for entry in registry.entries("kernel") if entry.name not in PREFERENCE]
    for candidate in [*strangers, *PREFERENCE]:
        try:
            return _load(candidate, registry)
        except KernelUnavailableError as error:
            logger.warning("kernel %r is passed over: %s", candidate, error)
    raise KernelUnavailableError("no kernel works; reinstall the package `ranking`.")


def _load(name: str, registry: Registry) -> Kernel:
    try:
        entry = registry.find("kernel", name)
    except PartError as error:
        raise KernelUnavailableError(
            f"{error} A kernel that is a distribution of its own must be installed: from a "
            f"checkout of this project, `pip install ./{name}`."
        ) from error
    try:
        kernel = entry.load()()
    except Exception as error:
        raise KernelUnavailableError(
            f"kernel {name!r} of {entry.distribution} {entry.version} does not work: {error}"
        ) from error
    if not isinstance(kernel, Kernel):
        raise KernelUnavailableError(
            f"kernel {name!r} of {entry.distribution} returned {type(kernel).__name__}, "
            "not a ranking.kernels.Kernel."
        )
    if kernel.describe().get("abi") != ABI:
        raise KernelUnavailableError(
            f"kernel {name!r} of {entry.distribution} {entry.version} was built for version "
            f"{kernel.describe().get('abi')} of the contract, and this is version {ABI}; "
            f"install the {entry.distribution} that belongs to this version of ranking."
        )
    return kernel
