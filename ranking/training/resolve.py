"""Resolve the parts of a plan: create them from their specs and fill in "auto"."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ranking.contracts.loss import Loss
from ranking.contracts.model import Model
from ranking.contracts.regularizer import Regularizer, kernel_forms
from ranking.contracts.solver import Solver
from ranking.data.inputs import Trainable
from ranking.data.judged_lists import JudgedLists
from ranking.errors import CombinationError, PartError
from ranking.io.model_file import FileSpec
from ranking.registry.compatibility import Cell, grid_of
from ranking.registry.manager import get_registry

Parts = tuple[Model, Loss, Regularizer, Solver]

REASONS = 5
"""The most reasons in a message."""


def resolve_parts(
    data: Trainable,
    model: str | Model,
    loss: str | Loss | None,
    regularizer: str | Regularizer,
    solver: str | Solver,
) -> Parts:
    """Return the parts that train on these data, with "auto" filled in.

    A part that is not "auto" is created first, so that an error in its spec is reported once.
    """
    if loss is None:
        names = ", ".join(get_registry().names("loss"))
        raise PartError(f"loss is missing; available losses: {names}.")
    loss_part: Loss = create_part("loss", loss, Loss)
    penalty: Regularizer = create_part("regularizer", regularizer, Regularizer)
    problems: list[str] = []
    models: list[Model] = _candidates("model", model, Model, problems)
    solvers: list[Solver] = _candidates("solver", solver, Solver, problems)
    if model == "auto":
        takes = "judged" if isinstance(data, JudgedLists) else "matching"
        models = [each for each in models if each.takes == takes]
    if len(models) == len(solvers) == 1:
        return models[0], loss_part, penalty, solvers[0]
    pairs = list(itertools.product(models, solvers))
    pair = _best_compatible(data, pairs, loss_part, penalty, problems)
    return pair[0], loss_part, penalty, pair[1]


def create_part(kind: str, part: Any, contract: type[Any]) -> Any:
    """Return a part from its spec, or the part itself; refuse what is not of its contract."""
    created = get_registry().create(kind, part)
    if not isinstance(created, contract):
        raise PartError(f"{kind} is {created!r}, which is not a {contract.__name__}.")
    if isinstance(part, FileSpec):
        _refuse_files(kind, created, part)
    return created


def _refuse_files(kind: str, part: Any, spec: str) -> None:
    """Refuse a part of a model file that names other files, such as the groups of features."""
    for field in dataclasses.fields(part) if dataclasses.is_dataclass(part) else ():
        value = getattr(part, field.name)
        if "Path" in str(field.type) and isinstance(value, str | Path):
            raise PartError(
                f"the model file names the file {str(value)!r} ({kind} {part.name}, {field.name}), "
                "and a model file may not choose which files are read; if you trust it, set "
                f"{kind}={str(spec)!r} and train again."
            )


def _candidates(kind: str, part: Any, contract: type[Any], problems: list[str]) -> list[Any]:
    """Return the part, or for "auto" all of its kind; report third-party parts that are broken."""
    if part != "auto":
        return [create_part(kind, part, contract)]
    parts = []
    for name in get_registry().names(kind):
        try:
            parts.append(create_part(kind, name, contract))
        except PartError as error:
            problems.append(str(error))
    return parts


def _best_compatible(
    data: Trainable,
    pairs: Sequence[tuple[Model, Solver]],
    loss: Loss,
    regularizer: Regularizer,
    problems: Sequence[str],
) -> tuple[Model, Solver]:
    """Return the best pair that fits the loss and the regularizer; of equals, the first."""
    refused: list[tuple[Model, Cell]] = []
    compatible: list[tuple[Model, Solver]] = []
    first: list[bool] = []
    for model, solver in pairs:
        cell = Cell(type(model), type(loss), type(regularizer), type(solver))
        compatibility = cell.compatibility()
        if compatibility.works:
            compatible.append((model, solver))
            first.append(compatibility.first_choice)
        else:
            refused.append((model, cell))
    if compatible:

        def merit(at: int) -> tuple[bool, bool, bool]:
            model = compatible[at][0]
            return _suits(data, model), _made_for(regularizer, model), first[at]

        return compatible[max(range(len(compatible)), key=merit)]
    remedy = grid_of(get_registry()).remedy(refused[0][1]) if refused else ""
    raise CombinationError(
        f"no model and solver fit loss {loss.name!r} with regularizer {regularizer.name!r}: "
        + "; ".join([*problems, *_reasons(data, refused)])
        + f". Try {remedy or 'other parts'}."
    )


def _reasons(data: Trainable, refused: Sequence[tuple[Model, Cell]]) -> list[str]:
    """Return why cells are refused: those of models that suit the data, and nearly work."""
    suited = [cell for model, cell in refused if _suits(data, model)]
    cells = suited or [cell for _, cell in refused]
    grid = grid_of(get_registry())
    near = [cell for cell in cells if grid.is_near(cell)]
    return [
        f"{cell.model.name} x {cell.solver.name}: {cell.compatibility().reason}"
        for cell in (near or cells)[:REASONS]
    ]


def _suits(data: Trainable, model: Model) -> bool:
    """Return whether a model can generalise from these data.

    Users and items without features (interactions) share nothing but embeddings; a matrix of
    weights would have one free weight per pair, which no other pair informs.
    """
    interactions = not isinstance(data, JudgedLists) and data.queries is data.documents is None
    return not interactions or model.form == "factors"


def _made_for(regularizer: Regularizer, model: Model) -> bool:
    """Return whether kernels have the penalty for such parameters, or its rows are embeddings."""
    forms = kernel_forms(regularizer)
    if forms:
        return model.form in forms
    return regularizer.granularity == "entry" or model.form == "factors"
