"""Latent structured ranking (LaSR): each stage uses the best documents of the one before."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from ranking._utils.tensors import section, under
from ranking.contracts.model import Embedding, MatchingModel, Model, Tensors
from ranking.contracts.parameters import boolean, choice, integer
from ranking.data.validation import Ids
from ranking.errors import DataError, ModelFileError, PartError
from ranking.kernels.contract import Factors, Floats, Ints, Singles
from ranking.kernels.factored import FactoredInputs
from ranking.models.factored import MAX_DIMENSIONS, Factored
from ranking.models.list_inference import INFERENCES, choose_jointly, place_first
from ranking.models.stage_lists import best_lists

if TYPE_CHECKING:
    from ranking.data.matching_data import MatchingData
    from ranking.kernels.kernel import Kernel

SIDE_OF_S = 2
"""The random stream of S; U and V have 0 and 1."""


class TrainedBase(Protocol):
    """A trained model that can be trained again on other data."""

    @property
    def model_(self) -> Model:
        """The trained model."""

    def refit(self, data: Any) -> Model:
        """Train the same parts on other data."""


@dataclasses.dataclass
class Structured(Factored):
    """A cascade of factored models (Weston and Blitzer, 2012).

    Stage 0 scores a query q and a document d by (U q) . (V d). Stage t >= 1 has its own U, V and S,
    and adds ``sum_j w_j (S d) . (S d_j)``, where d_1, d_2, ... are the k best documents of stage
    t - 1 for the query, and w_j = 1/j: S learns which documents belong in a list together.

    Parameters
    ----------
    dimensions : int
        The length of an embedding (number of latent factors).
    biases : bool
        Whether a document feature has a bias.
    init_scale : float
        Scale of the initial embeddings, as in `Factored`.
    stages : int
        Number of stages after stage 0 (T).
    k : int
        Number of documents that a stage passes on to the next.
    base : str, Ranker or MatchingModel, optional
        A trained model that becomes stage 0, its ranker, or a model file; by default stage 0 is
        trained too.
    inference : {"iterative", "greedy", "beam"}
        How the last stage ranks: score each document given the list of the stage before; choose
        the k best one after the other, each given those before it; or do so with beam search.
    beam : int
        Number of lists in beam search.
    init : {"scratch", "previous-stage"}
        Initial values of U, V and the biases of a later stage: sampled, as in the paper, or those
        of the stage before. S is always sampled.
    folds : int
        If not 0, stage 1 learns from cross-fitted lists: stage 0 is trained without each of so
        many folds of the queries, and gives the lists of the queries that it has not seen.

    Attributes
    ----------
    stage : int
        The stage in training, or the last one.
    """

    name: ClassVar[str] = "structured"

    dimensions: int = integer(32, minimum=1, maximum=MAX_DIMENSIONS)
    biases: bool = boolean(False)
    stages: int = integer(1, minimum=1, maximum=1000)
    k: int = integer(20, minimum=1, maximum=1000)
    base: Any = None
    inference: str = choice("iterative", *INFERENCES)
    beam: int = integer(4, minimum=1, maximum=1000)
    init: str = choice("scratch", "scratch", "previous-stage")
    folds: int = integer(0, minimum=0, maximum=1000)

    def _setup(self) -> None:
        super()._setup()
        if not isinstance(self.base, str | MatchingModel | None) and not hasattr(
            self.base, "model_"
        ):
            raise PartError(
                f"structured has base={self.base!r}; it must be a trained model, its ranker or its "
                "file."
            )
        self._refuse_folds()
        self._earlier: list[MatchingModel] = []
        self._lists: Ints | None = None
        self._saved_base: TrainedBase | None = None

    def _refuse_folds(self) -> None:
        if self.folds == 1:
            raise PartError(
                "structured has folds=1, which leaves nothing to train on; use at least 2."
            )
        if self.folds and self.stages > 1:
            raise PartError(
                f"structured has folds={self.folds} and stages={self.stages}; the lists of a later "
                "stage would need nested folds. Use stages=1."
            )
        if self.folds and isinstance(self.base, MatchingModel):
            raise PartError(
                f"structured has folds={self.folds} and a base whose training is unknown; "
                "give its ranker, or its file."
            )

    def spec(self) -> str:
        """Return the spec; a base that is an object is stored in the tensors only."""
        if isinstance(self.base, str | None):
            return super().spec()
        return dataclasses.replace(self, base=None).spec()

    def __sklearn_clone__(self) -> Structured:
        """Return a model to train; its base stays trained."""
        return type(self)(**self.get_params())

    def attach_base(self, base: TrainedBase) -> None:
        """Set the content of the file that `base` names; the trainer reads it."""
        self._saved_base = base

    def _trained_base(self) -> Any:
        if not isinstance(self.base, str):
            return self.base
        if self._saved_base is None:
            raise PartError(
                f"structured has base={self.base!r}, a file that is not read yet; train by a "
                "Ranker or a TrainingPlan, or give a model."
            )
        return self._saved_base

    @property
    def stage(self) -> int:
        """The stage in training, or the last one."""
        return len(self._earlier)

    def at_stage(self, stage: int) -> MatchingModel:
        """Return the model that ranks with the stages up to this one."""
        if not 0 <= stage <= self.stage:
            raise PartError(f"stage is {stage}; this model has 0 to {self.stage}.")
        return self if stage == self.stage else self._earlier[stage]

    def initialize(self, data: MatchingData, seed: int, kernel: Kernel) -> None:
        """Sample the embeddings of the first stage to train."""
        self._earlier = []
        self.S = self.S[:0]
        super().initialize(data, seed, kernel)
        if self.base is not None:
            self._earlier.append(_model_of(self._trained_base()))
            self._sample_stage(kernel)

    def next_stage(self, data: MatchingData, kernel: Kernel, threads: int = 1) -> bool:
        """Freeze the stage that was trained, and begin the next."""
        if self.stage == self.stages:
            self._lists = None  # no other stage learns from them
            return False
        self._earlier.append(self._frozen())
        self._sample_stage(kernel)
        return True

    def cross_fit(
        self, data: MatchingData, kernel: Kernel, threads: int = 1
    ) -> Iterator[tuple[Model, MatchingData]]:
        """Compute lists of stage 0 as for new queries, by models trained without each fold."""
        if not self.folds or not self._earlier:
            return
        if data.queries is None or data.n_queries < self.folds:
            raise DataError(
                f"structured has folds={self.folds}, and a query that is left out needs "
                "features; give features to at least as many queries, or use folds=0."
            )
        base = None if self.base is None else self._trained_base()
        lists = np.full((data.n_queries, min(self.k, data.n_documents)), -1)
        for left_out in self._folds(data.n_queries, kernel):
            part = data.select(np.setdiff1d(np.arange(data.n_queries), left_out))
            if base is None:
                model: MatchingModel = Factored(self.dimensions, self.biases, self.init_scale)
                model.initialize(part, self._seed, kernel)
                yield model, part
            else:
                model = _refit(base, part)
            lists[left_out] = best_lists(model, data.select(left_out), self.k, kernel, threads)
        self._lists = lists

    def _folds(self, n_queries: int, kernel: Kernel) -> list[Ints]:
        """Return the queries of each fold, from the random stream that S of stage 0 would use."""
        stream = int(kernel.random.bits(self._seed, SIDE_OF_S, 1)[0])
        order = np.argsort(kernel.random.uniform(stream, 0, n_queries), kind="stable")
        return [np.sort(order[start :: self.folds]) for start in range(self.folds)]

    def _frozen(self) -> MatchingModel:
        """Return a copy of the stage in training."""
        if not self._earlier:
            copy: Factored = Factored(self.dimensions, self.biases, self.init_scale)
        else:
            copy = Structured(
                self.dimensions, self.biases, self.init_scale, stages=self.stages, k=self.k
            )
            copy._earlier = list(self._earlier)
        copy._seed = self._seed
        copy.factors = Factors(*(part.copy() for part in self.factors))
        copy.query_feature_ids = self.query_feature_ids
        copy.document_feature_ids = self.document_feature_ids
        return copy

    def _sample_stage(self, kernel: Kernel) -> None:
        """Sample U, V and S, with other random numbers in each stage, or S alone."""
        rows, columns = self.query_feature_ids, self.document_feature_ids
        empty: Singles = np.zeros((0, self.width), np.float32)
        self.factors = Factors(empty, empty, empty, np.zeros(0, np.float32))
        if self.init == "previous-stage":
            self.U, self.V, self.document_biases = self._previous_embeddings()
        self._grow(rows, columns, kernel)

    def _previous_embeddings(self) -> tuple[Singles, Singles, Singles]:
        """Return copies of U, V and biases of the stage before, or refuse its model."""
        before = self._earlier[-1]
        if not isinstance(before, Factored) or not _same_rows(before, self):
            raise PartError(
                f"structured has init=previous-stage and a base, {before.spec()}, whose embeddings "
                "it cannot start from; give a factored one with the same dimensions, biases and "
                "features, or use init=scratch."
            )
        U, V, _, biases = (part.copy() for part in before.factors)
        return U, V, biases

    def _grow(self, rows: Ids, columns: Ids, kernel: Kernel) -> None:
        super()._grow(rows, columns, kernel)
        if self._earlier:
            self.S = self._add_rows(self.S, columns.size, SIDE_OF_S, kernel)

    def _stream_of(self, side: int) -> int:
        return 3 * self.stage + side

    def add_features(self, data: MatchingData, kernel: Kernel) -> None:
        """Add embeddings of features that are new, in the stages before too."""
        for model in self._earlier:
            model.add_features(data, kernel)
        self._lists = None  # they belong to the queries of the training before
        super().add_features(data, kernel)

    def inputs(self, data: MatchingData, kernel: Kernel, threads: int = 1) -> FactoredInputs:
        """Return the features of queries and documents, and the lists of the stage before."""
        contexts = self._contexts(data, kernel, threads, self._lists) if self._earlier else None
        return FactoredInputs(self.feature_rows(data, 0), self.feature_rows(data, 1), contexts)

    def _contexts(
        self, data: MatchingData, kernel: Kernel, threads: int, known: Ints | None = None
    ) -> sp.csr_array:
        """Return sum_j w_j d_j for each query: the weighted features of the list before."""
        best = known
        if best is None:
            best = best_lists(self._earlier[-1], data, self.k, kernel, threads)
        n_queries, k = best.shape
        if n_queries != data.n_queries or best.max(initial=-1) >= data.n_documents:
            raise ModelFileError(
                f"the lists of a structured model are of {n_queries} queries and documents up to "
                f"{best.max(initial=-1)}, and the data have {data.n_queries} queries and "
                f"{data.n_documents} documents; train it again."
            )
        weights = np.broadcast_to(1.0 / np.arange(1, k + 1, dtype=np.float64), best.shape)
        filled = best >= 0
        lists = sp.csr_array(
            (weights[filled], best[filled], np.concatenate(([0], np.cumsum(filled.sum(axis=1))))),
            shape=(n_queries, data.n_documents),
        )
        rows = self.feature_rows(data, 1)
        contexts = lists if isinstance(rows, int) else sp.csr_array(lists @ rows)
        contexts = contexts.astype(np.float32)
        contexts.sum_duplicates()
        contexts.sort_indices()
        return contexts

    def neighbours(self, data: MatchingData, query: int, kernel: Kernel, threads: int = 1) -> Ints:
        """Return the documents of the stage before, best first, which a query's scores use."""
        best = best_lists(self._earlier[-1], data, self.k, kernel, threads)[query]
        filled: Ints = best[best >= 0]
        return filled

    def embedding(self, data: MatchingData, kernel: Kernel, threads: int = 1) -> Embedding | None:
        """Return the embeddings of the last stage, given the lists of the one before."""
        if self._earlier and self.inference != "iterative":
            return None
        return self._stage_embedding(data, kernel, threads)

    def _stage_embedding(self, data: MatchingData, kernel: Kernel, threads: int) -> Embedding:
        first = self._own(data, kernel, threads)
        if not self._earlier:
            return first
        contexts = kernel.factored.embeddings(
            self._contexts(data, kernel, threads), self.S, threads
        )
        fits = kernel.factored.embeddings(self.feature_rows(data, 1), self.S, threads)
        return Embedding(
            np.hstack((first.queries, contexts)), np.hstack((first.documents, fits)), first.biases
        )

    def scorer(
        self, data: MatchingData, kernel: Kernel, threads: int = 1
    ) -> Callable[[Ints], Floats]:
        """Return a function from positions of queries to their scores, one row per query.

        Documents that were chosen jointly score above all others, in the order of the list.
        """
        queries, documents, biases = self._stage_embedding(data, kernel, threads)
        joint = self.inference != "iterative" and bool(self._earlier)
        breadth = self.beam if self.inference == "beam" else 1

        def block(positions: Ints) -> Floats:
            singles = kernel.factored.scores(queries[positions], documents, biases, threads)
            if joint:
                own, fits = queries[positions, : self.width], documents[:, self.width :]
                alone = kernel.factored.scores(
                    own, documents[:, : self.width].copy(), biases, threads
                )
                itself = None if data.own_document is None else data.own_document[positions]
                best = choose_jointly(alone, fits, self.k, breadth, itself)
                return place_first(singles.astype(np.float64), best)
            return singles.astype(np.float64)

        return block

    def tensors(self) -> Tensors:
        """Return the stage in training, and all stages before it."""
        tensors = super().tensors()
        if self._earlier:
            tensors["S"] = np.ascontiguousarray(self.S[:, : self.dimensions])
            before = self._earlier[-1]
            tensors["before"] = np.frombuffer(before.spec().encode(), np.uint8).copy()
            tensors |= under("stage", before.tensors())
        if self._lists is not None:
            tensors["lists"] = self._lists
        return tensors

    def restore(self, tensors: Tensors) -> None:
        """Restore what `tensors` returned."""
        self._earlier = []
        if "before" in tensors:
            before = _create(tensors["before"])
            before.restore(section(tensors, "stage"))
            earlier = before._earlier if isinstance(before, Structured) else []
            self._earlier = [*earlier, before]
        super().restore(tensors)
        self.S = np.zeros((0, self.width), np.float32)
        if self._earlier:
            shape = (self.document_feature_ids.size, self.dimensions)
            self.S = self._pad(self._check_tensor("S", tensors, shape))
        self._lists = tensors.get("lists")
        if self._lists is not None and (
            self._lists.dtype != np.int64
            or self._lists.ndim != 2
            or self._lists.min(initial=-1) < -1
        ):
            raise ModelFileError(
                "`lists` of a structured model must be int64, one row per query, from -1."
            )

    @property
    def density(self) -> float:
        """The share of the parameters that are not zero, in the last stage."""
        parts = [part[..., : self.dimensions] for part in self.factors[:3]]
        n_nonzero = sum(int(np.count_nonzero(part)) for part in parts)
        return n_nonzero / max(sum(part.size for part in parts), 1)


def _same_rows(one: Factored, other: Factored) -> bool:
    """Return whether U, V and the biases of two models have the same shapes and ids."""
    return (
        (one.dimensions, one.biases) == (other.dimensions, other.biases)
        and np.array_equal(one.query_feature_ids, other.query_feature_ids)
        and np.array_equal(one.document_feature_ids, other.document_feature_ids)
    )


def _create(spec_bytes: Any) -> MatchingModel:
    """Return the model of an earlier stage, created from its spec."""
    from ranking.registry.manager import get_registry

    if spec_bytes.dtype != np.uint8 or spec_bytes.ndim != 1:
        raise ModelFileError("a structured model needs `before`, the bytes of a spec.")
    try:
        spec = spec_bytes.tobytes().decode()
        model = get_registry().create("model", spec)
    except (UnicodeDecodeError, PartError) as error:
        raise ModelFileError(f"the stage before is not a known model: {error}") from error
    if not isinstance(model, MatchingModel):
        raise ModelFileError(
            f"the stage before is {spec!r}, which does not match queries with documents."
        )
    return model


def _refit(base: Any, data: MatchingData) -> MatchingModel:
    """Train a base again on other data."""
    return _model_of(base.refit(data) if hasattr(base, "refit") else clone(base).fit(data))


def _model_of(base: Any) -> MatchingModel:
    """Return the model of a trained ranker or of a file, or the model itself."""
    model = getattr(base, "model_", base)
    if not isinstance(model, MatchingModel):
        raise PartError(
            f"structured has base={model.spec()}, a model of judged rows; give one that matches "
            "queries with documents."
        )
    return model
