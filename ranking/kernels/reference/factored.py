"""Reference of the factored family. All arithmetic on parameters is float32."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np

from ranking.kernels.contract import (
    WIDE,
    Csr,
    Embeddings,
    EntryPenalty,
    Exclusions,
    Execution,
    FactoredFeatures,
    FactoredState,
    FactoredSteps,
    Factors,
    Floats,
    Ints,
    ListwiseLoss,
    PairwiseLoss,
    RowPenalty,
    SampledTriplets,
    Sampling,
    Singles,
    StepResults,
    TopK,
    TripletSource,
)
from ranking.kernels.reference.listwise import list_slopes
from ranking.kernels.reference.pairwise import pairwise_slope
from ranking.kernels.reference.sampling import sample_triplets

ZERO, ONE = np.float32(0.0), np.float32(1.0)


def dot(a: Singles, b: Singles) -> np.float32:
    """Add up the products in eight partial sums."""
    sums = np.zeros(WIDE, np.float32)
    for products in (a * b).reshape(-1, WIDE):
        sums += products
    low = (sums[0] + sums[4]) + (sums[2] + sums[6])
    high = (sums[1] + sums[5]) + (sums[3] + sums[7])
    return np.float32(low + high)


class Rows(NamedTuple):
    """Queries or documents by sparse features, or by none: then each is a feature of value 1."""

    features: Csr | None

    def entries(self, row: int) -> list[tuple[int, np.float32]]:
        """Return (feature, value) of a row, in stored order; values are rounded to float32."""
        if self.features is None:
            return [(row, ONE)]
        indptr, indices, data = self.features
        entries = range(int(indptr[row]), int(indptr[row + 1]))
        return [(int(indices[at]), np.float32(data[at])) for at in entries]

    def embedding(self, row: int, matrix: Singles) -> Singles:
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


def at_rank(scores: list[np.float32], rank: int) -> int:
    """Return the position of the score at a rank, best first, of equal ones the first.

    With NaNs there may be none or several: then the first of all, or of those.
    """
    for at, score in enumerate(scores):
        before = sum(other > score or (other == score and k < at) for k, other in enumerate(scores))
        if before == rank:
            return at
    return 0


def factored_embeddings(features: Csr, matrix: Singles, out: Singles, threads: int) -> None:
    """Compose the embedding of each row."""
    for row in range(out.shape[0]):
        out[row] = Rows(features).embedding(row, matrix)


def factored_scores(embeddings: Embeddings, out: Singles, threads: int) -> None:
    """Score composed queries against composed documents."""
    queries, documents, biases = embeddings
    for query in range(out.shape[0]):
        for document in range(out.shape[1]):
            score = dot(queries[query], documents[document])
            out[query, document] = score + biases[document] if biases.size else score


def factored_top_k(embeddings: Embeddings, exclusions: Exclusions, out: TopK, threads: int) -> None:
    """Find the best documents of each query."""
    out.documents[...], out.scores[...] = -1, -np.inf
    for query in range(out.documents.shape[0]):
        row = np.empty((1, embeddings.documents.shape[0]), np.float32)
        one = embeddings._replace(queries=embeddings.queries[query : query + 1])
        factored_scores(one, row, threads)
        free = ~np.isnan(row[0])
        excluded = slice(int(exclusions.indptr[query]), int(exclusions.indptr[query + 1]))
        free[exclusions.documents[excluded]] = False
        allowed = np.flatnonzero(free)
        best = allowed[np.argsort(-row[0, allowed], kind="stable")][: out.documents.shape[1]]
        out.documents[query, : best.size], out.scores[query, : best.size] = best, row[0, best]


class Step(NamedTuple):
    """A query and documents with the slopes of their scores."""

    query: int
    documents: Ints
    slopes: Singles


class Sum:
    """Sum of the gradients of a query, document or row, and of their squares."""

    def __init__(self) -> None:
        self.gradient: Singles | None = None
        self.squares: Singles

    def add(self, gradient: Singles, squares: Singles) -> None:
        """Add both; the first term is copied."""
        if self.gradient is None:
            self.gradient, self.squares = gradient.copy(), squares.copy()
        else:
            self.gradient, self.squares = self.gradient + gradient, self.squares + squares


class Sums(defaultdict[int, Sum]):
    """One sum per query, document or row, in the order of their first term."""

    def __init__(self) -> None:
        super().__init__(Sum)


class Batch:
    """The parameters, and the changes of a batch of steps."""

    def __init__(self, features: FactoredFeatures, factors: Factors) -> None:
        self.queries, self.documents = Rows(features.queries), Rows(features.documents)
        self.contexts = None if features.contexts is None else Rows(features.contexts)
        self.factors = factors
        self.width = factors.queries.shape[1]

    def query_embedding(self, query: int) -> Singles:
        """Return u, and behind it the context's half, if there is one."""
        halves = [self.queries.embedding(query, self.factors.queries)]
        if self.contexts is not None:
            halves.append(self.contexts.embedding(query, self.factors.contexts))
        return np.concatenate(halves)

    def document_embedding(self, document: int) -> Singles:
        """Return v, and behind it the half for contexts."""
        halves = [self.documents.embedding(document, self.factors.documents)]
        if self.contexts is not None:
            halves.append(self.documents.embedding(document, self.factors.contexts))
        return np.concatenate(halves)

    def score(self, u: Singles, document: int) -> np.float32:
        """Return the score of a document for a query's embedding."""
        score = dot(u, self.document_embedding(document))
        if self.factors.biases.size:
            score = np.float32(score + self.documents.bias(document, self.factors.biases))
        return score

    def search(
        self, triplet: Ints, source: TripletSource, loss: PairwiseLoss
    ) -> tuple[int, int, np.float32, np.float32]:
        """Return positive and negative of a triplet, their margin and the violation's weight."""
        u, first = self.query_embedding(int(triplet[0])), 1 + source.n_positives
        highs = [self.score(u, int(document)) for document in triplet[1:first]]
        at = at_rank(highs, source.positive_rank)
        positive, high = int(triplet[1 + at]), highs[at]
        negatives, weight = triplet[first:], ZERO
        for trial, negative in enumerate(negatives.tolist(), start=1):
            margin = np.float32(high - self.score(u, negative))
            if negatives.size == 1 or margin < ONE:
                rank = min((loss.n_documents - 1) // trial, loss.rank_weights.size - 1)
                weight = np.float32(loss.rank_weights[rank])
                break
        return positive, negative, margin, weight

    def margins(self, triplet: Ints) -> Singles:
        """Return the margin of the positive to each of its negatives."""
        u = self.query_embedding(int(triplet[0]))
        scores = np.array([self.score(u, document) for document in triplet[1:].tolist()])
        margins: Singles = scores[0] - scores[1:]
        return margins

    def take(
        self, steps: list[Step], squares: Factors, learning_rate: float, penalty: RowPenalty
    ) -> None:
        """Sum gradients by query and document, then by row; change and project the rows."""
        rate = np.float32(learning_rate)
        queries, documents, biases = Sums(), Sums(), Sums()
        for step in steps:
            if not step.slopes.any():
                continue
            u, total = self.query_embedding(step.query), Sum()
            for document, slope in zip(step.documents.tolist(), step.slopes, strict=True):
                pull = slope * self.document_embedding(document)
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
        for matrix, sums, rows in zip(self.factors[:3], squares[:3], (U, V, S), strict=True):
            for row, total in rows.items():
                if penalty.rowwise:
                    assert total.squares is not None
                    total.squares = np.full_like(total.squares, _mean(total.squares))
                _change(matrix, sums, row, total, rate)
                _project(matrix[row], penalty)
        if self.factors.biases.size:
            for row, total in bias.items():
                _change(self.factors.biases, squares.biases, row, total, rate)

    def _by_row(self, entities: Rows, sums: Sums, half: slice, rows: Sums | None = None) -> Sums:
        """Distribute the sums of queries or documents among the rows of their features."""
        rows = Sums() if rows is None else rows
        for number, total in sums.items():
            assert total.gradient is not None
            gradient = np.atleast_1d(total.gradient)[half]
            squares = np.atleast_1d(total.squares)[half]
            for feature, value in entities.entries(number):
                if entities.features is None:
                    rows[feature].add(gradient, squares)
                else:
                    rows[feature].add(value * gradient, (value * value) * squares)
        return rows


def _change(matrix: Singles, squares: Singles, row: int, total: Sum, rate: np.float32) -> None:
    """Take the step of one row, with Adagrad if there are sums of squares."""
    assert total.gradient is not None
    part = matrix.reshape(matrix.shape[0], -1)[row]
    if squares.size:
        sums = squares.reshape(squares.shape[0], -1)[row]
        sums += total.squares
        part -= (rate * total.gradient) / np.sqrt(sums)
    else:
        part -= total.gradient


def factored_prox(
    matrix: Singles,
    squares: Singles,
    rate: float,
    penalty: EntryPenalty,
    out: Singles,
    threads: int,
) -> None:
    """Apply the prox of a penalty of entries."""
    l1, l2 = np.float32(penalty.l1), np.float32(penalty.l2)
    step = np.float32(rate) / np.sqrt(squares) if squares.size else np.float32(rate)
    shrunk = np.abs(matrix) - step * l1
    shrunk = np.copysign(np.where(shrunk > ZERO, shrunk, ZERO), matrix) / (ONE + step * l2)
    out[...] = shrunk + ZERO  # -0 becomes 0


def _mean(squares: Singles) -> np.float32:
    """Return the mean, from a sum in eight parts."""
    return np.float32(dot(squares, np.ones_like(squares)) / np.float32(squares.size))


def _project(embedding: Singles, penalty: RowPenalty) -> None:
    """Scale a row to the largest norm if it exceeds that."""
    max_norm = np.float32(penalty.max_norm)
    square = dot(embedding, embedding)
    if max_norm > ZERO and square > max_norm * max_norm:
        embedding *= max_norm / np.sqrt(square)


def _triplets_of(source: TripletSource, start: int, count: int) -> Ints:
    """Return `count` triplets from `start` on: given or sampled ones."""
    if source.sampling is None:
        return source.triplets[start : start + count]
    moved = source.sampling._replace(first=source.sampling.first + start)
    triplets = np.empty((count, source.triplets.shape[1]), np.int64)
    sample_triplets(moved, source.n_positives, triplets)
    return triplets


def _importance(sampling: Sampling | None, query: int, positive: int) -> np.float32:
    """Return the weight of a positive."""
    if sampling is None or not sampling.positives.member_weights.size:
        return ONE
    lists = sampling.positives
    own = lists.list_of[query]
    start, stop = lists.member_ptr[own], lists.member_ptr[own + 1]
    at = np.searchsorted(lists.members[start:stop], positive)
    return np.float32(lists.member_weights[start + at])


def _sample(
    batch: Batch, source: TripletSource, loss: PairwiseLoss, start: int, out: SampledTriplets
) -> None:
    triplets = _triplets_of(source, start, out.triplets.shape[0])
    for at, triplet in enumerate(triplets):
        query = int(triplet[0])
        positive, negative, margin, weight = batch.search(triplet, source, loss)
        out.triplets[at] = query, positive, negative
        out.margins[at] = margin
        out.weights[at] = weight * _importance(source.sampling, query, positive)


def factored_sample(
    features: FactoredFeatures,
    factors: Factors,
    source: TripletSource,
    loss: PairwiseLoss,
    out: SampledTriplets,
    threads: int,
) -> None:
    """Sample a violation for each triplet, at the current parameters."""
    _sample(Batch(features, factors), source, loss, 0, out)


def factored_update(
    features: FactoredFeatures,
    state: FactoredState,
    steps: FactoredSteps,
    learning_rate: float,
    penalty: RowPenalty,
    threads: int,
) -> None:
    """Take the steps of one batch."""
    ends = zip(steps.queries.tolist(), steps.step_ptr[:-1], steps.step_ptr[1:], strict=True)
    batch = [
        Step(query, steps.documents[start:stop], steps.slopes[start:stop])
        for query, start, stop in ends
    ]
    Batch(features, state.factors).take(batch, state.squares, learning_rate, penalty)


def factored_train(
    features: FactoredFeatures,
    state: FactoredState,
    source: TripletSource,
    learning_rates: Singles,
    loss: PairwiseLoss,
    penalty: RowPenalty,
    out: StepResults[Singles],
    execution: Execution,
) -> None:
    """Sample a batch at its start, then take its steps."""
    batch = Batch(features, state.factors)
    adagrad = state.squares.queries.size > 0
    for start in range(0, learning_rates.size, execution.batch_size):
        rates = learning_rates[start : start + execution.batch_size]
        sampled = SampledTriplets(
            np.empty((rates.size, 3), np.int64),
            np.empty(rates.size, np.float32),
            np.empty(rates.size, np.float32),
        )
        _sample(batch, source, loss, start, sampled)
        out.margins[start : start + rates.size] = sampled.margins
        out.weights[start : start + rates.size] = sampled.weights
        steps = []
        for triplet, margin, weight, rate in zip(*sampled, rates, strict=True):
            factor = np.float32(weight * pairwise_slope(loss, margin))
            if not adagrad:
                factor = np.float32(rate * factor)
            slopes = np.array([factor, -factor], np.float32)
            steps.append(Step(int(triplet[0]), triplet[1:], slopes))
        batch.take(steps, state.squares, float(rates[0]), penalty)


def factored_train_lists(
    features: FactoredFeatures,
    state: FactoredState,
    source: TripletSource,
    learning_rates: Singles,
    loss: ListwiseLoss,
    penalty: RowPenalty,
    losses: Floats,
    execution: Execution,
) -> None:
    """Score the lists of a batch at its start, then take its steps."""
    batch = Batch(features, state.factors)
    adagrad = state.squares.queries.size > 0
    for start in range(0, learning_rates.size, execution.batch_size):
        rates = learning_rates[start : start + execution.batch_size]
        steps = []
        for at, triplet in enumerate(_triplets_of(source, start, rates.size)):
            margins = batch.margins(triplet).astype(np.float64)
            losses[start + at], slopes = list_slopes(loss, margins)
            with np.errstate(over="ignore"):
                rounded = slopes.astype(np.float32)
            if not adagrad:
                rounded *= rates[at]
            steps.append(Step(int(triplet[0]), triplet[1:], rounded))
        batch.take(steps, state.squares, float(rates[0]), penalty)
