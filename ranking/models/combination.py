"""Linear combinations of trained models: a weighted sum of their scores."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from ranking._utils.tensors import section, under
from ranking.contracts.loss import Loss
from ranking.contracts.model import MatchingModel, Tensors
from ranking.contracts.parameters import boolean
from ranking.contracts.regularizer import Regularizer
from ranking.data.inputs import describe_counts
from ranking.data.matching_data import MatchingData
from ranking.data.text.features import TextFeatures
from ranking.data.validation import Ids
from ranking.errors import DataError, ModelFileError, PartError, RankingError
from ranking.kernels.contract import Floats, Ints
from ranking.registry.manager import get_registry

if TYPE_CHECKING:
    from ranking.kernels.kernel import Kernel


Scorer = Callable[[Ints], Floats]
"""A function from positions of queries to their scores, one row per query."""


class Component(NamedTuple):
    """A trained model, its features of texts, if it has any, and what it was trained by.

    Loss and regularizer are for folding in new queries; None if they are not known.
    """

    model: MatchingModel
    text: TextFeatures | None
    loss: Loss | None = None
    regularizer: Regularizer | None = None


@dataclasses.dataclass
class Combination(MatchingModel):
    """Score a query and a document by the weighted sum of the scores of trained models.

    The models do not change. Models of texts get their own features from counts of words, so data
    with texts need ``features="text:words=none,weighting=counts"``; models of ids get the ids.

    Parameters
    ----------
    models : str or sequence of fitted rankers
        The model files, joined by ``+``, or `Ranker` objects.
    normalize : bool
        Whether the scores of each model are divided by their standard deviation over the documents
        of the query.

    Attributes
    ----------
    weights : float64 array
        One per model; 1 before training.
    """

    name: ClassVar[str] = "combination"
    form: ClassVar[Any] = "components"

    models: Any = ""
    normalize: bool = boolean(False)

    def _setup(self) -> None:
        if not isinstance(self.models, str) and not all(
            hasattr(one, "model_") for one in self.models
        ):
            raise PartError(
                "combination has models that are not fitted rankers; give rankers, or model files "
                "joined by +."
            )
        self.components: list[Component] = []
        if not isinstance(self.models, str):
            self.components = [
                make_component(one.model_, one.text_, one.loss_, getattr(one, "regularizer_", None))
                for one in self.models
            ]
        self.weights: Floats = np.ones(len(self.components))

    def spec(self) -> str:
        """Return the spec; models that are objects are stored in the tensors only."""
        if isinstance(self.models, str) and self.models:
            return super().spec()
        return f"{self.name}:normalize=true" if self.normalize else self.name

    @property
    def document_feature_ids(self) -> Ids | None:
        """The documents that all models know by id; None if they know others, or texts."""
        known: list[Ids | None] = [
            None if one.text is not None else getattr(one.model, "document_feature_ids", None)
            for one in self.components
        ]
        first = known[0] if known else None
        if first is None or any(ids is None or not np.array_equal(ids, first) for ids in known):
            return None
        return first

    @property
    def files(self) -> list[str]:
        """The files that `models` names."""
        return self.models.split("+") if isinstance(self.models, str) and self.models else []

    def attach_models(self, components: Sequence[tuple[Any, ...]]) -> None:
        """Set the content of the files, which the trainer reads, or what a solver trained.

        Each has a model, its features of texts or None, and as far as they are known its loss and
        its regularizer.
        """
        self.components = [make_component(*one) for one in components]

    def initialize(self, data: MatchingData, seed: int, kernel: Kernel) -> None:
        """Set all weights to 1."""
        self.weights = np.ones(len(self.components))

    def scorer(self, data: MatchingData, kernel: Kernel, threads: int = 1) -> Scorer:
        """Return a function from positions of queries to their scores, one row per query."""
        scorers = self.component_scorers(data, kernel, threads)
        return self.weighted_sum(scorers, data.n_documents)

    def weighted_sum(self, scorers: Sequence[Scorer], n_documents: int) -> Scorer:
        """Return the sum of the scores of the models, from a function for each."""
        pairs = list(zip(self.weights.tolist(), scorers, strict=True))

        def scores(positions: Ints) -> Floats:
            total = np.zeros((positions.size, n_documents))
            for weight, score in pairs:
                if weight:
                    total += weight * self.scaled(score(positions).astype(np.float64))
            return total

        return scores

    def scaled(self, scores: Floats) -> Floats:
        """Return the scores of a model, divided by their standard deviation if `normalize`."""
        return scores / self.scales(scores)[:, None] if self.normalize else scores

    def scales(self, scores: Floats) -> Floats:
        """Return what the scores of each query are divided by."""
        if not self.normalize:
            return np.ones(scores.shape[0])
        deviations: Floats = scores.std(axis=1)
        return np.where(deviations > 0.0, deviations, 1.0)

    def component_scorers(
        self, data: MatchingData, kernel: Kernel, threads: int = 1
    ) -> list[Scorer]:
        """Return the scorer of each model."""
        return [one.model.scorer(_view(one, data), kernel, threads) for one in self.components]

    def tensors(self) -> Tensors:
        """Return the weights, and the specs and tensors of the models."""
        specs = [
            {
                "model": one.model.spec(),
                "text": None
                if one.text is None
                else dataclasses.replace(one.text, **one.text.auto_values()).spec(),
                "loss": None if one.loss is None else one.loss.spec(),
                "regularizer": None if one.regularizer is None else one.regularizer.spec(),
            }
            for one in self.components
        ]
        tensors: Tensors = {
            "weights": self.weights,
            "specs": np.frombuffer(json.dumps(specs).encode(), dtype=np.uint8),
        }
        for at, one in enumerate(self.components):
            tensors |= under(f"{at}/model", one.model.tensors())
            if one.text is not None:
                tensors |= under(f"{at}/text", one.text.tensors())
        return tensors

    def restore(self, tensors: Tensors) -> None:
        """Restore what `tensors` returned."""
        specs = _specs(tensors)
        weights = tensors.get("weights")
        if weights is None or weights.dtype != np.float64 or weights.shape != (len(specs),):
            raise ModelFileError("a combination needs `weights`, one float64 per model.")
        if not np.isfinite(weights).all():
            raise ModelFileError("the weights of a combination must be finite.")
        self.components = [
            _restored(one, section(tensors, str(at))) for at, one in enumerate(specs)
        ]
        self.weights = np.array(weights)

    @property
    def density(self) -> float:
        """The share of the models whose weight is not zero."""
        return float(np.count_nonzero(self.weights) / max(self.weights.size, 1))


def make_component(
    model: Any,
    text: TextFeatures | None,
    loss: Loss | None = None,
    regularizer: Regularizer | None = None,
) -> Component:
    """Return a model of a combination; refuse one that a combination cannot have."""
    if not isinstance(model, MatchingModel):
        raise PartError(
            f"a combination takes models of queries and documents, and {model.name} scores judged "
            "rows; leave it out."
        )
    if text is not None and str(text.ngrams) != "1":
        raise PartError(
            f"a combination counts words, and a model has the features {text.spec()}; train it "
            "with ngrams=1."
        )
    if text is not None and text.query_ngrams is not None:
        raise PartError(
            f"a combination counts words, and a model has query_ngrams={text.query_ngrams}; train "
            "it with features that leave query_ngrams out."
        )
    return Component(model, text, loss, regularizer)


def _view(component: Component, data: MatchingData) -> MatchingData:
    """Return data as a model takes them: its weights of terms, or ids only."""
    if component.text is not None:
        return describe_counts(data, component.text)
    known = getattr(component.model, "query_feature_ids", None)
    names = data.query_feature_ids
    shares = known is None or (
        known.dtype.kind == names.dtype.kind and bool(np.isin(names, known).any())
    )
    if shares or data.relevance is None:
        return data
    return MatchingData(
        None, None, data.relevance, query_ids=data.query_ids, document_ids=data.document_ids
    )


def _specs(tensors: Tensors) -> list[dict[str, Any]]:
    packed = tensors.get("specs")
    if packed is None or packed.dtype != np.uint8 or packed.ndim != 1:
        raise ModelFileError("a combination needs `specs`, a vector of uint8.")
    try:
        specs = json.loads(packed.tobytes())
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"`specs` of a combination is not JSON: {error}.") from error
    if not isinstance(specs, list) or not all(
        isinstance(one, dict)
        and set(one) == {"model", "text", "loss", "regularizer"}
        and isinstance(one.get("model"), str)
        and all(isinstance(one.get(part), str | None) for part in ("text", "loss", "regularizer"))
        for one in specs
    ):
        raise ModelFileError("`specs` of a combination must be a list of models and features.")
    return specs


def _restored(spec: dict[str, Any], tensors: Tensors) -> Component:
    try:
        model = get_registry().create("model", spec["model"])
        loss, regularizer = (
            None if spec.get(part) is None else get_registry().create(part, spec[part])
            for part in ("loss", "regularizer")
        )
        text = None if spec["text"] is None else TextFeatures.from_spec(spec["text"])
    except ModelFileError:
        raise
    except RankingError as error:
        raise ModelFileError(f"a model of the combination is damaged: {error}") from error
    model.restore(section(tensors, "model"))
    if text is not None:
        text.restore(section(tensors, "text"))
    try:
        return make_component(model, text, loss, regularizer)
    except (PartError, DataError) as error:
        raise ModelFileError(f"a model of the combination is damaged: {error}") from error
