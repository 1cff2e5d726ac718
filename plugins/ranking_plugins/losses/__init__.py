"""Losses."""

from ranking.registry import Lazy, hookimpl


@hookimpl
def ranking_losses() -> dict[str, Lazy]:
    """Return the losses of this distribution."""
    return {
        "domination": Lazy(
            "ranking_plugins.losses.domination:Domination",
            help="Each item against all that it must outrank: log(1 + sum exp).",
        ),
    }
