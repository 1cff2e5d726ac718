"""Determine the strength of L1 that keeps a given share of the weights.

The density of a matrix of weights decreases with the strength: -log(density) is nearly a power of
the strength. So two pilot trainings suffice: the first at the strength that would keep the target
share of the first gradient, the second at the strength that the first one suggests. The training
itself uses the strength at which the curve through both reaches the target density.

That of embeddings drops within a small range of strengths, where those of few positives reach 0 and
then all. There the strength is bracketed and bisected, by more pilots.
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
from ranking_plugins.regularizers.strength import default_strength

SAMPLE = 1000
"""Triplets from which the first guess is computed."""

CLOSE = 0.02
"""The relative error of the density at which no further pilot is needed."""

POWER, SMALLEST_POWER, LARGEST_POWER = 0.45, 0.25, 1.2
"""The exponent of the strength in -log(density): the default, and the bounds of a measured one."""

MOST_PILOTS = 10
"""Pilot trainings of embeddings."""

WIDENING = 8.0
"""The factor between strengths until the target is between two of them."""

logger = logging.getLogger(__name__)


class Trial(NamedTuple):
    """A strength and the density that results from it."""

    strength: float
    density: float


def find_strength(problem: TrainingProblem, pilot: Callable[[float], float]) -> list[Trial]:
    """Set the strength of the regularizer of a problem for its target density.

    Parameters
    ----------
    problem : TrainingProblem
    pilot : function
        Trains with a strength and returns the density; called at most twice, or `MOST_PILOTS`
        times for embeddings.
    """
    regularizer = cast(DensityTarget, problem.regularizer)
    target = regularizer.target_density
    assert target is not None
    trials: list[Trial] = []
    embeddings = problem.model.form == "factors"
    strength = first_guess_of_rows(problem) if embeddings else first_guess(problem, target)
    for _ in range(MOST_PILOTS if embeddings else 2):
        trials.append(Trial(strength, pilot(strength)))
        logger.info("strength %g keeps a share of %g of the weights", *trials[-1])
        if abs(trials[-1].density - target) <= CLOSE * target:
            break
        strength = (bisected if embeddings else next_guess)(trials, target)
    if embeddings:
        strength = min(trials, key=lambda trial: abs(trial.density - target)).strength
    problem.regularizer.set_params(density=target)
    regularizer.set_strength(strength)
    return trials


def first_guess(problem: TrainingProblem, density: float) -> float:
    """Return the size that the target share of a sampled mean gradient exceeds.

    The share refers to the entries of the sample, which are few in a large matrix.
    """
    model, data = cast(Bilinear, problem.model), cast(MatchingData, problem.data)
    triplets = problem.kernel.sampling.sample_triplets(
        positive_lists(data), problem.seed, 0, SAMPLE
    )
    zero = model.weights * 0
    zero.eliminate_zeros()
    gradient = BilinearWeights(problem.kernel, zero)
    gradient.update(
        model.inputs(data), triplets, np.full(SAMPLE, -1.0), np.full(SAMPLE, 1.0 / SAMPLE)
    )
    mean = gradient.weights()
    if not model.grows:
        mean = mean.multiply(model.weights != 0).tocsr()
    sizes = np.abs(mean.data)
    rank = min(int(density * sizes.size), sizes.size - 1)
    return float(np.partition(sizes, -1 - rank)[-1 - rank])


def first_guess_of_rows(problem: TrainingProblem) -> float:
    """Return a strength for embeddings that is not too far from a useful one."""
    return default_strength(problem, 0.02)


def bisected(trials: list[Trial], density: float) -> float:
    """Return a strength between those that keep too much and too little, or beyond all."""
    weak = [trial.strength for trial in trials if trial.density > density]
    strong = [trial.strength for trial in trials if trial.density <= density]
    if not strong:
        return max(weak) * WIDENING
    if not weak:
        return min(strong) / WIDENING
    return math.sqrt(max(weak) * min(strong))


def next_guess(trials: list[Trial], density: float) -> float:
    """Return the strength at which the curve through the last trials reaches a density."""
    strength, measured_density = trials[-1]
    power = POWER
    if len(trials) > 1:
        before = trials[-2]
        across = math.log(strength / before.strength)
        risen = math.log(_depth(measured_density) / _depth(before.density))
        if across and risen / across > 0.0:
            power = risen / across
        if (before.density - density) * (
            measured_density - density
        ) > 0.0:  # limit the effect of a noisy slope
            power = min(max(power, SMALLEST_POWER), LARGEST_POWER)
    factor = (_depth(density) / _depth(measured_density)) ** (1.0 / power)
    return strength * float(min(max(factor, 1e-3), 1e3))


def _depth(density: float) -> float:
    """Return -log of a density, also for 0 and 1."""
    return -math.log(min(max(density, 1e-12), 1.0 - 1e-6))
