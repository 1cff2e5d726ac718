"""`Ranker`: a model x a loss x a regularizer x a solver, with scikit-learn's conventions."""

from __future__ import annotations

import numbers
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ranking.contracts.callback import Callback
from ranking.contracts.engine import Engine
from ranking.contracts.loss import Loss
from ranking.contracts.model import Embedding, MatchingModel, Model, Tensors
from ranking.contracts.regularizer import Regularizer
from ranking.contracts.solver import OnlineTrainer, Solver, TrainingProblem
from ranking.data.exclusions import known_pairs
from ranking.data.inputs import Documents, Trainable, among_known, as_trainable, fit_text
from ranking.data.judged_lists import JudgedLists
from ranking.data.matching_data import MatchingData
from ranking.data.own_queries import own_queries
from ranking.data.text.features import TextFeatures
from ranking.data.text_collection import TextCollection
from ranking.errors import CombinationError, DataError
from ranking.inference.fold_in import fold_in, new_matches
from ranking.inference.retrieval import Top, by_vectors, similar, top
from ranking.io.model_file import read_model, write_model
from ranking.kernels.kernel import Kernel
from ranking.metrics.evaluation import evaluate_model, mean, refuse_other_data, refuse_unscorable
from ranking.metrics.parse import parse_metric
from ranking.training.fitter import Fitter, Training
from ranking.training.plan import TrainingPlan
from ranking.training.trainer import Trainer, TrainingResult


class Ranker(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no stubs
    """Learns to order the rows of each query, or to match queries with documents.

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
    random_state : int
        The same seed gives the same model, in every kernel.
    callbacks : sequence of str or Callback
        Called between epochs.
    features : str or TextFeatures, optional
        How texts are described, such as ``"text:words=10000,sublinear=true"``; for a
        `TextCollection` only, and then ``"text"`` by default. They are fitted on its documents.
    engine : str or Engine
        Which processes train, such as ``"ray:workers=2"``; the result does not depend on it.

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
        Features of the training data; of their documents, if those are matched.
    text_ : TextFeatures or None
        As they were fitted.
    documents_ : Documents or None
        The documents of a collection of texts, for `search`.

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
        random_state: int = 0,
        callbacks: Sequence[str | Callback] = (),
        features: str | TextFeatures | None = None,
        engine: str | Engine = "local",
    ) -> None:
        self.model = model
        self.loss = loss
        self.regularizer = regularizer
        self.solver = solver
        self.kernel = kernel
        self.threads = threads
        self.random_state = random_state
        self.callbacks = callbacks
        self.features = features
        self.engine = engine

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
        valid: Any = None,
        exclude_known: bool = False,
    ) -> Self:
        """Train.

        Parameters
        ----------
        X : array, sparse matrix, JudgedLists, MatchingData or TextCollection
            One row of features per judged document; a `JudgedLists` brings grades and queries along,
            a `MatchingData` or `TextCollection` queries, documents and who matches whom.
        y : array of numbers
            Grades, higher is better.
        qid : array of int or str
            The query of each row, in any order.
        valid : the same as X, or a tuple (X, y, qid), optional
            Validation data for callbacks such as early stopping.
        exclude_known : bool
            Whether the matches of X are left out of the lists that are validated, as a recommender
            does not offer again what a user has; not for judged rows.
        """
        return self.fit_with(self.plan(), X, y, qid=qid, valid=valid, exclude_known=exclude_known)

    def fit_with(
        self,
        fitter: Fitter,
        X: Any,
        y: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
        valid: Any = None,
        exclude_known: bool = False,
    ) -> Self:
        """Train with a wrapper around `plan()`, such as a `ParameterSearch`.

        Other parameters are those of `fit`. What the wrapper reports is in ``report_``.
        """
        before = getattr(self, "text_", None), getattr(self, "documents_", None)
        training: Training | None = None
        try:
            data, held_out = self.describe_data(X, y, qid, valid)
            training = fitter.trainer(data, held_out, exclude_known=exclude_known)
            training.train()
        finally:
            if training is not None and training.finished:
                self.adopt(training.result())
            else:  # an earlier fit stays whole
                self.text_, self.documents_ = before
        return self

    def describe_data(
        self, X: Any, y: Any = None, qid: Any = None, valid: Any = None
    ) -> tuple[Trainable, Trainable | None]:
        """Return training and validation data as a run takes them; texts get their features."""
        self.text_ = fit_text(X, self.features)
        data = as_trainable(X, y, qid, self.text_)
        self.documents_ = None
        if self.text_ is not None and isinstance(data, MatchingData):
            self.documents_ = Documents.of(data)
        if valid is None:
            return data, None
        held_out = as_trainable(*_triple(valid), self.text_)
        if isinstance(data, MatchingData) and isinstance(held_out, MatchingData):
            held_out = held_out.with_documents(data.document_ids)
        return data, held_out

    def prepare(
        self,
        data: Trainable,
        valid: Trainable | None = None,
        start: Tensors | None = None,
        *,
        exclude_known: bool = False,
    ) -> Trainer:
        """Return the run that `fit` would go through.

        Parameters
        ----------
        data, valid : JudgedLists or MatchingData
            Training and validation data.
        start : dict of arrays, optional
            Another model's tensors, to start from instead of the model's own first values.
        exclude_known : bool
            As in `fit`.
        """
        return self.plan().trainer(data, valid, initial=start, exclude_known=exclude_known)

    def plan(self) -> TrainingPlan:
        """Return the parts and settings of a training, without what was fitted."""
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

    def parts(self, data: Trainable) -> tuple[Model, Loss, Regularizer, Solver]:
        """Return the parts that `fit` takes for these data, with "auto" settled."""
        return self.plan().resolve(data)

    def adopt(self, result: TrainingResult) -> None:
        """Take over the result of a training as the fitted attributes."""
        self.text_ = getattr(self, "text_", None)
        self.documents_ = getattr(self, "documents_", None)
        self.model_ = result.model
        for kind in ("loss", "regularizer", "solver"):
            if getattr(result, kind) is not None:
                setattr(self, f"{kind}_", getattr(result, kind))
        self.report_ = result.report
        self.kernel_ = result.kernel
        self.history_ = result.history
        self.objective_ = result.objective
        self.n_iter_ = result.n_epochs
        self.stopped_ = result.stopped
        self.description_ = result.description
        self.n_features_in_ = result.n_features
        self._stream: tuple[OnlineTrainer, Trainer] | None = None

    def partial_fit(
        self, X: Any, *, triplets: ArrayLike | None = None, steps: int | None = None
    ) -> Self:
        """Go on training, with more tuples, other queries and documents, or new features.

        However a run is cut into parts, the weights are the same to the last bit; vectors are, and
        what else is trained by batches, if it is cut between two batches. After `fit`, `load` or a
        pickle, draws and rates go on where they were, and Adagrad's sums of squares begin anew. A
        feature that is new gets its place, with the weights that training begins with.

        Parameters
        ----------
        X : MatchingData or TextCollection
            Texts are described as those that were first given.
        triplets : array of int of shape (triplets, 3)
            Positions in X of a query, a document that matches and one that does not.
        steps : int
            How many tuples are drawn instead; by default as many as the solver has.
        """
        going: tuple[OnlineTrainer, Trainer] | None = getattr(self, "_stream", None)
        if going is None:
            stream, run = self._begin_stream(X)
        else:
            stream, run = going
            data = as_trainable(X, None, None, self.text_)
            refuse_other_data(run.model, data)
            stream.set_data(data)
            run.data = data
        with run.watched():
            run.record(stream.step(None if triplets is None else np.asarray(triplets), steps))
        run.stopped = "partial_fit"
        self.adopt(run.result())
        self._stream = (stream, run)
        return self

    def _begin_stream(self, X: Any) -> tuple[OnlineTrainer, Trainer]:
        """Return a training without an end; what is fitted already is where it begins."""
        fitted = hasattr(self, "model_")
        data = as_trainable(X, None, None, self.text_) if fitted else self.describe_data(X)[0]
        run = self.prepare(data)
        if fitted:
            run.model.restore(self.model_.tensors())
            run.model.add_features(data, run.kernel)
            run.history = list(self.history_)
        problem = TrainingProblem(
            run.model, run.loss, run.regularizer, data, run.kernel, run.threads, run.seed
        )
        return run.solver.online_trainer(problem, run.history), run

    def __getstate__(self) -> dict[str, Any]:
        """Travel between processes without what `partial_fit` holds in a kernel."""
        state: dict[str, Any] = super().__getstate__()
        return {**state, "_stream": None}

    @property
    def per_query(self) -> bool:
        """Whether the fitted model has a weight vector a query; see `PerQuery`."""
        return bool(getattr(self, "description_", {}).get("per query"))

    def described(
        self, X: Any, y: ArrayLike | None = None, qid: ArrayLike | None = None
    ) -> Trainable:
        """Return data as the fitted model takes them.

        Texts get the features that it was trained on; if it has a weight vector a query, queries
        are known by their ids, and those of labelled data are the labels.
        """
        check_is_fitted(self, "model_")
        data = as_trainable(X, y, qid, self.text_)
        return own_queries(data) if self.per_query and isinstance(data, MatchingData) else data

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return scores, higher is better.

        For an array or a `JudgedLists`, one a row, in the order of X. For a `MatchingData` or a
        `TextCollection`, a row a query and a column a document; `rank` needs less memory.
        """
        check_is_fitted(self, "model_")
        if isinstance(X, JudgedLists):
            scores = np.empty(X.n_rows)
            scores[X.row_order] = self.score_rows(X)
            return scores
        if self.model_.takes == "matching" or isinstance(X, MatchingData | TextCollection):
            data = self.described(X)
            refuse_unscorable(self.model_, data)
            return self.model_.scores(data, self.kernel_, self.threads)
        n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
        rows = JudgedLists(X, np.zeros(n_rows), np.zeros(n_rows, dtype=np.int64))
        if rows.n_features != self.n_features_in_:
            raise DataError(
                f"X has {rows.n_features} features, and the ranker was fitted with "
                f"{self.n_features_in_}; give it the same columns."
            )
        ids = self.model_.tensors().get("feature_ids")
        if ids is not None:
            rows = JudgedLists(X, rows.grades, np.zeros(n_rows, dtype=np.int64), feature_ids=ids)
        return self.score_rows(rows)

    def score_rows(self, data: JudgedLists) -> NDArray[np.float64]:
        """Return a score for each row of `data`, in the order in which it keeps them."""
        check_is_fitted(self, "model_")
        refuse_other_data(self.model_, data)
        return self.model_.scores(data, self.kernel_, self.threads)

    def rank(
        self,
        X: Any,
        k: int | None = None,
        *,
        exclude: Any = None,
        candidates: Sequence[Any] | None = None,
    ) -> Iterator[Top]:
        """Yield the k best documents of each query, by position, best first.

        Parameters
        ----------
        X : MatchingData or TextCollection
        k : int, optional
            By default all.
        exclude : MatchingData or TextCollection, or a list of them, optional
            Whose matches a query of the same id is not to have, such as the training data.
        candidates : sequence of ids, optional
            The documents that are ranked; by default all.
        """
        data = self._matching(X, "rank")
        _check_k(k, or_all=True)
        barred = chosen = None
        if exclude is not None:
            barred = known_pairs(data, *self._excluded(exclude))
        if candidates is not None:
            chosen = np.flatnonzero(np.isin(data.document_ids, np.asarray(candidates)))
        return top(
            cast(MatchingModel, self.model_),
            data,
            k,
            self.kernel_,
            self.threads,
            barred=barred,
            candidates=chosen,
        )

    def similar(self, X: Any, k: int = 10, *, side: str = "documents") -> Iterator[Top]:
        """Yield the k documents, or queries, that are most alike to each, by their vectors' cosine.

        Parameters
        ----------
        X : MatchingData or TextCollection
        side : {"documents", "queries"}
        """
        data, embedding = self._embedded(X, "similar")
        _check_k(k)
        if side not in ("documents", "queries"):
            raise DataError(f"side is {side!r}; it must be documents or queries.")
        ids = data.document_ids if side == "documents" else data.query_ids
        return similar(getattr(embedding, side), ids, k, self.kernel_, self.threads)

    def fold_in(
        self, X: Any, matches: Sequence[Sequence[Any]], k: int = 10
    ) -> list[list[tuple[Any, float]]]:
        """Return ids and scores of the k best documents for queries that are new.

        Each gets a vector of its own from the documents that it matches, by the loss that the
        model was trained with; the model stays as it is. Those documents are not among the best.
        A new query that has features needs no folding in: `rank` takes it as it is.

        Parameters
        ----------
        X : MatchingData or TextCollection
            Whose documents are ranked.
        matches : sequence of sequences of ids
            The documents that each new query matches.
        """
        data, embedding = self._embedded(X, "fold_in")
        _check_k(k)
        lists, barred = new_matches(data, matches)
        vectors = fold_in(
            embedding, lists, self.loss_, self.kernel_, seed=self.random_state, threads=self.threads
        )
        asked = Embedding(vectors, embedding.documents, embedding.biases)
        return [
            list(zip(data.document_ids[documents].tolist(), scores.tolist(), strict=True))
            for _, documents, scores in by_vectors(
                asked, data.document_ids, k, self.kernel_, self.threads, barred
            )
        ]

    def _excluded(self, exclude: Any) -> list[MatchingData]:
        """Return the data whose matches are left out."""
        given = exclude if isinstance(exclude, list | tuple) else [exclude]
        return [self._matching(each, "exclude") for each in given]

    def _matching(self, X: Any, what: str) -> MatchingData:
        """Return queries and documents that the model can score."""
        data = self.described(X)
        refuse_unscorable(self.model_, data)
        if isinstance(data, JudgedLists):
            raise DataError(
                f"{what} takes queries and documents; order judged rows by what predict returns."
            )
        return data

    def _embedded(self, X: Any, what: str) -> tuple[MatchingData, Embedding]:
        """Return the data, and the vectors of their objects."""
        data = self._matching(X, what)
        model = cast(MatchingModel, self.model_)
        embedding = model.embedding(data, self.kernel_, self.threads)
        if embedding is None:
            raise CombinationError(
                f"{what} needs vectors, and model {model.name!r} has none; train model factored, "
                "or structured with inference=iterative."
            )
        return data, embedding

    def search(self, texts: Sequence[str], k: int | None = 10) -> list[list[tuple[Any, float]]]:
        """Return the ids and scores of the k best documents of the collection for each text."""
        check_is_fitted(self, "model_")
        if self.text_ is None or self.documents_ is None:
            raise DataError(
                "this model holds no texts to search; train it on a collection of texts, or rank "
                "data that bring their documents."
            )
        if self.per_query:
            raise DataError(
                "this model knows its queries by their ids and no words of others; rank data that "
                "have these queries or labels."
            )
        if isinstance(texts, str):
            raise DataError(f"search takes a list of texts, not {texts[:40]!r}; put it in a list.")
        if not len(texts):
            return []
        names = np.array(self.text_.feature_names)
        places = np.arange(len(texts))
        data = self.documents_.asked(self.text_.transform(texts), names, places)
        ids = self.documents_.ids
        return [
            list(zip(ids[found.documents].tolist(), found.scores.tolist(), strict=True))
            for found in self.rank(data, k)
        ]

    def score(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
        metric: str = "ndcg@10",
        exclude: Any = None,
    ) -> float:
        """Return the mean of a metric over the queries.

        Documents that are known by id only are ranked among all that the model knows.

        Parameters
        ----------
        X, y, qid
            As in `fit`.
        metric : str
        exclude : MatchingData or TextCollection, or a list of them, optional
            Whose matches are left out of the list of a query of the same id, unless they are
            relevant in X too: such as the training data. Not for judged rows.
        """
        data = among_known(self.described(X, y, qid), self.model_)
        asked, barred = parse_metric(metric), None
        if exclude is not None:
            if isinstance(data, JudgedLists):
                raise DataError("exclude is for queries and documents; leave it out.")
            barred = known_pairs(data, *self._excluded(exclude), but_relevant=True)
        values = evaluate_model(self.model_, [asked], data, self.kernel_, self.threads, barred)
        return mean(values[asked.spelled()])

    def save(self, path: str | Path) -> None:
        """Write the fitted ranker to one safetensors file, atomically."""
        check_is_fitted(self, "model_")
        result = TrainingResult(
            self.model_,
            getattr(self, "loss_", None),
            getattr(self, "regularizer_", None),
            getattr(self, "solver_", None),
            self.kernel_,
            self.history_,
            self.stopped_,
            self.description_,
        )
        write_model(Path(path), result, self.text_, self.documents_)

    @classmethod
    def load(cls, path: str | Path, *, kernel: str | Kernel = "auto", threads: int = 1) -> Self:
        """Read a fitted ranker; nothing in the file is run.

        Its parts come back as specs; only the model is made, by the plugin of its name that is
        installed here.
        """
        file = read_model(Path(path), kernel)
        features = None if file.text is None else file.text.spec()
        ranker = cls(
            **file.specs, features=features, kernel=kernel, threads=threads, random_state=file.seed
        )
        ranker.text_, ranker.documents_ = file.text, file.documents
        ranker.adopt(file.result)
        return ranker


def _check_k(given: object, *, or_all: bool = False) -> None:
    if or_all and given is None:
        return
    if not isinstance(given, numbers.Integral) or given < 1:
        all_of_them = ", or None for all" if or_all else ""
        raise DataError(f"k is {given!r}; it must be a whole number from 1{all_of_them}.")


def _triple(valid: Any) -> tuple[Any, Any, Any]:
    if isinstance(valid, tuple) and len(valid) == 3:
        return valid
    if isinstance(valid, tuple | list):
        raise DataError("valid must be of the kind of X, or a tuple (X, y, qid).")
    return valid, None, None
