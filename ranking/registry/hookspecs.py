"""The hooks, one per kind of plugin; each returns factories by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import pluggy

from ranking.contracts.hooks import PROJECT

hookspec = pluggy.HookspecMarker(PROJECT)

Factories: TypeAlias = Mapping[str, Callable[..., Any]]


@hookspec
def ranking_models() -> Factories:
    """Models: classes of :class:`ranking.contracts.model.Model`."""
    raise NotImplementedError


@hookspec
def ranking_losses() -> Factories:
    """Losses: classes of :class:`ranking.contracts.loss.Loss`."""
    raise NotImplementedError


@hookspec
def ranking_regularizers() -> Factories:
    """Regularizers: classes of :class:`ranking.contracts.regularizer.Regularizer`."""
    raise NotImplementedError


@hookspec
def ranking_solvers() -> Factories:
    """Solvers: classes of :class:`ranking.contracts.solver.Solver`."""
    raise NotImplementedError


@hookspec
def ranking_kernels() -> Factories:
    """Kernels: functions without arguments that return a :class:`ranking.kernels.Kernel`."""
    raise NotImplementedError


@hookspec
def ranking_metrics() -> Factories:
    """Metrics: classes of :class:`ranking.contracts.metric.Metric`."""
    raise NotImplementedError


@hookspec
def ranking_readers() -> Factories:
    """Readers: classes of :class:`ranking.contracts.reader.Reader`."""
    raise NotImplementedError


@hookspec
def ranking_recipes() -> Factories:
    """Recipes: functions without arguments that return a `ranking.contracts.recipe.Recipe`."""
    raise NotImplementedError


@hookspec
def ranking_callbacks() -> Factories:
    """Callbacks: classes of :class:`ranking.contracts.callback.Callback`."""
    raise NotImplementedError


@hookspec
def ranking_engines() -> Factories:
    """Engines: classes of :class:`ranking.contracts.engine.Engine`."""
    raise NotImplementedError
