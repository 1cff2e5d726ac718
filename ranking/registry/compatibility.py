"""What combines with what, from the solvers' own answers, and the nearest that does.

A *cell* is a model, a loss, a regularizer and a solver. The nearest cell that works has the fewest
parts changed; of equally many, the solver is changed first, then the regularizer, then the loss,
then the model. A model that takes other data counts as one change more: the data.
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
from ranking.registry import Registry, get_registry

Kind: TypeAlias = type[Any]

CONTRACTS: dict[str, Kind] = {
    "model": Model,
    "loss": Loss,
    "regularizer": Regularizer,
    "solver": Solver,
}
"""The kinds of parts, and what each fulfils."""

CHEAPEST = ("solver", "regularizer", "loss", "model")
"""What is changed first."""


class Cell(NamedTuple):
    """The classes of four parts."""

    model: type[Model]
    loss: type[Loss]
    regularizer: type[Regularizer]
    solver: type[Solver]

    def compatibility(self) -> Compatibility:
        """Ask the solver; one that fails to answer says no."""
        try:
            answer: object = self.solver.accepts(self.model, self.loss, self.regularizer)
        except Exception as error:
            return Compatibility(
                False, f"the solver could not say: {type(error).__name__}: {error}"
            )
        if not isinstance(answer, Compatibility):
            return Compatibility(
                False, f"the solver answered {type(answer).__name__}, not a Compatibility"
            )
        return answer

    def names(self) -> dict[str, str]:
        """Return the name of each part by its kind."""
        return {kind: part.name for kind, part in zip(self._fields, self, strict=True)}

    def __str__(self) -> str:
        """Return the four names."""
        return " x ".join(self.names().values())


class Grid:
    """All cells of the parts that are installed.

    Attributes
    ----------
    parts : dict of lists of classes
        By kind, as registered.
    problems : list of str
        Why some parts are not among them.
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
            (len(changed) + other_data, [CHEAPEST.index(kind) for kind in changed[::-1]], changed)
            for size in range(len(CHEAPEST) + 1)
            for changed in itertools.combinations(CHEAPEST, size)
            for other_data in ((False, True) if "model" in changed else (False,))
        ]
        for cost, _, changed in sorted(changes):
            other_data = cost > len(changed)
            for candidate in self._changed(cell, changed):
                moved = candidate.model.takes != cell.model.takes
                if moved == other_data and candidate.compatibility().works:
                    return candidate
        return None

    def _changed(self, cell: Cell, changed: tuple[str, ...]) -> Iterator[Cell]:
        """Yield the cells with other parts of these kinds, those that are alike first."""
        others = (
            sorted(
                (part for part in self.parts[kind] if part is not given),
                key=lambda part, given=given: -_likeness(part, given),  # type: ignore[misc]
            )
            if kind in changed
            else [given]
            for kind, given in zip(cell._fields, cell, strict=True)
        )
        for parts in itertools.product(*others):
            yield Cell(*parts)

    def remedy(self, cell: Cell) -> str:
        """Name what to change for the nearest cell that works; "" if none does."""
        found = self.nearest(cell)
        if found is None:
            return ""
        before, after = cell.names(), found.names()
        return " and ".join(
            f"{kind} {name}" for kind, name in after.items() if name != before[kind]
        )


def refuse_misfit(model: Model, loss: Loss, regularizer: Regularizer, solver: Solver) -> None:
    """Raise `CombinationError` for parts that do not work together: why, and what is nearest."""
    cell = Cell(type(model), type(loss), type(regularizer), type(solver))
    compatibility = cell.compatibility()
    if not compatibility.works:
        remedy = Grid().remedy(cell) or "other parts"
        raise CombinationError(f"{cell} does not work: {compatibility.reason}. Try {remedy}.")


def _likeness(part: Kind, given: Kind) -> int:
    """Return how much two parts of a kind have in common: descent, and what they declare."""
    related: bool = issubclass(part, given) or issubclass(given, part)
    traits = ("interfaces", "granularity", "bounded", "form", "takes")
    alike = (getattr(part, name, None) == getattr(given, name, None) for name in traits)
    return 2 * related + sum(map(bool, alike))
