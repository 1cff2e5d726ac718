"""Selection of a kernel: an argument, then RANKING_KERNEL, then what is installed."""

from __future__ import annotations

import functools
import logging
import os

from ranking.errors import KernelUnavailableError, PartError
from ranking.kernels.contract import ABI
from ranking.kernels.kernel import Kernel
from ranking.registry.manager import Registry, get_registry

VARIABLE = "RANKING_KERNEL"
PREFERENCE = ("cython", "reference")
"""Kernels that `auto` tries after those of other distributions."""

logger = logging.getLogger(__name__)


def get_kernel(name: str | Kernel | None = "auto", registry: Registry | None = None) -> Kernel:
    """Return a kernel.

    Parameters
    ----------
    name : str, Kernel or None
        A kernel's name; a missing one raises `KernelUnavailableError` and says how to install it.
        "auto" (or None) reads the environment variable RANKING_KERNEL, then takes the first kernel
        that works, and warns if that is not the preferred one.
    registry : Registry, optional
        By default that of what is installed.
    """
    if isinstance(name, Kernel):
        return name
    registry = registry or get_registry()
    if name is None or name == "auto":
        name = os.environ.get(VARIABLE) or "auto"
    return _auto(registry) if name == "auto" else _load(name, registry)


@functools.cache
def _auto(registry: Registry) -> Kernel:
    entries = [entry.name for entry in registry.entries("kernel")]
    third_party = [name for name in entries if name not in PREFERENCE]
    for candidate in [*third_party, *PREFERENCE]:
        try:
            return _load(candidate, registry)
        except KernelUnavailableError as error:
            logger.warning("kernel %r is skipped: %s", candidate, error)
    raise KernelUnavailableError("no kernel works; reinstall the package `ranking`.")


@functools.cache
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
