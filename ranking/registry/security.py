"""Which plugins may be loaded: an off switch, an allow-list and a block-list, by distribution."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Final

OURS: Final = ("ranking", "ranking-rust")
"""The distributions of this project; the off switch and the allow-list are about all others."""

SWITCH: Final = "RANKING_PLUGINS"
ALLOWED: Final = "RANKING_ALLOWED_PLUGINS"
DISABLED: Final = "RANKING_DISABLED_PLUGINS"


class Trust:
    """Says of a plugin why it may not be loaded, if it may not.

    Parameters
    ----------
    allowed : iterable of str, optional
        Distributions, or ``distribution:plugin``, that may be loaded beside `OURS`; by default
        those of RANKING_ALLOWED_PLUGINS, none if RANKING_PLUGINS is ``off``, and all if neither
        is set.
    disabled : iterable of str, optional
        Those that may not, whoever they are; by default those of RANKING_DISABLED_PLUGINS.
    """

    def __init__(
        self, allowed: Iterable[str] | None = None, disabled: Iterable[str] | None = None
    ) -> None:
        self._refusal = "is not in the list of plugins that are allowed"
        self._allowed: frozenset[str] | None = None
        if allowed is not None:
            self._allowed = _words(allowed)
        elif os.environ.get(SWITCH, "").strip().lower() == "off":
            self._allowed, self._refusal = frozenset(), f"switched off by {SWITCH}=off"
        elif ALLOWED in os.environ:
            self._allowed = _words(os.environ[ALLOWED].split(","))
            self._refusal = f"not loaded: it is not in {ALLOWED}"
        if disabled is None:
            disabled = os.environ.get(DISABLED, "").split(",")
        self._disabled = _words(disabled)

    def refusal(self, distribution: str, plugin: str) -> str:
        """Return why this plugin may not be loaded, or an empty string if it may."""
        home = canonical(distribution)
        names = {home, f"{home}:{plugin}"}
        if names & self._disabled:
            return "switched off"
        if self._allowed is None or home in OURS or names & self._allowed:
            return ""
        return self._refusal


def canonical(distribution: str) -> str:
    """Spell the name of a distribution as installers compare it: ``My_Plugin`` is ``my-plugin``."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def _words(given: Iterable[str]) -> frozenset[str]:
    words = [word.strip().partition(":") for word in given if word.strip()]
    return frozenset(canonical(home) + colon + plugin for home, colon, plugin in words)
