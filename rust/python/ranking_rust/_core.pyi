"""The compiled families; the protocols of :mod:`ranking.kernels.contract` are their types."""

from typing import Any

from ranking.kernels.contract import (
    AlternatingFamily,
    BilinearFamily,
    DominationFamily,
    FactoredFamily,
    LinearFamily,
    ListwiseFamily,
    NativeFamily,
    RandomFamily,
    SamplingFamily,
)

alternating: AlternatingFamily
bilinear: BilinearFamily
domination: DominationFamily
factored: FactoredFamily
linear: LinearFamily
listwise: ListwiseFamily
native: NativeFamily
random: RandomFamily
sampling: SamplingFamily

def describe() -> dict[str, Any]: ...
