"""PAMIR with a kernel, against PAMIR without one and against W in an explicit feature space."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from ranking import MatchingData, Ranker
from ranking.data.triplets import positive_lists
from ranking.errors import CombinationError, ModelFileError
from ranking.kernels.select import get_kernel
from ranking.models.kernel_expansion import KernelExpansion

STEPS = 400


def make_data(seed: int = 0, n_queries: int = 8, n_documents: int = 15) -> MatchingData:
    rng = np.random.default_rng(seed)
    queries = sp.random_array((n_queries, 5), density=0.5, rng=rng, format="csr")
    documents = rng.normal(size=(n_documents, 4))
    relevance = (rng.random((n_queries, n_documents)) < 0.3).astype(float)
    relevance[:, 0], relevance[:, 1] = 1.0, 0.0
    return MatchingData(queries, documents, relevance)


def train(data: MatchingData, model: str, loss: str = "hinge", **options: object) -> Ranker:
    name = "passive-aggressive"
    name = f"kernel-{name}" if model.startswith("kernel") else name
    solver = f"{name}:max_steps={STEPS},aggressiveness=0.05,steps_per_epoch=150"
    return Ranker(model, loss, "none", solver, random_state=3, **options).fit(data)


@pytest.mark.parametrize("loss", ["hinge", "squared-hinge"])
def test_a_linear_kernel_is_pamir(loss: str):
    data = make_data()
    linear = train(data, "bilinear:initial=zero,dtype=float64", loss)
    kernel = train(data, "kernel-expansion:function=linear", loss)
    assert kernel.predict(data) == pytest.approx(linear.predict(data), abs=1e-9)
    objectives = [[row["objective"] for row in one.history_] for one in (kernel, linear)]
    assert objectives[0] == pytest.approx(objectives[1])


def explicit_polynomial(rows: np.ndarray, gamma: float, offset: float) -> np.ndarray:
    """Return features whose products are (gamma x'y + offset)^2: all products of two."""
    wide = np.hstack((np.sqrt(gamma) * rows, np.full((rows.shape[0], 1), np.sqrt(offset))))
    return np.einsum("ni,nj->nij", wide, wide).reshape(rows.shape[0], -1)


def test_a_polynomial_kernel_is_pamir_on_its_features():
    data = make_data(1)
    model = "kernel-expansion:function=polynomial,degree=2,gamma=0.5,offset=0.7"
    kernel = train(data, model)
    wide = MatchingData(data.queries, explicit_polynomial(data.documents, 0.5, 0.7), data.relevance)
    linear = train(wide, "bilinear:initial=zero,dtype=float64")
    assert kernel.predict(data) == pytest.approx(linear.predict(wide), abs=1e-9)


def pamir_by_the_matrix_of_kernel_values(data: MatchingData, gamma: float) -> np.ndarray:
    """Return the scores of PAMIR in the space of all documents, from the whole Gram matrix."""
    rows = data.documents
    gram = np.exp(-gamma * ((rows[:, None, :] - rows[None, :, :]) ** 2).sum(axis=2))
    queries = data.queries.toarray()
    kernel = get_kernel("reference")
    triplets = kernel.sampling.sample_triplets(positive_lists(data), 3, 0, STEPS, 1, 1)
    history: list[tuple[float, np.ndarray, int, int]] = []
    for query, positive, negative in triplets.tolist():
        q = queries[query]
        margin = sum(
            tau
            * (q @ before)
            * (gram[p, positive] - gram[p, negative] - gram[n, positive] + gram[n, negative])
            for tau, before, p, n in history
        )
        square = (q @ q) * (gram[positive, positive] + gram[negative, negative])
        square -= 2.0 * (q @ q) * gram[positive, negative]
        if margin < 1.0 and square > 0.0:
            history.append((min((1.0 - margin) / square, 0.05), q, positive, negative))
    return sum(tau * np.outer(queries @ before, gram[p] - gram[n]) for tau, before, p, n in history)


def test_a_gaussian_kernel_is_pamir_in_its_space():
    data = make_data(2)
    scores = train(data, "kernel-expansion:gamma=0.3").predict(data)
    assert scores == pytest.approx(pamir_by_the_matrix_of_kernel_values(data, 0.3), abs=1e-9)


def test_an_exclusive_or_needs_a_kernel():
    rng = np.random.default_rng(0)
    documents = rng.choice([-1.0, 1.0], (200, 2)) + rng.normal(0, 0.2, (200, 2))
    same = (documents.prod(axis=1) > 0)[None, :].astype(float)
    data = MatchingData(np.eye(2), documents, np.vstack((same, 1 - same)))
    linear = train(data, "bilinear:initial=zero").score(data, metric="map")
    kernel = train(data, "kernel-expansion:gamma=1").score(data, metric="map")
    assert linear < 0.8
    assert kernel > 0.99


def test_resumed_and_saved_trainings_are_the_same(tmp_path: Path):
    data = make_data(3)
    whole = train(data, "kernel-expansion")
    plan = train(data, "kernel-expansion").plan()
    solver = "kernel-passive-aggressive:max_steps=150,aggressiveness=0.05,steps_per_epoch=150"
    half = Ranker("kernel-expansion", "hinge", "none", solver, random_state=3).plan()
    first = half.trainer(data)
    first.train()
    snapshot = first.snapshot()
    snapshot.facts["ending"] = snapshot.facts["stopped"] = ""
    rest = plan.trainer(data)
    rest.train(snapshot)
    for name, tensor in whole.model_.tensors().items():
        assert np.array_equal(rest.model.tensors()[name], tensor), name
    whole.save(tmp_path / "model.safetensors")
    loaded = Ranker.load(tmp_path / "model.safetensors")
    assert np.array_equal(loaded.predict(data), whole.predict(data))


def test_kernels_sample_the_same_steps():
    data = make_data(4)
    one, other = (train(data, "kernel-expansion", kernel=name) for name in ("reference", "auto"))
    assert np.array_equal(one.predict(data), other.predict(data))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("support/indices", lambda array: array + 100),
        ("coefficients/values", lambda array: array * np.nan),
        ("coefficients/indptr", lambda array: array[:-1]),
        ("support/values", lambda array: array.astype(np.float32)),
    ],
)
def test_a_damaged_model_is_refused(name, change):
    model = train(make_data(5), "kernel-expansion").model_
    tensors = model.tensors()
    tensors[name] = change(tensors[name])
    with pytest.raises(ModelFileError, match="kernel-expansion"):
        KernelExpansion().restore(tensors)


def test_what_has_no_closed_form_is_refused():
    with pytest.raises(CombinationError, match="closed form"):
        train(make_data(), "kernel-expansion", "warp")
