"""Models: parameters, scoring, saving."""

from ranking.registry import Lazy, hookimpl


@hookimpl
def ranking_models() -> dict[str, Lazy]:
    """Return the models of this distribution."""
    return {
        "linear": Lazy("ranking.models.linear:Linear", help="One weight a feature: w . x."),
    }
