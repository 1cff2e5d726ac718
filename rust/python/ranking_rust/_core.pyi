"""The compiled families; the protocols of :mod:`ranking.kernels.contract` are their types."""

from typing import Any

from ranking.kernels.contract import (
    AlternatingFamily,
    BilinearFamily,
    DominationFamily,
    FactoredFamily,
    ItemItemFamily,
    ListwiseFamily,
    PairwiseListsFamily,
    RandomFamily,
    SharedListsFamily,
)

alternating: AlternatingFamily
bilinear: BilinearFamily
domination: DominationFamily
factored: FactoredFamily
item_item: ItemItemFamily
listwise: ListwiseFamily
pairwise_lists: PairwiseListsFamily
random: RandomFamily
shared_lists: SharedListsFamily

def describe() -> dict[str, Any]: ...
