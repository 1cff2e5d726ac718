"""`check_solver`: the objective decreases, and seeds and resumed runs give the same bits."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any, ClassVar

import numpy as np

from ranking.contracts.callback import Callback, Snapshot, TrainingRun
from ranking.contracts.solver import Compatibility, EpochResult, Solver
from ranking.data.judged_lists import JudgedLists
from ranking.data.matching_data import MatchingData
from ranking.ranker import Ranker
from ranking.registry.manager import get_registry
from ranking.testing.common import check_part, ensure, same_tensors, small_judged, small_matching
from ranking.training.trainer import Trainer

Cell = tuple[Any, Any, Any]
"""A model, a loss and a regularizer: specs or objects."""


@dataclasses.dataclass
class _Keep(Callback):
    """Store a snapshot of every epoch."""

    name: ClassVar[str] = "keep"

    def __post_init__(self) -> None:
        self.snapshots: list[Snapshot] = []

    def on_epoch_end(self, run: TrainingRun, result: EpochResult) -> bool:
        """Store a snapshot."""
        self.snapshots.append(run.snapshot())
        return False


def check_solver(
    solver: Solver,
    *,
    cells: list[Cell] | None = None,
    data: JudgedLists | MatchingData | None = None,
    seed: int = 0,
) -> None:
    """Check a solver on small synthetic data.

    For all installed parts, `accepts` returns a `Compatibility`, with a reason if it is negative.
    In each cell the objective is finite and its last value does not exceed the first; the same seed
    gives the same bits, also with several threads; and a run that is resumed after its first epoch,
    or one in the middle, ends with the same bits.

    Parameters
    ----------
    solver : Solver
        Choose parameters with which it takes several epochs on a small problem.
    cells : list of (model, loss, regularizer), optional
        Specs or objects to train with; by default the first accepted cell of each model.
    data : JudgedLists or MatchingData, optional
        The training data; by default synthetic data for the model.
    seed : int
    """
    whose = check_part("solver", solver, Solver)
    accepted = _accepted_cells(whose, solver)
    if cells is None:
        by_model = {cell[0]: cell for cell in reversed(accepted)}
        cells = list(by_model.values())
    ensure(cells, whose, "accepts some parts that are installed", "it accepts none")
    for cell in cells:
        _check_cell(whose, solver, cell, data, seed)


def _accepted_cells(whose: str, solver: Solver) -> list[Cell]:
    registry = get_registry()
    kinds = ("model", "loss", "regularizer")
    accepted: list[Cell] = []
    for entries in itertools.product(*(registry.entries(kind) for kind in kinds)):
        compatibility: Any = type(solver).accepts(*(entry.load() for entry in entries))
        names = tuple(entry.name for entry in entries)
        cell_name = " x ".join(names)
        ensure(
            isinstance(compatibility, Compatibility),
            whose,
            "accepts returns a Compatibility",
            f"{compatibility!r}",
        )
        if compatibility.works:
            accepted.append((names[0], names[1], names[2]))
            continue
        ensure(
            compatibility.reason,
            whose,
            "an incompatibility has a reason",
            f"for {cell_name} it is {compatibility}",
        )
    return accepted


def _check_cell(
    whose: str, solver: Solver, cell: Cell, own_data: JudgedLists | MatchingData | None, seed: int
) -> None:
    model, loss, regularizer = cell
    part = get_registry().create("model", model)
    features = "none" if part.form == "items" else "both"
    matching = small_matching(seed, features=features)
    default = small_judged(seed) if part.takes == "judged" else matching
    data = default if own_data is None else own_data
    cell_name = f"for {' x '.join(str(getattr(part, 'name', part)) for part in cell)}"
    ranker = Ranker(
        model=model, loss=loss, regularizer=regularizer, solver=solver, random_state=seed
    )
    whole, keep = _trained(ranker, data)
    objectives = np.array([row["objective"] for row in whole.history])
    epochs = [row["epoch"] for row in whole.history]
    ensure(
        epochs == list(range(1, len(epochs) + 1)) and epochs,
        whose,
        f"epochs count from 1 ({cell_name})",
        f"they are {epochs}",
    )
    ensure(
        np.isfinite(objectives).all(),
        whose,
        f"objectives are finite ({cell_name})",
        f"{objectives}",
    )
    first, last = float(objectives[0]), float(objectives[-1])
    ensure(
        last <= first + 1e-6 * (1.0 + abs(first)),
        whose,
        f"the last objective does not exceed the first ({cell_name})",
        f"it went from {first:.9g} to {last:.9g} in {len(epochs)} epochs",
    )
    end = whole.model.tensors()
    threads = 1 if whole.kernel.describe()["threads"] == "none" else 2
    for how, other in (
        ("the same seed", ranker),
        ("two threads", Ranker(**{**ranker.get_params(deep=False), "threads": threads})),
    ):
        differs = same_tensors(end, _trained(other, data)[0].model.tensors())
        ensure(not differs, whose, f"{how} gives the same bits ({cell_name})", f"{differs} differs")
    for at in sorted({0, len(epochs) // 2, len(epochs) - 1}):
        run = ranker.plan().trainer(data)
        run.train(keep.snapshots[at])
        differs = same_tensors(end, run.model.tensors())
        ensure(
            not differs and len(run.history) == len(epochs),
            whose,
            f"a run that is resumed after epoch {epochs[at]} ends with the same bits ({cell_name})",
            f"{differs or 'the number of epochs'} differs",
        )


def _trained(ranker: Ranker, data: JudgedLists | MatchingData) -> tuple[Trainer, _Keep]:
    keep = _Keep()
    run = ranker.plan().trainer(data)
    run.callbacks = [keep]
    run.train()
    return run, keep
