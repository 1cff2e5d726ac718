"""Native plugins: losses and regularizers whose functions are compiled.

``ranking/native.h``, in `include_dir()`, declares the C functions. A plugin derives a part from one
of the classes below and returns its functions in a capsule, or by their addresses.
"""

from ranking.kernels.native.functions import (
    NATIVE_ABI,
    ListwiseFunctions,
    NativeFunctions,
    PairwiseFunctions,
    RowFunctions,
    include_dir,
)
from ranking.kernels.native.parts import (
    NativeBoundedRowRegularizer,
    NativeListwiseLoss,
    NativePairwiseLoss,
    NativePart,
    NativeRowRegularizer,
)

__all__ = [
    "NATIVE_ABI",
    "ListwiseFunctions",
    "NativeBoundedRowRegularizer",
    "NativeFunctions",
    "NativeListwiseLoss",
    "NativePairwiseLoss",
    "NativePart",
    "NativeRowRegularizer",
    "PairwiseFunctions",
    "RowFunctions",
    "include_dir",
]
