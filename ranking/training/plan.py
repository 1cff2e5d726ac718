"""`TrainingPlan`: the parts and settings of a training, before it sees data."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ranking._utils.tensors import Tensors
from ranking._utils.validation import validate_seed, validate_threads
from ranking.contracts.callback import Callback
from ranking.contracts.engine import Engine
from ranking.contracts.loss import Loss
from ranking.contracts.model import MatchingModel, Model, StagedModel
from ranking.contracts.recipe import Choice
from ranking.contracts.regularizer import Regularizer
from ranking.contracts.solver import Solver
from ranking.data.inputs import Trainable
from ranking.data.scale import refuse_unusable_scale, warn_of_scales
from ranking.errors import PartError
from ranking.io.model_file import FileSpec, ModelFile, read_model
from ranking.io.schema import PARTS
from ranking.kernels.kernel import Kernel
from ranking.kernels.select import get_kernel
from ranking.metrics.evaluation import refuse_other_data
from ranking.models.combination import Combination
from ranking.registry.manager import get_registry
from ranking.training.fitter import Fitter
from ranking.training.resolve import Parts, create_part, resolve_parts
from ranking.training.stages import StagedTrainer
from ranking.training.trainer import Trainer


@dataclasses.dataclass(frozen=True)
class TrainingPlan(Fitter):
    """Everything that decides a training except the data; nothing fitted.

    Parameters
    ----------
    model, loss, regularizer, solver : str or Part
        Specs or objects; "auto" is allowed for model and solver.
    kernel : str or Kernel
    threads : int
        At least 1. Results are identical for any value.
    random_state : int
        Seed; the same seed gives the same model in every kernel.
    callbacks : sequence of str or Callback
    engine : str or Engine

    Examples
    --------
    >>> from ranking.data.synthetic import demo
    >>> plan = TrainingPlan(loss="domination", regularizer="l2:strength=0.1")
    >>> plan.fit(demo()["train"]).model.name
    'linear'
    """

    model: str | Model = "auto"
    loss: str | Loss | None = None
    regularizer: str | Regularizer = "none"
    solver: str | Solver = "auto"
    kernel: str | Kernel = "auto"
    threads: int = 1
    random_state: int = 0
    callbacks: Sequence[str | Callback] = ()
    engine: str | Engine = "local"

    def __post_init__(self) -> None:
        """Check the numbers."""
        validate_threads(self.threads)
        validate_seed(self.random_state)

    def resolve(self, data: Trainable) -> Parts:
        """Return model, loss, regularizer and solver for these data, with "auto" filled in."""
        return resolve_parts(data, self.model, self.loss, self.regularizer, self.solver)

    def with_choices(self, data: Trainable, choices: Sequence[Choice]) -> TrainingPlan:
        """Return the plan with resolved parts, some of whose parameters are set."""
        parts: dict[str, Any] = dict(zip(PARTS, copy.deepcopy(self.resolve(data)), strict=True))
        for part, parameter, value in choices:
            parts[part].set_params(**{parameter: value})
        return dataclasses.replace(self, **parts)

    def trainer(
        self,
        data: Trainable,
        valid: Trainable | None = None,
        *,
        initial: Tensors | None = None,
        exclude_seen: bool = False,
    ) -> Trainer:
        """Return the training that `fit` would run, before its first epoch.

        Parameters
        ----------
        data, valid : JudgedLists or MatchingData
            Training and validation data.
        initial : dict of arrays, optional
            Tensors of another model of the same shape, to start from.
        exclude_seen : bool
            As in `fit`.
        """
        # Training changes its parts; the caller's objects stay as they are.
        model, loss, regularizer, solver = copy.deepcopy(self.resolve(data))
        refuse_other_data(model, data)
        refuse_unusable_scale(data)
        if model.form == "vector" or model.takes == "matching":
            warn_of_scales(data)
        if valid is not None:
            refuse_other_data(model, valid, "the validation data")
        _read_base(model, trusted=not isinstance(self.model, FileSpec))
        kernel = get_kernel(self.kernel)
        _read_components(model, trusted=not isinstance(self.model, FileSpec))
        model.initialize(data, self.random_state, kernel)
        if initial is not None:
            model.restore(initial)
        trainer = StagedTrainer if isinstance(model, StagedModel) else Trainer
        return trainer(
            model=model,
            loss=loss,
            regularizer=regularizer,
            solver=solver,
            data=data,
            kernel=kernel,
            threads=self.threads,
            seed=self.random_state,
            valid=valid,
            exclude_seen=exclude_seen,
            callbacks=[get_registry().create("callback", each) for each in self.callbacks],
            engine=create_part("engine", self.engine, Engine),
        )


@dataclasses.dataclass(frozen=True)
class SavedBase:
    """A trained model from a file, which a cascade begins with."""

    file: ModelFile

    @property
    def model_(self) -> Model:
        """The trained model."""
        return self.file.result.model

    def refit(self, data: Trainable) -> Model:
        """Train the same parts on other data."""
        specs: dict[str, Any] = self.file.specs
        plan = TrainingPlan(**specs, random_state=self.file.seed)
        return plan.fit(data).model


def _read_base(model: Model, trusted: bool) -> None:
    """Read the file that a cascade names as its base, unless a model file named it."""
    base = getattr(model, "base", None)
    if isinstance(base, str) and not trusted:
        raise PartError(
            f"the model file names the base {base!r}, and a model file may not choose which files "
            f"are read; if you trust it, set model={model.spec()!r} and train again."
        )
    if isinstance(base, str) and isinstance(model, MatchingModel) and hasattr(model, "attach_base"):
        model.attach_base(SavedBase(read_model(Path(base))))


def _read_components(model: Model, trusted: bool) -> None:
    """Read the files that a combination names, unless a model file named them."""
    if not isinstance(model, Combination) or not model.files:
        return
    if not trusted:
        raise PartError(
            f"the model file names other files ({', '.join(model.files)}), and a model file may "
            f"not choose which files are read; if you trust it, set model={model.spec()!r} and "
            "train again."
        )
    files = [read_model(Path(name)) for name in model.files]
    model.attach_models(
        [
            (file.result.model, file.extras.text, file.result.loss, file.result.regularizer)
            for file in files
        ]
    )
