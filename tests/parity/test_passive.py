"""Passive-aggressive steps: every kernel has the bits of the reference, which has the algorithm."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranking.kernels.kernel import Kernel

sys.path.insert(0, str(Path(__file__).parent))
from test_bilinear import CASES, EXAMPLES, Case, Outcome, differing, outcome

C = st.sampled_from([1e-3, 0.1, 1.0, 1e300])


def run(case: Case, kernel: Kernel, aggressiveness: float, parts: int = 1) -> Outcome:
    made = case.weights(kernel)
    found = [
        made.passive(
            case.objects, tuples, aggressiveness, grow=case.grow, transposed=case.transposed
        )
        for tuples in np.array_split(case.tuples[:, :3].copy(), parts)
    ]
    margins, rates = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
    return {"margins": margins, "rates": rates, **outcome(made)}


@EXAMPLES
@given(case=CASES, aggressiveness=C)
def test_passive(kernel: Kernel, reference: Kernel, case: Case, aggressiveness: float) -> None:
    wanted = run(case, reference, aggressiveness)
    assert differing(run(case, kernel, aggressiveness), wanted) == []
    assert differing(run(case, kernel, aggressiveness, parts=3), wanted) == []


@EXAMPLES
@given(case=CASES, aggressiveness=C)
def test_the_reference_is_the_algorithm(
    reference: Kernel, case: Case, aggressiveness: float
) -> None:
    """min over W of |W - W0|^2 / 2 + C max(0, 1 - z), on a dense W."""
    if not case.grow:
        return
    found = run(case, reference, aggressiveness)
    w = case.w0.toarray().astype(np.float64)
    objects = case.objects
    shape = (objects.n_queries, objects.n_query_features)
    queries = dense(objects.queries, shape)
    documents = dense(objects.documents, (objects.n_documents, objects.n_document_features))
    for step, (q, better, worse) in enumerate(case.tuples[:, :3].tolist()):
        left, right = queries[q], documents[better] - documents[worse]
        if case.transposed:
            left, right = right, left
        block = np.outer(left, right)
        z = float((w * block).sum())
        assert found["margins"][step] == pytest.approx(z, rel=1e-3, abs=1e-3)
        norm = float((block * block).sum())
        tau = min(max(0.0, 1.0 - z) / norm, aggressiveness) if norm else 0.0
        assert found["rates"][step] == pytest.approx(tau, rel=1e-2, abs=1e-3)
        w += found["rates"][step] * block
        if case.storage == "float32":
            w = w.astype(np.float32).astype(np.float64)
        after = float((w * block).sum())
        assert after <= max(z, 1.0) + 1e-3 * max(1.0, abs(z))


def dense(parts: tuple, shape: tuple[int, int]) -> np.ndarray:
    import scipy.sparse as sp

    indptr, indices, data = parts
    return sp.csr_array((data, indices, indptr), shape=shape).toarray().astype(np.float64)


@pytest.mark.parametrize("value", [0.0, -1.0, np.inf, np.nan])
def test_an_aggressiveness_that_is_none_is_refused(reference: Kernel, value: float) -> None:
    case = Case()
    with pytest.raises(ValueError, match="aggressiveness"):
        case.weights(reference).passive(case.objects, case.tuples, value)


def test_what_passive_steps_cannot_do_is_refused(reference: Kernel) -> None:
    case = Case(trials=3)
    with pytest.raises(ValueError, match="one negative"):
        case.weights(reference).passive(case.objects, case.tuples, 1.0)
    case = Case(group_size=2)
    with pytest.raises(ValueError, match="no penalty"):
        case.weights(reference).passive(case.objects, case.tuples, 1.0)
