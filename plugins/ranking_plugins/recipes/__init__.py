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
        "domination-induction": Lazy(
            "ranking_plugins.recipes.domination:domination_induction",
            help="Domination Rank with feature induction and L1: few weights.",
        ),
        "pamir": Lazy(
            "ranking_plugins.recipes.pamir:pamir",
            help="PAMIR: one weight per pair of words, by passive-aggressive steps.",
        ),
        "identity": Lazy(
            "ranking_plugins.recipes.sparse_preference:identity",
            help="The cosine of queries and documents, without training.",
        ),
        "diagonal": Lazy(
            "ranking_plugins.recipes.sparse_preference:diagonal",
            help="One weight per word, by SGD.",
        ),
        "sgd-fixed": Lazy(
            "ranking_plugins.recipes.sparse_preference:sgd_fixed",
            help="One weight per pair of words, by SGD with a constant learning rate.",
        ),
        "sgd-decaying": Lazy(
            "ranking_plugins.recipes.sparse_preference:sgd_decaying",
            help="One weight per pair of words, by SGD with a decreasing learning rate.",
        ),
        "sparse-sgd": Lazy(
            "ranking_plugins.recipes.sparse_preference:sparse_sgd",
            help="sgd-decaying with cumulative L1: a sparse, readable matrix.",
        ),
        "sparse-sgd-refit": Lazy(
            "ranking_plugins.recipes.sparse_preference:sparse_sgd_refit",
            help="sparse-sgd, refitted without L1 on the remaining weights.",
        ),
        "svd": Lazy(
            "ranking_plugins.recipes.baselines:svd",
            help="Singular value decomposition of the relevance matrix.",
        ),
        "nmf": Lazy(
            "ranking_plugins.recipes.baselines:nmf",
            help="Non-negative factorization of the relevance matrix.",
        ),
        "one-vs-rest": Lazy(
            "ranking_plugins.recipes.baselines:one_vs_rest",
            help="One logistic regression per document, from the features of the queries.",
        ),
        "rank-svm": Lazy(
            "ranking_plugins.recipes.baselines:rank_svm",
            help="RankSVM: one weight per pair of features by the pairwise hinge, with L2.",
        ),
        "rank-svm-linear": Lazy(
            "ranking_plugins.recipes.baselines:rank_svm_linear",
            help="RankSVM for judged lists: one weight per feature by the pairwise hinge, with L2.",
        ),
        "warp": Lazy(
            "ranking_plugins.recipes.factored:warp",
            help="Embeddings by WARP: the top of the list, from clicks, with or without features.",
        ),
        "wsabie": Lazy(
            "ranking_plugins.recipes.factored:warp", help="WARP, under the name of its paper."
        ),
        "auc": Lazy(
            "ranking_plugins.recipes.factored:auc",
            help="Embeddings by the share of pairs in order.",
        ),
        "bpr": Lazy(
            "ranking_plugins.recipes.factored:bpr",
            help="Embeddings by Bayesian personalized ranking.",
        ),
        "lasr": Lazy(
            "ranking_plugins.recipes.factored:lasr",
            help="Latent structured ranking: WARP, then a stage that uses its top documents.",
        ),
        "rmls": Lazy(
            "ranking_plugins.recipes.matching:rmls",
            help="Matching from clicks: sparse embeddings of one norm, by alternating half-steps.",
        ),
        "rmls-large-margin": Lazy(
            "ranking_plugins.recipes.matching:rmls_large_margin",
            help="RMLS with a margin: half-steps by SGD, with the other side frozen.",
        ),
        "pls": Lazy(
            "ranking_plugins.recipes.matching:pls",
            help="Matching from clicks: partial least squares, by the same half-steps.",
        ),
        "lsi": Lazy(
            "ranking_plugins.recipes.matching:lsi",
            help="The singular value decomposition of the clicks.",
        ),
    }
