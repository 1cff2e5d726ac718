"""Engines: the contract, what they do to the bits (nothing), and what is refused."""

from __future__ import annotations

import dataclasses
import os
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from ranking import MatchingData, Ranker, get_kernel
from ranking.contracts.engine import Engine, address_of
from ranking.contracts.regularizer import Regularizer
from ranking.errors import CombinationError, EngineError, PartError
from ranking.registry import get_registry
from ranking.registry.manager import default_engine
from ranking_plugins.engines.local import Local
from ranking_plugins.engines.ray import Ray, refuse_open
from ranking_plugins.regularizers import Orthonormal, polar
from ranking_plugins.solvers.shards import (
    RANGES,
    Computing,
    add_all,
    concatenated,
    product_grams,
    products,
    rotated,
    split,
)


@dataclasses.dataclass
class Pieces(Local):
    """A third-party engine with a given number of shards, one after the other."""

    name = "pieces"
    parts: int = 3

    def n_parts(self) -> int:
        return self.parts


def clicks(seed, n_queries=60, n_documents=40, widths=(90, 70)):
    """Clicks with features on both sides, some of which nobody has."""
    rng = np.random.default_rng(seed)
    sides = [
        sp.csr_array(rng.random((n, w)) * (rng.random((n, w)) < 0.1)).astype(np.float32)
        for n, w in zip((n_queries, n_documents), widths, strict=True)
    ]
    return MatchingData(
        *sides, sp.csr_array(rng.poisson(0.3, (n_queries, n_documents)).astype(float))
    )


def fit(data, regularizer, model="factored:dimensions=5,biases=false,init_scale=1", **settings):
    solver = settings.pop("solver", "alternating:max_epochs=4,tolerance=0,center=true")
    return Ranker(model, "alignment", regularizer, solver, **settings).fit(data)


def same(one, other):
    assert one.history_ == other.history_
    for name, tensor in one.model_.tensors().items():
        assert other.model_.tensors()[name].tobytes() == tensor.tobytes(), name


PARTS = [
    ("l1l2-row:strength=0.5", "factored:dimensions=5,biases=false,init_scale=1"),
    ("l1l2-row:strength=1", "sparse-factored:dimensions=30"),
    ("max-norm", "factored:dimensions=5,biases=false,init_scale=1"),
    ("l1-row", "factored:dimensions=5,biases=false,init_scale=1"),
    ("orthonormal", "factored:dimensions=5,biases=false,init_scale=1"),
]


@pytest.mark.filterwarnings("ignore:l1-row alone degenerates")
@pytest.mark.parametrize(("regularizer", "model"), PARTS)
@pytest.mark.parametrize("parts", [2, 3, 16, 40])
def test_results_do_not_depend_on_shards_and_threads(seed, regularizer, model, parts, monkeypatch):
    monkeypatch.setattr(polar, "BLOCK", 4)  # so that ranges have several blocks
    data = clicks(seed)
    expected = fit(data, regularizer, model, kernel="cython")
    same(expected, fit(data, regularizer, model, kernel="cython", engine=Pieces(parts), threads=2))


def fit_ials(seed, engine="local", threads=1, features=False):
    data = clicks(seed)
    data = data if features else MatchingData(None, None, data.relevance)
    parts = ("squared:unobserved=0.1", "l2:strength=0.1,frequency=1", "alternating:max_epochs=3")
    model = "factored:dimensions=5,biases=false"
    return Ranker(model, *parts, engine=engine, threads=threads).fit(data)


@pytest.mark.parametrize("parts", [1, 2, 3, 40])
@pytest.mark.parametrize("threads", [1, 2])
def test_ials_does_not_depend_on_shards_and_threads(seed, parts, threads):
    expected = fit_ials(seed)
    other = fit_ials(seed, Pieces(parts), threads)
    assert other.history_ == expected.history_
    for name, tensor in expected.model_.tensors().items():
        assert other.model_.tensors()[name].tobytes() == tensor.tobytes(), name


def test_ials_with_features_needs_one_process(seed):
    with pytest.raises(CombinationError, match="steps on all rows together; use engine local"):
        fit_ials(seed, "ray:workers=2", features=True)


def test_fewer_rows_than_ranges(seed):
    data = clicks(seed, 12, 9, (7, 5))
    for regularizer in ("l1l2-row:strength=0.1", "orthonormal"):
        same(fit(data, regularizer), fit(data, regularizer, engine=Pieces(16)))


def test_dependent_columns_leave_the_shards(seed):
    """M of rank 1 has no Cholesky factor: QR of the whole takes over, in all engines."""
    rng = np.random.default_rng(seed)
    counts = np.outer(rng.integers(1, 5, 30), rng.integers(1, 5, 20)).astype(float)
    data = MatchingData(None, None, sp.csr_array(counts))
    solver = "alternating:max_epochs=3,tolerance=0,scale=1"
    one = fit(data, "orthonormal:scale=1", solver=solver)
    same(one, fit(data, "orthonormal:scale=1", solver=solver, engine=Pieces(3)))
    M = counts / (30 * 20)
    assert -one.objective_ == pytest.approx(np.linalg.svd(M, compute_uv=False).sum(), rel=1e-5)


@dataclasses.dataclass
class MatrixPenalty(Regularizer):
    """A penalty of the whole matrix that supports no protocol but `SupportsMaximize`."""

    name = "matrix-penalty"
    granularity = "matrix"

    def penalty(self, parameters):
        return Orthonormal().penalty(parameters)

    def prox(self, parameters, step):
        return Orthonormal().prox(parameters, step)

    def maximize(self, gain):
        return Orthonormal().maximize(gain)


def test_a_matrix_penalty_needs_only_maximize(seed):
    data, solver = clicks(seed), "alternating:max_epochs=300,tolerance=1e-7"
    one = fit(data, MatrixPenalty(), solver=solver)
    same(one, fit(data, MatrixPenalty(), solver=solver, engine=Pieces(3)))
    known = fit(data, "orthonormal", solver=solver)
    assert one.objective_ == pytest.approx(known.objective_, rel=1e-3)


def side_of_m(seed, shape=(100, 30)):
    matrix = sp.random_array(shape, density=0.2, rng=np.random.default_rng(seed), format="csr")
    return sp.csr_array(matrix.astype(np.float32))


@pytest.mark.parametrize("parts", [1, 2, 7, 16, 99])
def test_ranges_have_whole_rows_and_do_not_depend_on_the_number_of_shards(seed, parts):
    rows = side_of_m(seed)
    columns = sp.csr_array(rows.T)
    shards = split((rows, columns), parts)
    assert len(shards) == min(parts, RANGES)
    for side, whole in enumerate((rows, columns)):
        pieces = [part[side] for part in shards]
        result = [
            sp.csr_array((m.data, m.indices, m.indptr), p.matched.shape)
            for p in pieces
            for m in [p.matched.arrays]
        ]
        np.testing.assert_array_equal(sp.vstack(result).toarray(), whole.toarray())
        ends = np.cumsum([0, *[p.matched.shape[0] for p in pieces]])
        cuts = np.unique(np.concatenate([at + p.cuts for at, p in zip(ends, pieces, strict=False)]))
        whole_cuts = split((rows, columns), 1)[0][side].cuts
        np.testing.assert_array_equal(cuts, np.unique(whole_cuts))
        assert len(whole_cuts) == RANGES + 1


@pytest.mark.parametrize("parts", [1, 3, 16])
def test_workers_cache_the_product_and_return_its_gram_matrix(seed, parts):
    rows, rng = side_of_m(seed), np.random.default_rng(seed)
    others, less = np.zeros((30, 8), np.float32), np.zeros((100, 8), np.float32)
    others[:, :5], less[:, :5] = rng.normal(size=(30, 5)), rng.normal(size=(100, 5))
    by, square = Computing(get_kernel("cython"), 1), rng.normal(size=(5, 5))
    with Local().scatter(split((rows, sp.csr_array(rows.T)), parts)) as local:
        arguments = (0, others, by, None, less)
        shards = local.reduce(product_grams, add_all, np.zeros((5, 5)), *arguments, 5)
        result = concatenated(local.map(rotated, square), None)
    expected = (rows.toarray().astype(float) @ others - less)[:, :5]
    np.testing.assert_allclose(shards, expected.T @ expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(result[:, :5], expected @ square, rtol=1e-4, atol=1e-4)
    assert not result[:, 5:].any()


# --- the contract ---


def note(part, cache, word):
    """Return what was noted before, and note a word."""
    before = cache.get("word", "")
    cache["word"] = before + word
    return f"{part}{before}"


def double(part, cache):
    return 2 * part


def minus(total, result):
    return result - total


def test_results_come_in_order_and_are_combined_in_order():
    with Local().scatter([1, 2, 3]) as local:
        assert local.map(double) == [2, 4, 6]
        assert local.reduce(double, minus, 1) == 6 - (4 - (2 - 1))


def test_a_checkpoint_clears_the_cache():
    with Local().scatter(["a", "b"]) as local:
        assert local.map(note, "x") == ["a", "b"]
        assert local.map(note, "y") == ["ax", "bx"]
        local.checkpoint()
        assert local.map(note, "z") == ["a", "b"]


def test_only_functions_that_have_a_name_are_run():
    assert address_of(products) == "ranking_plugins.solvers.shards:products"
    with Local().scatter([1]) as local:
        for wrong in (lambda part, cache: part, Pieces.n_parts):
            with pytest.raises(TypeError, match="functions of installed modules"):
                local.map(wrong)


def test_the_default_is_local():
    assert isinstance(default_engine(), Local)
    assert get_registry().names("engine")[:2] == ["local", "ray"]


def test_specs():
    result = get_registry().create("engine", "ray:workers=3,address=127.0.0.1:6379")
    assert result == Ray(3, "127.0.0.1:6379")
    assert isinstance(result, Engine)
    for wrong in ("ray:workers=0", "ray:workers=x", "ray:address=ray://here:10001", "rya"):
        with pytest.raises(PartError):
            Ranker("factored", "alignment", "orthonormal", engine=wrong).fit(clicks(0))


def test_an_engine_with_nothing_to_do_is_refused(judged, seed):
    output = "solver 'alternating' with loss 'alignment'"
    with pytest.raises(CombinationError, match=output):
        Ranker(loss="domination", engine="ray").fit(judged)
    with pytest.raises(CombinationError, match=output):
        Ranker("factored", "hinge", "l2", "alternating", engine="ray").fit(clicks(seed))
    Ranker(loss="domination", engine="local").fit(judged)


def test_ray_that_is_not_installed(seed, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(EngineError, match=r"pip install ranking-kit\[ray\]"):
        fit(clicks(seed), "orthonormal", engine="ray:address=127.0.0.1:6379")


OPEN = ["10.0.0.5:6379", "head.example:6379", "auto", "[2001:db8::1]:6379", "0.0.0.0:6379", "local"]


@pytest.mark.parametrize("address", OPEN)
def test_an_open_cluster_is_refused_without_a_token(address, monkeypatch):
    for mode in (None, "disabled", ""):
        monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
        if mode is not None:
            monkeypatch.setenv("RAY_AUTH_MODE", mode)
        with pytest.raises(EngineError, match="RAY_AUTH_MODE=token"):
            refuse_open(address)
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    refuse_open(address)


@pytest.mark.parametrize("address", ["127.0.0.1:6379", "localhost:6379", "[::1]:6379"])
def test_loopback_needs_no_token(address, monkeypatch):
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    refuse_open(address)
    assert "RAY_AUTH_MODE" not in os.environ
