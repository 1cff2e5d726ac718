"""The kernel contract: what every kernel computes, in which order, to the last bit.

A kernel is a set of loops, `Loops`, behind one shared door (:mod:`ranking.kernels.kernel`), which
checks every array before the loops see it. So loops trust what they get: C-contiguous arrays (or
Fortran-contiguous where said), no overlap between inputs and outputs, valid index structures.

There are three implementations: the reference (plain NumPy, the oracle), Cython and Rust. They
return the same bits on one platform, because the contract fixes the *order of operations*, not
only the formula. All arithmetic is IEEE double precision, one rounding per written operation, no
fused multiply-add; features may be stored as float32 or float64 and are widened when loaded.

Lanes
-----
A sum of values v[0..n) "in lanes" has `LANES` = 4 partial sums that start at 0.0; v[i] is added to
partial sum i % 4, in order of i. The result is ``(s0 + s2) + (s1 + s3)``. That vectorises, and
has the same bits on every instruction set. Rows of dense training data are padded (see `Lists`),
so that each layer is a whole number of lanes.

Blocks
------
What threads share is cut into fixed blocks, and the blocks' sums are added in order. So a result
does not depend on the number of threads.

Random numbers
--------------
SplitMix64 by counter: draw k of a seed is ``mix(seed + (k + 1) * 0x9E3779B97F4A7C15)``, with mix
``z = (z ^ z>>30) * 0xBF58476D1CE4E5B9; z = (z ^ z>>27) * 0x94D049BB133111EB; z ^ z>>31``, all
modulo 2**64. A uniform is ``(x >> 11) * 2**-53``; an integer below n < 2**32 is
``((x >> 32) * n) >> 32``.

The exponential
---------------
Three functions, built from one another, that vectorise and saturate instead of overflowing.

``short(t)``, for |t| <= 1/32, is the Taylor polynomial of degree 7 (relative error < 3e-16)::

    t2 = t*t; t4 = t2*t2
    ((1 + t) + (t*C3 + 0.5)*t2) + ((t*C5 + C4) + (t*C7 + C6)*t2)*t4        Ck = 1/k!

``core(r)``, for |r| <= 0.3467, is ``1 + r + r**2 Q(r)`` with the minimax Q = `EXP_Q` (relative
error < 3e-16)::

    r2 = r*r; r4 = r2*r2; r8 = r4*r4
    low  = (1 + r) + (r*Q1 + Q0)*r2
    mid  = (r*Q3 + Q2) + (r*Q5 + Q4)*r2
    high = (r*Q7 + Q6) + (r*Q9 + Q8)*r2
    (low + mid*r4) + high*r8

``exp(x)`` clamps x to [-708, 708] (so it is never zero, infinite or subnormal), then::

    t = x*LOG2E + MAGIC; k = t - MAGIC          k is the nearest integer
    r = (x - k*LN2_HIGH) - k*LN2_LOW
    core(r) with (bits of t) << 52 added to its bits

Its relative error is below 4e-16. The NaN that arithmetic makes stays a NaN.

Domination
----------
The loss of :mod:`ranking_plugins.losses.domination` is inlined in every kernel. A list's rows are
sorted into layers, worst first; a row i of layer k >= 1 *dominates* all rows j of lower layers::

    loss = sum_i omega_i log(1 + sum_{j below i} exp(m_j - m_i))

Along one feature with values x, let Z = sum_j exp(m_j - c) over the rows below layer k (c: a
reference that keeps the exponentials in range), a = sum_j exp(m_j - c) x_j / Z their mean,
v their variance, and p_i = Z / (Z + exp(m_i - c)) the probability that row i loses. The row and
what it dominates are a mixture of those below (weight p) and x_i (weight 1 - p), so that::

    gradient  g = sum_i omega_i p_i (a - x_i)
    curvature h = sum_i omega_i p_i (v + (1 - p_i) (x_i - a)**2)

Ranked lists
------------
A list is sorted once, by score, highest first (-0.0 equals 0.0); then every measure that was asked
for is computed from that order. A *block* is the documents of one score. Relevant means a grade
of `RELEVANT` or more. Counts are integers; sums run over the ranks from 0.0, and a product of gain
and discount is rounded before it is added. Values are by list, so threads change nothing.

LETOR
-----
A line is ``<grade> qid:<id> <index>:<value> ... # comment``. Words are separated by ASCII white
space; numbers are decimal, ``1``, ``-.5``, ``+1.``, ``1e-5``, and become the nearest double
(then, if values are float32, the float32 nearest to that).

Bilinear
--------
W has a row a query feature and a column a document feature (or the other way round: `transposed`).
A *tuple* is a query q, a document d+ that matches and one or more d- that do not. With
delta = d+ - d- (entries that cancel are left out), the *margin* is z = q' W delta, and a step of
rate eta is ``W -= eta L slope(z) q delta'``, L being the weight of the violation. Every `every`
steps, the boundary, all of W is shrunk by the penalty of the steps since the last: with c the sum
of their rates, ``w = soft(w, l1 c) / (1 + l2 c)``, soft(w, s) = sign(w) max(|w| - s, 0).

No kernel sweeps over W for that. Shrinkings compose: after any number of them,
``w = A soft(v, B)``, where the running scale A (from 1) and threshold B (from 0) are the same for
every entry: a boundary takes B to B + l1 c / A, then A to A / (1 + l2 c). A weight w that is set
at a time with A and B is stored as ``v = w / A + sign(w) B``, and whenever it is read, it has been
shrunk. So the stored number is its own time stamp. An entry with |v| <= B is zero for good, and
its room may be given back at any time.

That would lose digits as B grows, so a row has its own origin, A_r and B_r, at which it was last
*renewed*, that is, its weights stored as they were. With k = A / A_r and s = (B - B_r) A_r, its
entries are ``w = k soft(v, s)`` and ``v = w / k + sign(w) s``. A row is renewed when a step
changes it for the first time in a window of `RENEW` steps; all are when A falls below
`SMALLEST_SCALE`, and A and B start anew.

A group penalty, ``strength omega_g ||W_g||`` for groups of rows, scales a group's entries by
``max(1 - omega_g c strength / ||W_g||, 0)`` at a boundary. Those compose, too: what is taken from
the norm adds up. A group has a scale sigma (w = sigma v), its square N = ||W_g||**2, the largest
N since it was last summed up, and the B at which these were right. It is *settled*, brought up to
the present, before a step changes it; N then follows the entries' changes, and is summed up anew
when it falls below `RESUM` of its largest. There is no l2 beside it, so A = 1.

A batch of tuples has its margins taken at the W of its start; its steps are then taken in order.
So the margins can be shared out among threads by tuple and the steps by row (or group), and the
result does not depend on the number of threads. `hogwild` lets threads take the steps between two
boundaries (1024 if there is no penalty) in no order, with no two threads in one row at a time, and
knows no batches.

Bits are equal while W is finite: the caller looks at the margins, and gives up when one is not. A
weight that underflows to 0 is exported as the zero that it is, even if its v would still move.

Tuples are drawn by counter: step t of a seed has the key ``draw t``, and its own draws 0, 1, ...
are those of the seed ``key``: the query, the positives (one, unless more are asked for), then the
negatives. If members of a list have running sums, the one drawn is the first whose sum exceeds a
number drawn below the last: each as often as it counts. If queries have running sums, they are not
drawn but dealt: every pass over the numbers below the last sum is a permutation of its own, by a
Feistel network (see `shuffled` in `reference_bilinear.py`). The query is the first whose sum
exceeds the step's number, and what exceeds the sum before it takes the place of the number drawn
for the first positive. So each match is dealt once a pass, or as often as it counts.

Factored
--------
Queries and documents have vectors: those of their features, P[i] for feature i, added up,
``u = sum_i q_i U[i]`` and ``v = sum_j d_j V[j]``, and the score is u . v, plus the sum of
``d_j bias[j]`` if there are biases. Without features (a CSR with no arrays is none) object i has
the vector P[i] itself. With *contexts*, sparse sums c of document features, one a query, vectors
have a second half behind the first: ``sum_j c_j S[j]`` for the query, ``sum_j d_j S[j]`` for the
document, with one S for both. Parameters are float32, and so is all arithmetic on them, one
rounding per written operation. A half is padded with zeros to a multiple of `WIDE` = 8 numbers. A
dot product has 8 partial sums that start at 0; product i is added to partial sum i % 8, in order,
and the result is ``((s0 + s4) + (s2 + s6)) + ((s1 + s5) + (s3 + s7))``. The vector and the bias of
an object are summed from 0, in stored order; sums of gradients begin with their first term.

A *step* has a query, documents d_1, d_2, ..., and a slope s_j for each: its gradient is
``y = s_1 v_1 + s_2 v_2 + ...`` for the query's vector, ``s_j u`` for that of d_j and s_j for its
bias. A tuple becomes a step of two documents, the better with slope ``s = L slope(z)`` and the
worse with -s. Of several positives, the one at a given place, best score first and in case of
equal scores the one drawn first, is the better (it has as many before it as the place says; of
several, which only scores that are not numbers can make, the first, and of none the first drawn).
Negatives are searched as for the bilinear model. If matches have weights, L is times that of the
better. Without adagrad, s is times the step's rate.

Steps are taken by blocks, at the parameters of the block's start; a step whose slopes are all 0 is
none. For each object of a block, in the order of the steps, A is the sum of its gradients y and B
that of y * y. These go to the features: for an object's entry x of row i, x A is added to Y_i and
``(x x) B`` to Q_i, objects in the order of their first step, those of a step as they are written
(without features, Y is A and Q is B). S has those of the queries' contexts first, then those of
documents. Then, for each row, ``P[i] -= Y_i``, or with adagrad, which has a sum of squares G for
each parameter, ``G += Q; P -= (rate Y) / sqrt(G)`` with the block's first rate. Biases likewise. At
last each row of U, V and S that has a Y is scaled by ``1 / (1 + l2 rate)``, if l2 > 0, and then, if
its norm exceeds `max_norm` > 0, to that. So negatives can be searched by tuple, and sums be made
by object and by row: the result does not depend on the number of threads. `hogwild` lets threads
take blocks of their own, all at once, in no order; a kernel whose language knows no such races
keeps the order.

Alternating
-----------
M is sparse, with a row a query feature and a column a document feature. A half-step is for one
side: with the vectors P of the other, ``omega_i = sum_j M_ij P[j]``, in stored order, from 0, in
float32, one rounding per written operation. Then ``s = soft(omega_i, threshold)`` and, if there is
a `limit` > 0, the row is ``s * (limit / ||s||)``, zero if s is; the norm is the root of the dot
product of "Factored". The *gain* of a row is its dot product with omega_i less the threshold times
the sum of its absolute values, both with 8 partial sums as there, rounded to float32 and then
computed in float64. Sparse vectors are CSR rows over the dimensions: zeros are left out, and the
numbers are the same as for dense ones. Rows are independent: threads change nothing.

Native
------
A plugin may bring C functions (``ranking/include/ranking/native.h``). A kernel gets their addresses
and calls them with doubles, from any thread, without the GIL. The slope of a margin that is
float32 is rounded to float32. Rows are widened to doubles, changed in place by the function, and
what it leaves is rounded to their precision. Calls do not depend on each other: threads change
nothing.

`reference.py` and its sisters `reference_metrics.py`, `reference_letor.py`,
`reference_bilinear.py`, `reference_factored.py`, `reference_alternating.py` and
`reference_native.py` are the normative text for the order of these operations, and for what of a
text is accepted: read them beside this one.
"""

from __future__ import annotations

import enum
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

ABI: Final = 3
LANES: Final = 4
BLOCK: Final = 4096
"""Elements of a block of `Loops.block_sum`; rows at which a block of lists is closed."""

GAMMA: Final = 0x9E3779B97F4A7C15

LOG2E: Final = float.fromhex("0x1.71547652b82fep+0")
LN2_HIGH: Final = float.fromhex("0x1.62e42feep-1")
LN2_LOW: Final = float.fromhex("0x1.a39ef35793c76p-33")
MAGIC: Final = 6755399441055744.0  # 1.5 * 2**52: adding it rounds to the nearest integer
EXP_LIMIT: Final = 708.0
SHORT_LIMIT: Final = 0.03125
CORE_LIMIT: Final = 0.34
EXP_Q: Final = tuple(
    float.fromhex(q)
    for q in (
        "0x1.0000000000001p-1",
        "0x1.5555555555558p-3",
        "0x1.5555555553d55p-5",
        "0x1.111111110f7f5p-7",
        "0x1.6c16c178911b7p-10",
        "0x1.a01a01b012e65p-13",
        "0x1.a019b8f8d9659p-16",
        "0x1.71ddf6a1003a6p-19",
        "0x1.28919d70ceb38p-22",
        "0x1.af634e6a9eb34p-26",
    )
)

SPREAD: Final = 300.0
"""A list whose margins span more than this is *far*: its exponentials need a reference per layer.
Also the most that margins may drift before the exponentials are renewed."""

ROUNDING: Final = 2.0**-45
"""Share of the mean square that is added to a variance, to cover its cancellation."""

CURVATURE_FLOOR: Final = 2.0**-40
"""A Newton curvature is at least this share of the global bound."""

RADIUS_FLOOR: Final = 0.0625
"""Smallest radius of a Newton step, times the feature's range."""

RESUM: Final = 2.0**-10
"""A sum that falls below this share of itself has lost digits, and is summed anew."""

RENEW: Final = 4096
"""Steps of a window: a row of W that is changed in it is renewed in it once."""

SMALLEST_SCALE: Final = 2.0**-64
"""A running scale that falls below this starts anew at 1."""

WIDE: Final = 8
"""Partial sums of a dot product in float32; vectors are padded to a multiple of it."""

HOGWILD_BLOCK: Final = 1024
"""Steps between two meetings of hogwild's threads, if there is no penalty."""

RELEVANT: Final = 1.0
"""The grade from which a document is relevant, where a metric knows no degrees."""
LARGEST_INDEX: Final = 2**31 - 1
PAIR_BYTES: Final = 4
"""The bytes of the shortest feature in LETOR text, with the space before it."""


class Defect(enum.IntEnum):
    """Why a line of LETOR text is refused; in a line with several, a smaller one comes first.

    From `QID_ELSEWHERE` on, the first word that has a defect decides.
    """

    NONE = 0
    NUL_BYTE = 1
    NO_QID = 2
    NOT_UTF8 = 3
    EMPTY_QID = 4
    BAD_GRADE = 5
    QID_ELSEWHERE = 6
    NOT_A_PAIR = 7
    NEGATIVE_INDEX = 8
    BAD_INDEX = 9
    LARGE_INDEX = 10
    MISSING_VALUE = 11
    BAD_VALUE = 12
    LARGE_VALUE = 13
    REPEATED = 14
    NO_MEMORY = 15


class Clock(enum.IntEnum):
    """The places of a clock: steps taken, scale A, threshold B, rates since the last boundary."""

    STEP = 0
    SCALE = 1
    THRESHOLD = 2
    RATES = 3


class PairForm(enum.IntEnum):
    """The losses of a margin by whose slopes a kernel can step: those that are inlined, and one."""

    HINGE = 0
    SQUARED_HINGE = 1
    LOGISTIC = 2
    NATIVE = 3
    """None of these: a C function of a plugin, which is called."""


INLINED: Final = (PairForm.HINGE, PairForm.SQUARED_HINGE, PairForm.LOGISTIC)
"""The forms whose slopes are in the loops themselves."""


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Features = NDArray[np.float32] | NDArray[np.float64]
Indices = NDArray[np.int32] | NDArray[np.int64]
Singles = NDArray[np.float32]
Csr = tuple[Indices, Indices, Features]
"""indptr, indices and data of a CSR matrix, rows sorted, no duplicates."""


Factors = tuple[Singles, Singles, Singles, Singles]
"""U, V, S and the biases of the factored model; S has no rows if there are no contexts."""

Sides = tuple[Csr | None, Csr | None, Csr | None]
"""The features of queries and of documents, and the queries' contexts; None is none."""

Call = tuple[int, int]
"""The addresses of a C function and of its context; ``ranking/native.h`` says what is called."""

NO_CALL: Final[Call] = (0, 0)

MatchFields = tuple[Ints, Ints, Ints, Ints, Ints, Ints, Ints, Singles, int, bool]
"""The fields of `MatchLists`, in their order."""


class BilinearStore(Protocol):
    """W while it is trained; it grows by itself and keeps what is not zero.

    `clock` is float64 (4), see `Clock`; what a method's name does not say it changes, it reads.
    """

    def margins(
        self,
        queries: Csr,
        documents: Csr,
        tuples: Ints,
        rank_weights: Floats,
        n_documents: int,
        transposed: bool,
        clock: Floats,
        margins: Floats,
        weights: Floats,
        negatives: Ints,
        threads: int,
    ) -> None:
        """Fill margins, violation weights and chosen negatives of tuples at the current W.

        tuples : int64 (steps, 2 + trials)
            Query, positive, negatives.
        rank_weights : float64
            L(rank); ranks beyond its end have its last value.

        With one trial the weight is that of rank n_documents - 1, and the margin q' W delta. With
        more, negatives are tried in order until a margin q' W d+ - q' W d- is below 1; found at
        trial N, the weight is that of rank (n_documents - 1) // N, and if none is, it is 0 and
        the margin and the negative are those of the last.
        """

    def update(
        self,
        queries: Csr,
        documents: Csr,
        tuples: Ints,
        negatives: Ints,
        slopes: Floats,
        rates: Floats,
        every: int,
        l1: float,
        l2: float,
        grow: bool,
        transposed: bool,
        clock: Floats,
        threads: int,
    ) -> None:
        """Take steps with given slopes (L times the loss's); W and the clock change.

        With groups, l1 is the strength of their penalty, and l2 is 0. Without `grow`, only entries
        move that are not zero.
        """

    def steps(
        self,
        queries: Csr,
        documents: Csr,
        tuples: Ints,
        rates: Floats,
        form: int,
        slope: Call,
        rank_weights: Floats,
        n_documents: int,
        every: int,
        l1: float,
        l2: float,
        grow: bool,
        transposed: bool,
        batch: int,
        hogwild: bool,
        clock: Floats,
        margins: Floats,
        weights: Floats,
        threads: int,
    ) -> None:
        """Take `margins` and `update` for each batch; margins and violation weights are filled.

        slope : Call
            The slope if the form is native, else `NO_CALL`.
        """

    def passive(
        self,
        queries: Csr,
        documents: Csr,
        tuples: Ints,
        form: int,
        aggressiveness: float,
        rank_weights: Floats,
        n_documents: Ints,
        grow: bool,
        transposed: bool,
        clock: Floats,
        margins: Floats,
        weights: Floats,
        rates: Floats,
    ) -> None:
        """Take passive-aggressive steps, each at the W that the one before left.

        form : int
            `PairForm.HINGE` or `PairForm.SQUARED_HINGE`.
        n_documents : int64 (steps)
            How many documents there are to be ranked, for each tuple.

        Margin z and violation weight L are those of `margins`. With z < 1, a step takes the rate
        min((1 - z) / (n + slack), most) and the slope -1. n is the sum of (q delta')**2 where W
        may move: (sum of q**2) (sum of delta**2), or without `grow`, for each row i of W in turn,
        a_i**2 times the sum of b_j**2 over its entries that are not zero, a being what stands on
        the left and b on the right; sums are in stored order from 0.0. With
        c = aggressiveness * L, slack and most are 0 and c for the hinge, 1 / (2 * c) and infinity
        for its square. Where z >= 1 or n = 0, the rate is 0. There is no penalty: every step is a
        boundary. Margins, weights and rates are filled.
        """

    def counts(self, clock: Floats, out: Ints) -> None:
        """Fill `out` with the number of entries of each row that are not zero now."""

    def export(
        self,
        clock: Floats,
        indptr: Ints,
        indices: NDArray[np.int32],
        values: Features,
        current: bool,
    ) -> None:
        """Fill indices and values, sorted by row and column, where `indptr` follows `counts`.

        Values are the weights if `current`, else as they are stored.
        """

    def state(self, row_state: Floats, group_state: Floats) -> None:
        """Fill what `Loops.bilinear` takes to go on with the same bits."""

    def memory(self) -> int:
        """Return the bytes that the store has taken."""


class Loops(Protocol):
    """The loops that a kernel brings. Arrays named `out`, and those said to change, are written.

    Judged lists are five arrays, always in this order (see :class:`ranking.kernels.lists.Lists`):

    list_ptr : int64 (lists + 1)
        List q has the layers list_ptr[q]:list_ptr[q + 1], worst first, at least two.
    layer_ptr : int64 (layers + 1)
        Layer l has the rows layer_ptr[l]:layer_ptr[l + 1], padding included.
    layer_size : int64 (layers)
        Rows of a layer that are real; the rest is padding, with features and weight 0.
    block_ptr : int64 (blocks + 1)
        Block b has the lists block_ptr[b]:block_ptr[b + 1].
    omega : float64 (rows)
        Weight of a row as a dominating one; 0 in the bottom layer and on padding.

    For dense features every layer's rows are a multiple of `LANES`; for sparse ones (CSC, rows
    sorted within a column, no duplicates) there is no padding.
    """

    def contract(self) -> dict[str, Any]:
        """Return {"abi", "lanes", "block", "rng", "exp", "threads", "instructions"}.

        "threads" says what threads come from ("openmp", "rayon", "none"); "instructions" names
        the instruction set chosen at run time.
        """

    def random_bits(self, seed: int, first: int, out: NDArray[np.uint64]) -> None:
        """Fill `out` with the draws first, first + 1, ... of a seed."""

    def random_uniform(self, seed: int, first: int, out: Floats) -> None:
        """Fill `out` with uniforms in [0, 1) from the same draws."""

    def random_below(self, seed: int, first: int, bound: int, out: Ints) -> None:
        """Fill `out` with integers in [0, bound) from the same draws; 1 <= bound < 2**32."""

    def exp(self, x: Floats, out: Floats) -> None:
        """Fill `out` with the contract's exponential of `x`."""

    def dot(self, a: Floats, b: Floats) -> float:
        """Return the sum in lanes of a[i] * b[i]."""

    def block_sum(self, a: Floats, threads: int) -> float:
        """Return the sum of the blocks' sums in lanes, blocks of `BLOCK` elements added in order.

        The total starts at 0.0.
        """

    def scores_dense(self, x: Features, weights: Floats, out: Floats, threads: int) -> None:
        """Fill out[i] with the sum in lanes of x[i, r] * weights[r]; x is C-contiguous."""

    def scores_csr(
        self,
        indptr: Indices,
        indices: Indices,
        data: Features,
        weights: Floats,
        out: Floats,
        threads: int,
    ) -> None:
        """Fill out[i] with the sum, from 0.0 and in stored order, of data * weights[index]."""

    def domination_value(
        self,
        list_ptr: Ints,
        layer_ptr: Ints,
        layer_size: Ints,
        block_ptr: Ints,
        omega: Floats,
        margins: Floats,
        threads: int,
    ) -> float:
        """Return the loss at these margins."""

    def domination_bounds_dense(
        self,
        x: Features,
        list_ptr: Ints,
        layer_ptr: Ints,
        layer_size: Ints,
        omega: Floats,
        out: Floats,
        threads: int,
    ) -> None:
        """Fill out[0..4, r] with bounds along each feature r; x is Fortran-contiguous.

        out[0]: Popoviciu, sum_i omega_i (range of x over i and what it dominates)**2 / 4.
        out[1]: the paper's, sum_i omega_i max(x**2 over the list).
        out[2]: the largest range of x within a list.
        out[3]: the largest abs(x).
        """

    def domination_bounds_csc(
        self,
        indptr: Indices,
        indices: Indices,
        data: Features,
        list_ptr: Ints,
        layer_ptr: Ints,
        layer_size: Ints,
        omega: Floats,
        out: Floats,
        threads: int,
    ) -> None:
        """Do the same for sparse features; absent entries are zeros."""

    def domination_slopes_dense(
        self,
        x: Features,
        list_ptr: Ints,
        layer_ptr: Ints,
        layer_size: Ints,
        block_ptr: Ints,
        omega: Floats,
        margins: Floats,
        columns: Ints,
        out: Floats,
        threads: int,
    ) -> None:
        """Fill out[0, c] and out[1, c] with gradient and curvature along columns[c]."""

    def domination_slopes_csc(
        self,
        indptr: Indices,
        indices: Indices,
        data: Features,
        list_ptr: Ints,
        layer_ptr: Ints,
        layer_size: Ints,
        omega: Floats,
        margins: Floats,
        columns: Ints,
        out: Floats,
    ) -> None:
        """Do the same for sparse features, in time that follows the column's non-zeros."""

    def domination_sweep_dense(
        self,
        x: Features,
        list_ptr: Ints,
        layer_ptr: Ints,
        layer_size: Ints,
        block_ptr: Ints,
        omega: Floats,
        margins: Floats,
        weights: Floats,
        radius: Floats,
        bounds: Floats,
        columns: Ints,
        l1: float,
        l2: float,
        newton: bool,
        threads: int,
    ) -> None:
        """Take one step along each of `columns`, in order; margins, weights and radius change.

        Minimises loss + l1 |w| + l2/2 w**2. bounds[0, r] is a global bound on the curvature along
        r (0: the feature does not vary within any list, and is passed over), bounds[1, r] the
        feature's range, bounds[2, r] its largest absolute value.

        A step takes the minimiser of a quadratic majoriser of curvature c. With `newton`, c is
        the current curvature h times kappa(u) = 2 (exp(u) - u - 1) / u**2, u = range * radius,
        if that is below the global bound; as a log-sum-exp's curvature grows at most by
        exp(range * distance), that is a majoriser for steps up to the radius, to which the step
        is clipped. Every step therefore decreases the objective.
        """

    def domination_sweep_csc(
        self,
        indptr: Indices,
        indices: Indices,
        data: Features,
        list_ptr: Ints,
        layer_ptr: Ints,
        layer_size: Ints,
        omega: Floats,
        margins: Floats,
        weights: Floats,
        radius: Floats,
        bounds: Floats,
        columns: Ints,
        l1: float,
        l2: float,
        newton: bool,
    ) -> None:
        """Do the same for sparse features, in time that follows the non-zeros."""

    def rank_lists(
        self,
        group_ptr: Ints,
        scores: Features,
        order: Ints,
        tied: NDArray[np.uint8],
        threads: int,
    ) -> None:
        """Sort the rows of each list by score, highest first; equal scores keep their order.

        Fills `order` with the row at each place, and `tied` with 1 where a place has the score of
        the place before it in its list, else 0.
        """

    def ranked_metrics(
        self,
        group_ptr: Ints,
        grades: Floats,
        order: Ints,
        tied: NDArray[np.uint8],
        unfound_ptr: Ints,
        unfound_grades: Floats,
        gains: Floats,
        unfound_gains: Floats,
        discounts: Floats,
        measures: Ints,
        out: Floats,
        threads: int,
    ) -> None:
        """Fill out[q, m] with measure m of list q, NaN where there is nothing to measure.

        The arrays are those of :class:`ranking.kernels.measures.RankedLists`.
        """

    def parse_letor(
        self,
        text: NDArray[np.uint8],
        chunk_ptr: Ints,
        row_ptr: Ints,
        grades: Floats,
        places: Ints,
        indices: NDArray[np.int32],
        values: Features,
        counts: Ints,
        threads: int,
    ) -> None:
        """Parse chunks of whole lines; chunk c is text[chunk_ptr[c]:chunk_ptr[c + 1]].

        Each chunk ends with a newline. It writes its rows from row_ptr[c] on, where there is
        room for a row a line, and its features from chunk_ptr[c] // `PAIR_BYTES` on, one after
        the other. It stops at its first defect. What it does not write is undefined.

        grades : float64 (rows)
        places : int64 (rows, 6)
            The row's line in the chunk, from 1; its number of features; start and length of its
            qid; start and length of its document's id, both 0 if it has none. A qid equal to that
            of the row before in the chunk has the same start.
        indices, values : int32, float32 or float64 (features)
        counts : int64 (chunks, 9)
            Rows; features; lines, up to and with the defective one; the number of features of
            every row if the rows have the same indices, rising by one, else -1; the smallest
            index (2**31 if there is none); the largest (-1); the `Defect`; start and length of
            the word that has it, both 0 before `BAD_GRADE`.
        """

    def draw_tuples(
        self, seed: int, first: int, lists: MatchFields, positives: int, out: Ints
    ) -> None:
        """Fill `out` with the tuples of the steps first, first + 1, ...

        lists
            The fields of `ranking.kernels.bilinear.MatchLists`, which says what they are.
        out : int64 (steps, 1 + positives + trials)
        """

    def bilinear(
        self,
        n_columns: int,
        indptr: Ints,
        indices: NDArray[np.int32],
        values: Features,
        row_state: Floats,
        groups: Ints,
        group_weights: Floats,
        group_state: Floats,
    ) -> BilinearStore:
        """Return a store that holds these values; their dtype is that of its storage.

        row_state : float64 (rows, 3)
            A_r, B_r and the window in which the row was renewed.
        groups : int64 (rows, or 0 if there are none)
        group_weights : float64 (groups)
            omega.
        group_state : float64 (groups, 4)
            sigma, N, the largest N, B.
        """

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
        """

    def factored_vectors(self, features: Csr, matrix: Singles, out: Singles, threads: int) -> None:
        """Fill out[o] with the sum, in stored order and from 0, of value * matrix[feature]."""

    def factored_scores(
        self, queries: Singles, documents: Singles, biases: Singles, out: Singles, threads: int
    ) -> None:
        """Fill out[i, j] with queries[i] . documents[j] + biases[j]; no biases is an empty array.

        Rows are padded to a multiple of `WIDE`.
        """

    def factored_top(
        self,
        queries: Singles,
        documents: Singles,
        biases: Singles,
        barred_ptr: Ints,
        barred: Ints,
        found: Ints,
        scores: Singles,
        threads: int,
    ) -> None:
        """Fill rows of `found` and `scores` (queries, k) with the best documents, best first.

        Scores are those of `factored_scores`, of which no more than a few rows are ever held.
        Equal scores rank by position; a score that is not a number is never among the best. What
        is left of a row has document -1 and score -inf.

        barred_ptr, barred : int64
            Query i is not to have the documents barred[barred_ptr[i]:barred_ptr[i + 1]], which
            rise.
        """

    def factored_search(
        self,
        sides: Sides,
        factors: Factors,
        tuples: Ints,
        draws: tuple[int, int, MatchFields] | None,
        positives: int,
        place: int,
        rank_weights: Singles,
        n_documents: int,
        chosen: Ints,
        margins: Singles,
        weights: Singles,
        threads: int,
    ) -> None:
        """Fill `chosen` (n, 3) with query, better and worse, and the margins and weights of each.

        tuples : int64 (n, 1 + positives + trials)
            If there are draws, only its width counts, and it has no rows: tuple t is then the
            one that `draw_tuples` would draw, and no more of it is drawn than is looked at.
        draws : seed, first step, lists
        place : int
            Which of the positives is the better, from 0.
        rank_weights, margins, weights : float32
            As in `BilinearStore.margins`; with one trial the margin is a difference of two scores.
            If the lists have weights, those of the better are in the weights.
        """

    def factored_update(
        self,
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
        """Take the steps of one block; factors and squares change.

        queries : int64 (n)
        step_ptr : int64 (n + 1)
            Step i has the documents, and slopes, step_ptr[i] to step_ptr[i + 1].
        squares : as factors
            Adagrad's sums of squares, all empty without it.
        """

    def factored_steps(
        self,
        sides: Sides,
        factors: Factors,
        squares: Factors,
        tuples: Ints,
        draws: tuple[int, int, MatchFields] | None,
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
        """Search and update by blocks, with the slope of an inlined loss, or of a native one."""

    # --- alternating ---

    def half_step(
        self,
        matrix: Csr,
        vectors: Singles,
        threshold: float,
        limit: float,
        out: Singles,
        gains: Floats,
        threads: int,
    ) -> None:
        """Fill `out` (rows, width) and `gains` (rows) with one half-step.

        matrix : CSR (rows, columns)
        vectors : float32 (columns, width)
            Padded to a multiple of `WIDE`, as `out` is.
        """

    def half_step_sparse(
        self,
        matrix: Csr,
        vectors: tuple[Ints, NDArray[np.int32], Singles],
        width: int,
        threshold: float,
        limit: float,
        gains: Floats,
        threads: int,
    ) -> tuple[Ints, NDArray[np.int32], Singles]:
        """Return the same from sparse vectors, sparse: indptr, indices that rise, values."""

    # --- native ---

    def native_pairs(self, call: Call, margins: Floats, out: Floats, threads: int) -> None:
        """Fill out[i] with what a function of a margin returns for margins[i]."""

    def native_list_values(
        self,
        call: Call,
        list_ptr: Ints,
        scores: Floats,
        grades: Floats,
        out: Floats,
        threads: int,
    ) -> None:
        """Fill out[i] with the loss of list i, which is at list_ptr[i] to list_ptr[i + 1]."""

    def native_list_slopes(
        self,
        call: Call,
        list_ptr: Ints,
        scores: Floats,
        grades: Floats,
        out: Floats,
        threads: int,
    ) -> None:
        """Fill `out`, which has a place a score, with the slopes of each list."""

    def native_penalties(self, call: Call, matrix: Features, out: Floats, threads: int) -> None:
        """Fill out[i] with the penalty of row i."""

    def native_prox(
        self, call: Call, matrix: Features, width: int, step: float, threads: int
    ) -> None:
        """Let the first `width` numbers of each row have their prox."""

    def native_maximize(self, call: Call, matrix: Features, width: int, threads: int) -> None:
        """Let the first `width` numbers of each row have the maximum of which they are the gain."""
