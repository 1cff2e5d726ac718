"""The contracts that plugins implement, one module each.

A ranker is a model x a loss x a regularizer x a solver, run by a kernel. The contract of kernels is
:mod:`ranking.kernels.contract`; the others are here. Names are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ranking.contracts.callback import Callback
    from ranking.contracts.engine import Engine, Shards
    from ranking.contracts.hooks import KINDS, Lazy, hookimpl
    from ranking.contracts.loss import (
        CoordinateLoss,
        CoordinateProblem,
        LinearLoss,
        ListwiseLoss,
        Loss,
        PairwiseLoss,
    )
    from ranking.contracts.metric import Metric
    from ranking.contracts.model import Embedding, MatchingModel, Model
    from ranking.contracts.parameters import (
        Constraint,
        boolean,
        choice,
        constraints,
        integer,
        number,
    )
    from ranking.contracts.part import Part
    from ranking.contracts.reader import Reader
    from ranking.contracts.recipe import Axis, Recipe, Search
    from ranking.contracts.regularizer import (
        DensityTarget,
        EntryPenalty,
        FeatureIds,
        GroupPenalty,
        OrthogonalColumns,
        PerSide,
        Regularizer,
        RowMaximum,
        RowPenalty,
        StructuredPenalty,
        SupportsKernelForm,
        SupportsMaximize,
        SupportsQuadraticForm,
        SupportsRowMaximum,
        SupportsRowSteps,
        SupportsRowWeights,
        SupportsStructure,
    )
    from ranking.contracts.solver import (
        Compatibility,
        EpochResult,
        OnlineTrainer,
        Solver,
        TrainingProblem,
    )

__all__ = [
    "KINDS",
    "Axis",
    "Callback",
    "Compatibility",
    "Constraint",
    "CoordinateLoss",
    "CoordinateProblem",
    "DensityTarget",
    "Embedding",
    "Engine",
    "EntryPenalty",
    "EpochResult",
    "FeatureIds",
    "GroupPenalty",
    "Lazy",
    "LinearLoss",
    "ListwiseLoss",
    "Loss",
    "MatchingModel",
    "Metric",
    "Model",
    "OnlineTrainer",
    "OrthogonalColumns",
    "PairwiseLoss",
    "Part",
    "PerSide",
    "Reader",
    "Recipe",
    "Regularizer",
    "RowMaximum",
    "RowPenalty",
    "Search",
    "Shards",
    "Solver",
    "StructuredPenalty",
    "SupportsKernelForm",
    "SupportsMaximize",
    "SupportsQuadraticForm",
    "SupportsRowMaximum",
    "SupportsRowSteps",
    "SupportsRowWeights",
    "SupportsStructure",
    "TrainingProblem",
    "boolean",
    "choice",
    "constraints",
    "hookimpl",
    "integer",
    "number",
]

_MODULES = {
    "Axis": "recipe",
    "Callback": "callback",
    "Compatibility": "solver",
    "Constraint": "parameters",
    "CoordinateLoss": "loss",
    "CoordinateProblem": "loss",
    "DensityTarget": "regularizer",
    "Embedding": "model",
    "Engine": "engine",
    "EntryPenalty": "regularizer",
    "EpochResult": "solver",
    "FeatureIds": "regularizer",
    "GroupPenalty": "regularizer",
    "KINDS": "hooks",
    "Lazy": "hooks",
    "LinearLoss": "loss",
    "ListwiseLoss": "loss",
    "Loss": "loss",
    "MatchingModel": "model",
    "Metric": "metric",
    "Model": "model",
    "OnlineTrainer": "solver",
    "OrthogonalColumns": "regularizer",
    "PairwiseLoss": "loss",
    "Part": "part",
    "PerSide": "regularizer",
    "Reader": "reader",
    "Recipe": "recipe",
    "Regularizer": "regularizer",
    "RowMaximum": "regularizer",
    "RowPenalty": "regularizer",
    "Search": "recipe",
    "Shards": "engine",
    "Solver": "solver",
    "SupportsKernelForm": "regularizer",
    "StructuredPenalty": "regularizer",
    "SupportsMaximize": "regularizer",
    "SupportsQuadraticForm": "regularizer",
    "SupportsRowSteps": "regularizer",
    "SupportsRowWeights": "regularizer",
    "SupportsStructure": "regularizer",
    "SupportsRowMaximum": "regularizer",
    "TrainingProblem": "solver",
    "boolean": "parameters",
    "choice": "parameters",
    "constraints": "parameters",
    "hookimpl": "hooks",
    "integer": "parameters",
    "number": "parameters",
}


def __getattr__(name: str) -> Any:
    """Import a contract when it is first used."""
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
