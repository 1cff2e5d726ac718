import numpy as np
from numpy.typing import NDArray

from ranking.kernels.contract import Features, Floats, Ints

def rank_lists(
    group_ptr: Ints, scores: Features, order: Ints, tied: NDArray[np.uint8], threads: int
) -> None: ...
def ranked_metrics(
    group_ptr: Ints,
    grades: Floats,
    order: Ints,
    tied: NDArray[np.uint8],
    unfound_ptr: Ints,
    unfound_grades: Floats,
    gains: Floats,
    unfound_gains: Floats,
    discounts: Floats,
    measures: Ints,
    out: Floats,
    threads: int,
) -> None: ...
