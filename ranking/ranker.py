"""`Ranker`: a model x a loss x a regularizer x a solver, with scikit-learn's conventions."""

from __future__ import annotations

import contextlib
import copy
import itertools
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ranking.contracts.loss import Loss
from ranking.contracts.model import Model, Tensors
from ranking.contracts.observer import Observer
from ranking.contracts.regularizer import Regularizer
from ranking.contracts.solver import Solver
from ranking.data.judged import Judged
from ranking.errors import CombinationError, DataError, ModelFileError, PartError
from ranking.files import read_tensors, write_tensors
from ranking.kernels.kernel import Kernel
from ranking.kernels.select import get_kernel
from ranking.metrics.parse import parse_metric
from ranking.registry import get_registry
from ranking.run import Run, pack_history, section, under, unpack_history

FORMAT = 1
"""Version of the description in a model file."""

PARTS = ("model", "loss", "regularizer", "solver")


class Ranker(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no stubs
    """Learns to order the rows of each query.

    Every part is a name (``"l2"``), a spec (``"l2:strength=0.1"``) or an object (``L2(0.1)``).

    Parameters
    ----------
    model : str or Model
        What scores a row; "auto" takes the first that fits the loss.
    loss : str or Loss
        What is minimised; there is no default.
    regularizer : str or Regularizer
        The penalty on the model's parameters.
    solver : str or Solver
        How it is minimised; "auto" takes the first that fits the other parts.
    kernel : str or Kernel
        Who computes; see :func:`ranking.kernels.select.get_kernel`.
    threads : int
        The result does not depend on it.
    seed : int
        The same seed gives the same model, in every kernel.
    observers : sequence of str or Observer
        Called between epochs.

    Attributes
    ----------
    model_, loss_, regularizer_, solver_ : Part
        The parts that were used.
    kernel_ : Kernel
        The kernel that was used.
    history_ : list of dict
        A row per epoch.
    objective_ : float
        Loss plus penalty at the end.
    n_iter_ : int
        Epochs.
    stopped_ : str
        Why training ended.
    n_features_in_ : int
        Features of the training data.

    Examples
    --------
    >>> import numpy as np
    >>> from ranking import Ranker
    >>> X = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 0.0], [0.0, 0.0], [3.0, 1.0]])
    >>> ranker = Ranker(loss="domination", regularizer="l2:strength=0.1")
    >>> ranker = ranker.fit(X, [0, 1, 2, 0, 1], qid=[1, 1, 1, 2, 2])
    >>> ranker.predict(X).argmax()
    4
    """

    def __init__(
        self,
        model: str | Model = "auto",
        loss: str | Loss | None = None,
        regularizer: str | Regularizer = "none",
        solver: str | Solver = "auto",
        *,
        kernel: str | Kernel = "auto",
        threads: int = 1,
        seed: int = 0,
        observers: Sequence[str | Observer] = (),
    ) -> None:
        self.model = model
        self.loss = loss
        self.regularizer = regularizer
        self.solver = solver
        self.kernel = kernel
        self.threads = threads
        self.seed = seed
        self.observers = observers

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
        valid: Judged | tuple[Any, ArrayLike, ArrayLike] | None = None,
    ) -> Self:
        """Train.

        Parameters
        ----------
        X : array, sparse matrix or Judged
            One row of features per judged document; a `Judged` brings grades and queries along.
        y : array of numbers
            Grades, higher is better.
        qid : array of int or str
            The query of each row, in any order.
        valid : Judged or tuple (X, y, qid), optional
            Validation data for observers such as early stopping.
        """
        data = _judged(X, y, qid)
        run = self.prepare(data, None if valid is None else _judged(*_triple(valid)))
        try:
            run.go()
        finally:
            if run.history:
                self.adopt(run)
        return self

    def prepare(
        self, data: Judged, valid: Judged | None = None, start: Tensors | None = None
    ) -> Run:
        """Return the run that `fit` would go through.

        Parameters
        ----------
        data, valid : Judged
            Training and validation data.
        start : dict of arrays, optional
            Another model's tensors, to start from instead of the model's own first values.
        """
        registry = get_registry()
        if self.loss is None:
            raise PartError(f"loss is not given; there are {', '.join(registry.names('loss'))}.")
        loss = registry.create("loss", self.loss)
        regularizer = registry.create("regularizer", self.regularizer)
        model_part, solver_part = _choose(self.model, loss, regularizer, self.solver)
        model = registry.create("model", model_part)
        solver = registry.create("solver", solver_part)
        for kind, part, contract in (
            ("model", model, Model),
            ("loss", loss, Loss),
            ("regularizer", regularizer, Regularizer),
            ("solver", solver, Solver),
        ):
            if not isinstance(part, contract):
                raise PartError(f"{kind} is {part!r}, which is no {contract.__name__}.")
        # Objects that the user gave stay as they are: a run changes its parts.
        model, loss, regularizer, solver = copy.deepcopy((model, loss, regularizer, solver))
        model.start(data, self.seed)
        if start is not None:
            model.restore(start)
        return Run(
            model=model,
            loss=loss,
            regularizer=regularizer,
            solver=solver,
            data=data,
            kernel=get_kernel(self.kernel),
            threads=self.threads,
            seed=self.seed,
            valid=valid,
            observers=[registry.create("observer", observer) for observer in self.observers],
        )

    def adopt(self, run: Run) -> None:
        """Take over what a run came to, as the fitted attributes."""
        self.model_, self.loss_ = run.model, run.loss
        self.regularizer_, self.solver_ = run.regularizer, run.solver
        self.kernel_ = run.kernel
        self.history_ = run.history
        self.objective_ = float(run.history[-1]["objective"])
        self.n_iter_ = int(run.history[-1]["epoch"])
        self.stopped_ = run.stopped
        self.n_features_in_ = run.data.n_features
        self.description_ = self._describe(run)

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return a score for each row of X, in its order; higher is better."""
        check_is_fitted(self, "model_")
        if isinstance(X, Judged):
            scores = np.empty(X.n_rows)
            scores[X.row_order] = self.score_rows(X)
            return scores
        n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
        rows = Judged(X, np.zeros(n_rows), np.zeros(n_rows, dtype=np.int64))
        if rows.n_features != self.n_features_in_:
            raise DataError(
                f"X has {rows.n_features} features, and the ranker was fitted with "
                f"{self.n_features_in_}; give it the same columns."
            )
        ids = self.model_.tensors().get("feature_ids")
        if ids is not None:
            rows = Judged(X, rows.grades, np.zeros(n_rows, dtype=np.int64), feature_ids=ids)
        return self.score_rows(rows)

    def score_rows(self, data: Judged) -> NDArray[np.float64]:
        """Return a score for each row of `data`, in the order in which it keeps them."""
        check_is_fitted(self, "model_")
        return self.model_.scores(data, self.kernel_, self.threads)

    def score(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
        metric: str = "ndcg@10",
    ) -> float:
        """Return the mean of a metric over the queries."""
        data = _judged(X, y, qid)
        return parse_metric(metric).mean(data, self.score_rows(data))

    def save(self, path: str | Path) -> None:
        """Write the fitted ranker to one safetensors file, atomically."""
        check_is_fitted(self, "model_")
        tensors = under("model", self.model_.tensors())
        tensors |= under("history", pack_history(self.history_))
        write_tensors(Path(path), tensors, self.description_)

    @classmethod
    def load(cls, path: str | Path, *, kernel: str | Kernel = "auto", threads: int = 1) -> Self:
        """Read a fitted ranker; nothing in the file is run.

        Its parts come back as specs; only the model is made, by the plugin of its name that is
        installed here.
        """
        tensors, description = read_tensors(Path(path))
        try:
            if description["format"] != FORMAT:
                raise ModelFileError(
                    f"{path} has format {description['format']}, and this version of ranking "
                    f"reads format {FORMAT}; update ranking."
                )
            parts = {kind: str(description["parts"][kind]["spec"]) for kind in PARTS}
            made = description["parts"]["model"]
            training = description["training"]
            facts = (
                str(training["stopped"]),
                int(training["features"]),
                int(training["seed"]),
            )
            history = unpack_history(section(tensors, "history"))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            if isinstance(error, ModelFileError):
                raise
            raise ModelFileError(f"{path} is damaged: its description lacks {error}.") from error
        ranker = cls(**parts, kernel=kernel, threads=threads, seed=facts[2])
        registry = get_registry()
        try:
            model = registry.create("model", parts["model"])
        except PartError as error:
            raise ModelFileError(
                f"{path} needs model {parts['model']!r} of {made.get('distribution')} "
                f"{made.get('version')}; install that package."
            ) from error
        model.restore(section(tensors, "model"))
        ranker.model_ = model
        for kind in ("loss", "regularizer", "solver"):
            with contextlib.suppress(PartError):  # scoring does without them
                setattr(ranker, f"{kind}_", registry.create(kind, parts[kind]))
        ranker.kernel_ = get_kernel(kernel)
        ranker.stopped_, ranker.n_features_in_ = facts[:2]
        ranker.history_ = history
        ranker.objective_ = float(history[-1]["objective"]) if history else float("nan")
        ranker.n_iter_ = int(history[-1]["epoch"]) if history else 0
        ranker.description_ = description
        return ranker

    def _describe(self, run: Run) -> dict[str, Any]:
        registry = get_registry()
        parts = {}
        for kind in PARTS:
            part = getattr(run, kind)
            origin = {"distribution": type(part).__module__, "version": ""}
            if part.name in registry.names(kind):
                entry = registry.find(kind, part.name)
                origin = {"distribution": entry.distribution, "version": entry.version}
            parts[kind] = {"spec": part.spec(), **origin}
        return {
            "format": FORMAT,
            "ranking": metadata.version("ranking"),
            "parts": parts,
            "kernel": {"name": run.kernel.name, "version": run.kernel.version},
            "training": {
                "rows": run.data.n_rows,
                "queries": run.data.n_queries,
                "features": run.data.n_features,
                "seed": run.seed,
                "stopped": run.stopped,
            },
        }


def _judged(X: Any, y: Any, qid: Any) -> Judged:
    if isinstance(X, Judged):
        if y is not None or qid is not None:
            raise DataError("a Judged brings its own grades and queries; leave y and qid out.")
        return X
    if y is None or qid is None:
        missing = "y (the grades)" if y is None else "qid (the query of each row)"
        raise DataError(f"{missing} is not given; give both y and qid, or a Judged.")
    return Judged(X, y, qid)


def _triple(valid: Any) -> tuple[Any, Any, Any]:
    if isinstance(valid, Judged):
        return valid, None, None
    if isinstance(valid, tuple) and len(valid) == 3:
        return valid
    raise DataError("valid must be a Judged or a tuple (X, y, qid).")


def _choose(model: Any, loss: Loss, regularizer: Regularizer, solver: Any) -> tuple[Any, Any]:
    """Fill in "auto": the first model and solver, as registered, that fit the other parts."""
    registry = get_registry()
    models = registry.names("model") if model == "auto" else [model]
    solvers = registry.names("solver") if solver == "auto" else [solver]
    if len(models) == len(solvers) == 1:
        return models[0], solvers[0]
    reasons = []
    for some_model, some_solver in itertools.product(models, solvers):
        made_model = registry.create("model", some_model)
        made_solver = registry.create("solver", some_solver)
        verdict = made_solver.accepts(type(made_model), type(loss), type(regularizer))
        if verdict.works:
            return some_model, some_solver
        reasons.append(f"{made_model.name} x {made_solver.name}: {verdict.reason}")
    raise CombinationError(
        f"no model and solver fit loss {loss.name!r} with regularizer {regularizer.name!r}: "
        + "; ".join(reasons)
        + "."
    )
