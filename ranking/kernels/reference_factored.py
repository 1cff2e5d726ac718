"""The reference of the factored loops: composing vectors, stepping, scoring.

It is the normative text for the order of operations (see "Factored" in
:mod:`ranking.kernels.contract`). All arithmetic on parameters is float32.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ranking.kernels.contract import WIDE, Csr, Factors, Ints, PairForm, Singles
from ranking.kernels.reference import exp_one

ZERO, ONE = np.float32(0.0), np.float32(1.0)


def dot(a: Singles, b: Singles) -> np.float32:
    """Add up the products in eight partial sums."""
    sums = np.zeros(WIDE, np.float32)
    for products in (a * b).reshape(-1, WIDE):
        sums += products
    low = (sums[0] + sums[4]) + (sums[2] + sums[6])
    high = (sums[1] + sums[5]) + (sums[3] + sums[7])
    return np.float32(low + high)


class Objects(NamedTuple):
    """Queries or documents by sparse features, or by none: then each is a feature of value 1."""

    features: Csr | None

    def entries(self, row: int) -> list[tuple[int, np.float32]]:
        """Return (feature, value) of an object, in stored order; values are rounded to float32."""
        if self.features is None:
            return [(row, ONE)]
        indptr, indices, data = self.features
        entries = range(int(indptr[row]), int(indptr[row + 1]))
        return [(int(indices[at]), np.float32(data[at])) for at in entries]

    def vector(self, row: int, matrix: Singles) -> Singles:
        """Return the sum of the features' rows; without features, the row itself."""
        if self.features is None:
            own: Singles = matrix[row].copy()
            return own
        total = np.zeros(matrix.shape[1], np.float32)
        for feature, value in self.entries(row):
            total += value * matrix[feature]
        return total

    def bias(self, row: int, biases: Singles) -> np.float32:
        """Return the sum of the features' biases."""
        if self.features is None:
            return np.float32(biases[row])
        total = ZERO
        for feature, value in self.entries(row):
            total = np.float32(total + value * biases[feature])
        return total


def pair_slope(form: int, margin: np.float32) -> np.float32:
    """Return the derivative of an inlined loss; the logistic one in double precision."""
    if form == PairForm.LOGISTIC:
        return np.float32(-1.0 / (1.0 + exp_one(float(margin))))
    if not margin < ONE:
        return ZERO
    return -ONE if form == PairForm.HINGE else np.float32(np.float32(-2.0) * (ONE - margin))


def factored_vectors(features: Csr, matrix: Singles, out: Singles, threads: int) -> None:
    """Compose the vector of each object."""
    for row in range(out.shape[0]):
        out[row] = Objects(features).vector(row, matrix)


def factored_scores(
    queries: Singles, documents: Singles, biases: Singles, out: Singles, threads: int
) -> None:
    """Score composed queries against composed documents."""
    for query in range(out.shape[0]):
        for document in range(out.shape[1]):
            score = dot(queries[query], documents[document])
            out[query, document] = score + biases[document] if biases.size else score


class Step(NamedTuple):
    """What the search for a tuple came to, with the vectors of the block's start."""

    query: int
    better: int
    worse: int
    g: np.float32
    u: Singles
    apart: Singles


class Block:
    """The parameters, and what a block of tuples does to them."""

    def __init__(
        self, queries: Csr | None, documents: Csr | None, factors: Factors, squares: Factors
    ) -> None:
        self.queries, self.documents = Objects(queries), Objects(documents)
        self.factors, self.squares = factors, squares
        self.adagrad = squares[0].size > 0
        self.touched: list[tuple[int, int]] = []

    def score(self, u: Singles, document: int) -> tuple[np.float32, Singles]:
        """Return the score of a document for a query's vector, and the document's vector."""
        _, V, biases = self.factors
        v = self.documents.vector(document, V)
        score = dot(u, v)
        if biases.size:
            score = np.float32(score + self.documents.bias(document, biases))
        return score, v

    def search(
        self, chosen: Ints, form: int, rank_weights: Singles, n_documents: int, rate: np.float32
    ) -> tuple[Step, np.float32, np.float32]:
        """Return a step, its margin and its violation weight."""
        query, better = int(chosen[0]), int(chosen[1])
        u = self.queries.vector(query, self.factors[0])
        high, v_better = self.score(u, better)
        trials, weight = chosen.size - 2, ZERO
        for trial in range(1, trials + 1):
            worse = int(chosen[1 + trial])
            low, v_worse = self.score(u, worse)
            margin = np.float32(high - low)
            if trials == 1 or margin < ONE:
                rank = (n_documents - 1) // trial
                weight = np.float32(rank_weights[min(rank, rank_weights.size - 1)])
                break
        g = np.float32(weight * pair_slope(form, margin))
        if not self.adagrad:
            g = np.float32(rate * g)
        return Step(query, better, worse, g, u, v_better - v_worse), margin, weight

    def change(self, which: int, row: int, y: Singles | np.float32, rate: np.float32) -> None:
        """Subtract a gradient from a row of U (0), of V (1) or from a bias (2)."""
        parameter, squares = self.factors[which], self.squares[which]
        if self.adagrad:
            squares[row] += y * y
            parameter[row] -= (rate * y) / np.sqrt(squares[row])
        else:
            parameter[row] -= y
        if which < 2:
            self.touched.append((which, row))

    def take(self, step: Step, rate: np.float32) -> None:
        """Subtract the gradients of a tuple: the query's, then the better and the worse one's."""
        if step.g == ZERO:
            return
        for feature, value in self.queries.entries(step.query):
            self.change(0, feature, (step.g * value) * step.apart, rate)
        for document, g in ((step.better, step.g), (step.worse, -step.g)):
            for feature, value in self.documents.entries(document):
                self.change(1, feature, (g * value) * step.u, rate)
                if self.factors[2].size:
                    self.change(2, feature, np.float32(g * value), rate)

    def project(self, max_norm: np.float32, l2: np.float32, rate: np.float32) -> None:
        """Shrink every row that was changed, once, and scale it to the largest norm allowed."""
        for which, row in dict.fromkeys(self.touched):
            vector = self.factors[which][row]
            if l2 > ZERO:
                vector *= ONE / (ONE + l2 * rate)
            square = dot(vector, vector)
            if max_norm > ZERO and square > max_norm * max_norm:
                vector *= max_norm / np.sqrt(square)


def factored_steps(
    queries: Csr | None,
    documents: Csr | None,
    tuples: Ints,
    rates: Singles,
    form: int,
    rank_weights: Singles,
    n_documents: int,
    factors: Factors,
    squares: Factors,
    max_norm: float,
    l2: float,
    block: int,
    margins: Singles,
    weights: Singles,
    threads: int,
) -> None:
    """Search the negatives of a block at its start, take its steps in order, project."""
    for start in range(0, tuples.shape[0], block):
        work = Block(queries, documents, factors, squares)
        steps = []
        for at in range(start, min(start + block, tuples.shape[0])):
            step, margins[at], weights[at] = work.search(
                tuples[at], form, rank_weights, n_documents, rates[at]
            )
            steps.append((step, rates[at]))
        for step, rate in steps:
            work.take(step, rate)
        work.project(np.float32(max_norm), np.float32(l2), rates[start])
