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
            help="PAMIR: one weight a pair of words, by passive-aggressive steps.",
        ),
        "identity": Lazy(
            "ranking_plugins.recipes.sparse_preference:identity",
            help="The cosine of queries and documents; nothing is learnt.",
        ),
        "diagonal": Lazy(
            "ranking_plugins.recipes.sparse_preference:diagonal",
            help="One weight a word, by SGD.",
        ),
        "sgd-fixed": Lazy(
            "ranking_plugins.recipes.sparse_preference:sgd_fixed",
            help="One weight a pair of words, by SGD at a fixed rate.",
        ),
        "sgd-decaying": Lazy(
            "ranking_plugins.recipes.sparse_preference:sgd_decaying",
            help="One weight a pair of words, by SGD at a decaying rate.",
        ),
        "sparse-sgd": Lazy(
            "ranking_plugins.recipes.sparse_preference:sparse_sgd",
            help="The same with cumulative L1: a sparse, readable matrix.",
        ),
        "sparse-sgd-refit": Lazy(
            "ranking_plugins.recipes.sparse_preference:sparse_sgd_refit",
            help="The same, refitted without L1 on what is left.",
        ),
        "svd": Lazy(
            "ranking_plugins.recipes.baselines:svd",
            help="Singular value decomposition of the relevance matrix.",
        ),
        "nmf": Lazy(
            "ranking_plugins.recipes.baselines:nmf",
            help="Non-negative factorisation of the relevance matrix.",
        ),
        "one-vs-rest": Lazy(
            "ranking_plugins.recipes.baselines:one_vs_rest",
            help="One logistic regression a document, from the features of the queries.",
        ),
        "rank-svm": Lazy(
            "ranking_plugins.recipes.baselines:rank_svm",
            help="A weight for each pair of features by the hinge of pairs, with L2.",
        ),
        "rank-svm-linear": Lazy(
            "ranking_plugins.recipes.baselines:rank_svm_linear",
            help="RankSVM for judged lists: one weight a feature by the hinge of pairs, with L2.",
        ),
        "warp": Lazy(
            "ranking_plugins.recipes.factored:warp",
            help="Vectors by WARP: the top of the list, from clicks, with features or without.",
        ),
        "wsabie": Lazy(
            "ranking_plugins.recipes.factored:warp", help="The same, by the name of its paper."
        ),
        "auc": Lazy(
            "ranking_plugins.recipes.factored:auc", help="Vectors by the share of pairs in order."
        ),
        "bpr": Lazy(
            "ranking_plugins.recipes.factored:bpr",
            help="Vectors by Bayesian personalised ranking.",
        ),
        "lasr": Lazy(
            "ranking_plugins.recipes.factored:lasr",
            help="Latent structured ranking: WARP, then a stage that looks at what WARP found.",
        ),
        "rmls": Lazy(
            "ranking_plugins.recipes.matching:rmls",
            help="Matching from clicks: sparse vectors of one length, by alternating half-steps.",
        ),
        "rmls-large-margin": Lazy(
            "ranking_plugins.recipes.matching:rmls_large_margin",
            help="The same with a margin: half-steps by SGD, the other side frozen.",
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
