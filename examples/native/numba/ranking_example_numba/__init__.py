"""Parts for ranking, by numba."""

from ranking.contracts import Lazy, hookimpl


@hookimpl
def ranking_losses():
    """Return the losses."""
    return {
        "numba-smooth-hinge": Lazy(
            "ranking_example_numba.parts:SmoothHinge", help="The hinge, its corner rounded."
        ),
        "numba-softmax": Lazy(
            "ranking_example_numba.parts:Softmax", help="Softmax cross entropy of a list."
        ),
    }
