"""Training and scores of the bilinear model."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from bilinear_cases import CASES, Case, outcome
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from parity_helpers import EXAMPLES, KINDS, SEEDS, Outcome, Same, csr, differences

from ranking.kernels.bilinear import BilinearWeights
from ranking.kernels.contract import REBASE_WINDOW, SMALLEST_SCALE, PairwiseForm, ShrinkageState
from ranking.kernels.kernel import Kernel


def run(case: Case, kernel: Kernel, threads: int = 1) -> Outcome:
    weights = case.weights(kernel)
    margins, violations = case.train(weights, threads=threads)
    return {"margins": margins, "violations": violations, **outcome(weights)}


def check(case: Case, same: Same) -> Outcome:
    return same(lambda k, threads: run(case, k, threads))


@EXAMPLES
@given(case=CASES)
def test_train(same: Same, case: Case) -> None:
    check(case, same)


@EXAMPLES
@given(case=CASES, group_size=st.sampled_from([1, 3, 50]))
def test_group_penalties(same: Same, case: Case, group_size: int) -> None:
    case = dataclasses.replace(case, l2=0.0, group_size=group_size)
    check(case, same)


def test_a_group_that_grows_and_shrinks_is_summed_from_scratch(same: Same) -> None:
    # Large weights that a few steps take away: N falls below RESUM of its largest.
    case = Case(group_size=3, prox_interval=2, l1=0.4, rate=0.3, n_steps=200, columns=30)
    check(case, same)
    large = dataclasses.replace(case, rate=1.0, form=PairwiseForm.SQUARED_HINGE, l1=0.1, n_steps=60)
    check(large, same)


@pytest.mark.slow
@pytest.mark.parametrize("storage", ["float32", "float64"])
@pytest.mark.parametrize("batch_size", [1, 16])
@pytest.mark.parametrize("transposed", [False, True])
def test_wide_rows(same: Same, storage: str, batch_size: int, transposed: bool) -> None:
    # Rows go through every form of storage: they fill, die, and are filled again.
    for density in (0.03, 0.3):
        case = Case(
            rows=25,
            columns=900,
            density=density,
            storage=storage,
            features="float32",
            start="zero",
            n_steps=500,
            prox_interval=10,
            l1=0.01,
            rate=0.7,
            transposed=transposed,
            batch_size=batch_size,
        )
        check(case, same)
        plain = dataclasses.replace(case, l1=0.0, form=PairwiseForm.LOGISTIC)
        assert differences(run(plain, same.kernel), run(plain, same.reference)) == []


@pytest.mark.slow
@pytest.mark.parametrize("storage", ["float32", "float64"])
def test_windows(same: Same, storage: str) -> None:
    steps = 2 * REBASE_WINDOW + 300
    case = Case(rows=6, columns=5, storage=storage, n_steps=steps, l1=1e-3, l2=1e-4, rate=0.05)
    expected = run(case, same.reference)
    assert expected["row_state"][:, 2].max() == 2
    assert differences(run(case, same.kernel), expected) == []
    batched = dataclasses.replace(case, batch_size=64)
    assert differences(run(batched, same.kernel, 2), run(batched, same.reference)) == []


@pytest.mark.parametrize("batch_size", [1, 4])
@pytest.mark.parametrize("storage", ["float32", "float64"])
def test_a_small_scale_is_reset(same: Same, storage: str, batch_size: int) -> None:
    case = Case(storage=storage, prox_interval=1, l1=1e-3, l2=1e3, rate=1.0, n_steps=50)
    case = dataclasses.replace(case, batch_size=batch_size)
    expected = check(case, same)
    assert expected["shrinkage"][ShrinkageState.SCALE] > SMALLEST_SCALE
    assert np.log2(1e3) * 40 > 64  # so it has been reset


@EXAMPLES
@given(case=CASES, group_size=st.sampled_from([0, 0, 2]), cut=st.integers(0, 40))
def test_training_can_be_resumed(same: Same, case: Case, group_size: int, cut: int) -> None:
    l2 = 0.0 if group_size else case.l2
    case = dataclasses.replace(case, batch_size=1, group_size=group_size, l2=l2)
    expected = dict(run(case, same.reference))
    del expected["margins"], expected["violations"]
    for first, second in same.orders():
        weights = case.weights(first)
        case.train(weights, slice(0, cut))
        weights = BilinearWeights.restore(second, case.columns, weights.state())
        case.train(weights, slice(cut, None))
        assert differences(outcome(weights), expected) == [], (first.name, second.name)


def test_ten_parts_are_the_whole(kernel: Kernel) -> None:
    for case in (
        Case(n_steps=1000, l1=1e-2, prox_interval=7),
        Case(n_steps=1000, l1=1e-2, prox_interval=7, group_size=2, storage="float32"),
    ):
        weights = case.weights(kernel)
        parts = [case.train(weights, slice(100 * i, 100 * i + 100)) for i in range(10)]
        results = {
            "margins": np.concatenate([part.margins for part in parts]),
            "violations": np.concatenate([part.weights for part in parts]),
            **outcome(weights),
        }
        assert differences(results, run(case, kernel)) == []


@EXAMPLES
@given(case=CASES, group_size=st.sampled_from([0, 0, 2]))
def test_margins_and_updates_equal_train(same: Same, case: Case, group_size: int) -> None:
    l2 = 0.0 if group_size else case.l2
    case = dataclasses.replace(case, trials=1, batch_size=8, group_size=group_size, l2=l2)
    for one in (same.kernel, same.reference):
        weights, margins = case.weights(one), []
        for start in range(0, case.n_steps, case.batch_size):
            part = slice(start, start + case.batch_size)
            options = {"transposed": case.transposed, "threads": 2}
            margins.append(weights.margins(case.inputs, case.triplets[part], **options))
            weights.update(
                case.inputs,
                case.triplets[part],
                slopes(case.form, margins[-1], one),
                case.learning_rates[part],
                rule=case.rule,
                **options,
            )
        results = {"margins": np.concatenate(margins), "violations": np.ones(case.n_steps)}
        assert differences(results | outcome(weights), run(case, one)) == []


def slopes(form: PairwiseForm, z: NDArray[np.float64], kernel: Kernel) -> NDArray[np.float64]:
    if form == PairwiseForm.LOGISTIC:
        return -1.0 / (1.0 + kernel.random.exp(z))
    slope = -np.ones_like(z) if form == PairwiseForm.HINGE else -2.0 * (1.0 - z)
    return np.where(z < 1.0, slope, 0.0)


def test_no_steps(same: Same) -> None:
    check(Case(n_steps=0), same)


@pytest.mark.parametrize("group_size", [0, 2])
def test_shrinkage_alone(same: Same, group_size: int) -> None:
    # No step changes W, and the penalty sets all of it to zero at last.
    case = Case(start="identity", n_steps=300, l1=0.05, prox_interval=100, group_size=group_size)

    def shrink(k: Kernel, threads: int) -> Outcome:
        weights = case.weights(k)
        slopes = np.zeros(300)
        weights.update(
            case.inputs, case.triplets, slopes, case.learning_rates, rule=case.rule, threads=threads
        )
        return outcome(weights)

    assert same(shrink)["n_nonzero"] == 0


def test_memory_of_a_store(kernel: Kernel) -> None:
    case = Case(rows=50, columns=2000, density=0.2, start="zero", storage="float32", rate=1.0)
    weights = case.weights(kernel)
    empty = weights.store.memory()
    case.train(weights)
    assert empty < weights.store.memory() < empty + 40 * max(weights.n_nonzero, 1000)


@EXAMPLES
@given(
    seed=SEEDS,
    n_queries=st.integers(0, 19),
    n_documents=st.integers(0, 30),
    shape=st.tuples(st.integers(1, 20), st.integers(1, 20)),
    density=st.sampled_from([0.0, 0.2, 1.0]),
    kinds=st.lists(st.sampled_from(KINDS), min_size=3, max_size=3),
)
def test_scores(same: Same, seed, n_queries, n_documents, shape, density, kinds) -> None:
    rng = np.random.default_rng(seed)
    sizes = ((n_queries, shape[0]), shape, (n_documents, shape[1]))
    parts = [
        csr(rng.normal(size=size) * (rng.random(size) < density), kind)
        for size, kind in zip(sizes, kinds, strict=True)
    ]
    (scores,) = same(lambda k, threads: [k.bilinear.scores(*parts, threads)])
    dense = parts[0].toarray().astype(float) @ parts[1].toarray() @ parts[2].toarray().T
    np.testing.assert_allclose(scores, dense, rtol=1e-9, atol=1e-9)
