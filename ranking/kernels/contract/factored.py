"""Training and scores of the factored model.

Queries and documents have embeddings: those of their features, P[i] for feature i, added up,
``u = sum_i q_i U[i]`` and ``v = sum_j d_j V[j]``, and the score is u . v, plus the sum of
``d_j bias[j]`` if there are biases. Without features, query or document i has the embedding P[i]
itself. With *contexts*, sparse sums c of document features, one per query, embeddings have a
second half behind the first: ``sum_j c_j S[j]`` for the query, ``sum_j d_j S[j]`` for the
document, with one S for both. Parameters are float32, and so is all arithmetic on them, one
rounding per written operation. A half is padded with zeros to a multiple of `WIDE` = 8 numbers. A
dot product has 8 partial sums that start at 0; product i is added to partial sum i % 8, in order,
and the result is ``((s0 + s4) + (s2 + s6)) + ((s1 + s5) + (s3 + s7))``. The embedding and the bias
of a query or document are summed from 0, in stored order; sums of gradients begin with their first
term.

A *step* has a query, documents d_1, d_2, ..., and a slope s_j for each: its gradient is
``y = s_1 v_1 + s_2 v_2 + ...`` for the query's embedding, ``s_j u`` for that of d_j and s_j for its
bias. A triplet becomes a step of two documents, the positive with slope ``s = L slope(z)`` and the
negative with -s. Of several positives, the one at `positive_rank`, best score first and in case of
equal scores the one sampled first, is the positive of the step (it has as many before it as the
rank says; of several, which only scores that are NaN can produce, the first, and of none the first
sampled). Negatives are sampled as for the bilinear model. If positives have weights, L is times
that of the positive. A *list* of a positive and n negatives, all of which are scored, becomes a
step of 1 + n documents, as they are sampled: its slopes are those of `contract.listwise` at the
margins (differences of two scores), rounded to float32. Without Adagrad, slopes are times the
step's learning rate.

Steps are taken by batches, at the parameters of the batch's start; a step whose slopes are all 0
is skipped. For each query and document of a batch, in the order of the steps, A is the sum of its
gradients y and B that of y * y. These go to the features: for an entry x of row i, x A is added to
Y_i and ``(x x) B`` to Q_i, queries and documents in the order of their first step, those of a step
as they are written (without features, Y is A and Q is B). S has those of the queries' contexts
first, then those of documents. Then, for each row, ``P[i] -= Y_i``, or with Adagrad, which has a
sum of squares G for each parameter, ``G += Q; P -= (rate Y) / sqrt(G)`` with the batch's first
learning rate; if the penalty is `rowwise`, every entry of Q is replaced by their mean, a sum as
that of a dot product over the width of the row, so that a row has one learning rate. Biases
likewise, always one by one. At last each row of U, V and S that has a Y is scaled to the norm
`max_norm` > 0, if its norm exceeds that. Other penalties are applied between calls, those of
entries by `factored_prox`. So negatives can be sampled by triplet, and sums be computed by query,
document and row: the result does not depend on the number of threads. `hogwild` lets threads take
batches of their own, all at once, in no order; a kernel whose language forbids such races keeps
the order.
"""

from __future__ import annotations

from typing import Protocol

from ranking.contracts.regularizer import EntryPenalty, RowPenalty
from ranking.kernels.contract.arrays import (
    Csr,
    Embeddings,
    Exclusions,
    Execution,
    FactoredFeatures,
    FactoredState,
    FactoredSteps,
    Factors,
    Floats,
    ListwiseLoss,
    PairwiseLoss,
    SampledTriplets,
    Singles,
    StepResults,
    TopK,
    TripletSource,
)


class FactoredFamily(Protocol):
    """Training and scores of the factored model; rank_weights are float32."""

    def factored_embeddings(
        self, features: Csr, matrix: Singles, out: Singles, threads: int
    ) -> None:
        """Fill out[i] with the sum, in stored order and from 0, of value * matrix[feature].

        matrix : float32 (features, width); out : float32 (rows, width); any width
        """

    def factored_scores(self, embeddings: Embeddings, out: Singles, threads: int) -> None:
        """Fill out[i, j] (float32) with queries[i] . documents[j] + biases[j]."""

    def factored_top_k(
        self, embeddings: Embeddings, exclusions: Exclusions, out: TopK, threads: int
    ) -> None:
        """Find the best documents of each query.

        Scores are those of `factored_scores`, of which no more than a few rows exist at a time.
        Equal scores rank by position; a NaN is never among the best. The rest of a row has
        document -1 and score -inf.
        """

    def factored_sample(
        self,
        features: FactoredFeatures,
        factors: Factors,
        source: TripletSource,
        loss: PairwiseLoss,
        out: SampledTriplets,
        threads: int,
    ) -> None:
        """Sample negatives until one violates the margin (WARP); the factors are read.

        The number of steps is the length of `out`. Margins and weights are as in
        `BilinearStore.margins`; with one trial the margin is a difference of two scores. If
        positives have weights (with a sampling), the weights include them. form and slope are not
        read.
        """

    def factored_update(
        self,
        features: FactoredFeatures,
        state: FactoredState,
        steps: FactoredSteps,
        learning_rate: float,
        penalty: RowPenalty,
        threads: int,
    ) -> None:
        """Take the steps of one batch; the state is written."""

    def factored_train(
        self,
        features: FactoredFeatures,
        state: FactoredState,
        source: TripletSource,
        learning_rates: Singles,
        loss: PairwiseLoss,
        penalty: RowPenalty,
        out: StepResults[Singles],
        execution: Execution,
    ) -> None:
        """Sample and update by batches; the state is written.

        learning_rates : float32 (steps)
            Its length is the number of steps.
        out : float32
        """

    def factored_prox(
        self,
        matrix: Singles,
        squares: Singles,
        rate: float,
        penalty: EntryPenalty,
        out: Singles,
        threads: int,
    ) -> None:
        """Fill out with argmin over v of ``(v - p)**2 / (2 h) + l1 |v| + l2/2 v**2``, by entries.

        For an entry p of the matrix with the sum of squares G, the step is ``h = rate / sqrt(G)``
        (composite mirror descent), or rate if there are none, and the result, in float32,
        ``max(|p| - h l1, 0) / (1 + h l2)`` with the sign of p; never -0.

        matrix, out : float32 (rows, width)
            May be the same array.
        squares : float32 (rows, width), or (0, 0) without Adagrad
        """

    def factored_train_lists(
        self,
        features: FactoredFeatures,
        state: FactoredState,
        source: TripletSource,
        learning_rates: Singles,
        loss: ListwiseLoss,
        penalty: RowPenalty,
        losses: Floats,
        execution: Execution,
    ) -> None:
        """Sample, score and update lists by batches; the state is written.

        source : TripletSource
            With one positive; all negatives of a row belong to its list.
        learning_rates : float32 (lists)
        losses : float64 (lists)
            Written: the loss of each list before its step.
        """
