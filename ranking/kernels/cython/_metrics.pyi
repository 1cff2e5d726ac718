import numpy as np
from numpy.typing import NDArray

from ranking.kernels.contract import Floats, Ints

def ranked_metrics(
    group_ptr: Ints,
    grades: Floats,
    scores: Floats,
    places: Ints,
    unfound_ptr: Ints,
    unfound_relevant: Ints,
    gains: Floats,
    unfound_gains: Floats,
    discounts: Floats,
    measures: Ints,
    out: Floats,
    tied: NDArray[np.uint8],
    threads: int,
) -> None: ...
