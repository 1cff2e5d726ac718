"""The k-th largest score of each query, which weights its positives; for SL@K."""

from __future__ import annotations

import numpy as np

from ranking.contracts.loss import TopKWeightedLoss
from ranking.contracts.solver import State, TrainingProblem
from ranking.data.matching_data import MatchingData
from ranking.kernels.contract import Floats, Ints, Singles
from ranking.models.factored import Factored

QUERIES = 1024
"""Queries whose best documents are found in one kernel call."""


class TopKThresholds:
    """Keep the k-th largest scores of all queries for some epochs.

    They are those over all documents at the beginning of every `refresh`-th epoch, and in training
    part by part also at the first step with other queries.
    """

    def __init__(self, loss: TopKWeightedLoss, problem: TrainingProblem) -> None:
        self.loss, self.kernel, self.threads = loss, problem.kernel, problem.threads
        self.period = -1
        self.values: Singles = np.zeros(0, np.float32)

    def due(self, data: MatchingData, epoch: int) -> bool:
        """Return whether it is time to compute the scores again."""
        fresh = epoch // self.loss.refresh == self.period
        return not fresh or self.values.size != data.n_queries

    def update(self, model: Factored, data: MatchingData, epoch: int) -> None:
        """Compute the scores again, at the embeddings of the model."""
        self.period = epoch // self.loss.refresh
        embedding = model.embedding(data, self.kernel, self.threads)
        assert embedding is not None
        queries, documents, biases = embedding
        k = min(self.loss.k, data.n_documents)
        self.values = np.empty(data.n_queries, np.float32)
        for start in range(0, data.n_queries, QUERIES):
            rows = np.ascontiguousarray(queries[start : start + QUERIES])
            best = self.kernel.factored.top_k(rows, documents, biases, k, threads=self.threads)
            self.values[start : start + QUERIES] = best.scores[:, -1]

    def weights(self, queries: Ints, own: Floats | Singles) -> Singles:
        """Return the weights of positives of these queries, from their scores."""
        if not self.values.size:  # before the first step
            return np.ones(queries.size, np.float32)
        thresholds = self.values[queries].astype(np.float64)
        return self.loss.top_k_weights(own.astype(np.float64), thresholds).astype(np.float32)

    def state(self) -> State:
        """Return what `restore` needs."""
        return {"period": np.array([self.period]), "values": self.values.copy()}

    def restore(self, state: State) -> None:
        """Restore what `state` returned."""
        self.period, self.values = int(state["period"][0]), state["values"].copy()
