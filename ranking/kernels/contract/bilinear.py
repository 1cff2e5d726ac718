"""Training and scores of the bilinear model q' W d.

W has one row per query feature and one column per document feature (or the other way round:
`transposed`). With delta = d+ - d- (entries that cancel are left out), the *margin* of a triplet
is z = q' W delta, and a step of learning rate eta is ``W -= eta L slope(z) q delta'``, L being the
weight of the violation. After every `prox_interval` steps the penalty of the steps since the last
time is applied: with c the sum of their learning rates, ``w = soft(w, l1 c) / (1 + l2 c)``,
soft(w, s) = sign(w) max(|w| - s, 0).

Lazy shrinkage
--------------
No kernel sweeps over W for that. Shrinkages compose: after any number of them,
``w = A soft(v, B)``, where the running scale A (from 1) and threshold B (from 0) are the same for
every entry: an application takes B to B + l1 c / A, then A to A / (1 + l2 c). A weight w that is
set at a time with A and B is stored as ``v = w / A + sign(w) B``, and whenever it is read, it has
been shrunk. So the stored number is its own time stamp. An entry with |v| <= B is zero for good,
and its memory may be released at any time.

That would lose digits as B grows, so a row has its own origin, A_r and B_r, at which it was last
*rebased*, that is, its weights were stored as they are. With k = A / A_r and s = (B - B_r) A_r,
its entries are ``w = k soft(v, s)`` and ``v = w / k + sign(w) s``. A row is rebased when a step
changes it for the first time in a window of `REBASE_WINDOW` steps; all rows are when A falls below
`SMALLEST_SCALE`, and A and B restart at 1 and 0.

A group penalty, ``strength omega_g ||W_g||`` for groups of rows, scales a group's entries by
``max(1 - omega_g c strength / ||W_g||, 0)`` at each application. Those compose, too: what is taken
from the norm adds up. A group has a scale sigma (w = sigma v), its square N = ||W_g||**2, the
largest N since it was last summed, and the B at which these were right. Pending shrinkage is
*applied* to the group before a step changes it; N then follows the entries' changes, and is summed
from scratch when it falls below `RESUM` of its largest value. There is no l2 beside it, so A = 1.

Batches
-------
The margins of a batch are taken at the W of its start; its steps are then taken in order. So the
margins can be shared among threads by triplet and the steps by row (or group), and the result
does not depend on the number of threads. `hogwild` lets threads take the steps between two
applications of the penalty (`HOGWILD_BLOCK` if there is none) in no order, with no two threads in
one row at a time, and ignores batches; a kernel may keep the order of the batches all the same, as
Rust does.

Bits are equal while W is finite: the caller checks the margins, and stops when one is not. A
weight that underflows to 0 is exported as zero, even if its v would still move.
"""

from __future__ import annotations

from typing import Protocol

from ranking.kernels.contract.arrays import (
    BilinearFeatures,
    BilinearState,
    Csr,
    Execution,
    Floats,
    Ints,
    PairwiseLoss,
    PassiveResults,
    StepResults,
    UpdateRule,
    Violations,
)


class BilinearStore(Protocol):
    """W while it is trained; it grows on demand and stores what is not zero.

    `shrinkage` is float64 (4), see `ShrinkageState`: `update`, `train` and `passive_aggressive`
    write it, the other methods read it. `triplets` is int64 (steps, 2 + trials): query, positive,
    negatives. rank_weights are float64.
    """

    def margins(
        self,
        features: BilinearFeatures,
        triplets: Ints,
        loss: PairwiseLoss,
        shrinkage: Floats,
        out: Violations,
        threads: int,
    ) -> None:
        """Sample negatives until one violates the margin, at the current W.

        With one trial the weight is that of rank n_documents - 1, and the margin q' W delta. With
        more, negatives are tried in order until a margin q' W d+ - q' W d- is below 1; if that is
        trial N, the weight is that of rank (n_documents - 1) // N; if there is none, it is 0 and
        the margin and the negative are those of the last trial. form and slope are not read.
        """

    def update(
        self,
        features: BilinearFeatures,
        triplets: Ints,
        slopes: Floats,
        learning_rates: Floats,
        rule: UpdateRule,
        shrinkage: Floats,
        threads: int,
    ) -> None:
        """Take steps with known slopes (L times the loss's); W and the shrinkage state change.

        triplets : int64 (steps, 3)
        slopes, learning_rates : float64 (steps)
        """

    def train(
        self,
        features: BilinearFeatures,
        triplets: Ints,
        learning_rates: Floats,
        loss: PairwiseLoss,
        rule: UpdateRule,
        shrinkage: Floats,
        out: StepResults[Floats],
        execution: Execution,
    ) -> None:
        """Call `margins` and `update` for each batch; W and the shrinkage state change.

        learning_rates : float64 (steps)
        out : float64
        """

    def passive_aggressive(
        self,
        features: BilinearFeatures,
        triplets: Ints,
        list_sizes: Ints,
        loss: PairwiseLoss,
        aggressiveness: float,
        grow: bool,
        shrinkage: Floats,
        out: PassiveResults,
    ) -> None:
        """Take passive-aggressive steps, each at the W that the one before left.

        list_sizes : int64 (steps)
            Number of documents that are ranked, for each triplet; replaces loss.n_documents.
        loss : PairwiseLoss
            The form is `HINGE` or `SQUARED_HINGE`; slope and n_documents are not read.

        Margin z and violation weight L are those of `margins`. With z < 1, a step takes the
        learning rate min((1 - z) / (n + slack), most) and the slope -1. n is the sum of
        (q delta')**2 where W may change: (sum of q**2) (sum of delta**2), or without `grow`, for
        each row i of W in turn, a_i**2 times the sum of b_j**2 over its entries that are not
        zero, a being what stands on the left and b on the right; sums are in stored order from
        0.0. With c = aggressiveness * L, slack and most are 0 and c for the hinge, 1 / (2 * c)
        and infinity for its square. Where z >= 1 or n = 0, the learning rate is 0. There is no
        penalty: prox_interval is 1 and l1 = l2 = 0.
        """

    def counts(self, shrinkage: Floats, out: Ints) -> None:
        """Fill `out` (int64 (rows)) with the number of current non-zeros of each row."""

    def export(self, shrinkage: Floats, out: Csr, current: bool) -> None:
        """Fill out.indices (int32) and out.data, sorted by row and column.

        out.indptr (int64) is read: the cumulative sum of `counts`. Data are the weights if
        `current`, else the stored numbers v.
        """

    def state(self, row_state: Floats, group_state: Floats) -> None:
        """Fill the arrays of `BilinearState` with which training continues with the same bits."""

    def memory(self) -> int:
        """Return the bytes that the store has allocated."""


class BilinearFamily(Protocol):
    """Training and scores of the bilinear model."""

    def bilinear_store(self, n_columns: int, state: BilinearState) -> BilinearStore:
        """Return a store of W with n_columns columns that starts from `state`."""

    def bilinear_scores(
        self,
        queries: Csr,
        weights: Csr,
        documents: Csr,
        n_columns: int,
        out: Floats,
        threads: int,
    ) -> None:
        """Fill out[i, j] with q_i' W d_j: the image W' q_i first, then its product with d_j.

        An entry of the image is the sum, in stored order of q_i, of q * w; the product is the
        sum, in stored order of d_j, of d * image.

        out : float64 (queries, documents)
        """
