"""The reference of the factored loops: composing vectors, stepping, scoring.

It is the normative text for the order of operations (see "Factored" in
:mod:`ranking.kernels.contract`). All arithmetic on parameters is float32.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np

from ranking.kernels._old_contract import (
    NO_CALL,
    WIDE,
    Call,
    Csr,
    Factors,
    Ints,
    MatchFields,
    PairForm,
    Sides,
    Singles,
)
from ranking.kernels.reference import exp_one
from ranking.kernels.reference_bilinear import draw_tuples
from ranking.kernels.reference_native import native_pair

Draws = tuple[int, int, MatchFields]
"""Seed, first step, and what is drawn from."""

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


def ranked(scores: list[np.float32], place: int) -> int:
    """Return which score is at a place, best first, of equal ones the first.

    If scores are not numbers, there may be none or several: then the first of all, or of those.
    """
    for at, score in enumerate(scores):
        before = sum(other > score or (other == score and k < at) for k, other in enumerate(scores))
        if before == place:
            return at
    return 0


def pair_slope(form: int, margin: np.float32, slope: Call = NO_CALL) -> np.float32:
    """Return the derivative; of the logistic loss and of a native one in double precision."""
    if form == PairForm.NATIVE:
        return np.float32(native_pair(slope, float(margin)))
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


def factored_top(
    queries: Singles,
    documents: Singles,
    biases: Singles,
    barred_ptr: Ints,
    barred: Ints,
    found: Ints,
    scores: Singles,
    threads: int,
) -> None:
    """Find the best documents of each query."""
    found[...], scores[...] = -1, -np.inf
    for query in range(found.shape[0]):
        row = np.empty((1, documents.shape[0]), np.float32)
        factored_scores(queries[query : query + 1], documents, biases, row, threads)
        free = ~np.isnan(row[0])
        free[barred[barred_ptr[query] : barred_ptr[query + 1]]] = False
        allowed = np.flatnonzero(free)
        best = allowed[np.argsort(-row[0, allowed], kind="stable")][: found.shape[1]]
        found[query, : best.size], scores[query, : best.size] = best, row[0, best]


class Step(NamedTuple):
    """A query and documents with the slopes of their scores."""

    query: int
    documents: Ints
    slopes: Singles


class Sum:
    """Gradients of an object, or of a row, and their squares, added up."""

    def __init__(self) -> None:
        self.gradient: Singles | None = None
        self.squares: Singles

    def add(self, gradient: Singles, squares: Singles) -> None:
        """Add both; a first term is taken as it is."""
        if self.gradient is None:
            self.gradient, self.squares = gradient.copy(), squares.copy()
        else:
            self.gradient, self.squares = self.gradient + gradient, self.squares + squares


class Sums(defaultdict[int, Sum]):
    """A sum for each object, or row, in the order in which they come."""

    def __init__(self) -> None:
        super().__init__(Sum)


class Block:
    """The parameters, and what a block of steps does to them."""

    def __init__(self, sides: Sides, factors: Factors) -> None:
        queries, documents, contexts = sides
        self.queries, self.documents = Objects(queries), Objects(documents)
        self.contexts = None if contexts is None else Objects(contexts)
        self.factors = factors
        self.width = factors[0].shape[1]

    def query_vector(self, query: int) -> Singles:
        """Return u, and behind it the context's half, if there is one."""
        U, _, S, _ = self.factors
        halves = [self.queries.vector(query, U)]
        if self.contexts is not None:
            halves.append(self.contexts.vector(query, S))
        return np.concatenate(halves)

    def document_vector(self, document: int) -> Singles:
        """Return v, and behind it the half for contexts."""
        _, V, S, _ = self.factors
        halves = [self.documents.vector(document, V)]
        if self.contexts is not None:
            halves.append(self.documents.vector(document, S))
        return np.concatenate(halves)

    def score(self, u: Singles, document: int) -> np.float32:
        """Return the score of a document for a query's vector."""
        score = dot(u, self.document_vector(document))
        biases = self.factors[3]
        if biases.size:
            score = np.float32(score + self.documents.bias(document, biases))
        return score

    def search(
        self, chosen: Ints, positives: int, place: int, rank_weights: Singles, n_documents: int
    ) -> tuple[int, int, np.float32, np.float32]:
        """Return the better and the worse document, their margin and the violation's weight."""
        u = self.query_vector(int(chosen[0]))
        highs = [self.score(u, int(document)) for document in chosen[1 : 1 + positives]]
        at = ranked(highs, place)
        better, high = int(chosen[1 + at]), highs[at]
        negatives, weight = chosen[1 + positives :], ZERO
        for trial, worse in enumerate(negatives.tolist(), start=1):
            margin = np.float32(high - self.score(u, worse))
            if negatives.size == 1 or margin < ONE:
                rank = (n_documents - 1) // trial
                weight = np.float32(rank_weights[min(rank, rank_weights.size - 1)])
                break
        return better, worse, margin, weight

    def take(
        self, steps: list[Step], squares: Factors, rate: float, max_norm: float, l2: float
    ) -> None:
        """Add up the gradients by object, then by row, change the rows, and project them."""
        queries, documents, biases = Sums(), Sums(), Sums()
        for step in steps:
            if not step.slopes.any():
                continue
            u, total = self.query_vector(step.query), Sum()
            for document, slope in zip(step.documents.tolist(), step.slopes, strict=True):
                pull = slope * self.document_vector(document)
                total.add(pull, pull)
                y = slope * u
                documents[document].add(y, y * y)
                biases[document].add(slope, slope * slope)
            assert total.gradient is not None
            queries[step.query].add(total.gradient, total.gradient * total.gradient)
        first, second = slice(0, self.width), slice(self.width, 2 * self.width)
        U = self._by_row(self.queries, queries, first)
        V = self._by_row(self.documents, documents, first)
        S = Sums()
        bias = self._by_row(self.documents, biases, first)
        if self.contexts is not None:
            S = self._by_row(self.contexts, queries, second)
            self._by_row(self.documents, documents, second, S)
        for which, rows in enumerate((U, V, S, bias)):
            if which == 3 and not self.factors[3].size:
                continue
            for row, total in rows.items():
                self._change(which, row, total, squares, np.float32(rate))
                if which < 3:
                    self._project(self.factors[which][row], *map(np.float32, (max_norm, l2, rate)))

    def _by_row(
        self,
        objects: Objects,
        sums: Sums,
        half: slice,
        rows: Sums | None = None,
    ) -> Sums:
        """Share out the sums of objects among the rows of their features."""
        rows = Sums() if rows is None else rows
        for number, total in sums.items():
            assert total.gradient is not None
            gradient, squares = (
                np.atleast_1d(total.gradient)[half],
                np.atleast_1d(total.squares)[half],
            )
            for feature, value in objects.entries(number):
                if objects.features is None:
                    rows[feature].add(gradient, squares)
                else:
                    rows[feature].add(value * gradient, (value * value) * squares)
        return rows

    def _change(self, which: int, row: int, total: Sum, squares: Factors, rate: np.float32) -> None:
        part = self.factors[which].reshape(self.factors[which].shape[0], -1)[row]
        assert total.gradient is not None
        if squares[0].size:
            sums = squares[which].reshape(squares[which].shape[0], -1)[row]
            sums += total.squares
            part -= (rate * total.gradient) / np.sqrt(sums)
        else:
            part -= total.gradient

    @staticmethod
    def _project(vector: Singles, max_norm: np.float32, l2: np.float32, rate: np.float32) -> None:
        if l2 > ZERO:
            vector *= ONE / (ONE + l2 * rate)
        square = dot(vector, vector)
        if max_norm > ZERO and square > max_norm * max_norm:
            vector *= max_norm / np.sqrt(square)


def _tuples_of(tuples: Ints, draws: Draws | None, positives: int, start: int, count: int) -> Ints:
    """Return `count` tuples from `start` on: those given, or those drawn."""
    if draws is None:
        return tuples[start : start + count]
    seed, first, lists = draws
    drawn = np.empty((count, tuples.shape[1]), np.int64)
    draw_tuples(seed, first + start, lists, positives, drawn)
    return drawn


def _importance(draws: Draws | None, query: int, better: int) -> np.float32:
    """Return the weight of a match."""
    if draws is None or not draws[2][7].size:
        return ONE
    _, _, list_of, list_ptr, members, _, _, weights, *_ = draws[2]
    start, stop = list_ptr[list_of[query]], list_ptr[list_of[query] + 1]
    return np.float32(weights[start + np.searchsorted(members[start:stop], better)])


def factored_search(
    sides: Sides,
    factors: Factors,
    tuples: Ints,
    draws: Draws | None,
    positives: int,
    place: int,
    rank_weights: Singles,
    n_documents: int,
    chosen: Ints,
    margins: Singles,
    weights: Singles,
    threads: int,
) -> None:
    """Look for a violation of each tuple, at the parameters as they are."""
    work = Block(sides, factors)
    for at, each in enumerate(_tuples_of(tuples, draws, positives, 0, chosen.shape[0])):
        better, worse, margin, weight = work.search(
            each, positives, place, rank_weights, n_documents
        )
        chosen[at] = int(each[0]), better, worse
        margins[at] = margin
        weights[at] = weight * _importance(draws, int(each[0]), better)


def factored_update(
    sides: Sides,
    factors: Factors,
    squares: Factors,
    queries: Ints,
    step_ptr: Ints,
    documents: Ints,
    slopes: Singles,
    rate: float,
    max_norm: float,
    l2: float,
    threads: int,
) -> None:
    """Take the steps of one block."""
    steps = [
        Step(int(query), documents[start:stop], slopes[start:stop])
        for query, start, stop in zip(queries, step_ptr[:-1], step_ptr[1:], strict=True)
    ]
    Block(sides, factors).take(steps, squares, rate, max_norm, l2)


def factored_steps(
    sides: Sides,
    factors: Factors,
    squares: Factors,
    tuples: Ints,
    draws: Draws | None,
    positives: int,
    place: int,
    rates: Singles,
    form: int,
    slope: Call,
    rank_weights: Singles,
    n_documents: int,
    max_norm: float,
    l2: float,
    block: int,
    hogwild: bool,
    margins: Singles,
    weights: Singles,
    threads: int,
) -> None:
    """Search a block at its start, then take its steps."""
    for start in range(0, rates.size, block):
        part = slice(start, min(start + block, rates.size))
        chosen = np.empty((part.stop - start, 3), np.int64)
        here = tuples
        if draws is not None:
            moved = (draws[0], draws[1] + start, draws[2])
        else:
            here, moved = tuples[part], None
        factored_search(
            sides, factors, here, moved, positives, place, rank_weights, n_documents,
            chosen, margins[part], weights[part], threads,
        )  # fmt: skip
        steps = []
        for (query, better, worse), margin, weight, rate in zip(
            chosen.tolist(), margins[part], weights[part], rates[part], strict=True
        ):
            factor = np.float32(weight * pair_slope(form, margin, slope))
            if not squares[0].size:
                factor = np.float32(rate * factor)
            pair = np.array([factor, -factor], np.float32)
            steps.append(Step(query, np.array([better, worse]), pair))
        Block(sides, factors).take(steps, squares, float(rates[start]), max_norm, l2)
