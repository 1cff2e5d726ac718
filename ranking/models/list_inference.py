"""Choose the best documents of a query jointly: greedily, or by beam search."""

from __future__ import annotations

import numpy as np

from ranking.kernels.contract import Floats, Ints, Singles

INFERENCES = ("iterative", "greedy", "beam")


def choose_jointly(
    alone: Singles, fits: Singles, k: int, breadth: int, itself: Ints | None = None
) -> Ints:
    """Return the k documents of each query that are best together, in order of rank.

    With a_d the score of a document alone, s_d its embedding by S and w_i = 1/i, rank N of a list
    adds ``w_N a(d_N) + sum_{i <= N} w_i w_N s(d_i) . s(d_N)`` to its value (equation 6 of LaSR).
    After each rank the `breadth` best lists go on; 1 is greedy.

    Parameters
    ----------
    alone : float32 array (queries, documents)
    fits : float32 array (documents, width)
        The embeddings s.
    itself : int64 array (queries), optional
        The document that is the query itself, which is excluded; -1 if there is none.
    """
    own = np.einsum("dw,dw->d", fits, fits, dtype=np.float64)
    k = min(k, fits.shape[0] - (0 if itself is None else 1))
    lists = np.empty((alone.shape[0], k), np.int64)
    for query, scores in enumerate(alone.astype(np.float64)):
        if itself is not None and itself[query] >= 0:
            scores[itself[query]] = -np.inf
        lists[query] = _search(scores, fits.astype(np.float64), own, k, breadth)
    return lists


def _search(alone: Floats, fits: Floats, own: Floats, k: int, breadth: int) -> Ints:
    """Return the best list for one query."""
    lists, values = np.empty((1, 0), np.int64), np.zeros(1)
    contexts = np.zeros((1, fits.shape[1]))
    for rank in range(1, k + 1):
        weight = 1.0 / rank
        gains = weight * alone + weight**2 * own + weight * (contexts @ fits.T)
        totals = values[:, None] + gains
        np.put_along_axis(totals, lists, -np.inf, axis=1)
        flat = totals.ravel()
        count = min(breadth, flat.size)
        best = np.argpartition(-flat, count - 1)[:count]
        best = best[np.lexsort((best, -flat[best]))]
        parents, documents = np.divmod(best, alone.size)
        lists = np.column_stack((lists[parents], documents))
        values, contexts = flat[best], contexts[parents] + weight * fits[documents]
    best_list: Ints = lists[0]
    return best_list


def place_first(scores: Floats, documents: Ints) -> Floats:
    """Return scores that rank some documents of each query before all others, in their order."""
    above = scores.max(axis=1, keepdims=True) + np.arange(documents.shape[1], 0, -1)
    np.put_along_axis(scores, documents, above, axis=1)
    return scores
