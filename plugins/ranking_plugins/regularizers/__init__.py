"""Regularizers."""

from ranking.registry import Lazy, hookimpl


@hookimpl
def ranking_regularizers() -> dict[str, Lazy]:
    """Return the regularizers of this distribution."""
    return {
        "l1": Lazy(
            "ranking_plugins.regularizers.l1:L1", help="strength * |w|: makes weights exactly zero."
        ),
        "l2": Lazy(
            "ranking_plugins.regularizers.l2:L2", help="strength/2 * w^2: keeps weights small."
        ),
        "max-norm": Lazy(
            "ranking_plugins.regularizers.max_norm:MaxNorm",
            help="norm of each row <= limit: vectors that grow beyond it are scaled back.",
        ),
        "l1l2-row": Lazy(
            "ranking_plugins.regularizers.l1l2_row:L1L2Row",
            help="strength * |row| within norm <= limit: sparse rows, as RMLS has them.",
        ),
        "l1-row": Lazy(
            "ranking_plugins.regularizers.l1_row:L1Row",
            help="sum |row| <= limit: degenerates for alignment; l1l2-row does not.",
        ),
        "orthonormal": Lazy(
            "ranking_plugins.regularizers.orthonormal:Orthonormal",
            help="orthogonal columns of one length: by retraction to the polar factor.",
        ),
        "elastic": Lazy(
            "ranking_plugins.regularizers.elastic:Elastic",
            help="l1 and l2 in given shares: some weights zero, the others small.",
        ),
        "group-l1": Lazy(
            "ranking_plugins.regularizers.group_l1:GroupL1",
            help="strength * norm by groups: whole rows or columns become zero.",
        ),
        "none": Lazy("ranking_plugins.regularizers.none:NoPenalty", help="No penalty."),
    }
