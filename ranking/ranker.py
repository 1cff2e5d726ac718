"""`Ranker`: a model x a loss x a regularizer x a solver, with scikit-learn's conventions."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ranking._parameters import FOREIGN_NAMES, recipe_parameters
from ranking._utils.keywords import explain_parameters
from ranking._utils.validation import validate_k, validate_threads
from ranking.contracts.callback import Callback
from ranking.contracts.engine import Engine
from ranking.contracts.loss import Loss
from ranking.contracts.metric import Metric
from ranking.contracts.model import Embedding, MatchingModel, Model
from ranking.contracts.recipe import Search
from ranking.contracts.regularizer import Regularizer
from ranking.contracts.solver import OnlineTrainer, Solver
from ranking.data.exclusions import Pairs, find_exclusions
from ranking.data.frames import check_columns, interactions_of
from ranking.data.inputs import (
    Documents,
    PreparedData,
    Trainable,
    among_known,
    as_trainable,
    prepare_data,
    warn_of_untrained,
)
from ranking.data.judged_lists import JudgedLists, query_weights, repeat_queries
from ranking.data.matching_data import MatchingData
from ranking.data.own_queries import own_queries
from ranking.data.scaling import Scaling, refuse_single_query
from ranking.data.seen import SeenItems
from ranking.data.text.features import TextFeatures
from ranking.data.text_collection import TextCollection
from ranking.errors import CombinationError, DataError, PartError
from ranking.inference.contributions import (
    ColumnNames,
    Swap,
    explain_by_history,
    explain_embeddings,
    explain_order,
    explain_rows,
    query_rows,
)
from ranking.inference.explain import (
    Contribution,
    Related,
    explain_features,
    explain_pair,
    related_features,
)
from ranking.inference.fallback import with_fallback
from ranking.inference.fold_in import fold_in, fold_in_history, positives_of_new_queries
from ranking.inference.histories import (
    explain_item,
    explain_sum,
    new_users,
    similar_items,
    without_histories,
)
from ranking.inference.index import SeenIndex
from ranking.inference.judged import rank_judged
from ranking.inference.results import (
    Columns,
    RankedList,
    RankedResults,
    Subset,
    retrieve_nothing,
)
from ranking.inference.retrieval import Retriever, similar, top_k_by_embeddings
from ranking.inference.score_features import pair_scores, scored_pairs
from ranking.io.exports.content import Exportable
from ranking.io.exports.formats import ExportOptions, export_model
from ranking.io.model_file import Extras, FileSpec, read_model, write_model
from ranking.io.result import TrainingResult
from ranking.kernels.kernel import Kernel
from ranking.metrics.evaluation import (
    evaluate,
    evaluate_model,
    refuse_other_data,
    refuse_unscorable,
)
from ranking.metrics.ordered import Catalogue, catalogue_of
from ranking.metrics.parse import parse_metrics
from ranking.metrics.result import Evaluation
from ranking.models.bilinear import Bilinear
from ranking.models.combination import Combination
from ranking.models.factored import Factored
from ranking.models.item_item import ItemItem
from ranking.models.structured import Structured
from ranking.models.thresholds import Thresholds
from ranking.models.trees import Trees
from ranking.training.fitter import Fitter
from ranking.training.plan import TrainingPlan
from ranking.training.trainer import Trainer
from ranking.training.wrappers.halving import SuccessiveHalving
from ranking.training.wrappers.search import ParameterSearch
from ranking.training.wrappers.tuning import TuningOptions

if TYPE_CHECKING:

    class Estimator:
        """scikit-learn's `BaseEstimator`, which has no type annotations."""

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            """Return the parameters by name."""

        def set_params(self, **params: Any) -> Self:
            """Set parameters by name."""

        def __getstate__(self) -> dict[str, Any]:
            """Return what a pickle holds."""

        def __sklearn_tags__(self) -> Any:
            """Return what scikit-learn asks about the estimator."""

else:
    from sklearn.base import BaseEstimator as Estimator


class LearntAttributes(Estimator):
    """What `Ranker.fit` sets; no settings, so in a class that is no dataclass."""

    model_: Model
    loss_: Loss
    regularizer_: Regularizer
    solver_: Solver
    kernel_: Kernel
    history_: list[dict[str, Any]]
    objective_: float
    n_iter_: int
    stopped_: str
    n_features_in_: int
    feature_names_in_: NDArray[Any]
    text_: TextFeatures | None
    scaling_: Scaling | None
    documents_: Documents | None
    seen_: SeenItems | None
    report_: Any
    description_: dict[str, Any]


@explain_parameters(FOREIGN_NAMES)
@dataclasses.dataclass(eq=False, repr=False, match_args=False)
class Ranker(LearntAttributes):
    """Learn to rank the documents of queries, or the items of users.

    Every part is a name (``"l2"``), a spec (``"l2:strength=0.1"``) or an object (``L2(0.1)``).

    Parameters
    ----------
    model : str or Model
        What computes scores. "auto" takes the first that supports the loss: embeddings
        (``"factored"``) for users and items without features.
    loss : str or Loss
        What training minimises; there is no default.
    regularizer : str or Regularizer
        The penalty on the parameters of the model.
    solver : str or Solver
        The optimisation method; "auto" takes the first that supports the other parts.
    kernel : str or Kernel
        The implementation of the inner loops; see :func:`ranking.get_kernel`.
    threads : int
        Results are identical for any value.
    random_state : int
        The seed. The same seed gives the same model, in every kernel.
    callbacks : sequence of str or Callback
        Called after each epoch.
    features : str or TextFeatures, optional
        How texts are represented, such as ``"text:words=10000,sublinear=true"``; only for a
        `TextCollection`, and then ``"text"`` by default. Fitted on its documents.
    engine : str or Engine
        Which processes train, such as ``"ray:workers=2"``; the result does not depend on it.
    parameter_search : Search, optional
        Parameters to choose on the validation data, if `fit` gets any; some recipes have one.
    scale : {"standard", "min-max", "query-min-max", "log", "robust"}, optional
        How the features of judged rows are scaled. What is learnt from the training data is part
        of the model: data to score and to evaluate are scaled in the same way.

    Attributes
    ----------
    model_, loss_, regularizer_, solver_ : Part
        The parts that were used, with "auto" resolved.
    kernel_ : Kernel
        The kernel that was used.
    history_ : list of dict
        One row per epoch.
    objective_ : float
        Mean loss plus penalty at the end.
    n_iter_ : int
        The number of epochs.
    stopped_ : str
        Why training ended.
    n_features_in_ : int
        The number of features; of the documents, if queries have their own.
    feature_names_in_ : array of str
        The columns of the data frame that it was fitted on, if it was one. Other columns, or the
        same in another order, are refused.
    text_ : TextFeatures or None
        Fitted.
    scaling_ : Scaling or None
        Fitted, if `scale` is set.
    documents_ : Documents or None
        The documents of a collection of texts, for `search`.
    seen_ : SeenItems or None
        Users, items and positives of the training data, for `recommend`.
    report_ : Any
        What a wrapper reports, such as the trials of a parameter search, or None.
    description_ : dict
        What a model file says about the training: the resolved specs, versions and sizes.

    Examples
    --------
    >>> import numpy as np
    >>> from ranking import Ranker
    >>> X = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 0.0], [0.0, 0.0], [3.0, 1.0]])
    >>> ranker = Ranker(loss="domination", regularizer="l2:strength=0.1")
    >>> ranker = ranker.fit(X, [0, 1, 2, 0, 1], qid=[1, 1, 1, 2, 2])
    >>> int(ranker.predict(X).argmax())
    4
    """

    model: str | Model = "auto"
    loss: str | Loss | None = None
    regularizer: str | Regularizer = "none"
    solver: str | Solver = "auto"
    _: dataclasses.KW_ONLY
    kernel: str | Kernel = "auto"
    threads: int = 1
    random_state: int = 0
    callbacks: Sequence[str | Callback] = ()
    features: str | TextFeatures | None = None
    engine: str | Engine = "local"
    parameter_search: Search | None = None
    scale: str | None = None

    @classmethod
    def from_recipe(cls, name: str, **overrides: Any) -> Self:
        """Return a ranker with the parts of a recipe, as ``ranking train --recipe`` trains it.

        Parameters
        ----------
        name : str
            Such as ``"warp"``; ``ranking plugins`` lists the recipes.
        **overrides
            Parameters of `Ranker` that replace those of the recipe.

        Examples
        --------
        >>> Ranker.from_recipe("warp", random_state=7).model
        'factored'
        """
        return cls(**recipe_parameters(name, overrides))

    @classmethod
    def tune(
        cls,
        X: Any,
        y: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
        valid: Any = None,
        **options: Any,
    ) -> Self:
        """Search recipes and their parameters within a budget; return the best, trained.

        Every recipe is trained with its defaults first, then sampled configurations by successive
        halving on more and more queries. What is chosen is trained again on all of X, for the
        number of epochs that was best. The trials are in ``report_``, a `TuningReport`.

        Parameters
        ----------
        X, y, qid
            As in `fit`.
        valid : the same as X, or a tuple (X, y, qid), optional
            By default a fifth of the queries of X is held out, or of the interactions of users
            that are known by id only.
        **options
            ``recipes`` (names; by default some that suit the data), ``budget`` (``"40trials"``,
            ``"60s"``, ``"10m"``; the same budget in trials gives the same model), ``metrics`` (the
            first decides; by default ``"ndcg@10"``), ``random_state``, ``threads``, ``kernel``,
            ``sampler`` (``"random"``, or ``"optuna"`` for its tree-structured Parzen estimator),
            ``features`` and ``scale`` as in `Ranker`, and ``on_trial``, a function that is called
            with each trial when it has ended.

        Examples
        --------
        >>> from ranking import make_demo
        >>> data = make_demo()
        >>> ranker = Ranker.tune(data["train"], recipes=["listnet"], budget="4trials")
        >>> len(ranker.report_.trials) <= 4
        True
        """
        tuning = TuningOptions(**options)
        X, valid = interactions_of(X, y), interactions_of(valid)
        data = X if isinstance(X, TextCollection) else as_trainable(X, y, qid, None)
        if isinstance(valid, tuple):
            valid = as_trainable(valid[0], valid[1], valid[2], None)
        search = SuccessiveHalving(data, valid, tuning.settings(data), tuning.on_trial)
        report = search.run()
        recipe = {"features": tuning.features} if tuning.features is not None else {}
        ranker = cls.from_recipe(
            report.best.recipe,
            kernel=tuning.kernel,
            threads=tuning.threads,
            random_state=tuning.random_state,
            scale=tuning.scale,
            **recipe,
        )
        check_columns(ranker, X, reset=True)
        trainer, prepared = search.final_trainer(report.best)
        trainer.train()
        result = dataclasses.replace(trainer.result(), report=report)
        result.description["tuning"] = {"reason": report.reason, "trials": report.rows()}
        parts = {kind: getattr(result, kind) for kind in ("model", "loss", "regularizer")}
        ranker.set_params(**{kind: part.spec() for kind, part in parts.items()})
        ranker.set_params(solver=result.solver.spec())  # type: ignore[union-attr]
        return ranker.adopt(result, prepared)

    def plan(self) -> TrainingPlan:
        """Return the plan that `fit` trains, without data; wrappers are built on it."""
        return TrainingPlan(
            model=self.model,
            loss=self.loss,
            regularizer=self.regularizer,
            solver=self.solver,
            kernel=self.kernel,
            threads=self.threads,
            random_state=self.random_state,
            callbacks=self.callbacks,
            engine=self.engine,
        )

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        valid: Any = None,
        exclude_seen: bool = False,
    ) -> Self:
        """Fit the ranker to training data.

        Parameters
        ----------
        X : array, sparse matrix, data frame, JudgedLists, MatchingData or TextCollection
            One row of features per judged document. A `JudgedLists` has its grades and queries, a
            `MatchingData` or `TextCollection` has queries, documents and their relevance. A data
            frame of interactions, with columns for user and item by their usual names, needs no y.
        y : array of numbers
            Grades, higher is better.
        qid : array of int or str
            The query of each row, in any order. Without it all rows are one query, and a
            `DataWarning` says so.
        sample_weight : array of numbers, optional
            One weight per judged row. A query counts by the mean weight of its rows, in every loss:
            it is repeated. Weights that are no multiples of the smallest are rounded to a sixteenth
            of the largest.
        valid : the same as X, or a tuple (X, y, qid), optional
            Validation data, for callbacks such as early stopping and for a parameter search.
        exclude_seen : bool
            Whether to leave the positives of X out of the lists that are validated, as a
            recommender does not recommend again what a user has; not for judged rows.
        """
        fitter: Fitter = self.plan()
        if self.parameter_search is not None and valid is not None:
            fitter = ParameterSearch(self.plan(), self.parameter_search)
        if sample_weight is not None:
            return self._fit_weighted(fitter, (X, y, qid), sample_weight, valid)
        return self.fit_with(fitter, X, y, qid=qid, valid=valid, exclude_seen=exclude_seen)

    def _fit_weighted(
        self, fitter: Fitter, judged: tuple[Any, Any, Any], weights: ArrayLike, valid: Any
    ) -> Self:
        """Train on judged rows whose queries are repeated by their weights."""
        data = as_trainable(*judged, None)
        if not isinstance(data, JudgedLists):
            raise DataError(
                "sample_weight has one weight per judged row; interactions are weighted by their "
                "values."
            )
        check_columns(self, judged[0], reset=True)
        names = getattr(self, "feature_names_in_", None)
        self.fit_with(fitter, repeat_queries(data, query_weights(data, weights)), valid=valid)
        if names is not None:
            self.feature_names_in_ = names
        return self

    def fit_with(
        self,
        fitter: Fitter,
        X: Any,
        y: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
        valid: Any = None,
        exclude_seen: bool = False,
    ) -> Self:
        """Train with a wrapper around `plan`, such as `PerQuery` or `RegularizationPath`.

        Other parameters are those of `fit`. What the wrapper reports is in ``report_``. After an
        interrupt the ranker is fitted as far as training came.
        """
        X, valid = interactions_of(X, y), interactions_of(valid)
        check_columns(self, X, reset=True)
        if isinstance(valid, tuple):
            check_columns(self, valid[0])
        prepared = self.prepare_data(X, y, qid=qid, valid=valid)
        training = fitter.trainer(prepared.data, prepared.valid, exclude_seen=exclude_seen)
        try:
            training.train()
        finally:
            if training.finished:
                self.adopt(training.result(), prepared)
        return self

    def prepare_data(
        self, X: Any, y: Any = None, *, qid: Any = None, valid: Any = None
    ) -> PreparedData:
        """Convert training and validation data to the form that a trainer needs.

        Texts get features, and the features of judged rows are scaled if `scale` is set.
        """
        prepared = prepare_data(X, y, qid, valid, self.features, self.scale)
        if prepared.has_features:
            model, _, _, solver = self.plan().resolve(prepared.data)
            for part in (model, solver):
                if part.by_id:
                    return prepared.without_features(part.name)
        return prepared

    def adopt(self, result: TrainingResult, prepared: PreparedData | None = None) -> Self:
        """Use the result of a training as the fitted attributes.

        Parameters
        ----------
        result : TrainingResult
        prepared : PreparedData, optional
            What it was trained on, for `search` and `recommend`.
        """
        text, documents, scaling = (None, None, None) if prepared is None else prepared[2:]
        self._adopt(result, text, documents)
        self.scaling_ = scaling
        data = None if prepared is None or self.per_query else prepared.data
        if isinstance(data, MatchingData) and text is None:
            self.seen_ = SeenItems.from_data(data)
        return self

    def _adopt(
        self, result: TrainingResult, text: TextFeatures | None, documents: Documents | None
    ) -> None:
        self.model_ = result.model
        for kind in ("loss", "regularizer", "solver"):
            part = getattr(result, kind)
            if part is not None:  # a model file may come without the plugins that trained it
                setattr(self, f"{kind}_", part)
        self.kernel_ = result.kernel
        self.history_ = result.history
        self.objective_, self.n_iter_ = result.objective, result.n_epochs
        self.stopped_, self.report_ = result.stopped, result.report
        self.description_ = result.description
        self.n_features_in_ = result.n_features
        self.text_, self.documents_, self.seen_ = text, documents, None
        self.scaling_ = None
        self._online: tuple[OnlineTrainer, Trainer] | None = None
        self._seen_index: SeenIndex | None = None

    def partial_fit(
        self, X: Any, *, triplets: ArrayLike | None = None, steps: int | None = None
    ) -> Self:
        """Continue training with more triplets, other queries and documents, or new features.

        However a training is cut into parts, the weights have the same bits; so have embeddings,
        and whatever else is trained in batches, if it is cut between two batches. After `fit`,
        `load` or a pickle, samples and learning rates continue where they were, and Adagrad's sums
        of squares start again. A new feature gets the parameters that training starts with.

        Parameters
        ----------
        X : MatchingData or TextCollection
            Texts are represented as those of the first call.
        triplets : array of int of shape (triplets, 3)
            Positions in X of a query, a positive and a negative.
        steps : int
            The number of triplets to sample instead; by default that of the solver.
        """
        seen = getattr(self, "seen_", None)
        online: tuple[OnlineTrainer, Trainer] | None = getattr(self, "_online", None)
        if online is None:
            prepared, online = self._start_online(X)
        else:
            prepared = self._as_before(X)
            refuse_other_data(online[1].model, prepared.data)
            online[0].set_data(prepared.data)
            online[1].data = prepared.data
        trainer = online[1]
        with trainer.watched():
            positions = None if triplets is None else np.array(triplets)
            trainer.record(online[0].step(positions, steps))
        trainer.stopped = "partial_fit"
        self.adopt(trainer.result(), prepared)
        if seen is not None and self.seen_ is not None:
            self.seen_ = seen.union(self.seen_)
        self._online = online
        return self

    def _start_online(self, X: Any) -> tuple[PreparedData, tuple[OnlineTrainer, Trainer]]:
        """Return data and an online trainer that starts from the fitted model, if there is one."""
        fitted = hasattr(self, "model_")
        prepared = self._as_before(X) if fitted else self.prepare_data(X)
        plan = self.plan()
        if isinstance(self.model, FileSpec) and isinstance(getattr(self.model_, "base", None), str):
            # Its stages are in the file, so the base that it names is not needed.
            model: Any = self.model_
            plan = dataclasses.replace(plan, model=dataclasses.replace(model, base=None))
        trainer = plan.trainer(prepared.data)
        if fitted:
            trainer.model.restore(self.model_.tensors())
            trainer.model.add_features(prepared.data, trainer.kernel)
            trainer.history = list(self.history_)
        online = trainer.solver.online_trainer(trainer.problem(), trainer.history)
        return prepared, (online, trainer)

    def _as_before(self, X: Any) -> PreparedData:
        """Return data with the text features and documents of the first fit."""
        data = as_trainable(X, None, None, self.text_)
        return PreparedData(data, None, self.text_, self.documents_)

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that features may be sparse."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """Return what a pickle holds: no training that goes on, and nothing that is made again."""
        state: dict[str, Any] = super().__getstate__()
        return {**state, "_online": None, "_seen_index": None}

    @property
    def coef_(self) -> NDArray[np.float64]:
        """The weights of a linear model, one per feature, as they multiply scaled features."""
        weights = getattr(self.model_, "weights", None) if hasattr(self, "model_") else None
        if not isinstance(weights, np.ndarray) or weights.ndim != 1:
            raise AttributeError("coef_ is there for a fitted linear model only.")
        return weights

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """How important each feature is.

        The absolute weights of a linear model, which are comparable if features are of one scale;
        the number of nodes of trees that ask for a feature; the sum of the absolute values of the
        thresholds of `rankboost`.
        """
        model = getattr(self, "model_", None)
        if isinstance(model, Trees | Thresholds):
            return model.importances()
        try:
            return np.abs(self.coef_)
        except AttributeError:
            raise AttributeError(
                "feature_importances_ is there for a fitted model of judged rows with weights, "
                "trees or thresholds only; permutation_importance measures any model."
            ) from None

    @property
    def per_query(self) -> bool:
        """Whether the fitted model has one weight vector per query; see `ranking.PerQuery`."""
        return bool(getattr(self, "description_", {}).get("per query"))

    def to_model_data(
        self, X: Any, y: ArrayLike | None = None, *, qid: ArrayLike | None = None
    ) -> Trainable:
        """Convert data to the form that the fitted model scores, with the candidates to rank.

        Texts get the features of the training. Documents that are known by id only are joined by
        all others that the model knows. If the model has one weight vector per query, queries are
        known by id, and those of labelled data are the labels.
        """
        return among_known(self._represent(X, y, qid), self.model_)

    def _represent(self, X: Any, y: Any = None, qid: Any = None) -> Trainable:
        self._check_fitted()
        X = interactions_of(X, y)
        check_columns(self, X)
        data = as_trainable(X, y, qid, self.text_)
        if isinstance(data, JudgedLists) and data is not X and self.model_.takes == "judged":
            self._refuse_other_width(data)
        if isinstance(data, JudgedLists):
            return self._scaled(data)
        if self.model_.by_id or getattr(getattr(self, "solver_", None), "by_id", False):
            data = data.without_features()
        return own_queries(data) if self.per_query else data

    def _scaled(self, data: JudgedLists) -> JudgedLists:
        return data if self.scaling_ is None else self.scaling_.transform(data)

    def _check_fitted(self) -> None:
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self, "model_")
        validate_threads(self.threads)

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return scores, higher is better.

        For an array or a `JudgedLists`, one score per row, in the order of X. For a `MatchingData`
        or a `TextCollection`, one row per query and one column per document of X; `rank` needs
        less memory.
        """
        self._check_fitted()
        if isinstance(X, JudgedLists):
            # A selection keeps the numbers of its rows in the whole.
            return self.score_rows(X)[np.argsort(X.row_order, kind="stable")]
        if X is None or self.model_.takes == "matching":
            return self._predict_matching(X)
        if isinstance(X, MatchingData | TextCollection):
            return self._predict_matching(X)
        check_columns(self, X)
        refuse_single_query(self.scaling_)
        n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
        rows = JudgedLists(X, np.zeros(n_rows), np.zeros(n_rows, dtype=np.int64))
        self._refuse_other_width(rows)
        ids = self.model_.tensors().get("feature_ids")
        if ids is not None:
            rows = JudgedLists(X, rows.grades, np.zeros(n_rows, dtype=np.int64), feature_ids=ids)
        return self.score_rows(rows)

    def _refuse_other_width(self, rows: JudgedLists) -> None:
        """Refuse an array with another number of columns: arrays have no ids to align by."""
        if rows.n_features != self.n_features_in_:
            raise DataError(
                f"X has {rows.n_features} features, but Ranker is expecting "
                f"{self.n_features_in_} features as input; give it the columns of fit."
            )

    def _predict_matching(self, X: Any) -> NDArray[np.float64]:
        data = self._represent(X)
        refuse_unscorable(self.model_, data)
        return self.model_.scores(data, self.kernel_, self.threads)

    def score_rows(self, data: JudgedLists) -> NDArray[np.float64]:
        """Return a score for each row of `data`, in the order in which it stores them."""
        self._check_fitted()
        refuse_other_data(self.model_, data)
        return self.model_.scores(self._scaled(data), self.kernel_, self.threads)

    def score_pairs(
        self, X: Any, queries: NDArray[np.int64], documents: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return the score of each pair of a query and a document, given by positions in X."""
        data = self._matching(self._represent(X), "score_pairs")
        model = cast(MatchingModel, self.model_)
        return pair_scores(model, data, queries, documents, self.kernel_, self.threads)

    def rank(
        self,
        X: Any,
        k: int | None = None,
        *,
        exclude: Any = None,
        candidates: Sequence[Any] | None = None,
    ) -> RankedResults:
        """Return the k best documents of each query, by id.

        Equal scores are ordered by document id. Documents that are known by id only are ranked
        among all that the model knows; a query that is a document itself is left out of its list.
        The lists are computed while the results are iterated.

        Parameters
        ----------
        X : MatchingData, TextCollection or JudgedLists
        k : int, optional
            By default all.
        exclude : MatchingData or TextCollection, or a list of them, optional
            Whose positives are left out of the list of a query of the same id, such as the
            training data. Not for judged rows.
        candidates : sequence of ids, optional
            The documents that are ranked; by default all. Not for judged rows.
        """
        data = self.to_model_data(X)
        refuse_unscorable(self.model_, data)
        validate_k(k, or_all=True)
        warn_of_untrained(self.model_, self.seen_, data, ranked=True)
        if isinstance(data, JudgedLists):
            if exclude is not None or candidates is not None:
                raise DataError("exclude and candidates are for queries and documents; omit them.")
            return rank_judged(data, self.score_rows(data), k)
        positions = None
        if candidates is not None:
            positions = np.flatnonzero(np.isin(data.document_ids, np.asarray(candidates)))
        exclusions = None if exclude is None else find_exclusions(data, *self._excluded(exclude))
        return self._retrieve(data, k, exclusions, positions)

    def _model_with_fallback(self) -> MatchingModel:
        return with_fallback(cast(MatchingModel, self.model_), self.seen_)

    def _retrieve(
        self,
        data: MatchingData,
        k: int | None,
        exclusions: Pairs | None = None,
        candidates: NDArray[np.int64] | None = None,
        columns: Columns | None = None,
    ) -> RankedResults:
        retriever = Retriever(
            self._model_with_fallback(),
            data,
            k,
            self.kernel_,
            self.threads,
            exclusions=exclusions,
            candidates=candidates,
        )
        return RankedResults(data.query_ids, data.document_ids, retriever, columns)

    def recommend(
        self, user_ids: Iterable[Any], k: int = 10, *, exclude_seen: bool = True
    ) -> RankedResults:
        """Return the k best items for users of the training data, by id.

        Parameters
        ----------
        user_ids : iterable of ids
            Users of the training data; `fold_in` takes others.
        k : int
        exclude_seen : bool
            Whether to leave out the positives of the user in the training data.

        Examples
        --------
        >>> seen = MatchingData.from_interactions(["ann", "ann", "bob"], ["alien", "heat", "heat"])
        >>> ranker = Ranker.from_recipe("warp").fit(seen)
        >>> [item for item, score in ranker.recommend(["bob"])["bob"]]
        ['alien']
        """
        seen, index = self._seen("recommend"), self._index("recommend")
        validate_k(k)
        users = index.users(user_ids)
        if not users.size:
            return RankedResults(seen.user_ids[:0], seen.item_ids, retrieve_nothing)
        exclusions = seen.exclusions(users) if exclude_seen else None
        columns = Columns("user", "item")
        if not index.has_embeddings:
            return self._retrieve(seen.data(users), k, exclusions, columns=columns)
        retrieve = partial(index.recommend, users, k, exclusions)
        return RankedResults(seen.user_ids[users], seen.item_ids, retrieve, columns)

    def similar_items(self, item_ids: Iterable[Any], k: int = 10) -> RankedResults:
        """Return the k items whose embeddings have the largest cosine with each item, by id.

        Parameters
        ----------
        item_ids : iterable of ids
            Items of the training data.
        k : int
        """
        seen = self._seen("similar_items")
        index = self._index("similar_items")
        positions = index.items(item_ids)
        validate_k(k)
        columns = Columns("item", "similar item")
        if index.has_embeddings:
            retrieve: Any = partial(index.similar, positions, k)
        else:
            retrieve = Subset(self.similar(seen.data(np.arange(1)), k).retrieve, positions)
        return RankedResults(seen.item_ids[positions], seen.item_ids, retrieve, columns)

    def _index(self, what: str) -> SeenIndex:
        """Return what requests of users and items of the training data share; made once."""
        seen, model = self._seen(what), cast(MatchingModel, self.model_)
        index = self._seen_index
        if index is None or index.seen is not seen or index.threads != self.threads:
            self._seen_index = index = SeenIndex(seen, model, self.kernel_, self.threads)
        return index

    def _seen(self, what: str) -> SeenItems:
        self._check_fitted()
        if self.seen_ is None:
            raise DataError(
                f"{what} is for models of users and items, and this one was trained with texts, "
                "labels or judged rows, or saved without the features of its users; call rank or "
                "similar with the data."
            )
        return self.seen_

    def similar(self, X: Any, k: int = 10, *, side: str = "documents") -> RankedResults:
        """Return the k documents, or queries, most similar to each, by cosine of embeddings.

        Parameters
        ----------
        X : MatchingData or TextCollection
        k : int
        side : {"documents", "queries"}
        """
        validate_k(k)
        if side not in ("documents", "queries"):
            raise DataError(f"side is {side!r}; it must be documents or queries.")
        if isinstance(self.model_, ItemItem):
            items = self._matching(self.to_model_data(X), "similar")
            lists = similar_items(self.model_, items, k, side, (self.kernel_, self.threads))
            columns = Columns("document", "similar document")
            return RankedResults(items.document_ids, items.document_ids, lists, columns)
        data, embedding = self._embed(X, "similar")
        ids = data.document_ids if side == "documents" else data.query_ids
        one = side.replace("ies", "y").removesuffix("s")
        embeddings = getattr(embedding, side)
        retrieve = partial(similar, embeddings, ids, k, self.kernel_, self.threads)
        return RankedResults(ids, ids, retrieve, Columns(one, f"similar {one}"))

    def fold_in(
        self, X: Any, positives: Mapping[Any, Sequence[Any]] | Sequence[Sequence[Any]], k: int = 10
    ) -> RankedResults:
        """Return the k best documents for queries, or users, that were not in the training data.

        Each gets an embedding from its positives, trained by the loss of the model; in an item-item
        model, and with `factored:history`, the positives are its history, and nothing is trained;
        in a combination, this holds for each of its models. The model itself does not change. The
        positives are left out of the lists. A new query that has features needs no folding in:
        `rank` takes it.

        Parameters
        ----------
        X : MatchingData or TextCollection
            Whose documents are ranked.
        positives : mapping or sequence of sequences of ids
            The positive documents by the id of each new query; the queries of a sequence are
            numbered from 0.
        k : int
        """
        validate_k(k)
        names = list(positives) if isinstance(positives, Mapping) else range(len(positives))
        lists = list(positives.values()) if isinstance(positives, Mapping) else positives
        if isinstance(self.model_, ItemItem | Combination):
            data = self._matching(self.to_model_data(X), "fold_in")
            run = (self.kernel_, self.threads)
            results = new_users(self.model_, data, lists, k, run, self.random_state)
            return RankedResults(np.array(names), data.document_ids, results)
        data, embedding = self._embed(X, "fold_in")
        samples, exclusions = positives_of_new_queries(data, lists)
        queries = self._folded_in(data, embedding, samples)
        new = Embedding(queries, embedding.documents, embedding.biases)
        retrieve = partial(
            top_k_by_embeddings,
            new,
            data.document_ids,
            k,
            self.kernel_,
            self.threads,
            exclusions,
            None,
        )
        return RankedResults(np.array(names), data.document_ids, retrieve)

    def _folded_in(self, data: MatchingData, embedding: Embedding, samples: Any) -> Any:
        """Return embeddings of new queries: means of histories, or trained from their positives."""
        if isinstance(self.model_, Factored) and self.model_.history != "ignored":
            return fold_in_history(self.model_, data, samples, self.kernel_, self.threads)
        return fold_in(
            embedding,
            samples,
            self._trained_loss(),
            self.kernel_,
            regularizer=getattr(self, "regularizer_", None),
            seed=self.random_state,
            threads=self.threads,
        )

    def _trained_loss(self) -> Loss:
        """Return the loss of the training, which a model file may name without its plugin."""
        if not hasattr(self, "loss_"):
            spec = self.description_["parts"]["loss"]["spec"]
            raise PartError(
                f"fold_in trains by the loss of the model, {spec!r}, which is not installed here; "
                "install its plugin."
            )
        return self.loss_

    def search(self, texts: Sequence[str], k: int | None = 10) -> RankedResults:
        """Return the k best documents of the collection for each text, by id."""
        self._check_fitted()
        if self.text_ is None or self.documents_ is None:
            raise DataError(
                "this model has no texts to search; train it on a collection of texts, or call "
                "rank with data that have documents."
            )
        if self.per_query:
            raise DataError(
                "this model knows its queries by id, not by words; call rank with data that have "
                "these queries or labels."
            )
        if isinstance(texts, str):
            raise DataError(f"search takes a list of texts, not {texts[:40]!r}; put it in a list.")
        validate_k(k, or_all=True)
        queries = np.array(texts, dtype=np.str_)
        if not queries.size:
            return RankedResults(queries, self.documents_.ids, retrieve_nothing)
        data = self.documents_.with_queries(texts, self.text_)
        refuse_unscorable(self.model_, data)
        results = self._retrieve(data, k)
        return RankedResults(queries, self.documents_.ids, results.retrieve)

    def recommend_for(self, items: Sequence[Any], k: int = 10) -> RankedList:
        """Return the k best items for a user who has these items and was not in the training data.

        See `fold_in`; the items that the model knows are taken from its training data.

        Parameters
        ----------
        items : sequence of ids
        k : int
        """
        return self.fold_in(self._seen("recommend_for").data(np.arange(1)), [list(items)], k)[0]

    def document_embeddings(self, X: Any = None) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """Return the ids of documents, or items, and their embeddings, one row each.

        Parameters
        ----------
        X : MatchingData or TextCollection, optional
            By default the items of the training data.
        """
        data, embedding = self._embed(self._seen_data() if X is None else X, "document_embeddings")
        return data.document_ids, embedding.documents

    def related_features(self, feature: Any, k: int = 5) -> list[Related]:
        """Return the k document features with the largest weights for a query feature.

        For bilinear models; a word is looked up as the text features spell it.
        """
        self._check_fitted()
        text = None if self.per_query else self.text_
        return related_features(self.model_, feature, k, text)

    def explain(self, query: Any, document: Any, X: Any = None) -> list[Contribution]:
        """Return the contributions to the score of a document for a query, largest first.

        Of a bilinear model, the pairs of words or of features; of an item-item model, the items of
        a user's history; of a combination of models of users and items, these contributions and the
        scores of its other models; of embeddings, the pairs of features, and for users and items
        that are known by id only, the past items of the user; of structured lists, the neighbours
        too; of a linear model of judged rows, the features, and of another one, how much the score
        falls without each feature.

        Parameters
        ----------
        query, document : str or int
            Texts; a document may also be an id of the collection that the model was trained on. Of
            other models, the ids of a query or user and of a document or item.
        X : JudgedLists or MatchingData, optional
            Which has them; needed for judged rows, and for users and items that were not in the
            training data.
        """
        self._check_fitted()
        if isinstance(self.model_, ItemItem):
            return explain_item(self.model_, query, document)
        if isinstance(self.model_, Combination) and self.seen_ is not None:
            run = (self.kernel_, self.threads)
            return explain_sum(self.model_, self.seen_, query, document, run)
        if self.model_.takes == "judged":
            data, rows = self._rows_of(X, query)
            names = data.doc_ids[rows].astype(np.str_).tolist()
            at = _place(names, document, "document")
            columns = ColumnNames.of(self.model_, getattr(self, "feature_names_in_", None))
            reasons = explain_rows(self.model_, data, rows, (self.kernel_, self.threads))[at]
            return [
                one._replace(
                    query_feature=columns[one.query_feature],
                    document_feature=columns[one.document_feature],
                )
                for one in reasons
            ]
        by_features = isinstance(self.model_, Bilinear) and self.text_ is None
        if isinstance(self.model_, Factored) or (by_features and not self.per_query):
            return self._explain_matching(query, document, X)
        if self.text_ is None or self.per_query:
            raise DataError(
                "explain needs a model of texts whose queries have words; for this one, call "
                "related_features with a feature, or the id of a query."
            )
        return explain_pair(self.model_, self.text_, self.documents_, query, document)

    def explain_order(self, X: Any, query: Any) -> list[Swap]:
        """Return the smallest changes of features that would reorder the documents of a query.

        One row for each document and the one below it: the gap between their scores, and the
        feature that closes it with the smallest change.

        Parameters
        ----------
        X : JudgedLists
        query : id
        """
        self._check_fitted()
        data, rows = self._rows_of(X, query)
        scores = self.model_.scores(data, self.kernel_, self.threads)
        columns = ColumnNames.of(self.model_, getattr(self, "feature_names_in_", None))
        swaps = explain_order(self.model_, data, rows, scores)
        return [one._replace(feature=columns[one.feature]) for one in swaps]

    def _rows_of(self, X: Any, query: Any) -> tuple[JudgedLists, slice]:
        """Return judged rows as the model sees them, and those of a query."""
        if X is None:
            raise DataError("explain of judged rows needs the rows; give X, and in it the query.")
        data = self.to_model_data(X)
        refuse_other_data(self.model_, data)
        assert isinstance(data, JudgedLists)
        return data, query_rows(data, query)

    def _explain_matching(self, query: Any, document: Any, X: Any) -> list[Contribution]:
        model, run = self.model_, (self.kernel_, self.threads)
        if X is None and self.text_ is not None:
            X = self._text_pair(query, document)
            query, document = X.query_ids[0].item(), X.document_ids[0].item()
        data = self._seen_data() if X is None else self._matching(self.to_model_data(X), "explain")
        row = _place(data.query_ids.astype(np.str_).tolist(), query, "query")
        column = _place(data.document_ids.astype(np.str_).tolist(), document, "document")
        if isinstance(model, Bilinear):
            return explain_features(model, data, row, column)
        assert isinstance(model, Factored)
        seen = self.seen_ if X is None else None
        if seen is not None and seen.by_id and not isinstance(model, Structured):
            return explain_by_history(model, seen, row, column)
        return explain_embeddings(model, data, row, column, run)

    def _text_pair(self, query: str, document: str) -> TextCollection:
        """Return two texts as a collection, to be represented as those of the training."""
        return TextCollection(["query"], [query], ["document"], [document], [[1.0]])

    def _seen_data(self) -> MatchingData:
        seen = self._seen("explain without X")
        return seen.data(np.arange(seen.user_ids.size))

    def score(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        metric: str = "ndcg@10",
        exclude: Any = None,
    ) -> float:
        """Return the mean of a metric over the queries; see `evaluate`.

        Parameters
        ----------
        X, y, qid, exclude
            As in `evaluate`.
        sample_weight : array-like, optional
            One weight per row of X. A query counts by the mean weight of its rows.
        metric : str
        """
        evaluation = self.evaluate(X, y, qid=qid, metrics=[metric], exclude=exclude)
        if sample_weight is None:
            return evaluation.mean(metric)
        data = self.to_model_data(X, y, qid=qid)
        if not isinstance(data, JudgedLists):
            raise DataError("sample_weight has one weight per judged row; leave it out.")
        return evaluation.mean(metric, weights=query_weights(data, sample_weight))

    def evaluate(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
        metrics: str | Sequence[str] = ("ndcg@10",),
        exclude: Any = None,
        judged_only: bool = False,
    ) -> Evaluation:
        """Return the values of metrics for each query.

        Documents that are known by id only are ranked among all that the model knows.

        Parameters
        ----------
        X, y, qid
            As in `fit`.
        metrics : str or sequence of str
            Such as ``"ndcg@10,map"`` or ``["ndcg@10", "map"]``.
        exclude : MatchingData or TextCollection, or a list of them, optional
            Whose positives are left out of the list of a query of the same id, unless they are
            relevant in X too; such as the training data. Not for judged rows.
        judged_only : bool
            Whether a query ranks only the documents that X has an entry for, grade 0 included, as
            trec_eval's option -J does; queries without entries are left out.
        """
        data = self.to_model_data(X, y, qid=qid)
        warn_of_untrained(self.model_, self.seen_, data)
        parsed = parse_metrics(metrics)
        if judged_only and isinstance(data, MatchingData):
            if exclude is not None:
                raise DataError("judged_only says what is ranked already; leave exclude out.")
            return self._evaluate_pairs(data, parsed)
        exclusions = None
        if exclude is not None:
            if isinstance(data, JudgedLists):
                raise DataError("exclude is for queries and documents; leave it out.")
            exclusions = find_exclusions(data, *self._excluded(exclude), but_relevant=True)
        unique = list({metric.spelled(): metric for metric in parsed.values()}.values())
        matching = not isinstance(data, JudgedLists)
        values = evaluate_model(
            self._model_with_fallback() if matching else self.model_,
            unique,
            data,
            self.kernel_,
            self.threads,
            exclusions,
            self._catalogue(data, exclude),
        )
        names = {name: metric.spelled() for name, metric in parsed.items()}
        return Evaluation(data.query_ids, values, names)

    def _evaluate_pairs(self, data: MatchingData, parsed: Mapping[str, Metric]) -> Evaluation:
        """Return the values of metrics for the judged documents of each query."""
        model = self._model_with_fallback()
        pairs, scores = scored_pairs(model, data, self.kernel_, self.threads)
        unique = {metric.spelled(): metric for metric in parsed.values()}
        values = evaluate(list(unique.values()), pairs, scores, self.kernel_, self.threads)
        names = {name: metric.spelled() for name, metric in parsed.items()}
        return Evaluation(pairs.query_ids, values, names)

    def _catalogue(self, data: Trainable, exclude: Any) -> Catalogue | None:
        """Return the items of data, and who has them in the training data, if that is known."""
        if isinstance(data, JudgedLists):
            return None
        if self.seen_ is not None and self.seen_.positives is not None:
            known = self.seen_.data(np.arange(self.seen_.user_ids.size))
            return catalogue_of(data, [known._replace(relevance=self.seen_.positives)])
        return None if exclude is None else catalogue_of(data, self._excluded(exclude))

    def _excluded(self, exclude: Any) -> list[MatchingData]:
        """Return the data whose positives are left out."""
        parts = exclude if isinstance(exclude, list | tuple) else [exclude]
        return [self._matching(self._represent(each), "exclude") for each in parts]

    def _matching(self, data: Trainable, what: str) -> MatchingData:
        """Return queries and documents that the model can score."""
        refuse_unscorable(self.model_, data)
        if isinstance(data, JudgedLists):
            raise DataError(
                f"{what} takes queries and documents; call predict or rank for judged rows."
            )
        return data

    def _embed(self, X: Any, what: str) -> tuple[MatchingData, Embedding]:
        """Return the data, and the embeddings of their queries and documents."""
        data = self._matching(self.to_model_data(X), what)
        model = cast(MatchingModel, self.model_)
        embedding = model.embedding(data, self.kernel_, self.threads)
        if embedding is None:
            raise CombinationError(
                f"{what} needs embeddings, and model {model.name!r} has none; train model "
                "factored, or structured with inference=iterative."
            )
        return data, embedding

    def save(self, path: str | Path, *, seen: bool = True) -> None:
        """Write the fitted ranker to one safetensors file, atomically.

        Parameters
        ----------
        path : str or Path
        seen : bool
            Whether to write the positives of users too, so that `recommend` can exclude them
            after `load`, and the features of users, if they have some. Without them the file does
            not tell who has what.
        """
        self._check_fitted()
        result = self._result()
        if not seen:
            result = dataclasses.replace(result, model=without_histories(result.model))
        write_model(Path(path), result, self._extras(seen))

    def _extras(self, seen: bool = True) -> Extras:
        """Return what a file holds beside the model."""
        stored = self.seen_ if self.seen_ is None or seen else self.seen_.without_positives()
        columns = getattr(self, "feature_names_in_", None)
        return Extras(self.text_, self.documents_, stored, columns, self.scaling_)

    def export(
        self,
        path: str | Path,
        to: str,
        *,
        data: Any = None,
        name: str = "ranking",
        feature_names: Sequence[str] | None = None,
        overwrite: bool = False,
    ) -> list[Path]:
        """Export the fitted model to the format of another program; return the paths of the files.

        Parameters
        ----------
        path : str or Path
            A file, or a folder for formats of several files.
        to : str
            Such as ``"elasticsearch-ltr"``, ``"onnx"`` or ``"parquet"``; an error lists all.
            Scaling is part of what is exported.
        data : MatchingData or TextCollection, optional
            The queries and documents whose embeddings are written; by default the users and items
            of the training data.
        name : str
            The name of the model in the target.
        feature_names : sequence of str, optional
            The names of the features of a linear model in the target; by default the columns of
            the data frame, or the numbers of the features.
        overwrite : bool
            Whether files of a folder that is not empty may be replaced.
        """
        self._check_fitted()
        source = Exportable(self.model_, self._extras(), partial(self._embeddings_of, data))
        return export_model(source, path, to, ExportOptions(name, feature_names, overwrite))

    def _embeddings_of(self, data: Any) -> tuple[Any, Any, Embedding]:
        """Return ids and embeddings of data, or of the users and items of the training data."""
        if data is None:
            seen = self._seen("export without data")
            data = seen.data(np.arange(seen.user_ids.size))
        described, embedding = self._embed(data, "this export")
        return described.query_ids, described.document_ids, embedding

    def _result(self) -> TrainingResult:
        return TrainingResult(
            self.model_,
            getattr(self, "loss_", None),
            getattr(self, "regularizer_", None),
            getattr(self, "solver_", None),
            self.kernel_,
            self.history_,
            self.stopped_,
            self.description_,
            self.report_,
        )

    @classmethod
    def load(cls, path: str | Path, *, kernel: str | Kernel = "auto", threads: int = 1) -> Self:
        """Read a fitted ranker; no code in the file is run.

        Its parts come back as specs; only the model is created, by the installed plugin of its
        name.
        """
        file = read_model(Path(path), kernel)
        ranker = cls(
            file.specs["model"],
            file.specs["loss"],
            file.specs["regularizer"],
            file.specs["solver"],
            features=None if file.extras.text is None else file.extras.text.spec(),
            kernel=kernel,
            threads=validate_threads(threads),
            random_state=file.seed,
            scale=None if file.extras.scaling is None else file.extras.scaling.method,
        )
        ranker._adopt(file.result, file.extras.text, file.extras.documents)
        ranker.seen_, ranker.scaling_ = file.extras.seen, file.extras.scaling
        if file.extras.columns is not None:
            ranker.feature_names_in_ = file.extras.columns.astype(object)
        return ranker


def _place(names: Sequence[str], name: Any, what: str) -> int:
    """Return the position of an id; a number may be given as text."""
    if str(name) not in names:
        raise DataError(f"the {what} {name!r} is not known; they are like {names[0]!r}.")
    return names.index(str(name))
