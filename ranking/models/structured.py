"""Latent structured ranking: each stage looks at the best documents that the one before found."""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from ranking.contracts.model import Embedding, MatchingModel, Model, Tensors
from ranking.data.validation import Ids
from ranking.errors import DataError, ModelFileError, PartError
from ranking.inference.retrieval import best_lists
from ranking.kernels.contract import Floats, Ints, Singles
from ranking.kernels.factored import FactoredObjects, scores, vectors
from ranking.models.factored import Factored
from ranking.models.list_inference import INFERENCES, choose_jointly, place_first
from ranking.training.trainer import section, under

if TYPE_CHECKING:
    from ranking.data.matching_data import MatchingData
    from ranking.kernels.kernel import Kernel
    from ranking.ranker import Ranker

INITS = ("scratch", "previous-stage")

SIDE_OF_S = 2
"""The stream from which S is drawn; U and V have 0 and 1."""


@dataclasses.dataclass
class Structured(Factored):
    """A cascade of factored models (Weston and Blitzer, 2012).

    Stage 0 scores a query q and a document d by (U q) . (V d). Stage t >= 1 has its own U, V and S,
    and adds ``sum_j w_j (S d) . (S d_j)``, where d_1, d_2, ... are the k best documents of stage
    t - 1 for the query, and w_j = 1/j: what fits what is found already ranks higher, or lower.

    Parameters
    ----------
    dimensions : int
        The length of a vector.
    biases : bool
        Whether a document feature has a bias.
    init_scale : float
        Of the first values.
    stages : int
        T: how many stages come after stage 0.
    k : int
        How many documents a stage looks at.
    base : str, Ranker or MatchingModel, optional
        A trained model that is stage 0, its ranker, or the file of one; by default stage 0 is
        trained too.
    inference : {"iterative", "greedy", "beam"}
        How the last stage ranks: each document by itself, given the list of the stage before; or
        the k best one after the other, each given those before it; or so with several lists kept.
    beam : int
        How many lists are kept.
    init : {"scratch", "previous-stage"}
        Where U, V and the biases of a later stage begin: drawn anew, as in the paper, or where
        those of the stage before ended. S is always drawn.
    folds : int
        If not 0, the lists from which stage 1 learns are of models of stage 0 that have not seen
        the query: as many, each trained without one part of the queries, and asked for its lists.

    Attributes
    ----------
    stage : int
        The stage in training, or the last one.
    """

    name: ClassVar[str] = "structured"

    dimensions: int = 50
    biases: bool = False
    init_scale: float = 1.0
    stages: int = 1
    k: int = 20
    base: str | Ranker | MatchingModel | None = None
    inference: str = "iterative"
    beam: int = 4
    init: str = "scratch"
    folds: int = 0

    def __post_init__(self) -> None:
        """Check the parameters."""
        super().__post_init__()
        for name, least in (("stages", 1), ("k", 1), ("beam", 1), ("folds", 0)):
            value: object = getattr(self, name)
            if not isinstance(value, numbers.Integral) or not least <= int(value) <= 1000:
                raise PartError(
                    f"structured has {name}={value!r}; it must be a whole number from {least} to "
                    "1000."
                )
        for name, known in (("inference", INFERENCES), ("init", INITS)):
            if getattr(self, name) not in known:
                raise PartError(
                    f"structured has {name}={getattr(self, name)!r}; it must be one of "
                    f"{', '.join(known)}."
                )
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

    def _refuse_folds(self) -> None:
        if self.folds == 1:
            raise PartError("structured has folds=1, which leaves nothing to train with; take 2.")
        if self.folds and self.stages > 1:
            raise PartError(
                f"structured has folds={self.folds} and stages={self.stages}; the lists of a later "
                "stage would need folds of folds. Take stages=1."
            )
        if self.folds and isinstance(self.base, MatchingModel):
            raise PartError(
                f"structured has folds={self.folds} and a base of which is not known how it was "
                "trained; give its ranker, or its file."
            )

    def spec(self) -> str:
        """Spell the model; a base that was given as an object is among the tensors only."""
        if isinstance(self.base, str | None):
            return super().spec()
        return dataclasses.replace(self, base=None).spec()

    def __sklearn_clone__(self) -> Structured:
        """Return a model to train; its base is the trained one, not to be trained again."""
        return type(self)(**self.get_params())

    @property
    def stage(self) -> int:
        """The stage in training, or the last one."""
        return len(self._earlier)

    def at_stage(self, stage: int) -> MatchingModel:
        """Return the model that ranks with the stages up to this one."""
        if not 0 <= stage <= self.stage:
            raise PartError(f"stage is {stage}; this model has 0 to {self.stage}.")
        return self if stage == self.stage else self._earlier[stage]

    def initialize(self, data: MatchingData, seed: int) -> None:
        """Draw the vectors of the first stage that is to be trained."""
        self._earlier = []
        self.S = self.S[:0]
        super().initialize(data, seed)
        if self.base is not None:
            self._earlier.append(_model_of(_read(self.base)))
            self._draw_stage()

    def next_stage(self, data: MatchingData, kernel: Kernel, threads: int = 1) -> bool:
        """Keep the stage that was trained, and begin the next."""
        if self.stage == self.stages:
            self._lists = None  # nobody learns from them any more
            return False
        self._earlier.append(self._frozen())
        self._draw_stage()
        return True

    def cross_fit(
        self, data: MatchingData, kernel: Kernel, threads: int = 1
    ) -> Iterator[tuple[Model, MatchingData]]:
        """Find lists of stage 0 as new queries would have them, by models without each part."""
        if not self.folds or not self._earlier:
            return
        if data.queries is None or data.n_queries < self.folds:
            raise DataError(
                f"structured has folds={self.folds}, and a query that is left out is known by its "
                "features; give each of at least as many queries some, or take folds=0."
            )
        base = None if self.base is None else _read(self.base)
        lists = np.full((data.n_queries, min(self.k, data.n_documents)), -1)
        for left_out in self._parts(data.n_queries, kernel):
            part = data.select(np.setdiff1d(np.arange(data.n_queries), left_out))
            if base is None:
                model: MatchingModel = Factored(self.dimensions, self.biases, self.init_scale)
                model.initialize(part, self._seed)
                yield model, part
            else:
                model = _model_of(clone(base).fit(part))
            lists[left_out] = best_lists(model, data.select(left_out), self.k, kernel, threads)
        self._lists = lists

    def _parts(self, n_queries: int, kernel: Kernel) -> list[Ints]:
        """Return which queries are left out together, drawn from the stream of no S."""
        stream = int(kernel.random_bits(self._seed, SIDE_OF_S, 1)[0])
        order = np.argsort(kernel.random_uniform(stream, 0, n_queries), kind="stable")
        return [np.sort(order[start :: self.folds]) for start in range(self.folds)]

    def _frozen(self) -> MatchingModel:
        """Return the stage in training as a model that does not change any more."""
        if not self._earlier:
            kept: Factored = Factored(self.dimensions, self.biases, self.init_scale)
        else:
            kept = Structured(self.dimensions, self.biases, self.init_scale, self.stages, self.k)
            kept._earlier = list(self._earlier)
        kept._seed = self._seed
        U, V, S, biases = (part.copy() for part in self.factors)
        kept.factors = (U, V, S, biases)
        kept.query_feature_ids = self.query_feature_ids
        kept.document_feature_ids = self.document_feature_ids
        return kept

    def _draw_stage(self) -> None:
        """Draw U, V and S, other numbers in each stage, or S alone."""
        rows, columns = self.query_feature_ids, self.document_feature_ids
        empty: Singles = np.zeros((0, self.width), np.float32)
        self.factors = (empty, empty, empty, np.zeros(0, np.float32))
        if self.init == "previous-stage":
            self.U, self.V, self.document_biases = self._vectors_before()
        self._grow(rows, columns)

    def _vectors_before(self) -> tuple[Singles, Singles, Singles]:
        """Return copies of the stage before's U, V and biases, or refuse a base without such."""
        before = self._earlier[-1]
        if not isinstance(before, Factored) or not _same_rows(before, self):
            raise PartError(
                f"structured has init=previous-stage and a base, {before.spec()}, whose vectors it cannot "
                "go on with; give a factored one with the same dimensions, biases and features, or "
                "take init=scratch."
            )
        U, V, _, biases = (part.copy() for part in before.factors)
        return U, V, biases

    def _grow(self, rows: Ids, columns: Ids) -> None:
        super()._grow(rows, columns)
        if self._earlier:
            self.S = self._grown(self.S, columns.size, SIDE_OF_S)

    def _stream_of(self, side: int) -> int:
        return 3 * self.stage + side

    def add_features(self, data: MatchingData) -> None:
        """Give vectors to features that are new in these data, in the stages before too."""
        for model in self._earlier:
            model.add_features(data)
        super().add_features(data)

    def objects(self, data: MatchingData, kernel: Kernel, threads: int = 1) -> FactoredObjects:
        """Return queries, documents, and what the stage before found for each query."""
        contexts = self._contexts(data, kernel, threads, self._lists) if self._earlier else None
        return FactoredObjects(self._rows(data, 0), self._rows(data, 1), contexts)

    def _contexts(
        self, data: MatchingData, kernel: Kernel, threads: int, known: Ints | None = None
    ) -> sp.csr_array:
        """Return sum_j w_j d_j for each query: the features of the list of the stage before."""
        found = known
        if found is None:
            found = best_lists(self._earlier[-1], data, self.k, kernel, threads)
        n_queries, k = found.shape
        weights = np.broadcast_to(1.0 / np.arange(1, k + 1, dtype=np.float64), found.shape)
        kept = found >= 0
        lists = sp.csr_array(
            (weights[kept], found[kept], np.concatenate(([0], np.cumsum(kept.sum(axis=1))))),
            shape=(n_queries, data.n_documents),
        )
        rows = self._rows(data, 1)
        contexts = lists if isinstance(rows, int) else sp.csr_array(lists @ rows)
        contexts = contexts.astype(np.float32)
        contexts.sum_duplicates()
        contexts.sort_indices()
        return contexts

    def embedding(self, data: MatchingData, kernel: Kernel, threads: int = 1) -> Embedding | None:
        """Return the vectors of the last stage, given the lists of the one before."""
        if self._earlier and self.inference != "iterative":
            return None
        return self._given_lists(data, kernel, threads)

    def _given_lists(self, data: MatchingData, kernel: Kernel, threads: int) -> Embedding:
        first = self._own(data, kernel, threads)
        if not self._earlier:
            return first
        contexts = vectors(kernel, self._contexts(data, kernel, threads), self.S, threads)
        fits = vectors(kernel, self._rows(data, 1), self.S, threads)
        return Embedding(
            np.hstack((first.queries, contexts)), np.hstack((first.documents, fits)), first.biases
        )

    def scorer(
        self, data: MatchingData, kernel: Kernel, threads: int = 1
    ) -> Callable[[Ints], Floats]:
        """Return a function from positions of queries to their scores, a row a query.

        Those that a search has chosen jointly score above all others, in the order of their places.
        """
        queries, documents, biases = self._given_lists(data, kernel, threads)
        joint = self.inference != "iterative" and bool(self._earlier)
        breadth = self.beam if self.inference == "beam" else 1

        def block(chosen: Ints) -> Floats:
            found = scores(kernel, queries[chosen], documents, biases, threads)
            if joint:
                own, fits = queries[chosen, : self.width], documents[:, self.width :]
                alone = scores(kernel, own, documents[:, : self.width].copy(), biases, threads)
                itself = None if data.own_document is None else data.own_document[chosen]
                best = choose_jointly(alone, fits, self.k, breadth, itself)
                return place_first(found.astype(np.float64), best)
            return found.astype(np.float64)

        return block

    def tensors(self) -> Tensors:
        """Return the stage in training, and all stages before it."""
        kept = super().tensors()
        if self._earlier:
            kept["S"] = np.ascontiguousarray(self.S[:, : self.dimensions])
            before = self._earlier[-1]
            kept["before"] = np.frombuffer(before.spec().encode(), np.uint8).copy()
            kept |= under("stage", before.tensors())
        if self._lists is not None:
            kept["lists"] = self._lists
        return kept

    def restore(self, tensors: Tensors) -> None:
        """Take back what `tensors` returned."""
        self._earlier = []
        if "before" in tensors:
            before = _made(tensors["before"])
            before.restore(section(tensors, "stage"))
            earlier = before._earlier if isinstance(before, Structured) else []
            self._earlier = [*earlier, before]
        super().restore(tensors)
        self.S = np.zeros((0, self.width), np.float32)
        if self._earlier:
            shape = (self.document_feature_ids.size, self.dimensions)
            self.S = self._padded(self._checked("S", tensors, shape))
        self._lists = tensors.get("lists")
        if self._lists is not None and (self._lists.dtype != np.int64 or self._lists.ndim != 2):
            raise ModelFileError("`lists` of a structured model must be int64, a row a query.")

    @property
    def density(self) -> float:
        """The share of the parameters that are not zero, in the last stage."""
        parts = [part[..., : self.dimensions] for part in self.factors[:3]]
        filled = sum(int(np.count_nonzero(part)) for part in parts)
        return filled / max(sum(part.size for part in parts), 1)


def _same_rows(one: Factored, other: Factored) -> bool:
    """Tell whether U, V and the biases of two models have the same shapes, for the same ids."""
    return (
        (one.dimensions, one.biases) == (other.dimensions, other.biases)
        and np.array_equal(one.query_feature_ids, other.query_feature_ids)
        and np.array_equal(one.document_feature_ids, other.document_feature_ids)
    )


def _made(spelled: Any) -> MatchingModel:
    """Return the model of an earlier stage from its spec, made by the plugin of its name."""
    from ranking.registry import get_registry

    if spelled.dtype != np.uint8 or spelled.ndim != 1:
        raise ModelFileError("a structured model needs `before`, the bytes of a spec.")
    try:
        spec = spelled.tobytes().decode()
        made = get_registry().create("model", spec)
    except (UnicodeDecodeError, PartError) as error:
        raise ModelFileError(f"the stage before is no model that is known here: {error}") from error
    if not isinstance(made, MatchingModel):
        raise ModelFileError(f"the stage before is {spec!r}, which matches no documents.")
    return made


def _read(base: Any) -> Any:
    """Return a base, or what is in its file: a ranker."""
    from ranking.ranker import Ranker

    return Ranker.load(base) if isinstance(base, str) else base


def _model_of(base: Any) -> MatchingModel:
    """Return the model of a trained ranker, or the model itself."""
    model = getattr(base, "model_", base)
    if not isinstance(model, MatchingModel):
        raise PartError(
            f"structured has base={model.spec()}, a model of judged rows; give one that matches "
            "queries with documents."
        )
    return model
