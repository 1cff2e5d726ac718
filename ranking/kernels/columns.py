"""`SparseColumns`: sparse features by column, checked once."""

from __future__ import annotations

import dataclasses
from typing import Any, Self

import scipy.sparse as sp
from numpy.typing import NDArray

from ranking.kernels.door import check_compressed, read_only


@dataclasses.dataclass(frozen=True)
class SparseColumns:
    """The arrays of CSC, indices rising in each column; read-only, so kernels need not look again.

    Attributes
    ----------
    indptr, indices, data : arrays
        As SciPy has them.
    shape : tuple of int
        Rows and columns.
    """

    indptr: NDArray[Any]
    indices: NDArray[Any]
    data: NDArray[Any]
    shape: tuple[int, int]

    def __post_init__(self) -> None:
        """Check the arrays, and keep read-only views of them."""
        rows, columns = self.shape
        check_compressed(*self.arrays, columns, rows, sorted_once=True)
        for name in ("indptr", "indices", "data"):
            object.__setattr__(self, name, read_only(getattr(self, name)))

    @classmethod
    def of(cls, matrix: sp.csc_array) -> Self:
        """Return the columns of a CSC array."""
        return cls(matrix.indptr, matrix.indices, matrix.data, matrix.shape)

    @property
    def arrays(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """The three arrays, as loops take them."""
        return self.indptr, self.indices, self.data
