"""Concrete losses, regularizers, solvers, callbacks, engines, recipes and reproductions.

Classes are exported by the subpackages, such as ``from ranking_plugins.losses import WARP``.
"""
