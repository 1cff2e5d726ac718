"""Names of metrics in other tools, and the names here."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Final

FOREIGN: Final = {
    "ap": "map",
    "average_precision": "map",
    "gm_map": "map",
    "arp": "popularity",
    "catalog_coverage": "coverage",
    "ild": "diversity",
    "intra_list_diversity": "diversity",
    "item_coverage": "coverage",
    "expected_reciprocal_rank": "err",
    "popularity_bias": "popularity",
    "rank_biased_precision": "rbp",
    "self_information": "novelty",
    "hit_rate": "hit",
    "hitrate": "hit",
    "hits": "hit",
    "hr": "hit",
    "label_ranking_average_precision": "map",
    "mean_average_precision": "map",
    "mean_reciprocal_rank": "mrr",
    "ndcg_score": "ndcg",
    "normalized_discounted_cumulative_gain": "ndcg",
    "prec": "p",
    "precision": "p",
    "r_prec": "r-precision",
    "rank": "mean-rank",
    "reciprocal_rank": "mrr",
    "recip_rank": "mrr",
    "roc_auc": "auc",
    "rprec": "r-precision",
    "rr": "mrr",
    "set_p": "p",
    "set_recall": "recall",
    "success": "hit",
}
"""Names in trec_eval, ir-measures, PyTerrier, LensKit and scikit-learn, in lower case."""

EQUAL: Final = {
    **{"ap": "map", "bpref": "bpref", "map": "map", "mrr": "mrr", "ndcg": "ndcg", "p": "p"},
    **{"ndcg_cut": "ndcg", "precision": "precision", "r": "recall", "recall": "recall"},
    **{"recip_rank": "mrr", "rprec": "r-precision", "rr": "mrr", "success": "hit"},
}
"""Names in trec_eval, pytrec_eval and ir-measures, in lower case, of the metrics that are equal."""

TREC = re.compile(r"(?P<name>[A-Za-z_]+?)(?:[@_.](?P<k>[0-9]+))?(?P<options>\(.*\))?")
SPELLING = re.compile(r"(?P<name>.*?)(?:(?:@|_cut_|_at_|_|-|\.)(?P<k>[0-9]+))?")
NO_CUTOFF = ("map", "auc", "bpref", "r-precision", "mean-rank", "letor-map")


def translate_metric(text: str) -> str:
    """Return the name here of a metric that is spelled as in trec_eval or ir-measures.

    Examples
    --------
    >>> [translate_metric(text) for text in ("nDCG@10", "ndcg_cut.5", "P_10(empty=skip)", "hr@5")]
    ['ndcg@10', 'ndcg@5', 'p@10(empty=skip)', 'hr@5']
    """
    match = TREC.fullmatch(text.strip())
    name = None if match is None else EQUAL.get(match["name"].lower())
    if match is None or name is None:
        return text
    cutoff = "" if match["k"] is None else f"@{match['k']}"
    return f"{name}{cutoff}{match['options'] or ''}"


def suggest_metric(text: str, valid: Sequence[str]) -> str:
    """Return the metric that is meant by another name, or an empty string.

    Examples
    --------
    >>> names = ["ndcg", "map", "p", "recall", "mrr", "hit"]
    >>> [suggest_metric(text, names) for text in ("ndcg_cut_10", "P_5", "MRR", "success_1")]
    ['ndcg@10', 'p@5', 'mrr', 'hit@1']
    """
    match = SPELLING.fullmatch(text.strip().partition("(")[0])
    if match is None:
        return ""
    word, cutoff = match["name"].lower().replace("-", "_"), match["k"]
    name = FOREIGN.get(word, "")
    if name not in valid:
        close = difflib.get_close_matches(word.replace("_", "-"), list(valid), n=1)
        name = close[0] if close else ""
    if not name or cutoff is None or name in NO_CUTOFF:
        return name
    return f"{name}@{cutoff}"
