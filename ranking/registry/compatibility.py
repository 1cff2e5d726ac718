"""Compatibility of parts, as solvers declare it, and the nearest supported combination.

A *cell* is a model, a loss, a regularizer and a solver. The nearest cell that works has the fewest
parts changed; of equally many, the solver is changed first, then the regularizer, then the loss,
then the model. A model for other data counts as one more change.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from ranking.contracts.loss import Loss
from ranking.contracts.model import Model
from ranking.contracts.regularizer import Regularizer
from ranking.contracts.solver import Compatibility, Solver
from ranking.errors import CombinationError, PartError
from ranking.registry.manager import Registry, get_registry

Kind: TypeAlias = type[Any]

CONTRACTS: dict[str, Kind] = {
    "model": Model,
    "loss": Loss,
    "regularizer": Regularizer,
    "solver": Solver,
}
"""The kinds of parts and their contracts."""

CHEAPEST = ("solver", "regularizer", "loss", "model")
"""The order in which parts are changed."""


class Cell(NamedTuple):
    """The classes of four parts."""

    model: type[Model]
    loss: type[Loss]
    regularizer: type[Regularizer]
    solver: type[Solver]

    def compatibility(self) -> Compatibility:
        """Ask the solver; an invalid return value or an exception means no."""
        try:
            result: object = self.solver.accepts(self.model, self.loss, self.regularizer)
        except Exception as error:
            return Compatibility(
                False, f"the solver could not decide: {type(error).__name__}: {error}"
            )
        if not isinstance(result, Compatibility):
            return Compatibility(
                False, f"the solver returned {type(result).__name__}, not a Compatibility"
            )
        return result

    def names(self) -> dict[str, str]:
        """Return the name of each part by its kind."""
        return {kind: part.name for kind, part in zip(self._fields, self, strict=True)}

    def __str__(self) -> str:
        """Return the four names."""
        return " x ".join(self.names().values())


class Grid:
    """All cells of the installed parts.

    Attributes
    ----------
    parts : dict of lists of classes
        By kind, as registered.
    problems : list of str
        The reasons why some parts are missing.
    """

    def __init__(self, registry: Registry | None = None) -> None:
        registry = get_registry() if registry is None else registry
        self.parts: dict[str, list[Kind]] = {kind: [] for kind in CONTRACTS}
        self.problems: list[str] = []
        for kind, contract in CONTRACTS.items():
            for entry in registry.entries(kind):
                try:
                    part = entry.load()
                except PartError as error:
                    self.problems.append(str(error))
                    continue
                if isinstance(part, type) and issubclass(part, contract):
                    self.parts[kind].append(part)

    def cells(self) -> Iterator[Cell]:
        """Yield every combination."""
        for parts in itertools.product(*(self.parts[kind] for kind in CONTRACTS)):
            yield Cell(*parts)

    def nearest(self, cell: Cell) -> Cell | None:
        """Return the nearest cell that works, or None if none does."""
        changes = [
            (len(kinds) + other_data, [CHEAPEST.index(kind) for kind in kinds[::-1]], kinds)
            for size in range(len(CHEAPEST) + 1)
            for kinds in itertools.combinations(CHEAPEST, size)
            for other_data in ((False, True) if "model" in kinds else (False,))
        ]
        for cost, _, kinds in sorted(changes):
            other_data = cost > len(kinds)
            works = [
                candidate
                for candidate in self._changes(cell, kinds)
                if (candidate.model.takes != cell.model.takes) == other_data
                and candidate.compatibility().works
            ]
            if works:
                return max(works, key=lambda each: each.compatibility().first_choice)
        return None

    def _changes(self, cell: Cell, kinds: tuple[str, ...]) -> Iterator[Cell]:
        """Yield the cells with other parts of these kinds, the most similar first."""
        others = (
            sorted(
                (part for part in self.parts[kind] if part is not other),
                key=lambda part, other=other: -_similarity(part, other),  # type: ignore[misc]
            )
            if kind in kinds
            else [other]
            for kind, other in zip(cell._fields, cell, strict=True)
        )
        for parts in itertools.product(*others):
            yield Cell(*parts)

    def remedy(self, cell: Cell) -> str:
        """Return the changes to the nearest cell that works, or "" if none does."""
        nearest = self.nearest(cell)
        if nearest is None:
            return ""
        before, after = cell.names(), nearest.names()
        return " and ".join(
            f"{kind} {name}" for kind, name in after.items() if name != before[kind]
        )


def refuse_misfit(model: Model, loss: Loss, regularizer: Regularizer, solver: Solver) -> None:
    """Raise `CombinationError` for incompatible parts, with the reason and the nearest cell."""
    cell = Cell(type(model), type(loss), type(regularizer), type(solver))
    compatibility = cell.compatibility()
    if not compatibility.works:
        remedy = Grid().remedy(cell) or "other parts"
        raise CombinationError(f"{cell} does not work: {compatibility.reason}. Try {remedy}.")


def _similarity(part: Kind, other: Kind) -> int:
    """Return the similarity of two parts of a kind: inheritance and declarations."""
    related: bool = issubclass(part, other) or issubclass(other, part)
    traits = ("interfaces", "granularity", "form", "takes")
    equal = [getattr(part, name, None) == getattr(other, name, None) for name in traits]
    equal.append(hasattr(part, "maximize") == hasattr(other, "maximize"))
    return 2 * related + sum(map(bool, equal))
