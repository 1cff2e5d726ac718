"""`check_model`: scores, tensors to and from a file, and every kernel."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from ranking.contracts.model import Model
from ranking.errors import RankingError
from ranking.testing.common import (
    check_numbers,
    check_part,
    ensure,
    installed_kernels,
    same_bits,
    same_tensors,
    small_judged,
    small_matching,
)


def check_model(model: Model, *, seed: int = 0) -> None:
    """Check a model on small synthetic data.

    The same seed starts it with the same tensors. Scores are finite, of the right shape, and the
    same in all kernels. A model that takes the tensors back scores the same, and refuses to take
    none. Its density is a share.

    Parameters
    ----------
    model : Model
        Not started; it is left as it is.
    seed : int
    """
    whose = check_part("model", model, Model)
    features = "none" if model.form == "items" else "both"
    judged, matching = small_judged(seed), small_matching(seed, features=features)
    data: Any = judged if model.takes == "judged" else matching
    one, other = copy.deepcopy(model), copy.deepcopy(model)
    kernels = installed_kernels()
    one.initialize(data, seed, kernels[0])
    other.initialize(data, seed, kernels[-1])
    differs = same_tensors(one.tensors(), other.tensors())
    ensure(not differs, whose, "the same seed starts with the same tensors", f"{differs} differs")
    shape = (data.n_rows,) if data is judged else (data.n_queries, data.n_documents)
    scores = one.scores(data, kernels[0])
    check_numbers(whose, "scores", scores, shape)
    ensure(np.isfinite(scores).all(), whose, "scores are finite", f"{scores}")
    for kernel in kernels[1:]:
        ensure(
            same_bits(scores, one.scores(data, kernel)),
            whose,
            "scores have the same bits in all kernels",
            f"they differ between {kernels[0].name} and {kernel.name}",
        )
    back = copy.deepcopy(model)
    back.restore({name: tensor.copy() for name, tensor in one.tensors().items()})
    ensure(
        same_bits(scores, back.scores(data, kernels[0])),
        whose,
        "a model that took the tensors back scores the same",
        "it does not",
    )
    try:
        copy.deepcopy(model).restore({})
    except RankingError:
        pass
    else:
        ensure(False, whose, "restore refuses what cannot be right", "it took no tensors at all")
    ensure(0.0 <= one.density <= 1.0, whose, "density is a share", f"it is {one.density}")
