"""Families of recommenders, and the settings of each that a selection tries, in order."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ranking.contracts.model import MatchingModel
from ranking.contracts.recipe import Recipe
from ranking.data.matching_data import MatchingData
from ranking.io.result import TrainingResult
from ranking.kernels.kernel import Kernel
from ranking.registry.manager import get_registry
from ranking.training.plan import TrainingPlan


@dataclasses.dataclass(frozen=True)
class Trial:
    """A recipe, some of whose parts are replaced, and what can be tried without training again.

    Attributes
    ----------
    recipe : str
    parts : mapping
        Specs of parts that replace those of the recipe.
    variants : sequence of mappings
        Parameters of the model, for `Model.adjusted`; the first is the one that is trained.
    """

    recipe: str
    parts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    variants: Sequence[Mapping[str, Any]] = ({},)

    def specs(self) -> dict[str, str]:
        """Return the specs of model, loss, regularizer and solver."""
        recipe: Recipe = get_registry().create("recipe", self.recipe)
        return {**recipe.parts, **self.parts}

    def fit(self, data: MatchingData, run: tuple[Kernel, int], seed: int) -> TrainingResult:
        """Train on data with a kernel, a number of threads and a seed."""
        parts: dict[str, Any] = self.specs()
        kernel, threads = run
        plan = TrainingPlan(**parts, kernel=kernel, threads=threads, random_state=seed)
        return plan.fit(data)

    def models(self, result: TrainingResult) -> list[tuple[Mapping[str, Any], MatchingModel]]:
        """Return the trained model and its variants, with their parameters."""
        model = cast(MatchingModel, result.model)
        variants = [(variant, model.adjusted(**variant) or model) for variant in self.variants[1:]]
        return [(self.variants[0], model), *cast(Any, variants)]


IALS, WARP = "factored:dimensions={},biases=false", "factored:dimensions=64"


def _filters() -> list[Trial]:
    exponents = ((0.4, 0.4), (0.5, 0.5), (0.3, 0.4))
    filters = ((256, 0.1), (256, 0.3), (128, 0.1), (128, 0.3), (64, 0.1), (64, 1.0), (64, 3.0))
    variants = [{"dimensions": count, "low_pass": low_pass} for count, low_pass in filters]
    return [
        Trial(
            "graph-filter",
            {
                "model": "item-item:dimensions=256,low_pass=0.1",
                "loss": f"alignment:per_query=false,query_degree={a},document_degree={b}",
            },
            [*variants, {"low_pass": 0.0}],
        )
        for a, b in exponents
    ]


def _trials(recipe: str, part: str, template: str, values: Sequence[float]) -> list[Trial]:
    return [Trial(recipe, {part: template.format(value)}) for value in values]


FAMILIES: Mapping[str, Sequence[Trial]] = {
    "graph-filter": _filters(),
    "ials": [
        Trial(
            "ials",
            {
                "model": IALS.format(d),
                "loss": f"squared:unobserved={unobserved}",
                "regularizer": f"l2:strength={strength},frequency=1",
            },
        )
        for d, unobserved, strength in (
            (128, 0.02, 0.1),
            (256, 0.02, 0.1),
            (128, 0.02, 0.4),
            (64, 0.02, 0.1),
            (128, 0.05, 0.2),
        )
    ],
    "slim": _trials("slim", "regularizer", "elastic:strength={},share=0.1", (30, 10, 100)),
    "warp": [Trial("warp", {"model": WARP})],
    "softmax": _trials("softmax", "loss", "softmax:temperature={}", (0.2, 0.15, 0.1)),
}
"""The trials of each family, the most promising first; families that train fast come first."""

BY_ID_ONLY = frozenset({"graph-filter", "slim"})
"""Families that cannot use features of users or items."""


def families_for(data: MatchingData, most_weights: int) -> dict[str, Sequence[Trial]]:
    """Return the families that can be trained on data.

    Families that know items by id only are left out if there are features, or if a dense matrix of
    all pairs of items would have more numbers than `most_weights`.
    """
    by_id = data.queries is None and data.documents is None
    small = data.n_documents**2 <= most_weights
    return {
        name: trials
        for name, trials in FAMILIES.items()
        if name not in BY_ID_ONLY or (by_id and (small or name != "slim"))
    }
