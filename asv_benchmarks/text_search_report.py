"""Index and search many short texts by BM25: seconds and peak memory.

    python asv_benchmarks/text_search_report.py --documents 1000000

Words are drawn from a Zipf distribution, 8 to 24 per document; queries have three words.
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings

import numpy as np
from scipy import sparse

from ranking import Ranker, TextCollection

N_QUERIES = 100


def collection(n_documents: int, n_words: int = 200_000, seed: int = 0) -> TextCollection:
    """Return generated texts; each query has one relevant document."""
    rng = np.random.default_rng(seed)
    shares = 1.0 / np.arange(1, n_words + 1)
    ends = np.cumsum(shares / shares.sum())
    lengths = rng.integers(8, 25, n_documents)
    words = np.minimum(np.searchsorted(ends, rng.random(int(lengths.sum()))), n_words - 1)
    names = [f"w{at}" for at in range(n_words)]
    stops = np.concatenate(([0], np.cumsum(lengths)))
    texts = [
        " ".join([names[at] for at in words[start:stop].tolist()])
        for start, stop in zip(stops[:-1].tolist(), stops[1:].tolist(), strict=True)
    ]
    sample = rng.integers(n_documents, size=N_QUERIES)
    queries = [" ".join(texts[at].split()[:3]) for at in sample.tolist()]
    ones = (np.ones(N_QUERIES), (np.arange(N_QUERIES), sample))
    relevance = sparse.coo_array(ones, shape=(N_QUERIES, n_documents)).tocsr()
    return TextCollection(np.arange(N_QUERIES), queries, np.arange(n_documents), texts, relevance)


def peak() -> float:
    """Return the largest resident memory so far, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2


def main() -> None:
    """Print seconds of processor time and peak memory after each step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=1_000_000)
    warnings.simplefilter("ignore")
    started = time.process_time()
    data = collection(parser.parse_args().documents)
    print(f"texts      {time.process_time() - started:7.1f} s  {peak():5.2f} GiB", flush=True)  # noqa: T201
    started = time.process_time()
    ranker = Ranker.from_recipe("bm25", features="text:words=none,weighting=bm25").fit(data)
    print(f"index      {time.process_time() - started:7.1f} s  {peak():5.2f} GiB", flush=True)  # noqa: T201
    started = time.process_time()
    results = [list(ranked) for _, ranked in ranker.search(list(data.query_texts), k=10)]
    seconds = time.process_time() - started
    print(f"{len(results)} queries{seconds:7.1f} s  {peak():5.2f} GiB", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
