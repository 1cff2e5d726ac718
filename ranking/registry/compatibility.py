"""Compatibility of parts, as solvers declare it, and the nearest supported combination.

A *cell* is a model, a loss, a regularizer and a solver. The nearest cell that works has the fewest
parts changed; of equally many, the solver is changed first, then the regularizer, then the loss,
then the model. A model for other data counts as one more change.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator
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


def _changes() -> list[tuple[tuple[str, ...], bool]]:
    """Return the kinds that may be changed, and whether to a model for other data, by cost."""
    changes = [
        (len(kinds) + other_data, [CHEAPEST.index(kind) for kind in kinds[::-1]], kinds)
        for size in range(len(CHEAPEST) + 1)
        for kinds in itertools.combinations(CHEAPEST, size)
        for other_data in ((False, True) if "model" in kinds else (False,))
    ]
    return [(kinds, cost > len(kinds)) for cost, _, kinds in sorted(changes)]


CHANGES = _changes()


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


Index: TypeAlias = dict[tuple[Kind | None, ...], list[Cell]]
"""Cells that work by the parts that a change leaves: None where a part is changed."""


def _index(cells: Iterable[Cell]) -> Index:
    index: Index = {}
    for cell in cells:
        if cell.compatibility().works:
            for unchanged in itertools.product(*((None, part) for part in cell)):
                index.setdefault(unchanged, []).append(cell)
    return index


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
        works = self._working
        if any(part not in self.parts[kind] for kind, part in cell._asdict().items()):
            parts = (
                dict.fromkeys((*self.parts[kind], part)) for kind, part in cell._asdict().items()
            )
            works = _index(itertools.starmap(Cell, itertools.product(*parts)))
        for kinds, other_data in CHANGES:
            unchanged = (None if kind in kinds else part for kind, part in cell._asdict().items())
            candidates = [
                other
                for other in works.get(tuple(unchanged), ())
                if all(getattr(other, kind) is not getattr(cell, kind) for kind in kinds)
                and (other.model.takes != cell.model.takes) == other_data
            ]
            if candidates:
                return min(candidates, key=lambda other: self._order(cell, other))
        return None

    def is_near(self, cell: Cell) -> bool:
        """Return whether another loss alone, or another regularizer, would make a cell work."""
        model, loss, regularizer, solver = cell
        keys = ((model, loss, None, solver), (model, None, regularizer, solver))
        return any(self._working.get(key) for key in keys)

    @functools.cached_property
    def _working(self) -> Index:
        return _index(self.cells())

    def _order(self, cell: Cell, other: Cell) -> tuple[bool, list[int]]:
        """Return the order of equally near cells: first choices, then the most similar parts."""
        kinds: Iterable[tuple[str, Any, Any]] = zip(cell._fields, cell, other, strict=True)
        similar = [self._ranks(kind, part).get(changed, 0) for kind, part, changed in kinds]
        return not other.compatibility().first_choice, similar

    @functools.cache  # noqa: B019 - a grid lives as long as its registry
    def _ranks(self, kind: str, part: Kind) -> dict[Kind, int]:
        """Return the other parts of a kind with their ranks, the most similar first."""
        others = [other for other in self.parts[kind] if other is not part]
        others.sort(key=lambda other: -_similarity(other, part))
        return {other: rank for rank, other in enumerate(others)}

    def remedy(self, cell: Cell) -> str:
        """Return the changes to the nearest cell that works, or "" if none does."""
        nearest = self.nearest(cell)
        if nearest is None:
            return ""
        before, after = cell.names(), nearest.names()
        return " and ".join(
            f"{kind} {name}" for kind, name in after.items() if name != before[kind]
        )


@functools.lru_cache(maxsize=1)
def grid_of(registry: Registry) -> Grid:
    """Return the cells of a registry, built once."""
    return Grid(registry)


def refuse_misfit(model: Model, loss: Loss, regularizer: Regularizer, solver: Solver) -> None:
    """Raise `CombinationError` for incompatible parts, with the reason and the nearest cell."""
    cell = Cell(type(model), type(loss), type(regularizer), type(solver))
    compatibility = cell.compatibility()
    if not compatibility.works:
        remedy = grid_of(get_registry()).remedy(cell) or "other parts"
        raise CombinationError(f"{cell} does not work: {compatibility.reason}. Try {remedy}.")


def _similarity(part: Kind, other: Kind) -> int:
    """Return the similarity of two parts of a kind: inheritance and declarations."""
    related: bool = issubclass(part, other) or issubclass(other, part)
    traits = ("interfaces", "granularity", "form", "takes")
    equal = [getattr(part, name, None) == getattr(other, name, None) for name in traits]
    equal.append(hasattr(part, "maximize") == hasattr(other, "maximize"))
    return 2 * related + sum(map(bool, equal))
