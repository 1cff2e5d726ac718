"""Plugin security: an off switch, an allow-list and a block-list, by distribution.

Plugins run with the rights of the program as soon as they are imported. The off switch and the
allow-list never apply to plugins of this project. A plugin counts as such only if both its
distribution and the package that its entry point names are this project's: distributions of
others (such as ``ranking``, which is not ours on PyPI) gain nothing from a similar name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Final

OURS: Final = ("ranking-kit", "ranking-kit-rust")
"""The distributions of this project."""

PACKAGES: Final = ("ranking", "ranking_plugins", "ranking_rust")
"""The packages of this project that contain plugins."""

SWITCH: Final = "RANKING_PLUGINS"
ON: Final = ("", "on", "1", "true", "yes", "all")
"""Values of RANKING_PLUGINS that load plugins; any other value, such as off or 0, loads none."""

ALLOWED: Final = "RANKING_ALLOWED_PLUGINS"
DISABLED: Final = "RANKING_DISABLED_PLUGINS"


class PluginSecurity:
    """Decides which plugins may be loaded.

    Parameters
    ----------
    allowed : iterable of str, optional
        Distributions, or ``distribution:plugin``, that may be loaded besides those of this project;
        by default those of RANKING_ALLOWED_PLUGINS, none if RANKING_PLUGINS is ``off`` (or 0,
        false, no, none, or any word that does not mean on), and all if neither is set.
    disabled : iterable of str, optional
        Those that may not be loaded in any case; by default those of RANKING_DISABLED_PLUGINS.
    """

    def __init__(
        self, allowed: Iterable[str] | None = None, disabled: Iterable[str] | None = None
    ) -> None:
        self._reason = "is not in the list of allowed plugins"
        self._allowed: frozenset[str] | None = None
        if allowed is not None:
            self._allowed = _canonical_names(allowed)
        elif (word := os.environ.get(SWITCH, "").strip()).lower() not in ON:
            # A word that is not known switches off too: an unclear switch must not load code.
            self._allowed, self._reason = frozenset(), f"switched off by {SWITCH}={word}"
        elif ALLOWED in os.environ:
            self._allowed = _canonical_names(os.environ[ALLOWED].split(","))
            self._reason = f"not loaded: it is not in {ALLOWED}"
        if disabled is None:
            disabled = os.environ.get(DISABLED, "").split(",")
        self._disabled = _canonical_names(disabled)

    def blocked_reason(self, distribution: str, plugin: str, module: str = "") -> str:
        """Return why a plugin may not be loaded, or an empty string if it may."""
        home = canonical(distribution)
        names = {home, f"{home}:{plugin}"}
        if names & self._disabled:
            return "switched off"
        if self._allowed is None or is_ours(distribution, module) or names & self._allowed:
            return ""
        return self._reason


def is_ours(distribution: str, module: str) -> bool:
    """Return whether an entry point is this project's, by its distribution and its package."""
    package = module.partition(":")[0].partition(".")[0]
    return canonical(distribution) in OURS and package in PACKAGES


def canonical(distribution: str) -> str:
    """Return a distribution name as installers compare it: ``My_Plugin`` is ``my-plugin``."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def _canonical_names(plugins: Iterable[str]) -> frozenset[str]:
    parts = [name.strip().partition(":") for name in plugins if name.strip()]
    return frozenset(canonical(home) + colon + plugin for home, colon, plugin in parts)
