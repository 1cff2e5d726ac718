"""Parts for ranking, by Cython."""

from ranking.contracts import Lazy, hookimpl


@hookimpl
def ranking_losses():
    """Return the loss."""
    return {
        "cython-smooth-hinge": Lazy(
            "ranking_example_cython.parts:SmoothHinge", help="The hinge, its corner rounded."
        )
    }


@hookimpl
def ranking_regularizers():
    """Return the regularizer."""
    return {"cython-box": Lazy("ranking_example_cython.parts:Box", help="No entry beyond a limit.")}
