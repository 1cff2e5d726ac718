"""The contracts that plugins fulfil, one module each.

A ranker is a model x a loss x a regularizer x a solver, run by a kernel. The kernel's contract is
in :mod:`ranking.kernels.contract`; the others are here.
"""
