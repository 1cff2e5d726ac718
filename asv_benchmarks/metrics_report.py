"""Print all metrics at once in every kernel next to pytrec_eval's NDCG alone, in one run.

    python -P asv_benchmarks/metrics_report.py

2,000 queries x 1,000 documents; pytrec_eval's input is built before its clock starts.
"""

from __future__ import annotations

import functools
import itertools
import sys
import timeit
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from benchmarks.evaluation import Metrics, TrecEval


def main() -> None:
    """Measure and print."""
    peer = TrecEval()
    peer.setup()
    peer_seconds = min(timeit.repeat(peer.time_ndcg, number=1, repeat=5))
    print(f"pytrec_eval, ndcg alone: {peer_seconds:.3f} s")  # noqa: T201
    for kernel, threads in itertools.product(*Metrics.params):
        ours = Metrics()
        ours.setup(kernel, threads)
        call = functools.partial(ours.time_all, kernel, threads)
        seconds = min(timeit.repeat(call, number=1, repeat=7))
        ratio = peer_seconds / seconds
        print(f"{kernel}, {threads} threads, all: {seconds:.3f} s, {ratio:.1f} x")  # noqa: T201


if __name__ == "__main__":
    main()
