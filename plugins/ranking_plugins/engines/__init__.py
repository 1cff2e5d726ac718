"""Engines."""

from ranking.registry import Lazy, hookimpl


@hookimpl
def ranking_engines() -> dict[str, Lazy]:
    """Return the engines of this distribution."""
    return {
        "local": Lazy(
            "ranking_plugins.engines.local:Local",
            help="All in this process, with its threads.",
        ),
        "ray": Lazy(
            "ranking_plugins.engines.ray:Ray",
            help="Processes of this machine or of several, by Ray; needs ranking-kit[ray].",
        ),
    }
