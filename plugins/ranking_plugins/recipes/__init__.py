"""Recipes: named combinations of parts."""

from typing import Final

from ranking.contracts.hooks import Lazy, hookimpl

RECIPES: Final = {
    "domination": (
        "domination:domination",
        "Domination Rank: a linear model for judged lists, by coordinate descent.",
    ),
    "domination-induction": (
        "domination:domination_induction",
        "Domination Rank with feature induction and L1: few weights.",
    ),
    "pamir": ("pamir:pamir", "PAMIR: one weight per pair of words, by passive-aggressive steps."),
    "identity": (
        "sparse_preference:identity",
        "The cosine of queries and documents, without training.",
    ),
    "cosine": ("sparse_preference:identity", "The cosine of tf-idf, as recipe identity."),
    "bm25": ("text_retrieval:bm25", "BM25 (Lucene's variant), without training."),
    "lm-dirichlet": (
        "text_retrieval:lm_dirichlet",
        "The query's likelihood in the document's language model, without training.",
    ),
    "bm25-warp": (
        "text_retrieval:bm25_warp",
        "BM25, and which phrases of queries lead to which document, by WARP.",
    ),
    "bm25-hinge": (
        "text_retrieval:bm25_hinge",
        "One weight per pair of words by the hinge with L1, starting from BM25.",
    ),
    "diagonal": ("sparse_preference:diagonal", "One weight per word, by SGD."),
    "sgd-fixed": (
        "sparse_preference:sgd_fixed",
        "One weight per pair of words, by SGD with a constant learning rate.",
    ),
    "sgd-decaying": (
        "sparse_preference:sgd_decaying",
        "One weight per pair of words, by SGD with a decreasing learning rate.",
    ),
    "sparse-sgd": (
        "sparse_preference:sparse_sgd",
        "sgd-decaying with cumulative L1: a sparse, readable matrix.",
    ),
    "sparse-sgd-refit": (
        "sparse_preference:sparse_sgd_refit",
        "sparse-sgd, refitted without L1 on the remaining weights.",
    ),
    "popularity": ("baselines:popularity", "The most popular items, the same for all users."),
    "item-knn": (
        "baselines:item_knn",
        "Nearest neighbours of items, by the cosine of their users.",
    ),
    "svd": ("baselines:svd", "Singular value decomposition of the relevance matrix."),
    "nmf": ("baselines:nmf", "Non-negative factorization of the relevance matrix."),
    "one-vs-rest": (
        "baselines:one_vs_rest",
        "One logistic regression per document, from the features of the queries.",
    ),
    "rank-svm": (
        "baselines:rank_svm",
        "RankSVM: one weight per pair of features by the pairwise hinge, with L2.",
    ),
    "rank-svm-linear": (
        "baselines:rank_svm_linear",
        "RankSVM for judged lists: one weight per feature by the pairwise hinge, with L2.",
    ),
    "warp": (
        "factored:warp",
        "Embeddings by WARP: the top of the list, from clicks, with or without features.",
    ),
    "wsabie": ("factored:warp", "WARP, under the name of its paper."),
    "auc": ("factored:auc", "Embeddings by the share of pairs in order."),
    "bpr": ("factored:bpr", "Embeddings by Bayesian personalized ranking."),
    "softmax": (
        "shared_negatives:softmax",
        "Embeddings with cosine scores by the softmax over many shared negatives.",
    ),
    "softmax-at-k": (
        "shared_negatives:softmax_at_k",
        "Embeddings with cosine scores by the softmax, weighted for the top k (SL@K).",
    ),
    "ccl": (
        "shared_negatives:ccl",
        "Embeddings by the cosine contrastive loss of SimpleX.",
    ),
    "lasr": (
        "factored:lasr",
        "Latent structured ranking: WARP, then a stage that uses its top documents.",
    ),
    "rmls": (
        "matching:rmls",
        "Matching from clicks: sparse embeddings of one norm, by alternating half-steps.",
    ),
    "rmls-large-margin": (
        "matching:rmls_large_margin",
        "RMLS with a margin: half-steps by SGD, with the other side frozen.",
    ),
    "pls": ("matching:pls", "Matching from clicks: partial least squares, by the same half-steps."),
    "graph-filter": (
        "recommenders:graph_filter",
        "Items of a history filtered by the graph of items: no training loop.",
    ),
    "ials": (
        "recommenders:ials",
        "Embeddings by weighted least squares over all pairs, alternating.",
    ),
    "ease": (
        "recommenders:ease",
        "Item-item weights by ridge regression, in closed form.",
    ),
    "slim": (
        "recommenders:slim",
        "Sparse item-item weights by the elastic net, by coordinate descent.",
    ),
    "recommend": (
        "recommenders:recommend",
        "The best of several families of recommenders on held-out positives, or a sum of two.",
    ),
    "regression": ("judged_lists:regression", "Linear regression on grades, with L2."),
    "listnet": (
        "judged_lists:listnet",
        "ListNet, linear: cross entropy of the softmax of grades and that of scores.",
    ),
    "listmle": ("judged_lists:listmle", "ListMLE, linear: likelihood of the order of grades."),
    "lambdarank": (
        "judged_lists:lambdarank",
        "LambdaRank, linear: pairs weighted by the change of NDCG.",
    ),
    "approx-ndcg": ("judged_lists:approx_ndcg", "NDCG with smooth ranks, linear."),
    "adarank-map": (
        "judged_lists:adarank_map",
        "AdaRank: features boosted by average precision.",
    ),
    "adarank-ndcg": ("judged_lists:adarank_ndcg", "AdaRank: features boosted by NDCG@5."),
    "rankboost": (
        "judged_lists:rankboost",
        "RankBoost: thresholds of features boosted on preference pairs.",
    ),
    "mart": ("judged_lists:mart", "MART: regression trees on grades (extra `trees`)."),
    "lambdamart": (
        "judged_lists:lambdamart",
        "LambdaMART: trees by the gradients of LambdaRank (extra `trees`).",
    ),
    "lsi": ("matching:lsi", "The singular value decomposition of the clicks."),
    "lsi-documents": (
        "matching:lsi_documents",
        "Latent semantic indexing: the singular value decomposition of documents by terms.",
    ),
    "combine": (
        "text_retrieval:combine",
        "A weighted sum of trained models, tuned by a metric on validation data.",
    ),
    "random-walk": ("matching:random_walk", "Random walks on the click graph."),
    "ssi": (
        "matching:ssi",
        "Supervised semantic indexing: q'(U'V + I) d by preferences of clicks.",
    ),
    "svdfeature": (
        "matching:svdfeature",
        "Feature-based factorization with biases, fitted to clicks.",
    ),
    "bltm": ("matching:bltm", "Bilingual topic model: topics that queries and documents share."),
}
"""The module and function of each recipe, and its description."""


@hookimpl
def ranking_recipes() -> dict[str, Lazy]:
    """Return the recipes of this distribution."""
    return {
        name: Lazy(f"{__name__}.{address}", help=text) for name, (address, text) in RECIPES.items()
    }
