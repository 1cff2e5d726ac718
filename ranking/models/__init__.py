"""Models: parameters, scores, tensors."""

from ranking.contracts.hooks import Lazy, hookimpl


@hookimpl
def ranking_models() -> dict[str, Lazy]:
    """Return the models of this distribution."""
    return {
        "linear": Lazy("ranking.models.linear:Linear", help="One weight per feature: w . x."),
        "thresholds": Lazy(
            "ranking.models.thresholds:Thresholds",
            help="A sum of step functions of single features (RankBoost).",
        ),
        "trees": Lazy(
            "ranking.models.trees:Trees", help="A sum of regression trees (MART, LambdaMART)."
        ),
        "bilinear": Lazy(
            "ranking.models.bilinear:Bilinear",
            help="One weight per pair of features: q' W d, W sparse.",
        ),
        "diagonal": Lazy(
            "ranking.models.bilinear:Diagonal",
            help="One weight per feature that queries and documents share: q' W d, W diagonal.",
        ),
        "factored": Lazy(
            "ranking.models.factored:Factored",
            help="Embeddings of queries and documents, sums of those of their features: (Uq).(Vd).",
        ),
        "sparse-factored": Lazy(
            "ranking.models.sparse_factored:SparseFactored",
            help="The factored model with embeddings that may be sparse.",
        ),
        "factored-identity": Lazy(
            "ranking.models.factored_identity:FactoredIdentity",
            help="The factored model plus the inner product of shared features: q'(U'V + I) d.",
        ),
        "topics": Lazy(
            "ranking.models.topics:Topics",
            help="The bilingual topic model: the probability of a query, given a document.",
        ),
        "item-item": Lazy(
            "ranking.models.item_item:ItemItem",
            help="The items of a user's history speak for other items: h' W, W sparse.",
        ),
        "combination": Lazy(
            "ranking.models.combination:Combination",
            help="A weighted sum of the scores of trained models.",
        ),
        "kernel-expansion": Lazy(
            "ranking.models.kernel_expansion:KernelExpansion",
            help="Documents are compared with those of the training data by a kernel function.",
        ),
        "structured": Lazy(
            "ranking.models.structured:Structured",
            help="A cascade of factored models, each given the best of the one before (LaSR).",
        ),
    }
