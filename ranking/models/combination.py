"""Linear combinations of trained models: a weighted sum of their scores."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from ranking._utils.tensors import section, under
from ranking.contracts.model import MatchingModel, Tensors
from ranking.data.inputs import describe_counts
from ranking.data.matching_data import MatchingData
from ranking.data.text.features import TextFeatures
from ranking.errors import DataError, ModelFileError, PartError, RankingError
from ranking.kernels.contract import Floats, Ints
from ranking.registry.manager import get_registry

if TYPE_CHECKING:
    from ranking.kernels.kernel import Kernel


class Component(NamedTuple):
    """A trained model, and its features of texts, if it has any."""

    model: MatchingModel
    text: TextFeatures | None


@dataclasses.dataclass
class Combination(MatchingModel):
    """Score a query and a document by the weighted sum of the scores of trained models.

    The models do not change. Models of texts get their own features from counts of words, so data
    with texts need ``features="text:words=none,weighting=counts"``; models of ids get the ids.

    Parameters
    ----------
    models : str or sequence of fitted rankers
        The model files, joined by ``+``, or `Ranker` objects.

    Attributes
    ----------
    weights : float64 array
        One per model; 1 before training.
    """

    name: ClassVar[str] = "combination"
    form: ClassVar[Any] = "components"

    models: Any = ""

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
            self.components = [_component(one.model_, one.text_) for one in self.models]
        self.weights: Floats = np.ones(len(self.components))

    def spec(self) -> str:
        """Return the spec; models that are objects are stored in the tensors only."""
        if isinstance(self.models, str) and self.models:
            return super().spec()
        return self.name

    @property
    def files(self) -> list[str]:
        """The files that `models` names."""
        return self.models.split("+") if isinstance(self.models, str) and self.models else []

    def attach_models(self, components: Sequence[tuple[Any, TextFeatures | None]]) -> None:
        """Set the content of the files; the trainer reads them."""
        self.components = [_component(*one) for one in components]

    def initialize(self, data: MatchingData, seed: int, kernel: Kernel) -> None:
        """Set all weights to 1."""
        self.weights = np.ones(len(self.components))

    def scorer(
        self, data: MatchingData, kernel: Kernel, threads: int = 1
    ) -> Callable[[Ints], Floats]:
        """Return a function from positions of queries to their scores, one row per query."""
        scorers = self.component_scorers(data, kernel, threads)
        weights = self.weights.copy()

        def scores(positions: Ints) -> Floats:
            total = np.zeros((positions.size, data.n_documents))
            for weight, score in zip(weights.tolist(), scorers, strict=True):
                if weight:
                    total += weight * score(positions)
            return total

        return scores

    def component_scorers(
        self, data: MatchingData, kernel: Kernel, threads: int = 1
    ) -> list[Callable[[Ints], Floats]]:
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


def _component(model: Any, text: TextFeatures | None) -> Component:
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
    return Component(model, text)


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
        and set(one) == {"model", "text"}
        and isinstance(one.get("model"), str)
        and isinstance(one.get("text"), str | None)
        for one in specs
    ):
        raise ModelFileError("`specs` of a combination must be a list of models and features.")
    return specs


def _restored(spec: dict[str, Any], tensors: Tensors) -> Component:
    try:
        model = get_registry().create("model", spec["model"])
        text = None if spec["text"] is None else TextFeatures.from_spec(spec["text"])
    except ModelFileError:
        raise
    except RankingError as error:
        raise ModelFileError(f"a model of the combination is damaged: {error}") from error
    model.restore(section(tensors, "model"))
    if text is not None:
        text.restore(section(tensors, "text"))
    try:
        return _component(model, text)
    except (PartError, DataError) as error:
        raise ModelFileError(f"a model of the combination is damaged: {error}") from error
