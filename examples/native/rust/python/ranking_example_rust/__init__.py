"""A part for ranking, in Rust by PyO3."""

from ranking.contracts import Lazy, hookimpl


@hookimpl
def ranking_losses():
    """Return the loss."""
    return {
        "rust-smooth-hinge": Lazy(
            "ranking_example_rust.parts:SmoothHinge", help="The hinge, its corner rounded."
        )
    }
