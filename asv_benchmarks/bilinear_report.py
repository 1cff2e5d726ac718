"""Print what training W costs in every kernel, next to a dense loop and SciPy, as ratios.

    python -P asv_benchmarks/bilinear_report.py [--quick] [--kernel NAME]

Texts are synthetic (Zipf's law, about 80 distinct words of 10,000, 20 classes), W starts as the
identity in float32, a fixed rate of 0.5, one thread. Seconds are those of the processor, as
other work may share the machine. Each training runs in a process of its own, whose peak memory
above that of the imports is compared with model and data; a penalised model is largest early on, so
the largest model on the way is named, too.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from benchmarks.common import KERNELS, kernel_or_skip
from benchmarks.texts import identity, make_lists, make_texts

from ranking.kernels.bilinear import BilinearInputs, BilinearWeights
from ranking.kernels.contract import (
    NO_CALL,
    BilinearFeatures,
    Csr,
    PairwiseForm,
    PairwiseLoss,
    UpdateRule,
)
from ranking.kernels.reference.bilinear import dense_train

RATE = 0.5
L1 = 6e-7
"""With it about 7 % of W are left after 100,000 steps."""
EVERY = 100
PARTS = 20


def clock(call: Callable[[], object]) -> float:
    """Return the processor's seconds of one call."""
    start = time.process_time()
    call()
    return time.process_time() - start


def peak() -> int:
    """Return the largest memory of this process so far, in bytes.

    Linux counts into ru_maxrss what the parent had when it forked, so its status is asked first.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def train(kernel: str, n_words: int, n_steps: int, l1: float, n_texts: int) -> dict[str, Any]:
    """Train once, and say what it took."""
    loaded, before = kernel_or_skip(kernel), peak()
    texts, labels = make_texts(n_texts, n_words)
    inputs = BilinearInputs(texts, texts)
    triplets = loaded.sampling.sample_triplets(make_lists(labels), 1, 0, n_steps)
    rates = np.full(n_steps, RATE)
    output = BilinearWeights(loaded, identity(n_words))
    seconds, largest, violated = [], 0, 0.0
    for part in np.array_split(np.arange(n_steps), PARTS):
        rows = slice(part[0], part[-1] + 1)
        start = time.process_time()
        margins, _ = output.train(inputs, triplets[rows], rates[rows], rule=UpdateRule(EVERY, l1))
        seconds.append(time.process_time() - start)
        violated += float(np.sum(margins < 1.0))
        largest = max(largest, output.n_nonzero)
    data = texts.data.nbytes + texts.indices.nbytes + texts.indptr.nbytes + triplets.nbytes
    last = output.n_nonzero
    return {
        "seconds": sum(seconds),
        "late": seconds[-1] / part.size,
        "violated": violated / n_steps,
        "nonzero": last,
        "density": last / n_words**2,
        "bytes": output.store.memory() / last,
        "peak": peak() - before,
        "data": data,
        "model": 8 * last,
        "largest": 8 * largest,
    }


def in_a_process(**arguments: Any) -> dict[str, Any]:
    """Train in a fresh process, so that its peak memory is its own."""
    command = [sys.executable, "-P", __file__, "--train", json.dumps(arguments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def show(name: str, result: dict[str, Any], n_steps: int) -> None:
    """Print one line of a training."""
    share = result["peak"] / (result["model"] + result["data"])
    on_the_way = result["peak"] / (result["largest"] + result["data"])
    print(  # noqa: T201
        f"{name:34}{result['seconds']:9.1f}s{result['seconds'] / n_steps * 1e6:8.0f}"
        f"{result['late'] * 1e6:8.0f}{result['violated']:8.1%}{result['density']:9.2%}"
        f"{result['bytes']:7.1f}{result['peak'] / 2**20:8.0f}{share:7.2f}{on_the_way:7.2f}",
        flush=True,
    )


def report_training(kernel: str, n_steps: int, n_texts: int) -> None:
    """Print the cost of a penalty and the gain over a dense loop."""
    arguments = {"kernel": kernel, "n_words": 10_000, "n_steps": n_steps, "n_texts": n_texts}
    plain = in_a_process(l1=0.0, **arguments)
    show(f"{kernel}, no penalty", plain, n_steps)
    sparse = in_a_process(l1=L1, **arguments)
    show(f"{kernel}, l1", sparse, n_steps)
    dense = dense_seconds(2000 if n_steps >= 100_000 else 200, n_texts) * n_steps
    print(  # noqa: T201
        f"  l1 takes {sparse['seconds'] / plain['seconds']:.2f} x no penalty (goal: at most 1.5)\n"
        f"  a dense NumPy loop would take {dense:.0f}s, {dense / sparse['seconds']:.0f} x l1 "
        "(goal: at least 15)",
        flush=True,
    )


def dense_seconds(n_steps: int, n_texts: int) -> float:
    """Return the seconds of a step of the dense loop, sweeps included."""
    texts, labels = make_texts(n_texts, 10_000)
    triplets = kernel_or_skip("reference").sampling.sample_triplets(
        make_lists(labels), 1, 0, n_steps
    )
    parts, rates = Csr(texts.indptr, texts.indices, texts.data), np.full(n_steps, RATE)
    w, rule = np.eye(10_000), UpdateRule(EVERY, L1)
    features = BilinearFeatures(parts, parts, transposed=False)
    loss = PairwiseLoss(PairwiseForm.HINGE, NO_CALL, np.ones(1), n_texts)
    return clock(lambda: dense_train(w, features, triplets, rates, loss, rule)) / n_steps


def report_widths(kernel: str, n_steps: int, n_texts: int, most: int) -> None:
    """Print the cost of a step by the number of words."""
    for n_words in (10_000, 100_000, 1_000_000):
        steps = most if n_words == 1_000_000 else n_steps
        result = in_a_process(kernel=kernel, n_words=n_words, n_steps=steps, l1=L1, n_texts=n_texts)
        show(f"{kernel}, l1, {n_words} words, {steps} steps", result, steps)


def report_scores(kernel: str, n_queries: int, nonzero: int) -> None:
    """Print the time of scoring next to SciPy's."""
    texts, _ = make_texts(10_000, 10_000)
    rng = np.random.default_rng(0)
    # Columns and rows by Zipf's law, as training leaves them.
    spread = np.sqrt(np.bincount(texts.indices, minlength=10_000) + 1.0)
    rows, columns = (rng.choice(10_000, nonzero, p=spread / spread.sum()) for _ in range(2))
    weights = type(texts)(
        (rng.normal(size=nonzero).astype(np.float32), (rows, columns)), shape=(10_000, 10_000)
    )
    weights.sum_duplicates()
    queries = texts[:n_queries]
    loaded = kernel_or_skip(kernel)
    ours = clock(lambda: loaded.bilinear.scores(queries, weights, texts))
    theirs = clock(lambda: ((queries @ weights) @ texts.T).toarray())
    print(  # noqa: T201
        f"{kernel}, scores of {n_queries} x 10000, {weights.nnz / 1e6:.1f} million weights: "
        f"{ours:.2f}s, SciPy {theirs:.2f}s, {theirs / ours:.1f} x"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the steps or fewer")
    parser.add_argument("--kernel", help="only this kernel")
    parser.add_argument("--train", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train:
        print(json.dumps(train(**json.loads(options.train))))  # noqa: T201
        return
    n_steps, most, n_texts = (10_000, 10_000, 2000) if options.quick else (100_000, 10**6, 11_000)
    print(  # noqa: T201
        f"{'':34}{'cpu':>10}{'us/step':>8}{'late':>8}{'viol.':>8}{'density':>9}{'B/nz':>7}"
        f"{'MiB':>8}{'x m+d':>7}{'x max':>7}"
    )
    for kernel in [options.kernel] if options.kernel else KERNELS:
        try:
            kernel_or_skip(kernel)
        except NotImplementedError as error:
            print(f"{kernel}: left out, {error}")  # noqa: T201
            continue
        report_training(kernel, n_steps, n_texts)
        report_scores(kernel, 100 if options.quick else 1000, 8_000_000)
        report_widths(kernel, n_steps, n_texts, most)


if __name__ == "__main__":
    main()
