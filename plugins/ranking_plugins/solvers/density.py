"""Finding the strength of L1 that leaves a wanted share of the weights.

The density falls as the strength grows: -log of it rises nearly as a power of the strength. So two
pilot trainings do: the first at the strength that would keep the wanted share of the first
gradient, the second at what the first suggests. The training itself then takes the strength at
which the curve through both meets the wanted density.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import NamedTuple, cast

import numpy as np

from ranking.contracts.regularizer import DensityTarget
from ranking.contracts.solver import TrainingProblem
from ranking.data.matching_data import MatchingData
from ranking.data.triplets import positive_lists
from ranking.kernels.bilinear import BilinearWeights
from ranking.models.bilinear import Bilinear

SAMPLE = 1000
"""Tuples from which the first guess is made."""

CLOSE = 0.02
"""A pilot whose density is within this share of the wanted one needs no other."""

POWER, SMALLEST_POWER, LARGEST_POWER = 0.45, 0.25, 1.2
"""Of the strength, to which -log of the density rises: if nobody knows, and when it is measured."""

logger = logging.getLogger(__name__)


class Trial(NamedTuple):
    """A strength, and the density that it gave."""

    strength: float
    density: float


def find_strength(problem: TrainingProblem, pilot: Callable[[float], float]) -> list[Trial]:
    """Settle the regularizer of a problem on the strength for its wanted density.

    Parameters
    ----------
    problem : TrainingProblem
    pilot : function
        Trains with a strength and returns the density; called twice at most.
    """
    regularizer = cast(DensityTarget, problem.regularizer)
    wanted = regularizer.target_density
    assert wanted is not None
    trials: list[Trial] = []
    strength = first_guess(problem, wanted)
    for _ in range(2):
        trials.append(Trial(strength, pilot(strength)))
        logger.info("strength %g left a share of %g of the weights", *trials[-1])
        if abs(trials[-1].density - wanted) <= CLOSE * wanted:
            break
        strength = next_guess(trials, wanted)
    problem.regularizer.set_params(density=wanted)
    regularizer.set_strength(strength)
    return trials


def first_guess(problem: TrainingProblem, density: float) -> float:
    """Return the size that the wanted share of a sampled mean gradient exceeds.

    The share is of what the sample touches: of a large matrix, it touches too little to count all.
    """
    model, data = cast(Bilinear, problem.model), cast(MatchingData, problem.data)
    tuples = problem.kernel.sampling.sample_triplets(positive_lists(data), problem.seed, 0, SAMPLE)
    zero = model.weights * 0
    zero.eliminate_zeros()
    gradient = BilinearWeights(problem.kernel, zero)
    gradient.update(
        model.objects(data), tuples, np.full(SAMPLE, -1.0), np.full(SAMPLE, 1.0 / SAMPLE)
    )
    mean = gradient.weights()
    if not model.grows:
        mean = mean.multiply(model.weights != 0).tocsr()
    sizes = np.abs(mean.data)
    kept = min(int(density * sizes.size), sizes.size - 1)
    return float(np.partition(sizes, -1 - kept)[-1 - kept])


def next_guess(trials: list[Trial], density: float) -> float:
    """Return where the curve through the last trials meets the wanted density."""
    strength, got = trials[-1]
    power = POWER
    if len(trials) > 1:
        before = trials[-2]
        across = math.log(strength / before.strength)
        risen = math.log(_depth(got) / _depth(before.density))
        if across and risen / across > 0.0:
            power = risen / across
        if (before.density - density) * (got - density) > 0.0:  # a noisy slope must not lead far
            power = min(max(power, SMALLEST_POWER), LARGEST_POWER)
    factor = (_depth(density) / _depth(got)) ** (1.0 / power)
    return strength * float(min(max(factor, 1e-3), 1e3))


def _depth(density: float) -> float:
    """Return -log of a density, also where everything or nothing is left."""
    return -math.log(min(max(density, 1e-12), 1.0 - 1e-6))
