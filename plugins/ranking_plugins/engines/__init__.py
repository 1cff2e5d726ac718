"""Engines."""

from ranking.contracts.hooks import Lazy, hookimpl


@hookimpl
def ranking_engines() -> dict[str, Lazy]:
    """Return the engines of this distribution."""
    return {
        "local": Lazy(
            "ranking_plugins.engines.local:Local",
            help="This process and its threads.",
        ),
        "ray": Lazy(
            "ranking_plugins.engines.ray:Ray",
            help="Processes on one or several machines, by Ray; needs ranking-kit[ray].",
        ),
    }
