"""Numbers and enumerations of the kernel contract."""

from __future__ import annotations

import enum
from typing import Final

from ranking.contracts.loss import PairwiseForm

ABI: Final = 5
"""Version of the contract; a kernel that was built for another one is refused."""

LANES: Final = 4
"""Partial sums of a float64 sum "in lanes"."""

WIDE: Final = 8
"""Partial sums of a float32 dot product; embeddings are padded to a multiple of it."""

BLOCK: Final = 4096
"""Elements per block of `block_sum`; rows at which a block of lists is closed."""

# --- random numbers and the exponential ---

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

# --- domination ---

SPREAD: Final = 300.0
"""Largest span of the margins of an ordinary list; a list with more is *wide-range*, and its
exponentials need one reference per layer. Also the largest drift of margins before the
exponentials are computed again."""

ROUNDING: Final = 2.0**-45
"""Share of the mean square that is added to a variance, to cover its cancellation."""

CURVATURE_FLOOR: Final = 2.0**-40
"""Smallest Newton curvature, as a share of the global bound."""

RADIUS_FLOOR: Final = 0.0625
"""Smallest radius of a Newton step, times the feature's range."""

RESUM: Final = 2.0**-10
"""A running sum that falls below this share of its largest value is summed from scratch."""

# --- pairwise losses over judged lists ---

PARTS: Final = 16
"""Parts of the selected lists that have a Gram matrix of their own; they are added in order."""

CHUNK: Final = 64
"""Rows of a list whose products are added up before they are added to the Gram matrix."""

PRODUCTS: Final = 512
"""Pairs of a row whose factors 1 + exp(-|z|) are multiplied before the logarithm is taken."""

SECANT: Final = 2.0**-10
"""Half the distance of the difference quotient that is the curvature of a native loss."""

# --- bilinear ---

REBASE_WINDOW: Final = 4096
"""Steps per window: a row of W that changes in a window is rebased once in it."""

SMALLEST_SCALE: Final = 2.0**-64
"""A running scale that falls below this is reset to 1, and all rows are rebased."""

HOGWILD_BLOCK: Final = 1024
"""Steps between two barriers of hogwild's threads, if there is no penalty."""

# --- metrics and LETOR ---

RELEVANT: Final = 1.0
"""Smallest relevant grade, for metrics of binary relevance."""

LARGEST_INDEX: Final = 2**31 - 1
PAIR_BYTES: Final = 4
"""Bytes of the shortest feature in LETOR text, with the space before it."""

MEASURE_COLUMNS: Final = ("kind", "cutoff", "gain", "discount", "shared", "short")
"""The six integers that describe one measure; see `contract.metrics`."""


class MeasureKind(enum.IntEnum):
    """Kind of a measure of a ranked list; the numbers are part of the contract."""

    NDCG = 0
    MEAN_NDCG = 1
    AVERAGE_PRECISION = 2
    PRECISION = 3
    RECALL = 4
    RECIPROCAL_RANK = 5
    R_PRECISION = 6
    MEAN_RANK = 7
    AUC = 8
    PAIR_ERROR = 9
    DOMINATION_ERROR = 10
    ALL_PAIRS_ERROR = 11


class Defect(enum.IntEnum):
    """Reason why a line of LETOR text is refused; of several reasons, the smallest is reported.

    From `QID_ELSEWHERE` on, the first word with a defect decides.
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


# --- losses and lazy shrinkage ---


BUILTIN_FORMS: Final = (PairwiseForm.HINGE, PairwiseForm.SQUARED_HINGE, PairwiseForm.LOGISTIC)
"""Forms whose slope is part of every kernel."""


class ShrinkageState(enum.IntEnum):
    """Positions in the array of the lazy shrinkage state (float64, 4 elements)."""

    STEP = 0
    """Number of steps so far."""
    SCALE = 1
    """Running scale A."""
    THRESHOLD = 2
    """Running threshold B."""
    LEARNING_RATES = 3
    """Sum of the learning rates since the last application of the penalty."""
