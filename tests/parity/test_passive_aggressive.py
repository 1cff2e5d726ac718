"""Passive-aggressive steps of the bilinear model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from bilinear_cases import CASES, Case, outcome
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from parity_helpers import EXAMPLES, Outcome, Same, differences
from scipy.optimize import minimize

from ranking.kernels.contract import PairwiseForm
from ranking.kernels.kernel import Kernel
from ranking.kernels.pairwise import TrainingLoss

C = st.sampled_from([1e-3, 0.1, 1.0, 1e300])
FORMS = st.sampled_from([PairwiseForm.HINGE, PairwiseForm.SQUARED_HINGE])
HARMONIC = np.concatenate(([0.0], np.cumsum(1.0 / np.arange(1.0, 9.0))))
"""L(rank), which is 0 at rank 0."""


def list_sizes(case: Case) -> NDArray[np.int64]:
    """Return the number of documents that each triplet ranks; some so few that L is 0."""
    return np.random.default_rng(case.seed).integers(1, 12, case.n_steps)


def run(
    case: Case, kernel: Kernel, aggressiveness: float, form: PairwiseForm, parts: int = 1
) -> Outcome:
    weights = case.weights(kernel)
    ranks = HARMONIC if case.trials > 1 else None
    results = [
        weights.passive_aggressive(
            case.inputs,
            case.triplets[part],
            aggressiveness,
            loss=TrainingLoss(form, rank_weights=ranks),
            list_sizes=list_sizes(case)[part],
            grow=case.grow,
            transposed=case.transposed,
        )
        for part in np.array_split(np.arange(case.n_steps), parts)
    ]
    margins, violations, rates = (np.concatenate(arrays) for arrays in zip(*results, strict=True))
    return {"margins": margins, "weights": violations, "rates": rates, **outcome(weights)}


@EXAMPLES
@given(case=CASES, aggressiveness=C, form=FORMS)
def test_passive_aggressive(
    same: Same, case: Case, aggressiveness: float, form: PairwiseForm
) -> None:
    expected = run(case, same.reference, aggressiveness, form)
    assert differences(run(case, same.kernel, aggressiveness, form), expected) == []
    assert differences(run(case, same.kernel, aggressiveness, form, parts=3), expected) == []


@EXAMPLES
@given(case=CASES, aggressiveness=C, form=FORMS)
def test_the_reference_is_the_algorithm(
    reference: Kernel, case: Case, aggressiveness: float, form: PairwiseForm
) -> None:
    """min over W of |W - W0|^2 / 2 + C L loss(z), dense; without `grow`, where W is not 0."""
    results = run(case, reference, aggressiveness, form)
    w = case.w0.toarray().astype(np.float64)
    for step, triplet in enumerate(case.triplets.tolist()):
        z, block, weight = violation(case, w, step, triplet, float(results["margins"][step]))
        near = is_near(z)
        if not near:
            assert results["margins"][step] == pytest.approx(z, rel=1e-3, abs=1e-3)
            assert results["weights"][step] == weight
            tau = closed_form(form, z, float((block * block).sum()), aggressiveness * weight)
            assert results["rates"][step] == pytest.approx(tau, rel=1e-2, abs=1e-3)
        w += results["rates"][step] * block
        if case.storage == "float32":
            w = w.astype(np.float32).astype(np.float64)
        after = float((w * block).sum())
        assert near or after <= max(z, 1.0) + 1e-3 * max(1.0, abs(z))


def is_near(z: float) -> bool:
    """Say whether rounding decides if a margin is violated: many are 1 after a step."""
    return abs(z - 1.0) < 1e-3


def violation(
    case: Case, w: NDArray[Any], step: int, triplet: list[int], margin: float
) -> tuple[float, NDArray[Any], float]:
    """Return margin, q delta' and L of the first violation, or else of the last trial.

    Where rounding decides, that is the one with the given margin.
    """
    inputs = case.inputs
    queries = dense(inputs.queries, (inputs.n_queries, inputs.n_query_features))
    documents = dense(inputs.documents, (inputs.n_documents, inputs.n_document_features))
    for trial, negative in enumerate(triplet[2:], start=1):
        block = np.outer(queries[triplet[0]], documents[triplet[1]] - documents[negative])
        if case.transposed:
            block = block.T
        if not case.grow:
            block = np.where(w != 0.0, block, 0.0)
        z = float((w * block).sum())
        if case.trials == 1:
            return z, block, 1.0
        if is_near(margin) if is_near(z) else z < 1.0:
            rank = (int(list_sizes(case)[step]) - 1) // trial
            return z, block, float(HARMONIC[min(rank, HARMONIC.size - 1)])
    return z, block, 0.0


def closed_form(form: PairwiseForm, z: float, n: float, c: float) -> float:
    """PA-I and PA-II of Crammer et al. (2006), with C weighted by L."""
    if z >= 1.0 or n == 0.0 or c == 0.0:
        return 0.0
    if form == PairwiseForm.HINGE:
        return min(c, (1.0 - z) / n)
    return (1.0 - z) / (n + 0.5 / c)


@pytest.mark.slow
@pytest.mark.parametrize("grow", [True, False])
@pytest.mark.parametrize("trials", [1, 4])
@pytest.mark.parametrize("form", [PairwiseForm.HINGE, PairwiseForm.SQUARED_HINGE])
@pytest.mark.parametrize("aggressiveness", [0.02, 0.3, 5.0])
@pytest.mark.parametrize("seed", range(2))
def test_a_step_solves_its_quadratic_programme(
    kernel: Kernel, seed: int, aggressiveness: float, form: PairwiseForm, trials: int, grow: bool
) -> None:
    """min |V|^2 / 2 + C L slack^p over all V, slack >= 0 and slack >= 1 - margin of W + V.

    The solver knows neither that the step is a multiple of q delta' nor its length.
    """
    case = Case(seed=seed, rows=3, columns=4, density=1.0, trials=trials, n_steps=12, grow=grow)
    power = 1 if form == PairwiseForm.HINGE else 2
    weights, moved = case.weights(kernel), 0
    ranks = HARMONIC if trials > 1 else None
    for step, triplet in enumerate(case.triplets.tolist()):
        w = weights.weights().toarray()
        margins, _, rates = weights.passive_aggressive(
            case.inputs,
            case.triplets[step : step + 1],
            aggressiveness,
            loss=TrainingLoss(form, rank_weights=ranks),
            list_sizes=list_sizes(case)[step : step + 1],
            grow=grow,
        )
        z, block, weight = violation(case, w, step, triplet, float(margins[0]))
        c, x = aggressiveness * weight, block.ravel()

        def objective(v: NDArray[Any], c: float = c) -> float:
            return 0.5 * float(v[:-1] @ v[:-1]) + c * float(v[-1]) ** power

        start = np.append(np.zeros(x.size), max(0.0, 1.0 - z))
        solved = minimize(
            objective,
            start,
            method="SLSQP",
            bounds=[(None, None)] * x.size + [(0.0, None)],
            constraints={"type": "ineq", "fun": lambda v, x=x, z=z: z + v[:-1] @ x + v[-1] - 1.0},
            options={"ftol": 1e-15, "maxiter": 500},
        )
        change = (weights.weights().toarray() - w).ravel()
        np.testing.assert_allclose(change, rates[0] * x, atol=1e-12)
        np.testing.assert_allclose(change, solved.x[:-1], atol=2e-5)
        moved += rates[0] > 0.0
    assert moved >= 3


def test_rank_weights_scale_the_aggressiveness(reference: Kernel) -> None:
    """With C large enough, every step projects, whatever L and the power are."""
    case = Case(trials=5, n_steps=30)
    large = [
        run(case, reference, 1e12, form) for form in PairwiseForm if form < PairwiseForm.LOGISTIC
    ]
    moving = large[0]["rates"] > 0.0
    assert len(set(large[0]["weights"][moving].tolist())) > 2
    for name in ("margins", "rates", "weights now"):
        np.testing.assert_allclose(large[0][name], large[1][name], rtol=1e-6, atol=1e-9)
    small = run(case, reference, 1e-6, PairwiseForm.HINGE)
    moving = small["rates"] > 0.0
    np.testing.assert_allclose(small["rates"][moving], 1e-6 * small["weights"][moving])


def dense(parts: tuple[Any, ...], shape: tuple[int, int]) -> NDArray[Any]:
    indptr, indices, data = parts
    return sp.csr_array((data, indices, indptr), shape=shape).toarray().astype(np.float64)


@pytest.mark.parametrize("value", [0.0, -1.0, np.inf, np.nan])
def test_an_invalid_aggressiveness_is_refused(reference: Kernel, value: float) -> None:
    case = Case()
    with pytest.raises(ValueError, match="aggressiveness"):
        case.weights(reference).passive_aggressive(case.inputs, case.triplets, value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"loss": TrainingLoss(PairwiseForm.LOGISTIC)}, "LOGISTIC has no passive-aggressive step"),
        ({"loss": TrainingLoss(rank_weights=np.array([1.0, -1.0]))}, "must not be negative"),
        ({"list_sizes": np.zeros(40, np.int64)}, "at least 1"),
        ({"list_sizes": np.ones(3, np.int64)}, "list_sizes"),
    ],
)
def test_options_without_such_a_step_are_refused(
    reference: Kernel, options: dict[str, Any], words: str
) -> None:
    case = Case()
    with pytest.raises(ValueError, match=words):
        case.weights(reference).passive_aggressive(case.inputs, case.triplets, 1.0, **options)


def test_groups_are_refused(reference: Kernel) -> None:
    case = Case(group_size=2)
    with pytest.raises(ValueError, match="no penalty"):
        case.weights(reference).passive_aggressive(case.inputs, case.triplets, 1.0)
