"""Models: parameters, scoring, saving."""

from ranking.registry import Lazy, hookimpl


@hookimpl
def ranking_models() -> dict[str, Lazy]:
    """Return the models of this distribution."""
    return {
        "linear": Lazy("ranking.models.linear:Linear", help="One weight a feature: w . x."),
        "bilinear": Lazy(
            "ranking.models.bilinear:Bilinear",
            help="One weight a pair of features: q' W d, W sparse.",
        ),
        "diagonal": Lazy(
            "ranking.models.bilinear:Diagonal",
            help="One weight a feature that queries and documents share: q' W d, W diagonal.",
        ),
        "factored": Lazy(
            "ranking.models.factored:Factored",
            help="Vectors for queries and documents, made of those of their features: (Uq).(Vd).",
        ),
        "sparse-factored": Lazy(
            "ranking.models.sparse_factored:SparseFactored",
            help="The same with vectors that may be sparse, in memory and in the file.",
        ),
        "structured": Lazy(
            "ranking.models.structured:Structured",
            help="A cascade of factored models, each given the best of the one before (LaSR).",
        ),
    }
