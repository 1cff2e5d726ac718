"""Graph filters: the Gram matrix of normalized interactions, and a low-pass filter of it.

With M the degree-normalized interactions, ``W = M'M`` says how strongly two items are connected by
users, and the first right singular vectors V of M span the smooth signals on that graph. A user's
history h is filtered by ``W + low_pass s**2 D**-b V V' D**b`` with the degrees D of items, their
exponent b and the largest singular value s of M, which is 1 if both exponents are 1/2 (GF-CF; Shen
et al., 2021, "How powerful is graph convolution for recommendation?"). V are the directions of PLS
on M, by its solver.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar, cast

import numpy as np
from scipy import sparse

from ranking.contracts.loss import Loss
from ranking.contracts.model import Model
from ranking.contracts.parameters import integer, number
from ranking.contracts.regularizer import OrthogonalColumns, Regularizer
from ranking.contracts.solver import YES, Compatibility, EpochResult, Solver, TrainingProblem
from ranking.data.click_matrix import degree_powers
from ranking.models.factored import Factored
from ranking.models.item_item import ItemItem
from ranking_plugins.solvers.alternating import Alternating, Sides
from ranking_plugins.solvers.directions import direction_epochs
from ranking_plugins.solvers.pruning import pruned

BLOCK = 4096
"""Items whose rows of the Gram matrix are computed at a time."""


@dataclasses.dataclass
class GraphFilter(Solver):
    """Compute the Gram matrix of M, and the directions of M with the largest singular values.

    The objective is that of the directions: minus the sum of their singular values.

    Parameters
    ----------
    max_epochs : int
        The maximal number of epochs for the directions. Few suffice: a filter needs the space that
        they span, and not each of them.
    tolerance : float
        Stop when an epoch decreases the objective by less than this share of it.
    density : float
        The share of all pairs of items whose weights are kept, the largest ones.

    Notes
    -----
    There are no more directions than users or items; further dimensions of the model are 0.
    """

    name: ClassVar[str] = "graph-filter"

    max_epochs: int = integer(10, minimum=1)
    tolerance: float = number(1e-3, minimum=0.0, maximum=1.0)
    density: float = number(1.0, minimum=0.0, maximum=1.0)

    @classmethod
    def accepts(
        cls, model: type[Model], loss: type[Loss], regularizer: type[Regularizer]
    ) -> Compatibility:
        """Accept the item-item model, a linear loss and orthonormal directions."""
        if not issubclass(model, ItemItem):
            return Compatibility(
                False, "a graph filter maps the items of a history to items: an item-item model"
            )
        if "linear" not in loss.interfaces:
            return Compatibility(False, loss.unsupported_reason("linear"))
        if not issubclass(regularizer, OrthogonalColumns):
            return Compatibility(
                False, "the directions of a low-pass filter are orthonormal singular vectors"
            )
        return YES

    def run_epochs(self, problem: TrainingProblem) -> Iterator[EpochResult]:
        """Yield one result per epoch of the directions; W is ready in the first."""
        model = cast(ItemItem, problem.model)
        if problem.state is not None and not model.dimensions:
            return  # W is all there is, and it was ready in the first epoch
        smallest = min(model.histories.shape)
        dimensions = min(model.dimensions, smallest)
        inner = Factored(dimensions=max(dimensions, 1), biases=False, init_scale=1.0)
        inner.initialize(cast(Any, problem.data), problem.seed, problem.kernel)
        solver = Alternating(self.max_epochs, self.tolerance, scale=1.0)
        sides = Sides(solver, dataclasses.replace(problem, model=inner))
        with sides.shards:
            if problem.state is None:
                model.weights = pruned(_gram(*sides.matrices), self.density)
            exponent = getattr(problem.loss, "degrees", (0.0, 0.0))[1]
            sums = np.asarray(model.histories.sum(axis=0, dtype=np.float64)).ravel()
            powers = degree_powers(sums, exponent)[:, None]
            for epoch in direction_epochs(solver, sides):
                if model.dimensions:
                    orthogonal = cast(OrthogonalColumns, sides.regularizers[1])
                    length = orthogonal.column_length((inner.V.shape[0], inner.dimensions))
                    vectors = inner.V / np.float32(length)
                    back = np.where(powers > 0.0, 1.0 / np.where(powers > 0.0, powers, 1.0), 0.0)
                    # The Gram matrix has the squared singular values, and the filter the largest.
                    projected = np.asarray(sides.matrices[0] @ vectors[:, 0], np.float64)
                    top = float(np.square(projected).sum())
                    for side, scale in ((model.left, top * powers), (model.right, back)):
                        side[:, :dimensions] = (scale * vectors)[:, :dimensions]
                yield epoch
                if not model.dimensions:
                    return


def _gram(rows: Any, columns: Any) -> Any:
    """Return ``M'M`` from M by rows and by columns."""
    parts = [
        sparse.csr_array(columns[at : at + BLOCK] @ rows)
        for at in range(0, columns.shape[0], BLOCK)
    ]
    gram = sparse.csr_array(sparse.vstack(parts, format="csr"), dtype=np.float32)
    gram.sort_indices()
    return gram
