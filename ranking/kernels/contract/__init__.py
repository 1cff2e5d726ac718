"""The kernel contract: what every kernel computes, in which order, to the last bit.

A kernel implements *families* of functions; one module here describes each family and has one
`Protocol` for it. A family's implementation is any object with the functions of that protocol as
attributes: a module, or one flat extension module for several families. A kernel may leave out
whole families and inherit them from another kernel, because bits are equal.

Kernel functions trust their arguments: the checked functions of :mod:`ranking.kernels` (one
module per family) validate every array before. Arguments travel in the structs of
:mod:`ranking.kernels.contract.arrays`. `threads` is at least 1 and is always the last argument.
Arrays named `out`, and those said to be written, are written; all others are read.

There are three implementations: the reference (plain NumPy, the oracle), Cython and Rust. They
return the same bits on one platform, because the contract fixes the *order of operations*, not
only the formula. All arithmetic is IEEE double precision, one rounding per written operation, no
fused multiply-add; features may be stored as float32 or float64 and are widened when loaded.

Lanes
-----
A sum of values v[0..n) "in lanes" has `LANES` = 4 partial sums that start at 0.0; v[i] is added to
partial sum i % 4, in order of i. The result is ``(s0 + s2) + (s1 + s3)``. That vectorises, and
has the same bits on every instruction set. Rows of dense training data are padded (see
`ListLayout`), so that each layer is a whole number of lanes.

Blocks
------
Work that threads share is cut into fixed blocks, and the blocks' sums are added in order. So a
result does not depend on the number of threads.

Self-description
----------------
Every kernel has a function ``describe() -> dict`` with the keys "abi" (`ABI`), "lanes" (`LANES`),
"block" (`BLOCK`), "rng" ("splitmix64"), "exp" ("minimax-11"), "threads" (where threads come from:
"openmp", "rayon" or "none") and "instructions" (the instruction set that was selected at run
time). Its result is the argument `description` of :class:`ranking.kernels.kernel.Kernel`.

The modules of :mod:`ranking.kernels.reference`, one per family, are the normative text for the
order of operations, and for what of a text is accepted.
"""

from typing import Final, TypedDict

from ranking.contracts.loss import ListwiseForm as ListwiseForm
from ranking.contracts.loss import PairwiseForm as PairwiseForm
from ranking.contracts.regularizer import EntryPenalty as EntryPenalty
from ranking.contracts.regularizer import RowPenalty as RowPenalty
from ranking.kernels.contract.alternating import AlternatingFamily as AlternatingFamily
from ranking.kernels.contract.arrays import *  # noqa: F403
from ranking.kernels.contract.bilinear import BilinearFamily as BilinearFamily
from ranking.kernels.contract.bilinear import BilinearStore as BilinearStore
from ranking.kernels.contract.constants import *  # noqa: F403
from ranking.kernels.contract.domination import DominationFamily as DominationFamily
from ranking.kernels.contract.factored import FactoredFamily as FactoredFamily
from ranking.kernels.contract.item_item import ItemItemFamily as ItemItemFamily
from ranking.kernels.contract.letor import LetorFamily as LetorFamily
from ranking.kernels.contract.linear import LinearFamily as LinearFamily
from ranking.kernels.contract.listwise import ListwiseFamily as ListwiseFamily
from ranking.kernels.contract.metrics import MetricsFamily as MetricsFamily
from ranking.kernels.contract.native import NativeFamily as NativeFamily
from ranking.kernels.contract.pairwise_lists import PairwiseListsFamily as PairwiseListsFamily
from ranking.kernels.contract.random import RandomFamily as RandomFamily
from ranking.kernels.contract.sampling import SamplingFamily as SamplingFamily


class Implementations(TypedDict, total=False):
    """The families that a kernel implements."""

    random: RandomFamily
    linear: LinearFamily
    domination: DominationFamily
    pairwise_lists: PairwiseListsFamily
    metrics: MetricsFamily
    letor: LetorFamily
    sampling: SamplingFamily
    bilinear: BilinearFamily
    factored: FactoredFamily
    alternating: AlternatingFamily
    item_item: ItemItemFamily
    listwise: ListwiseFamily
    native: NativeFamily


FAMILIES: Final = tuple(Implementations.__annotations__)
"""The names of all families."""
