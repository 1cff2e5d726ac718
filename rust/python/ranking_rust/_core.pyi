"""The compiled loops; :class:`ranking.kernels.contract.Loops` says what each one does."""

from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from ranking.kernels.contract import (
    Call,
    Csr,
    Factors,
    Features,
    Floats,
    Indices,
    Ints,
    MatchFields,
    Sides,
    Singles,
)

__all__ = [
    "BilinearStore",
    "bilinear",
    "bilinear_scores",
    "block_sum",
    "contract",
    "domination_bounds_csc",
    "domination_bounds_dense",
    "domination_slopes_csc",
    "domination_slopes_dense",
    "domination_sweep_csc",
    "domination_sweep_dense",
    "domination_value",
    "dot",
    "draw_tuples",
    "exp",
    "factored_scores",
    "factored_search",
    "factored_steps",
    "factored_top",
    "factored_update",
    "factored_vectors",
    "half_step",
    "half_step_sparse",
    "native_list_slopes",
    "native_list_values",
    "native_maximize",
    "native_pairs",
    "native_penalties",
    "native_prox",
    "parse_letor",
    "random_below",
    "random_bits",
    "random_uniform",
    "rank_lists",
    "ranked_metrics",
    "scores_csr",
    "scores_dense",
]

def contract() -> dict[str, Any]: ...
def random_bits(seed: int, first: int, out: NDArray[np.uint64]) -> None: ...
def random_uniform(seed: int, first: int, out: Floats) -> None: ...
def random_below(seed: int, first: int, bound: int, out: Ints) -> None: ...
def exp(x: Floats, out: Floats) -> None: ...
def dot(a: Floats, b: Floats) -> float: ...
def block_sum(a: Floats, threads: int) -> float: ...
def scores_dense(x: Features, weights: Floats, out: Floats, threads: int) -> None: ...
def scores_csr(
    indptr: Indices, indices: Indices, data: Features, weights: Floats, out: Floats, threads: int
) -> None: ...
def native_pairs(call: Call, margins: Floats, out: Floats, threads: int) -> None: ...
def native_list_values(
    call: Call, list_ptr: Ints, scores: Floats, grades: Floats, out: Floats, threads: int
) -> None: ...
def native_list_slopes(
    call: Call, list_ptr: Ints, scores: Floats, grades: Floats, out: Floats, threads: int
) -> None: ...
def native_penalties(call: Call, matrix: Features, out: Floats, threads: int) -> None: ...
def native_prox(call: Call, matrix: Features, width: int, step: float, threads: int) -> None: ...
def native_maximize(call: Call, matrix: Features, width: int, threads: int) -> None: ...
def parse_letor(
    text: NDArray[np.uint8],
    chunk_ptr: Ints,
    row_ptr: Ints,
    grades: Floats,
    places: Ints,
    indices: NDArray[np.int32],
    values: Features,
    counts: Ints,
    threads: int,
) -> None: ...
def domination_value(
    list_ptr: Ints,
    layer_ptr: Ints,
    layer_size: Ints,
    block_ptr: Ints,
    omega: Floats,
    margins: Floats,
    threads: int,
) -> float: ...
def domination_bounds_dense(
    x: Features,
    list_ptr: Ints,
    layer_ptr: Ints,
    layer_size: Ints,
    omega: Floats,
    out: Floats,
    threads: int,
) -> None: ...
def domination_bounds_csc(
    indptr: Indices,
    indices: Indices,
    data: Features,
    list_ptr: Ints,
    layer_ptr: Ints,
    layer_size: Ints,
    omega: Floats,
    out: Floats,
    threads: int,
) -> None: ...
def domination_slopes_dense(
    x: Features,
    list_ptr: Ints,
    layer_ptr: Ints,
    layer_size: Ints,
    block_ptr: Ints,
    omega: Floats,
    margins: Floats,
    columns: Ints,
    out: Floats,
    threads: int,
) -> None: ...
def domination_slopes_csc(
    indptr: Indices,
    indices: Indices,
    data: Features,
    list_ptr: Ints,
    layer_ptr: Ints,
    layer_size: Ints,
    omega: Floats,
    margins: Floats,
    columns: Ints,
    out: Floats,
) -> None: ...
def domination_sweep_dense(
    x: Features,
    list_ptr: Ints,
    layer_ptr: Ints,
    layer_size: Ints,
    block_ptr: Ints,
    omega: Floats,
    margins: Floats,
    weights: Floats,
    radius: Floats,
    bounds: Floats,
    columns: Ints,
    l1: float,
    l2: float,
    newton: bool,
    threads: int,
) -> None: ...
def domination_sweep_csc(
    indptr: Indices,
    indices: Indices,
    data: Features,
    list_ptr: Ints,
    layer_ptr: Ints,
    layer_size: Ints,
    omega: Floats,
    margins: Floats,
    weights: Floats,
    radius: Floats,
    bounds: Floats,
    columns: Ints,
    l1: float,
    l2: float,
    newton: bool,
) -> None: ...
def rank_lists(
    group_ptr: Ints, scores: Features, order: Ints, tied: NDArray[np.uint8], threads: int
) -> None: ...
def ranked_metrics(
    group_ptr: Ints,
    grades: Floats,
    order: Ints,
    tied: NDArray[np.uint8],
    unfound_ptr: Ints,
    unfound_grades: Floats,
    gains: Floats,
    unfound_gains: Floats,
    discounts: Floats,
    measures: Ints,
    out: Floats,
    threads: int,
) -> None: ...
def draw_tuples(seed: int, first: int, lists: MatchFields, positives: int, out: Ints) -> None: ...
def bilinear(
    n_columns: int,
    indptr: Ints,
    indices: NDArray[np.int32],
    values: Features,
    row_state: Floats,
    groups: Ints,
    group_weights: Floats,
    group_state: Floats,
) -> BilinearStore: ...
def bilinear_scores(
    queries: Csr, weights: Csr, documents: Csr, n_columns: int, out: Floats, threads: int
) -> None: ...
def factored_vectors(features: Csr, matrix: Singles, out: Singles, threads: int) -> None: ...
def factored_scores(
    queries: Singles, documents: Singles, biases: Singles, out: Singles, threads: int
) -> None: ...
def factored_top(
    queries: Singles,
    documents: Singles,
    biases: Singles,
    barred_ptr: Ints,
    barred: Ints,
    found: Ints,
    scores: Singles,
    threads: int,
) -> None: ...
def factored_search(
    sides: Sides,
    factors: Factors,
    tuples: Ints,
    draws: tuple[int, int, MatchFields] | None,
    positives: int,
    place: int,
    rank_weights: Singles,
    n_documents: int,
    chosen: Ints,
    margins: Singles,
    weights: Singles,
    threads: int,
) -> None: ...
def factored_update(
    sides: Sides,
    factors: Factors,
    squares: Factors,
    queries: Ints,
    step_ptr: Ints,
    documents: Ints,
    slopes: Singles,
    rate: float,
    max_norm: float,
    l2: float,
    threads: int,
) -> None: ...
def factored_steps(
    sides: Sides,
    factors: Factors,
    squares: Factors,
    tuples: Ints,
    draws: tuple[int, int, MatchFields] | None,
    positives: int,
    place: int,
    rates: Singles,
    form: int,
    slope: Call,
    rank_weights: Singles,
    n_documents: int,
    max_norm: float,
    l2: float,
    block: int,
    hogwild: bool,
    margins: Singles,
    weights: Singles,
    threads: int,
) -> None: ...
def half_step(
    matrix: Csr,
    vectors: Singles,
    threshold: float,
    limit: float,
    out: Singles,
    gains: Floats,
    threads: int,
) -> None: ...
def half_step_sparse(
    matrix: Csr,
    vectors: tuple[Ints, NDArray[np.int32], Singles],
    width: int,
    threshold: float,
    limit: float,
    gains: Floats,
    threads: int,
) -> tuple[Ints, NDArray[np.int32], Singles]: ...

@final
class BilinearStore:
    def margins(
        self,
        queries: Csr,
        documents: Csr,
        tuples: Ints,
        rank_weights: Floats,
        n_documents: int,
        transposed: bool,
        clock: Floats,
        margins: Floats,
        weights: Floats,
        negatives: Ints,
        threads: int,
    ) -> None: ...
    def update(
        self,
        queries: Csr,
        documents: Csr,
        tuples: Ints,
        negatives: Ints,
        slopes: Floats,
        rates: Floats,
        every: int,
        l1: float,
        l2: float,
        grow: bool,
        transposed: bool,
        clock: Floats,
        threads: int,
    ) -> None: ...
    def steps(
        self,
        queries: Csr,
        documents: Csr,
        tuples: Ints,
        rates: Floats,
        form: int,
        slope: Call,
        rank_weights: Floats,
        n_documents: int,
        every: int,
        l1: float,
        l2: float,
        grow: bool,
        transposed: bool,
        batch: int,
        hogwild: bool,
        clock: Floats,
        margins: Floats,
        weights: Floats,
        threads: int,
    ) -> None: ...
    def passive(
        self,
        queries: Csr,
        documents: Csr,
        tuples: Ints,
        form: int,
        aggressiveness: float,
        rank_weights: Floats,
        n_documents: Ints,
        grow: bool,
        transposed: bool,
        clock: Floats,
        margins: Floats,
        weights: Floats,
        rates: Floats,
    ) -> None: ...
    def counts(self, clock: Floats, out: Ints) -> None: ...
    def export(
        self,
        clock: Floats,
        indptr: Ints,
        indices: NDArray[np.int32],
        values: Features,
        current: bool,
    ) -> None: ...
    def state(self, row_state: Floats, group_state: Floats) -> None: ...
    def memory(self) -> int: ...
