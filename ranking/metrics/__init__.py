"""Metrics and evaluation: trec_eval's definitions by their plain names, LETOR's as ``letor-...``.

`ranking.metrics.parse.parse_metric` creates a metric from its name, and
`ranking.metrics.evaluation` is the one evaluator.
"""

from __future__ import annotations

from ranking.contracts.hooks import Lazy, hookimpl


@hookimpl
def ranking_metrics() -> dict[str, Lazy]:
    """Return the metrics, without importing them."""
    precision = Lazy("ranking.metrics.precision:Precision", help="Precision at k, as in trec_eval.")
    return {
        "ndcg": Lazy("ranking.metrics.ndcg:NDCG", help="NDCG at k or of all, as in trec_eval."),
        "map": Lazy(
            "ranking.metrics.average_precision:AveragePrecision",
            help="Mean average precision, as in trec_eval.",
        ),
        "p": precision,
        "precision": precision,
        "recall": Lazy("ranking.metrics.precision:Recall", help="Recall at k, as in trec_eval."),
        "r-precision": Lazy(
            "ranking.metrics.precision:RPrecision",
            help="Precision at the number of relevant documents: trec_eval's Rprec.",
        ),
        "mrr": Lazy(
            "ranking.metrics.ranks:ReciprocalRank",
            help="One over the rank of the first relevant: trec_eval's recip_rank.",
        ),
        "mean-rank": Lazy(
            "ranking.metrics.ranks:MeanRank", help="The mean rank of the relevant documents."
        ),
        **_of_user_models(),
        **_of_pairs(),
        **_of_letor(),
    }


def _of_user_models() -> dict[str, Lazy]:
    return {
        "hit": Lazy(
            "ranking.metrics.user_models:Hit",
            help="Whether a relevant document is among the first k: trec_eval's success.",
        ),
        "err": Lazy(
            "ranking.metrics.user_models:ExpectedReciprocalRank",
            help="Expected reciprocal rank of graded documents (Chapelle et al., 2009).",
        ),
        "rbp": Lazy(
            "ranking.metrics.user_models:RankBiasedPrecision",
            help="Rank-biased precision (Moffat and Zobel, 2008).",
        ),
        "bpref": Lazy(
            "ranking.metrics.user_models:Bpref",
            help="Judged non-relevant documents above the relevant ones, as in trec_eval.",
        ),
        "coverage": Lazy(
            "ranking.metrics.catalogue:Coverage",
            help="The share of all items that are among the first k of any query.",
        ),
        "novelty": Lazy(
            "ranking.metrics.catalogue:Novelty",
            help="The mean self-information of the first k items.",
        ),
        "diversity": Lazy(
            "ranking.metrics.catalogue:Diversity",
            help="One minus the mean cosine of pairs of the first k items.",
        ),
        "popularity": Lazy(
            "ranking.metrics.catalogue:Popularity",
            help="The mean share of users who have the first k items: popularity bias.",
        ),
    }


def _of_pairs() -> dict[str, Lazy]:
    return {
        "auc": Lazy("ranking.metrics.pairwise:AUC", help="Area under the ROC curve, by query."),
        "pair-error": Lazy(
            "ranking.metrics.pairwise:PairError",
            help="The share of pairs of different grades out of order.",
        ),
        "domination-error": Lazy(
            "ranking.metrics.pairwise:DominationError",
            help="The share of documents not above all that they dominate.",
        ),
        "dominated-error": Lazy(
            "ranking.metrics.preference_graph:DominatedError",
            help="The share of documents not below all that dominate them.",
        ),
        "generalized-error": Lazy(
            "ranking.metrics.preference_graph:GeneralizedError",
            help="The share of subgraphs of the preferences with an edge out of order.",
        ),
        "all-pairs-error": Lazy(
            "ranking.metrics.pairwise:AllPairsError",
            help="The share of pairs (relevant, not relevant) out of order.",
        ),
    }


def _of_letor() -> dict[str, Lazy]:
    return {
        "letor-ndcg": Lazy("ranking.metrics.ndcg:LetorNDCG", help="NDCG as LETOR's script has it."),
        "letor-mean-ndcg": Lazy(
            "ranking.metrics.ndcg:LetorMeanNDCG", help="The mean of LETOR's NDCG over all k."
        ),
        "letor-map": Lazy(
            "ranking.metrics.average_precision:LetorAveragePrecision",
            help="Mean average precision as LETOR's script has it.",
        ),
        "letor-p": Lazy(
            "ranking.metrics.precision:LetorPrecision",
            help="Precision at k as LETOR's script has it.",
        ),
    }
