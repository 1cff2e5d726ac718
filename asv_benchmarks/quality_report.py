"""Print how long recipe `warp` takes to reach the precision that LightFM has after 30 epochs.

    python -P asv_benchmarks/quality_report.py

MovieLens 1M from $RANKING_DATA, or synthetic likes of its shape; one thread, 32 dimensions. LightFM
is `pip install lightfm-next`. Seconds are those of the clock, of training alone.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from lightfm import LightFM
from lightfm.evaluation import precision_at_k

sys.path.insert(0, str(Path(__file__).parent))
from benchmarks.interactions import read_likes

from ranking import MatchingData, Ranker
from ranking.registry import get_registry

EPOCHS = 30


def narrow(matrix: sp.csr_array) -> sp.coo_matrix:
    """Return a matrix with the indices that LightFM takes."""
    parts = matrix.tocoo()
    places = (parts.row.astype(np.int32), parts.col.astype(np.int32))
    return sp.coo_matrix((parts.data, places), shape=parts.shape)


def main() -> None:
    """Train both, one after the other."""
    likes = read_likes()
    train, test = narrow(likes.train), narrow(likes.test).tocsr()
    peer = LightFM(no_components=32, loss="warp", random_state=0)
    start = time.perf_counter()
    peer.fit(train, epochs=EPOCHS, num_threads=1)
    seconds = time.perf_counter() - start
    goal = float(precision_at_k(peer, test, train_interactions=train.tocsr(), k=10).mean())
    print(f"LightFM: {EPOCHS} epochs, {seconds:.1f} s, P@10 {goal:.4f}")  # noqa: T201

    known, held_out = (MatchingData(None, None, part) for part in (likes.train, likes.test))
    ranker = Ranker(**get_registry().create("recipe", "warp").parts)
    spent, result, epochs = 0.0, 0.0, 0
    while result < goal and epochs < EPOCHS:
        start = time.perf_counter()
        ranker.partial_fit(known, steps=likes.train.nnz)
        spent += time.perf_counter() - start
        result = ranker.score(held_out, metric="p@10(empty=skip)", exclude=known)
        epochs += 1
    print(  # noqa: T201
        f"recipe warp, {ranker.kernel_.name}: {epochs} epochs, {spent:.1f} s, P@10 {result:.4f}\n"
        f"LightFM takes {seconds / spent:.1f} x"
    )


if __name__ == "__main__":
    main()
