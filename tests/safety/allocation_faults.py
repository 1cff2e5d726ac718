"""Train with a kernel whose n-th allocation fails, for n = 1, 2, ...; run by test_allocations.py.

Each time there is a MemoryError with a message, no block is left behind, and the next training
without a fault has the bits of the first.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
from scipy import sparse

from ranking import JudgedLists, MatchingData, Ranker, get_kernel
from ranking.data.readers.letor import Letor
from ranking.errors import DataError

FAULTS = ctypes.CDLL(None)
rng = np.random.default_rng(0)
JUDGED = JudgedLists(rng.normal(size=(24, 3)), rng.integers(0, 3, 24), np.repeat([1, 2, 3], 8))
SPARSE = JudgedLists(sparse.csr_array(JUDGED.features), JUDGED.grades, np.repeat([1, 2, 3], 8))
MATCHING = MatchingData(
    queries=sparse.csr_array(rng.normal(size=(6, 4))),
    documents=sparse.csr_array(rng.normal(size=(7, 4))),
    relevance=sparse.csr_array((rng.random((6, 7)) < 0.5).astype(float)),
)
CLICKS = MatchingData(relevance=MATCHING.relevance)
SGD = "sgd:max_steps=40,steps_per_epoch=20"
CASES = {
    "domination": ({"loss": "domination"}, JUDGED),
    "domination, sparse": ({"loss": "domination"}, SPARSE),
    "pairwise lists": ({"loss": "logistic", "solver": "coordinate:max_epochs=2"}, JUDGED),
    "bilinear": (
        {"model": "bilinear", "loss": "hinge", "regularizer": "l1:strength=0.001", "solver": SGD},
        MATCHING,
    ),
    "factored": ({"model": "factored:dimensions=3", "loss": "warp", "solver": SGD}, MATCHING),
    "listwise": ({"model": "factored:dimensions=3", "loss": "domination", "solver": SGD}, MATCHING),
    "alternating": (
        {
            **{"model": "factored:dimensions=3", "loss": "alignment", "regularizer": "l1l2-row"},
            "solver": "alternating:max_epochs=2",
        },
        MATCHING,
    ),
    "bilinear, passive-aggressive": (
        {"model": "bilinear", "loss": "hinge", "solver": "passive-aggressive:max_steps=40"},
        MATCHING,
    ),
    "shared lists": (
        {
            **{"model": "factored:dimensions=3,biases=false", "loss": "softmax"},
            "solver": "sgd:max_steps=40,steps_per_epoch=20,n_negatives=3",
        },
        MATCHING,
    ),
    "item columns": (
        {
            **{"model": "item-item", "loss": "squared", "regularizer": "elastic:strength=0.1"},
            "solver": "coordinate:max_epochs=2",
        },
        CLICKS,
    ),
    "squared half steps": (
        {
            **{"model": "factored:dimensions=3,biases=false", "loss": "squared:unobserved=0.1"},
            **{"regularizer": "l2:strength=0.1", "solver": "alternating:max_epochs=2"},
        },
        CLICKS,
    ),
    "sparse half steps": (
        {
            **{"model": "sparse-factored:dimensions=9", "loss": "alignment"},
            **{"regularizer": "l1l2-row:strength=0.3", "solver": "alternating:max_epochs=2"},
        },
        MATCHING,
    ),
    "listwise, bilinear": ({"model": "bilinear", "loss": "domination", "solver": SGD}, MATCHING),
    "factored, two threads": (
        {
            **{"model": "factored:dimensions=3", "loss": "warp", "threads": 2},
            "solver": "sgd:max_steps=400,steps_per_epoch=200",
        },
        MATCHING,
    ),
    "domination, two threads": ({"loss": "domination", "threads": 2}, SPARSE),
    "letor": ({}, b"1 qid:1 2:1 1:2\n0 qid:1 3:1 1:1 2:4\n"),
    "row blocks": (
        {
            **{"model": "factored:dimensions=3", "loss": "hinge"},
            "solver": "coordinate:max_epochs=2",
        },
        MATCHING,
    ),
}


def use(parts, data):
    """Train, score and measure; return the bits. Bytes are a file to be read."""
    if isinstance(data, bytes):
        return read(data)
    ranker = Ranker(**{"threads": 1, **parts}, kernel="cython").fit(data)
    ranker.evaluate(data, metrics=["map"])
    if isinstance(data, MatchingData):
        ranker.rank(data, k=3)
    return [tensor.tobytes() for tensor in ranker.model_.tensors().values()]


def read(content):
    """Read LETOR text; return the bits."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.txt"
        path.write_bytes(content)
        data = Letor(kernel=get_kernel("cython")).read(path)
    return [np.asarray(getattr(data.features, "data", data.features)).tobytes()]


def run(name):
    """Let every allocation of a case fail in turn; return how many there were."""
    parts, data = CASES[name]
    expected, number = use(parts, data), 0
    while True:
        number += 1
        FAULTS.faults_arm(number)
        message = None
        try:
            use(parts, data)
        except (MemoryError, DataError) as error:  # a reader says which file does not fit
            message = str(error)
        gc.collect()
        failed, live = FAULTS.faults_disarm(), FAULTS.faults_live()
        if not failed:
            assert message is None
            return number - 1
        assert message, f"{name}, allocation {number}: message {message!r}"
        assert live <= 0, f"{name}, allocation {number}: {live} blocks are left"
        assert use(parts, data) == expected


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for case in sys.argv[1:] or CASES:
        print(f"{case}: {run(case)} allocations", flush=True)  # noqa: T201
