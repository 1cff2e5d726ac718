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
    "hit": "recall",
    "hit_rate": "recall",
    "hitrate": "recall",
    "hits": "recall",
    "hr": "recall",
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
    "success": "recall",
}
"""Names in trec_eval, ir-measures, PyTerrier, LensKit and scikit-learn, in lower case."""

SPELLING = re.compile(r"(?P<name>.*?)(?:(?:@|_cut_|_at_|_|-|\.)(?P<k>[0-9]+))?")
NO_CUTOFF = ("map", "auc", "r-precision", "mean-rank", "letor-map")


def suggest_metric(text: str, valid: Sequence[str]) -> str:
    """Return the metric that is meant by another name, or an empty string.

    ``success@1`` is the precision at 1. Success and hit rate at other cut-offs are the recall, if
    a query has one relevant document.

    Examples
    --------
    >>> names = ["ndcg", "map", "p", "recall", "mrr"]
    >>> [suggest_metric(text, names) for text in ("ndcg_cut_10", "P_5", "MRR", "success_1")]
    ['ndcg@10', 'p@5', 'mrr', 'p@1']
    """
    match = SPELLING.fullmatch(text.strip().partition("(")[0])
    if match is None:
        return ""
    word, cutoff = match["name"].lower().replace("-", "_"), match["k"]
    name = FOREIGN.get(word, "")
    if name == "recall" and cutoff == "1" and word not in ("recall", "set_recall"):
        name = "p"
    if name not in valid:
        close = difflib.get_close_matches(word.replace("_", "-"), list(valid), n=1)
        name = close[0] if close else ""
    if not name or cutoff is None or name in NO_CUTOFF:
        return name
    return f"{name}@{cutoff}"
