"""Losses of a margin against numerical slopes, and WARP's ranks against counting them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from ranking import Ranker
from ranking.data.matching_data import MatchingData
from ranking.data.triplets import positive_lists
from ranking.errors import PartError
from ranking.kernels.bilinear import BilinearInputs, BilinearWeights
from ranking.kernels.contract import NO_CALL, PairwiseForm
from ranking.kernels.contract import PairwiseLoss as KernelLoss
from ranking.kernels.factored import FactoredInputs, FactoredWeights
from ranking.kernels.pairwise import TrainingLoss
from ranking.kernels.reference.pairwise import pairwise_slope
from ranking.kernels.select import get_kernel
from ranking.models.bilinear import Bilinear
from ranking_plugins.losses import AUC, BPR, WARP, Hinge, KosWARP, Logistic, SquaredHinge
from ranking_plugins.solvers.steps import rank_weights

LOSSES = [Hinge(), AUC(), SquaredHinge(), Logistic(), BPR(), WARP(), KosWARP()]
MARGINS = np.concatenate((np.linspace(-6, 6, 97), [-40.0, 40.0, 0.99, 1.01])) + 1e-3


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_slopes_are_derivatives(loss):
    h = 1e-6
    numerical = (loss.pairwise_value(MARGINS + h) - loss.pairwise_value(MARGINS - h)) / (2 * h)
    np.testing.assert_allclose(loss.pairwise_slope(MARGINS), numerical, atol=1e-7, rtol=1e-6)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_slope_of_the_reference_kernel_is_that_of_the_loss(loss):
    form = KernelLoss(loss.form, NO_CALL, np.ones(1), 1)
    slopes = [pairwise_slope(form, z) for z in MARGINS]
    np.testing.assert_allclose(slopes, loss.pairwise_slope(MARGINS), rtol=1e-14, atol=0)


def test_values_by_hand():
    z = np.array([-1.0, 0.0, 0.5, 1.0, 3.0])
    assert Hinge().pairwise_value(z).tolist() == [2.0, 1.0, 0.5, 0.0, 0.0]
    assert SquaredHinge().pairwise_value(z).tolist() == [4.0, 1.0, 0.25, 0.0, 0.0]
    np.testing.assert_allclose(Logistic().pairwise_value(z), np.log(1 + np.exp(-z)), rtol=1e-14)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_far_margins_stay_finite(loss):
    far = np.array([-1e300, -800.0, 800.0, 1e300])
    with np.errstate(over="ignore"):  # the square of 1e300
        values = loss.pairwise_value(far)
    assert np.isfinite(loss.pairwise_slope(far)).all()
    assert (values >= 0.0).all()
    assert not np.isnan(values).any()


@pytest.mark.parametrize(("one", "other"), [("bpr", "logistic"), ("auc", "hinge")])
def test_two_names_of_one_loss(matching_kernel, make_matching, one, other):
    data = make_matching(3)
    models = [
        Ranker(
            loss=name,
            solver="sgd:max_steps=60,learning_rate=1,steps_per_epoch=30",
            kernel=matching_kernel,
        ).fit(data)
        for name in (one, other)
    ]
    assert models[0].model_.weights.data.tobytes() == models[1].model_.weights.data.tobytes()
    assert models[0].history_ == models[1].history_
    assert models[0].loss_.name == one


def test_weights_of_ranks():
    ranks = np.array([0, 1, 2, 7, 3])
    by_hand = [sum(1 / i for i in range(1, rank + 1)) for rank in ranks]
    np.testing.assert_allclose(WARP().rank_weight(ranks), by_hand, rtol=1e-15)
    assert Hinge().rank_weight(ranks).tolist() == [1.0] * 5
    assert WARP().rank_weight(np.zeros(0, np.int64)).size == 0


@pytest.mark.parametrize("trials", [1, 0, -3, 2.5, "many", None, 10_001, float("nan")])
def test_bad_trials_are_refused(trials):
    with pytest.raises(PartError, match="max_trials"):
        WARP(trials)
    with pytest.raises(PartError, match="max_trials"):
        WARP().set_params(max_trials=trials)


def test_a_loss_is_spelled():
    assert WARP(20).spec() == "warp:max_trials=20"
    assert Hinge().spec() == "hinge"
    assert WARP().trials == 30
    assert Hinge().trials == 1


def dense_scores(model, data):
    return data.query_rows.toarray() @ model.weights.toarray() @ data.document_rows.toarray().T


def warp_by_hand(scores, triplets, n_documents):
    """Try the negatives one by one, as section 3 of the paper on WARP tells it."""
    margins, weights = [], []
    for query, positive, *negatives in triplets.tolist():
        for trial, negative in enumerate(negatives, start=1):
            margin = scores[query, positive] - scores[query, negative]
            if margin < 1.0:
                rank = (n_documents - 1) // trial
                weights.append(sum(1 / i for i in range(1, rank + 1)))
                break
        else:
            weights.append(0.0)
        margins.append(margin)
    return np.array(margins), np.array(weights)


def started(data, scale):
    model = Bilinear(dtype="float64")
    model.initialize(data, 0, get_kernel())
    model.weights = model.weights * scale
    return model


@pytest.mark.parametrize("max_trials", [2, 5, 12])
def test_warp_against_a_plain_loop(matching_kernel, make_matching, max_trials):
    data = make_matching(5, n_queries=6, n_documents=11, dtype=np.float64)
    model = started(data, 4.0)
    triplets = matching_kernel.sampling.sample_triplets(positive_lists(data), 7, 0, 300, max_trials)
    weights = BilinearWeights(matching_kernel, model.weights)
    actual = weights.train(
        model.inputs(data),
        triplets,
        np.zeros(300),  # nothing moves, so all are taken at one W
        loss=TrainingLoss(rank_weights=rank_weights(WARP(max_trials), data.n_documents)),
    )
    expected = warp_by_hand(dense_scores(model, data), triplets, data.n_documents)
    np.testing.assert_allclose(actual[0], expected[0], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(actual[1], expected[1], rtol=1e-13)
    assert 0 < np.count_nonzero(expected[1] == 0) < 300  # some find nothing


def test_the_sampled_rank_has_the_expectation_of_its_distribution(matching_kernel):
    """Of 40 documents, v of 39 violate: the trial N is geometric, and r = 39 // N."""
    n_documents, max_trials, steps = 40, 6, 1500
    query = sp.csr_array(np.ones((1, 1)))
    # Document 0 matches and scores 2; of the others, nine are within the margin.
    others = np.random.default_rng(1).permutation(np.where(np.arange(39) < 9, 1.5, 0.0))
    documents = sp.csr_array(np.concatenate(([2.0], others))[:, None])
    relevance = sp.csr_array(([1.0], [0], [0, 1]), shape=(1, n_documents))
    data = MatchingData(query, documents, relevance)
    triplets = matching_kernel.sampling.sample_triplets(
        positive_lists(data), 3, 0, steps, max_trials
    )
    weights = BilinearWeights(matching_kernel, sp.csr_array(np.ones((1, 1))))
    _, result = weights.train(
        BilinearInputs(data.query_rows, data.document_rows),
        triplets,
        np.zeros(steps),
        loss=TrainingLoss(rank_weights=rank_weights(WARP(max_trials), n_documents)),
    )
    share = 9 / 39
    chance = [share * (1 - share) ** (trial - 1) for trial in range(1, max_trials + 1)]
    harmonic = WARP().rank_weight((n_documents - 1) // np.arange(1, max_trials + 1))
    mean = float(np.dot(chance, harmonic))
    deviation = np.sqrt(np.dot(chance, harmonic**2) - mean**2)
    assert abs(result.mean() - mean) < 4 * deviation / np.sqrt(steps)
    # The exact rank is 9 violations; what is estimated when one is found is of its order.
    exact = WARP().rank_weight(np.array([9]))[0]
    assert 0.5 * exact < result[result > 0].mean() < 2 * exact


def test_built_in_losses_have_a_form():
    forms = [loss.form for loss in LOSSES]
    assert forms == [
        PairwiseForm.HINGE,
        PairwiseForm.HINGE,
        PairwiseForm.SQUARED_HINGE,
        PairwiseForm.LOGISTIC,
        PairwiseForm.LOGISTIC,
        PairwiseForm.HINGE,
        PairwiseForm.HINGE,
    ]


# --- the k-th best of several positives ---------------------------------------------------------


@pytest.mark.parametrize(("k", "n"), [(1, 1), (1, 4), (2, 4), (4, 4), (3, 7)])
def test_the_kth_best_positive_is_learnt_from(factored_kernel, make_tastes, k, n):
    """Scores are whole numbers, so that many are equal: then the first that was drawn is better."""
    data = make_tastes(5, n_queries=8, n_documents=30, tastes=2, share=0.9)
    rng = np.random.default_rng(0)
    U, V = (
        np.pad(rng.integers(-1, 3, (size, 3)), ((0, 0), (0, 5))).astype(np.float32)
        for size in (8, 30)
    )
    loss = KosWARP(4, k=k, n=n)
    assert loss.positives == (n, k - 1)
    triplets = factored_kernel.sampling.sample_triplets(positive_lists(data), 7, 0, 200, 4, n)
    empty = np.zeros((0, 8), np.float32)
    weights = FactoredWeights(factored_kernel, (U, V, empty, np.zeros(0, np.float32)))
    ranks = rank_weights(loss, 30).astype(np.float32)
    selection, margins, result = weights.sample(
        FactoredInputs(8, 30), triplets, rank_weights=ranks, n_positives=n, positive_rank=k - 1
    )
    scores = U.astype(float) @ V.T.astype(float)
    for row, (query, *documents) in enumerate(triplets.tolist()):
        positives, negatives = documents[:n], documents[n:]
        order = sorted(range(n), key=lambda at: (-scores[query, positives[at]], at))
        better = positives[order[k - 1]]
        reduced = np.array([[query, better, *negatives]])
        margin, weight = warp_by_hand(scores, reduced, 30)
        assert selection[row, :2].tolist() == [query, better]
        assert margins[row] == margin[0]
        assert result[row] == pytest.approx(weight[0], rel=1e-6)
        assert margins[row] == scores[query, better] - scores[query, selection[row, 2]]
    assert 0 < np.count_nonzero(result) < 200


def test_one_positive_is_plain_warp(factored_kernel, make_tastes):
    data = make_tastes(5)
    models = [
        Ranker(
            "factored:dimensions=4",
            loss,
            solver="sgd:max_steps=60,steps_per_epoch=30,batch_size=8",
            kernel=factored_kernel,
        ).fit(data)
        for loss in (WARP(3), KosWARP(3, k=1, n=1), KosWARP(3, k=1, n=2))
    ]
    one, same, other = (model.model_.U.tobytes() for model in models)
    assert one == same != other


@pytest.mark.parametrize(
    ("k", "n"),
    [(0, 3), (4, 3), (-1, 3), (1, 1001), (1.5, 3), (1, 2.5), ("one", 3), (1, None), (1, 0)],
)
def test_bad_numbers_of_positives_are_refused(k, n):
    with pytest.raises(
        PartError, match=r"kos-warp has [kn]=.*(an integer in \[1, 1000\]|k must not exceed n)"
    ):
        KosWARP(k=k, n=n)


def test_kos_warp_has_warps_parameter():
    with pytest.raises(PartError, match="kos-warp has max_trials=1"):
        KosWARP(1)
    assert KosWARP(7, k=2, n=3).spec() == "kos-warp:max_trials=7,k=2,n=3"
