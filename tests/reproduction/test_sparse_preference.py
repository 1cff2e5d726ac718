"""Sparse preference learning on MNIST: the paper's last line, and better."""

from __future__ import annotations

from pathlib import Path

from ranking_plugins.reproductions import Options
from ranking_plugins.reproductions.sparse_preference import COLLECTIONS, METHODS, read, run

STRENGTH = 2.7e-6
"""What the search for 43 % of the weights comes to, nearly."""


def test_refitted_mnist_is_better_than_the_paper(real_data: Path):
    collection = COLLECTIONS[1]
    method = METHODS[-1]
    assert (collection.name, method.name) == ("MNIST", "sparse-sgd-refit")
    options = Options(real_data, False, "auto", 2, 0, lambda text: None)
    train, test = read(collection, options)
    _, row = run(collection, method, f"l1:strength={STRENGTH}", train, test, options, curve=False)
    assert row.metrics["map"] >= 0.68
    assert row.metrics["error"] <= 0.075
    assert row.model_bytes <= 2.2e6
    assert row.metrics["map"] > row.paper["map"]
    assert row.metrics["error"] < row.paper["error"]
