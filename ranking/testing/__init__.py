"""Checks for authors of plugins: those that the parts of this project must pass too.

Each takes a part and returns nothing, or raises an AssertionError that names the part, the property
that does not hold, and the numbers. They need no test runner. Fixtures for pytest are in
:mod:`ranking.testing.fixtures`::

    from ranking.testing import check_loss

    def test_my_loss():
        check_loss(MyLoss())
"""

from ranking.testing.kernels import check_kernel
from ranking.testing.losses import check_loss
from ranking.testing.metrics import check_metric
from ranking.testing.models import check_model
from ranking.testing.readers import check_reader
from ranking.testing.regularizers import check_regularizer
from ranking.testing.solvers import check_solver

__all__ = [
    "check_kernel",
    "check_loss",
    "check_metric",
    "check_model",
    "check_reader",
    "check_regularizer",
    "check_solver",
]
