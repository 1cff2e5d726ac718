"""Latent structured ranking: each stage looks at the best documents that the one before found."""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp

from ranking.contracts.model import Embedding, MatchingModel, Tensors
from ranking.data.checks import Ids
from ranking.errors import ModelFileError, PartError
from ranking.kernels.contract import Floats, Ints, Singles
from ranking.kernels.factored import FactoredObjects, scores, vectors
from ranking.models.factored import Factored
from ranking.models.inference import INFERENCES, choose_jointly, place_first
from ranking.retrieval import best_lists
from ranking.run import section, under

if TYPE_CHECKING:
    from ranking.data.matching import Matching
    from ranking.kernels.kernel import Kernel

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
    spread : float
        Of the first values.
    stages : int
        T: how many stages come after stage 0.
    k : int
        How many documents a stage looks at.
    base : str or MatchingModel, optional
        A trained model that is stage 0, or the file of one; by default stage 0 is trained too.
    inference : {"iterative", "greedy", "beam"}
        How the last stage ranks: each document by itself, given the list of the stage before; or
        the k best one after the other, each given those before it; or so with several lists kept.
    beam : int
        How many lists are kept.

    Attributes
    ----------
    stage : int
        The stage in training, or the last one.
    """

    name: ClassVar[str] = "structured"

    dimensions: int = 50
    biases: bool = False
    spread: float = 1.0
    stages: int = 1
    k: int = 20
    base: str | MatchingModel | None = None
    inference: str = "iterative"
    beam: int = 4

    def __post_init__(self) -> None:
        """Check the parameters."""
        super().__post_init__()
        for name, least in (("stages", 1), ("k", 1), ("beam", 1)):
            value: object = getattr(self, name)
            if not isinstance(value, numbers.Integral) or not least <= int(value) <= 1000:
                raise PartError(
                    f"structured has {name}={value!r}; it must be a whole number from {least} to "
                    "1000."
                )
        if self.inference not in INFERENCES:
            raise PartError(
                f"structured has inference={self.inference!r}; it must be one of "
                f"{', '.join(INFERENCES)}."
            )
        if not isinstance(self.base, str | MatchingModel | None):
            raise PartError(f"structured has base={self.base!r}; it must be a model or its file.")
        self._earlier: list[MatchingModel] = []

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

    def start(self, data: Matching, seed: int) -> None:
        """Draw the vectors of the first stage that is to be trained."""
        self._earlier = []
        self.S = self.S[:0]
        super().start(data, seed)
        if self.base is not None:
            self._earlier.append(_read(self.base) if isinstance(self.base, str) else self.base)
            self._draw_stage()

    def advance(self, data: Matching, kernel: Kernel, threads: int = 1) -> bool:
        """Keep the stage that was trained, and begin the next."""
        if self.stage == self.stages:
            return False
        self._earlier.append(self._frozen())
        self._draw_stage()
        return True

    def _frozen(self) -> MatchingModel:
        """Return the stage in training as a model that does not change any more."""
        if not self._earlier:
            kept: Factored = Factored(self.dimensions, self.biases, self.spread)
        else:
            kept = Structured(self.dimensions, self.biases, self.spread, self.stages, self.k)
            kept._earlier = list(self._earlier)
        kept._seed = self._seed
        U, V, S, biases = (part.copy() for part in self.factors)
        kept.factors = (U, V, S, biases)
        kept.query_feature_ids = self.query_feature_ids
        kept.document_feature_ids = self.document_feature_ids
        return kept

    def _draw_stage(self) -> None:
        """Draw U, V and S anew, other numbers in each stage."""
        rows, columns = self.query_feature_ids, self.document_feature_ids
        empty: Singles = np.zeros((0, self.width), np.float32)
        self.factors = (empty, empty, empty, np.zeros(0, np.float32))
        self._grow(rows, columns)

    def _grow(self, rows: Ids, columns: Ids) -> None:
        super()._grow(rows, columns)
        if self._earlier:
            self.S = self._grown(self.S, columns.size, SIDE_OF_S)

    def _stream_of(self, side: int) -> int:
        return 3 * self.stage + side

    def widen(self, data: Matching) -> None:
        """Give vectors to features that are new in these data, in the stages before too."""
        for model in self._earlier:
            model.widen(data)
        super().widen(data)

    def objects(self, data: Matching, kernel: Kernel, threads: int = 1) -> FactoredObjects:
        """Return queries, documents, and what the stage before found for each query."""
        contexts = self._contexts(data, kernel, threads) if self._earlier else None
        return FactoredObjects(self._rows(data, 0), self._rows(data, 1), contexts)

    def _contexts(self, data: Matching, kernel: Kernel, threads: int) -> sp.csr_array:
        """Return sum_j w_j d_j for each query: the features of the list of the stage before."""
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

    def embedding(self, data: Matching, kernel: Kernel, threads: int = 1) -> Embedding | None:
        """Return the vectors of the last stage, given the lists of the one before."""
        if self._earlier and self.inference != "iterative":
            return None
        return self._given_lists(data, kernel, threads)

    def _given_lists(self, data: Matching, kernel: Kernel, threads: int) -> Embedding:
        first = self._own(data, kernel, threads)
        if not self._earlier:
            return first
        contexts = vectors(kernel, self._contexts(data, kernel, threads), self.S, threads)
        fits = vectors(kernel, self._rows(data, 1), self.S, threads)
        return Embedding(
            np.hstack((first.queries, contexts)), np.hstack((first.documents, fits)), first.biases
        )

    def scorer(self, data: Matching, kernel: Kernel, threads: int = 1) -> Callable[[Ints], Floats]:
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
                itself = None if data.itself is None else data.itself[chosen]
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

    @property
    def density(self) -> float:
        """The share of the parameters that are not zero, in the last stage."""
        parts = [part[..., : self.dimensions] for part in self.factors[:3]]
        filled = sum(int(np.count_nonzero(part)) for part in parts)
        return filled / max(sum(part.size for part in parts), 1)


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


def _read(path: str) -> MatchingModel:
    """Return the model in a file."""
    from ranking.ranker import Ranker

    model = Ranker.load(path).model_
    if not isinstance(model, MatchingModel):
        raise PartError(
            f"structured has base={path}, a model of judged rows; give one that matches queries "
            "with documents."
        )
    return model
