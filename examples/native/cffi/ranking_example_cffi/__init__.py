"""A part for ranking, in C by cffi."""

from ranking.contracts import Lazy, hookimpl


@hookimpl
def ranking_losses():
    """Return the loss."""
    return {
        "cffi-smooth-hinge": Lazy(
            "ranking_example_cffi.parts:SmoothHinge", help="The hinge, its corner rounded."
        )
    }
