"""BM25 and the random walk against loops."""

from __future__ import annotations

from math import log

import numpy as np
import pytest
import scipy.sparse as sp

from ranking_plugins.reproductions.text_baselines import bm25, random_walk


def test_bm25_is_its_formula(seed):
    rng = np.random.default_rng(seed)
    documents = rng.poisson(0.7, (12, 6)).astype(float)
    queries = rng.poisson(0.4, (4, 6)).astype(float)
    lengths = documents.sum(axis=1)
    matrix = bm25(sp.csr_array(queries), sp.csr_array(documents), k1=1.5, b=0.6)
    for q in range(4):
        for d in range(12):
            expected = 0.0
            for t in range(6):
                n = sum(documents[:, t] > 0)
                c = documents[d, t]
                damping = 1.5 * (1 - 0.6 + 0.6 * lengths[d] / lengths.mean())
                expected += (
                    queries[q, t] * log(1 + (12 - n + 0.5) / (n + 0.5)) * (c * 2.5 / (c + damping))
                )
            assert matrix[q, d] == pytest.approx(expected)


def test_the_walk_is_a_power_of_its_matrix(seed):
    rng = np.random.default_rng(seed)
    clicks = rng.poisson(0.8, (5, 7)).astype(float)
    entries = np.array([[0.2, 0.0, 0.8, 0.0, 0.0]])
    graph = np.block([[np.zeros((5, 5)), clicks], [clicks.T, np.zeros((7, 7))]])
    sums = graph.sum(axis=1, keepdims=True)
    step = 0.9 * np.eye(12) + 0.1 * graph / np.where(sums > 0, sums, 1.0)
    start = np.concatenate((entries[0], np.zeros(7)))
    expected = np.linalg.matrix_power(step, 4) @ start
    matrix = random_walk(sp.csr_array(clicks), sp.csr_array(entries), 4)
    np.testing.assert_allclose(matrix[0], expected[5:])
