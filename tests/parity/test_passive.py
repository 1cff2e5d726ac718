"""Passive-aggressive steps: every kernel has the bits of the reference, which has the algorithm."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize

from ranking.kernels.contract import PairwiseForm
from ranking.kernels.kernel import Kernel

sys.path.insert(0, str(Path(__file__).parent))
from test_bilinear import CASES, EXAMPLES, Case, Outcome, differing, outcome

C = st.sampled_from([1e-3, 0.1, 1.0, 1e300])
FORMS = st.sampled_from([PairwiseForm.HINGE, PairwiseForm.SQUARED_HINGE])
HARMONIC = np.concatenate(([0.0], np.cumsum(1.0 / np.arange(1.0, 9.0))))
"""L(rank), which is 0 at rank 0."""


def ranked(case: Case) -> NDArray[np.int64]:
    """How many documents each tuple ranks; some so few that L is 0."""
    return np.random.default_rng(case.seed).integers(1, 12, case.n_steps)


def run(
    case: Case, kernel: Kernel, aggressiveness: float, form: PairwiseForm, parts: int = 1
) -> Outcome:
    made = case.weights(kernel)
    found = [
        made.passive(
            case.objects,
            case.tuples[part],
            aggressiveness,
            form=form,
            rank_weights=HARMONIC if case.trials > 1 else None,
            n_documents=ranked(case)[part],
            grow=case.grow,
            transposed=case.transposed,
        )
        for part in np.array_split(np.arange(case.n_steps), parts)
    ]
    margins, weights, rates = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
    return {"margins": margins, "weights": weights, "rates": rates, **outcome(made)}


@EXAMPLES
@given(case=CASES, aggressiveness=C, form=FORMS)
def test_passive(
    kernel: Kernel, reference: Kernel, case: Case, aggressiveness: float, form: PairwiseForm
) -> None:
    wanted = run(case, reference, aggressiveness, form)
    assert differing(run(case, kernel, aggressiveness, form), wanted) == []
    assert differing(run(case, kernel, aggressiveness, form, parts=3), wanted) == []


@EXAMPLES
@given(case=CASES, aggressiveness=C, form=FORMS)
def test_the_reference_is_the_algorithm(
    reference: Kernel, case: Case, aggressiveness: float, form: PairwiseForm
) -> None:
    """min over W of |W - W0|^2 / 2 + C L loss(z), dense; without `grow`, where W is not 0."""
    found = run(case, reference, aggressiveness, form)
    w = case.w0.toarray().astype(np.float64)
    for step, chosen in enumerate(case.tuples.tolist()):
        z, block, weight = searched(case, w, step, chosen, float(found["margins"][step]))
        near = is_near(z)
        if not near:
            assert found["margins"][step] == pytest.approx(z, rel=1e-3, abs=1e-3)
            assert found["weights"][step] == weight
            tau = closed_form(form, z, float((block * block).sum()), aggressiveness * weight)
            assert found["rates"][step] == pytest.approx(tau, rel=1e-2, abs=1e-3)
        w += found["rates"][step] * block
        if case.storage == "float32":
            w = w.astype(np.float32).astype(np.float64)
        after = float((w * block).sum())
        assert near or after <= max(z, 1.0) + 1e-3 * max(1.0, abs(z))


def is_near(z: float) -> bool:
    """Say whether rounding decides if a margin is violated: many are 1 after a step."""
    return abs(z - 1.0) < 1e-3


def searched(
    case: Case, w: NDArray[Any], step: int, chosen: list[int], found: float
) -> tuple[float, NDArray[Any], float]:
    """Return the margin, q delta' and L of the violation that is found first, or of the last.

    Where rounding decides, that is the one with the margin that was found.
    """
    objects = case.objects
    queries = dense(objects.queries, (objects.n_queries, objects.n_query_features))
    documents = dense(objects.documents, (objects.n_documents, objects.n_document_features))
    for trial, worse in enumerate(chosen[2:], start=1):
        block = np.outer(queries[chosen[0]], documents[chosen[1]] - documents[worse])
        if case.transposed:
            block = block.T
        if not case.grow:
            block = np.where(w != 0.0, block, 0.0)
        z = float((w * block).sum())
        if case.trials == 1:
            return z, block, 1.0
        if is_near(found) if is_near(z) else z < 1.0:
            rank = (int(ranked(case)[step]) - 1) // trial
            return z, block, float(HARMONIC[min(rank, HARMONIC.size - 1)])
    return z, block, 0.0


def closed_form(form: PairwiseForm, z: float, n: float, c: float) -> float:
    """PA-I and PA-II of Crammer et al. (2006), with C weighted by L."""
    if z >= 1.0 or n == 0.0 or c == 0.0:
        return 0.0
    if form == PairwiseForm.HINGE:
        return min(c, (1.0 - z) / n)
    return (1.0 - z) / (n + 0.5 / c)


@pytest.mark.parametrize("grow", [True, False])
@pytest.mark.parametrize("trials", [1, 4])
@pytest.mark.parametrize("form", [PairwiseForm.HINGE, PairwiseForm.SQUARED_HINGE])
@pytest.mark.parametrize("aggressiveness", [0.02, 0.3, 5.0])
@pytest.mark.parametrize("seed", range(4))
def test_a_step_is_what_a_solver_of_programmes_finds(
    kernel: Kernel, seed: int, aggressiveness: float, form: PairwiseForm, trials: int, grow: bool
) -> None:
    """min |V|^2 / 2 + C L slack^p over all V, slack >= 0 and slack >= 1 - margin of W + V.

    It is told neither that the step is a multiple of q delta' nor how long it is.
    """
    case = Case(seed=seed, rows=3, columns=4, density=1.0, trials=trials, n_steps=12, grow=grow)
    power = 1 if form == PairwiseForm.HINGE else 2
    made, moved = case.weights(kernel), 0
    for step, chosen in enumerate(case.tuples.tolist()):
        w = made.weights().toarray()
        margins, _, rates = made.passive(
            case.objects,
            case.tuples[step : step + 1],
            aggressiveness,
            form=form,
            rank_weights=HARMONIC if trials > 1 else None,
            n_documents=ranked(case)[step : step + 1],
            grow=grow,
        )
        z, block, weight = searched(case, w, step, chosen, float(margins[0]))
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
        step_taken = (made.weights().toarray() - w).ravel()
        np.testing.assert_allclose(step_taken, rates[0] * x, atol=1e-12)
        np.testing.assert_allclose(step_taken, solved.x[:-1], atol=2e-5)
        moved += rates[0] > 0.0
    assert moved >= 3


def test_weights_count_as_the_aggressiveness_does_and_not_if_that_is_large(
    reference: Kernel,
) -> None:
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
def test_an_aggressiveness_that_is_none_is_refused(reference: Kernel, value: float) -> None:
    case = Case()
    with pytest.raises(ValueError, match="aggressiveness"):
        case.weights(reference).passive(case.objects, case.tuples, value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"form": PairwiseForm.LOGISTIC}, "LOGISTIC has no passive-aggressive step"),
        ({"rank_weights": np.array([1.0, -1.0])}, "must not be negative"),
        ({"n_documents": np.zeros(40, np.int64)}, "at least 1"),
        ({"n_documents": np.ones(3, np.int64)}, "n_documents"),
    ],
)
def test_what_has_no_such_step_is_refused(
    reference: Kernel, options: dict[str, Any], words: str
) -> None:
    case = Case()
    with pytest.raises(ValueError, match=words):
        case.weights(reference).passive(case.objects, case.tuples, 1.0, **options)


def test_groups_are_refused(reference: Kernel) -> None:
    case = Case(group_size=2)
    with pytest.raises(ValueError, match="no penalty"):
        case.weights(reference).passive(case.objects, case.tuples, 1.0)
