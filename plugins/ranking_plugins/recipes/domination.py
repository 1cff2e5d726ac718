"""Domination Rank (Stevens, 2010) for judged lists."""

from ranking.contracts.recipe import Recipe, Search


def domination() -> Recipe:
    """Linear model, domination loss, L2, coordinate descent.

    With validation data, the strength of L2 is the best of seven from 1 down to 0.001, by
    half decades, each training started from the one before and stopped early.
    """
    return Recipe(
        parts={
            "model": "linear",
            "loss": "domination",
            "regularizer": "l2:strength=0.001",
            "solver": "coordinate",
        },
        search=Search(
            part="regularizer",
            parameter="strength",
            values=(1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001),
            metric="ndcg@10",
        ),
    )
