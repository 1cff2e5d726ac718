"""Recipes: parts that belong together, by name."""

from ranking.registry import Lazy, hookimpl


@hookimpl
def ranking_recipes() -> dict[str, Lazy]:
    """Return the recipes of this distribution."""
    return {
        "domination": Lazy(
            "ranking_plugins.recipes.domination:domination",
            help="Domination Rank: a linear model for judged lists, by coordinate descent.",
        ),
    }
