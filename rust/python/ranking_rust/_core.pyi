"""The compiled families; the protocols of :mod:`ranking.kernels.contract` are their types."""

from typing import Any

from ranking.kernels.contract import (
    AlternatingFamily,
    BilinearFamily,
    DominationFamily,
    FactoredFamily,
    ListwiseFamily,
    PairwiseListsFamily,
    RandomFamily,
    SamplingFamily,
    SharedListsFamily,
)

alternating: AlternatingFamily
bilinear: BilinearFamily
domination: DominationFamily
factored: FactoredFamily
listwise: ListwiseFamily
pairwise_lists: PairwiseListsFamily
random: RandomFamily
sampling: SamplingFamily
shared_lists: SharedListsFamily

def describe() -> dict[str, Any]: ...
