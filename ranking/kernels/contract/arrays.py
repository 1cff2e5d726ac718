"""Array types and the structs in which arguments of kernel functions travel.

Every struct is a `NamedTuple` of arrays and numbers. A kernel reads its *attributes by name*,
never by position, and holds no reference after the call. (`EntryPenalty` and `RowPenalty` come
from :mod:`ranking.contracts.regularizer`.) Arrays are aligned, in native byte
order and C-contiguous unless this page says otherwise; inputs may be read-only; arrays that are
written share no memory with any other argument. The checked functions of
:mod:`ranking.kernels` guarantee all that.
"""

from __future__ import annotations

from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Singles: TypeAlias = NDArray[np.float32]
Features: TypeAlias = NDArray[np.float32] | NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Int32s: TypeAlias = NDArray[np.int32]
Bytes: TypeAlias = NDArray[np.uint8]
Indices: TypeAlias = NDArray[np.int32] | NDArray[np.int64]
Numbers = TypeVar("Numbers", Floats, Singles)

# --- matrices ---


class Csr(NamedTuple):
    """A CSR matrix: row i has the columns indices[indptr[i]:indptr[i + 1]].

    Attributes
    ----------
    indptr, indices : int32 or int64, both of one dtype unless said otherwise
        The indices of a row rise strictly (except for `linear_scores`, which takes any order).
    data : float32 or float64
    """

    indptr: Indices
    indices: Indices
    data: Features


class Csc(NamedTuple):
    """A CSC matrix: `Csr` with rows and columns exchanged; rows rise strictly in each column."""

    indptr: Indices
    indices: Indices
    data: Features


Rows: TypeAlias = Features | Csr
"""Features by row: a C-contiguous 2-d array, or CSR. Whatever is no ndarray is a `Csr`."""

Columns: TypeAlias = Features | Csc
"""Features by column: a Fortran-contiguous 2-d array, or CSC. Whatever is no ndarray is a `Csc`."""

# --- domination ---


class ListLayout(NamedTuple):
    """Judged lists sorted into layers of equal grade, lowest grade first.

    For dense features every layer has a multiple of `LANES` rows; for sparse ones there is no
    padding.

    Attributes
    ----------
    list_ptr : int64 (lists + 1)
        List q has the layers list_ptr[q]:list_ptr[q + 1], at least two.
    layer_ptr : int64 (layers + 1)
        Layer k has the rows layer_ptr[k]:layer_ptr[k + 1], padding included.
    layer_size : int64 (layers)
        Rows of a layer that are real; the rest is padding, with features and weight 0.
    block_ptr : int64 (blocks + 1)
        Block b has the lists block_ptr[b]:block_ptr[b + 1].
    omega : float64 (rows)
        Weight of a row as a dominating one; 0 in the lowest layer and on padding.
    """

    list_ptr: Ints
    layer_ptr: Ints
    layer_size: Ints
    block_ptr: Ints
    omega: Floats


class CoordinateState(NamedTuple):
    """State of coordinate descent; margins, weights and radius are written.

    Attributes
    ----------
    margins : float64 (rows)
        Scores of the rows, kept up to date with the weights.
    weights, radius : float64 (features)
        Weight and radius of the Newton step of each feature.
    bounds : float64 (3, features)
        Global bound on the curvature (0: the feature does not vary within any list, and is
        skipped), the feature's range, its largest absolute value.
    """

    margins: Floats
    weights: Floats
    radius: Floats
    bounds: Floats


# --- metrics ---


class RankedListArrays(NamedTuple):
    """Lists of graded documents in the order in which they are ranked.

    Attributes
    ----------
    group_ptr : int64 (lists + 1)
        List q has the rows group_ptr[q]:group_ptr[q + 1].
    grades : float64 (rows)
    order : int64 (rows)
        The row at each rank, list by list, best first.
    tied : uint8 (rows)
        Not 0 if a rank has the score of the rank before it in its list.
    unretrieved_ptr : int64 (lists + 1)
        Judged documents that are missing from the list, by list in the same way.
    unretrieved_grades : float64 (unretrieved)
    gains : float64 (tables, rows)
        Not negative. A measure's gain t > 0 is table t - 1; gain 0 is max(grade, 0).
    unretrieved_gains : float64 (tables, unretrieved)
    discounts : float64 (tables, ranks)
        Entry i is for rank i + 1; at least as many ranks as the longest list has retrieved and
        unretrieved documents.
    """

    group_ptr: Ints
    grades: Floats
    order: Ints
    tied: Bytes
    unretrieved_ptr: Ints
    unretrieved_grades: Floats
    gains: Floats
    unretrieved_gains: Floats
    discounts: Floats


# --- LETOR ---


class LetorText(NamedTuple):
    """Text in chunks of whole lines.

    Attributes
    ----------
    text : uint8 (bytes)
    chunk_ptr : int64 (chunks + 1)
        Chunk c is text[chunk_ptr[c]:chunk_ptr[c + 1]] and ends with a newline.
    row_ptr : int64 (chunks + 1)
        Chunk c has at most row_ptr[c + 1] - row_ptr[c] rows, which it writes from row_ptr[c] on.
    """

    text: Bytes
    chunk_ptr: Ints
    row_ptr: Ints


class LetorBuffers(NamedTuple):
    """Output of `parse_letor`; all arrays are written.

    Attributes
    ----------
    grades : float64 (rows)
    row_info : int64 (rows, 6)
        The row's line in the chunk, from 1; its number of features; start and length of its qid;
        start and length of its document's id, both 0 if it has none. A qid equal to that of the
        row before it in the chunk has the same start.
    indices, values : int32, float32 or float64 (features)
    chunk_info : int64 (chunks, 9)
        Rows; features; lines, up to and with the defective one; the number of features of every
        row if all rows have the same indices, rising by one, else -1; the smallest index (2**31
        if there is none); the largest (-1); the `Defect`; start and length of the word that has
        it, both 0 before `BAD_GRADE`.
    """

    grades: Floats
    row_info: Ints
    indices: Int32s
    values: Features
    chunk_info: Ints


# --- triplets ---


class Positives(NamedTuple):
    """The positive documents of each query, as `sample_triplets` samples from them.

    Attributes
    ----------
    queries : int64 (queries to sample)
        Each has at least one positive and one negative to sample.
    query_sums : int64 (queries to sample), or empty
        Cumulative counts of how often each of `queries` is sampled in one pass; empty: queries
        are sampled uniformly.
    list_of : int64 (all queries)
        The list of positives of each query.
    member_ptr : int64 (lists + 1)
    members : int64 (members)
        List i is members[member_ptr[i]:member_ptr[i + 1]], rising.
    member_sums : int64 (members), or empty
        For each list, cumulative counts of how often each member is sampled; empty: uniformly.
    own_document : int64 (all queries)
        The member of a query's list that is never sampled for this query, or -1.
    member_weights : float32 (members), or empty
        Weight of a member as the positive of a step of the factored model.
    n_documents : int
    any_negative : bool
        Whether all documents but the positive may be sampled as negatives, positives included.
    """

    queries: Ints
    query_sums: Ints
    list_of: Ints
    member_ptr: Ints
    members: Ints
    member_sums: Ints
    own_document: Ints
    member_weights: Singles
    n_documents: int
    any_negative: bool


class Sampling(NamedTuple):
    """Where sampled triplets come from: steps `first`, `first` + 1, ... of a seed.

    Attributes
    ----------
    seed, first : int in 0..2**64 - 1
    positives : Positives
    """

    seed: int
    first: int
    positives: Positives


class TripletSource(NamedTuple):
    """Triplets of a training call: given ones, or a sampling.

    Attributes
    ----------
    triplets : int64 (steps, 1 + n_positives + max_trials)
        Query, positives, negatives. With a sampling it has no rows, and only its width counts:
        triplet t is the one that `sample_triplets` would return, of which no more is sampled
        than is looked at.
    sampling : Sampling or None
    n_positives : int
    positive_rank : int
        Which of the positives is used, by score, from 0 (the best).
    """

    triplets: Ints
    sampling: Sampling | None
    n_positives: int
    positive_rank: int


# --- losses and execution ---


class NativeCall(NamedTuple):
    """Addresses of a C function of ``ranking/native.h`` and of its context; (0, 0) is none."""

    function: int
    context: int


NO_CALL: Final = NativeCall(0, 0)


class PairwiseLoss(NamedTuple):
    """A pairwise loss as training loops use it.

    Attributes
    ----------
    form : int
        A `PairwiseForm`.
    slope : NativeCall
        The slope if the form is `NATIVE`, else `NO_CALL`.
    rank_weights : float64 (bilinear) or float32 (factored), at least one
        L(rank); ranks beyond the end have the last value.
    n_documents : int
        Number of documents that are ranked, of which the rank estimate is a share.
    """

    form: int
    slope: NativeCall
    rank_weights: Features
    n_documents: int


class ListwiseLoss(NamedTuple):
    """A listwise loss of sampled lists as training loops use it; see `contract.listwise`.

    Attributes
    ----------
    form : int
        A `ListwiseForm`.
    value, slopes : NativeCall
        The functions if the form is `NATIVE`, else `NO_CALL`.
    weight, margin : float
        Of the domination loss.
    """

    form: int
    value: NativeCall
    slopes: NativeCall
    weight: float
    margin: float


class ListSlopes(NamedTuple):
    """Loss and slopes of each list; all arrays are written.

    Attributes
    ----------
    losses : float64 (lists)
        NaN if a slope is not finite.
    slopes : float64 (lists, 1 + negatives)
        Derivatives with respect to the scores of the positive and of the negatives.
    """

    losses: Floats
    slopes: Floats


class PairCurve(NamedTuple):
    """A pairwise loss over judged lists; see :mod:`ranking.kernels.contract.pairwise_lists`.

    Attributes
    ----------
    form : int
        A `PairwiseForm`; the hinges are computed by windows, the others by all pairs.
    lower, upper : float
        The gaps between which a hinge is quadratic.
    bend : float
        The second derivative there; of a native loss, the largest one.
    value, slope : NativeCall
        The functions of a native loss, else `NO_CALL`.
    """

    form: int
    lower: float
    upper: float
    bend: float
    value: NativeCall
    slope: NativeCall


class Execution(NamedTuple):
    """How the steps of a training call are executed.

    Attributes
    ----------
    batch_size : int
        Steps that are taken at the parameters of the batch's start.
    hogwild : bool
        Whether threads may update without order.
    threads : int
    """

    batch_size: int = 1
    hogwild: bool = False
    threads: int = 1


class StepResults(NamedTuple, Generic[Numbers]):
    """Margin and violation weight of each step, written by training calls.

    float64 for the bilinear, float32 for the factored model.
    """

    margins: Numbers
    weights: Numbers


# --- bilinear ---


class BilinearFeatures(NamedTuple):
    """Sparse features of queries and documents.

    Attributes
    ----------
    queries, documents : Csr
    transposed : bool
        Whether W has one row per document feature (and one column per query feature) instead of
        one row per query feature.
    """

    queries: Csr
    documents: Csr
    transposed: bool


class BilinearState(NamedTuple):
    """Values from which a store of W starts; the arrays are copied.

    Attributes
    ----------
    weights : Csr
        int64 indptr, int32 indices; the dtype of data is that in which W is stored.
    row_state : float64 (rows, 3)
        A_r, B_r and the window in which the row was rebased last.
    groups : int64 (rows), or empty
        Group of each row.
    group_weights : float64 (groups)
        omega.
    group_state : float64 (groups, 4)
        sigma, N, the largest N, B.
    """

    weights: Csr
    row_state: Floats
    groups: Ints
    group_weights: Floats
    group_state: Floats


class UpdateRule(NamedTuple):
    """Penalty of the bilinear model and which entries of W may change.

    Attributes
    ----------
    prox_interval : int
        Steps from one application of the penalty to the next.
    l1, l2 : float
        With groups, l1 is the strength of the group penalty and l2 is 0.
    grow : bool
        Whether entries that are zero may change.
    """

    prox_interval: int = 100
    l1: float = 0.0
    l2: float = 0.0
    grow: bool = True


class Violations(NamedTuple):
    """Margin, violation weight and negative of each triplet; all are written."""

    margins: Floats
    weights: Floats
    negatives: Ints


class PassiveResults(NamedTuple):
    """Margin, violation weight and learning rate of each passive-aggressive step; all written."""

    margins: Floats
    weights: Floats
    learning_rates: Floats


# --- factored ---


class FactoredFeatures(NamedTuple):
    """Sparse features, or None where each query (document) is its own single feature.

    Attributes
    ----------
    queries, documents : Csr or None
    contexts : Csr or None
        One row per query over the document features; None if there are no contexts.
    """

    queries: Csr | None
    documents: Csr | None
    contexts: Csr | None


class Factors(NamedTuple):
    """Parameters of the factored model, or as many numbers that belong to them.

    Attributes
    ----------
    queries, documents : float32 (features, width)
        U and V; the width is a multiple of `WIDE`.
    contexts : float32 (document features, width)
        S; no rows if there are no contexts.
    biases : float32 (document features), or empty
    """

    queries: Singles
    documents: Singles
    contexts: Singles
    biases: Singles


class FactoredState(NamedTuple):
    """What a step of the factored model changes; all arrays are written.

    Attributes
    ----------
    factors : Factors
    squares : Factors
        Adagrad's sums of squares, in the shapes of `factors`; all empty without Adagrad.
    """

    factors: Factors
    squares: Factors


class FactoredSteps(NamedTuple):
    """Steps with known slopes.

    Attributes
    ----------
    queries : int64 (steps)
    step_ptr : int64 (steps + 1)
        Step i has the documents and slopes step_ptr[i]:step_ptr[i + 1].
    documents : int64 (entries)
    slopes : float32 (entries)
        Without Adagrad, already multiplied by the learning rate.
    """

    queries: Ints
    step_ptr: Ints
    documents: Ints
    slopes: Singles


class SampledTriplets(NamedTuple):
    """Output of `factored_sample`; all arrays are written.

    Attributes
    ----------
    triplets : int64 (steps, 3)
        Query, positive, negative.
    margins, weights : float32 (steps)
    """

    triplets: Ints
    margins: Singles
    weights: Singles


class Embeddings(NamedTuple):
    """Composed embeddings: float32 (queries, width), (documents, width), (documents) or empty."""

    queries: Singles
    documents: Singles
    biases: Singles


class Exclusions(NamedTuple):
    """Documents that a query must not get: documents[indptr[i]:indptr[i + 1]], rising; int64."""

    indptr: Ints
    documents: Ints


class TopK(NamedTuple):
    """Best documents of each query, best first: int64 and float32 (queries, k); both written."""

    documents: Ints
    scores: Singles


# --- native ---


class GradedScores(NamedTuple):
    """Scores and grades by list: list i is at group_ptr[i]:group_ptr[i + 1].

    Attributes
    ----------
    group_ptr : int64 (lists + 1)
    scores, grades : float64 (rows)
    """

    group_ptr: Ints
    scores: Floats
    grades: Floats


# --- squared error of all pairs, and of items by items ---


class SquaredRule(NamedTuple):
    """Weights of observed and of unobserved pairs, and the steps of conjugate gradients per row."""

    observed: float
    unobserved: float
    steps: int


class ItemRule(NamedTuple):
    """The elastic net of a column of item weights, and when its coordinate descent ends.

    Attributes
    ----------
    l1, l2 : float
        The penalty is ``l1 |w| + l2/2 w**2``.
    nonnegative : bool
    tolerance : float
        A sweep whose largest ``curvature * step**2`` is at most this share of the sum of squares of
        the column has converged.
    sweeps : int
        The maximal number of sweeps.
    """

    l1: float
    l2: float
    nonnegative: bool
    tolerance: float
    sweeps: int
