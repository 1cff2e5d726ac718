"""Lists of one positive that share their negatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from parity_helpers import EXAMPLES, SEEDS, Same
from scipy.special import expit, logsumexp

from ranking.kernels.contract import Exclusions, SharedForm, SharedLists
from ranking.kernels.kernel import Kernel
from ranking.kernels.reference.shared_lists import exp32
from ranking.kernels.shared_lists import SharedTrainingLoss, no_exclusions

LOSSES = {
    "softmax": SharedTrainingLoss(SharedForm.SOFTMAX, scale=4.0),
    "contrastive": SharedTrainingLoss(SharedForm.COSINE_CONTRASTIVE, threshold=0.1, weight=0.7),
    "logistic": SharedTrainingLoss(SharedForm.LOGISTIC, scale=2.0, weight=0.3),
}


def make_lists(
    seed: int, n_lists: int, n: int, width: int, *, spread: float = 0.5, excluded: float = 0.1
) -> SharedLists:
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> Any:
        return (spread * rng.normal(size=shape)).astype(np.float32)

    mask = rng.random((n_lists, n)) < excluded
    exclusions = Exclusions(
        np.concatenate(([0], np.cumsum(mask.sum(axis=1)))).astype(np.int64),
        np.flatnonzero(mask) % max(n, 1),
    )
    return SharedLists(
        normal(n_lists, width),
        normal(n_lists, width),
        normal(n, width),
        normal(n_lists),
        normal(n),
        rng.random(n_lists).astype(np.float32),
        exclusions,
    )


def losses(lists: SharedLists, loss: SharedTrainingLoss) -> NDArray[np.float64]:
    """Return the loss of each list in double precision, from the formulas."""
    q, p, v, own_offsets, offsets, weights = (np.asarray(a, np.float64) for a in lists[:6])
    own = loss.scale * (q * p).sum(axis=1) + own_offsets
    a = loss.scale * q @ v.T + offsets
    a[
        np.repeat(np.arange(len(q)), np.diff(lists.excluded.indptr)), lists.excluded.documents
    ] = -np.inf
    if loss.form == SharedForm.SOFTMAX:
        return weights * (logsumexp(np.column_stack((own, a)), axis=1) - own)
    if loss.form == SharedForm.COSINE_CONTRASTIVE:
        excess = np.maximum(a - loss.threshold, 0.0)
        return weights * (loss.weight * excess.sum(axis=1) - own)
    return weights * (np.logaddexp(0.0, -own) + loss.weight * np.logaddexp(0.0, a).sum(axis=1))


@EXAMPLES
@given(
    seed=SEEDS,
    n_lists=st.sampled_from([0, 1, 3, 5, 34]),
    n=st.sampled_from([1, 2, 15, 16, 17, 50]),
    width=st.sampled_from([8, 16, 24, 64]),
    name=st.sampled_from(sorted(LOSSES)),
    spread=st.sampled_from([0.0, 0.5, 5.0]),
)
def test_gradients(same: Same, seed, n_lists, n, width, name, spread) -> None:
    lists = make_lists(seed, n_lists, n, width, spread=spread)
    same(lambda k, threads: k.shared_lists.gradients(lists, LOSSES[name], threads))


@pytest.mark.parametrize("name", LOSSES)
def test_strips_of_many_lists(same: Same, name: str) -> None:
    lists = make_lists(1, 300, 700, 16)
    same(lambda k, threads: k.shared_lists.gradients(lists, LOSSES[name], threads))


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_are_numerical_derivatives(kernel: Kernel, name: str) -> None:
    lists = make_lists(0, 5, 11, 8)
    result = kernel.shared_lists.gradients(lists, LOSSES[name])
    for at, gradient in enumerate(result[:3]):
        array = lists[at].astype(np.float64)
        expected = np.empty(array.shape)
        for place in np.ndindex(array.shape):
            values = []
            for step in (1e-6, -1e-6):
                moved = array.copy()
                moved[place] += step
                parts = [moved if at == i else part for i, part in enumerate(lists)]
                values.append(losses(SharedLists(*parts), LOSSES[name]).sum())
            expected[place] = (values[0] - values[1]) / 2e-6
        np.testing.assert_allclose(gradient, expected, rtol=2e-5, atol=2e-6)
    scale = LOSSES[name].scale
    for at, slopes in ((3, result.positive_slopes), (4, result.negative_slopes)):
        for place in range(slopes.size):
            values = []
            for step in (1e-6, -1e-6):
                moved = lists[at].astype(np.float64)
                moved[place] += step
                parts = [moved if at == i else part for i, part in enumerate(lists)]
                values.append(losses(SharedLists(*parts), LOSSES[name]).sum())
            derivative = scale * (values[0] - values[1]) / 2e-6
            np.testing.assert_allclose(slopes[place], derivative, rtol=2e-5, atol=4e-6)


def test_the_loss_of_a_softmax_follows_from_its_total(kernel: Kernel) -> None:
    lists = make_lists(2, 9, 30, 16)
    result = kernel.shared_lists.gradients(lists, LOSSES["softmax"])
    computed = lists.weights * (result.tops - result.scores + np.log(result.totals))
    np.testing.assert_allclose(computed, losses(lists, LOSSES["softmax"]), rtol=1e-5, atol=1e-6)


def test_a_list_without_negatives_has_no_slope_in_a_softmax(same: Same) -> None:
    lists = make_lists(3, 4, 5, 8, excluded=2.0)
    result = same(lambda k, threads: k.shared_lists.gradients(lists, LOSSES["softmax"], threads))
    assert not result.queries.any()
    assert not result.negatives.any()


def test_scores_that_overflow_show_in_the_slopes(kernel: Kernel) -> None:
    lists = make_lists(4, 3, 5, 8)
    lists.queries[1] = np.nan
    result = kernel.shared_lists.gradients(lists, LOSSES["softmax"])
    assert np.isfinite(result.positive_slopes).tolist() == [True, False, True]


def test_the_exponential_in_single_precision_is_accurate() -> None:
    x = -np.linspace(0.0, 86.99, 100_001).astype(np.float32)
    np.testing.assert_allclose(exp32(x), np.exp(x.astype(np.float64)), rtol=2e-7)
    assert exp32(np.array([-np.inf, -87.5], np.float32)).tolist() == [0.0, 0.0]
    assert np.isnan(exp32(np.array([np.nan], np.float32)))[0]


def test_the_logistic_loss_has_probabilities_as_slopes(kernel: Kernel) -> None:
    lists = make_lists(5, 6, 4, 8, excluded=0.0)._replace(weights=np.ones(6, np.float32))
    result = kernel.shared_lists.gradients(lists, LOSSES["logistic"])
    own = 2.0 * (lists.queries * lists.positives).sum(axis=1) + lists.positive_offsets
    np.testing.assert_allclose(result.positive_slopes, -2.0 * expit(-own), rtol=1e-5)


def test_arguments_that_do_not_fit_are_refused(kernel: Kernel) -> None:
    lists, gradients = make_lists(6, 3, 4, 8), kernel.shared_lists.gradients
    loss = LOSSES["softmax"]
    with pytest.raises(ValueError, match="embeddings have 6 numbers; pad them to a multiple of 8"):
        gradients(lists._replace(queries=np.zeros((3, 6), np.float32)), loss)
    with pytest.raises(ValueError, match="negatives: expected one or more, got none"):
        gradients(lists._replace(negatives=np.zeros((0, 8), np.float32)), loss)
    beyond = Exclusions(np.array([0, 2, 2, 2]), np.array([0, 9]))
    with pytest.raises(ValueError, match="indices run from 0 to 9"):
        gradients(lists._replace(excluded=beyond), loss)
    with pytest.raises(ValueError, match="must be finite, the scale positive"):
        SharedTrainingLoss(scale=0.0)
    assert no_exclusions(3).indptr.tolist() == [0, 0, 0, 0]
