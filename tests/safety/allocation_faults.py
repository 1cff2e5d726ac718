"""Train with a kernel whose n-th allocation fails, for n = 1, 2, ...; run by test_allocations.py.

Each time there is a MemoryError with a message, no block is left behind, and the next training
without a fault has the bits of the first.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import warnings

import numpy as np
from scipy import sparse

from ranking import JudgedLists, MatchingData, Ranker

FAULTS = ctypes.CDLL(None)
rng = np.random.default_rng(0)
JUDGED = JudgedLists(rng.normal(size=(24, 3)), rng.integers(0, 3, 24), np.repeat([1, 2, 3], 8))
SPARSE = JudgedLists(sparse.csr_array(JUDGED.features), JUDGED.grades, np.repeat([1, 2, 3], 8))
MATCHING = MatchingData(
    queries=sparse.csr_array(rng.normal(size=(6, 4))),
    documents=sparse.csr_array(rng.normal(size=(7, 4))),
    relevance=sparse.csr_array((rng.random((6, 7)) < 0.5).astype(float)),
)
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
    "row blocks": (
        {
            **{"model": "factored:dimensions=3", "loss": "hinge"},
            "solver": "coordinate:max_epochs=2",
        },
        MATCHING,
    ),
}


def use(parts, data):
    """Train, score and measure; return the bits."""
    ranker = Ranker(**parts, kernel="cython", threads=1).fit(data)
    ranker.evaluate(data, metrics=["map"])
    if isinstance(data, MatchingData):
        ranker.rank(data, k=3)
    return [tensor.tobytes() for tensor in ranker.model_.tensors().values()]


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
        except MemoryError as error:
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
