"""Domination Rank (Stevens, 2010) for judged lists."""

from ranking.contracts.recipe import Axis, Recipe, Search

STRENGTHS = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
"""Of the regularizer, from 1 down to 0.001 by half decades."""

METRIC = "ndcg@5(gain=exp2)"


INDUCTION_STRENGTHS = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)


def domination_induction() -> Recipe:
    """Linear model, domination loss, L1, feature induction: few weights, for many features.

    With validation data, the strength of L1 is the best of six, by average precision.
    """
    return Recipe(
        parts={
            "model": "linear",
            "loss": "domination",
            "regularizer": "l1:strength=0.01",
            "solver": "coordinate:sweeps=induced,top=50,max_epochs=10000,tolerance=0.001",
        },
        search=Search("regularizer", "strength", INDUCTION_STRENGTHS, "map"),
    )


def domination() -> Recipe:
    """Linear model, domination loss weighted by gain, L2, coordinate descent.

    With validation data, the margin between neighbouring grades (the slope) and the strength of L2
    are chosen: four margins, for each a path of seven strengths, every training started from the
    previous one.
    """
    return Recipe(
        parts={
            "model": "linear",
            "loss": "domination:weights=gain,margin=grade,slope=0",
            "regularizer": "l2:strength=0.01",
            "solver": "coordinate",
        },
        search=Search(
            part="regularizer",
            parameter="strength",
            values=STRENGTHS,
            metric=METRIC,
            outer=Axis("loss", "slope", (0.0, 0.5, 1.0, 2.0)),
        ),
    )
