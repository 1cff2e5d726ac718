"""Problems of the bilinear family, for `train` and for passive-aggressive steps."""

from __future__ import annotations

import dataclasses

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st
from numpy.typing import NDArray
from parity_helpers import SEEDS, Outcome, csr

from ranking.kernels.bilinear import BilinearInputs, BilinearWeights
from ranking.kernels.contract import (
    BUILTIN_FORMS,
    REBASE_WINDOW,
    Execution,
    PairwiseForm,
    ShrinkageState,
    StepResults,
    UpdateRule,
)
from ranking.kernels.kernel import Kernel
from ranking.kernels.pairwise import TrainingLoss


@dataclasses.dataclass(frozen=True)
class Case:
    """A small problem and the options of its training; hypothesis sets the fields."""

    seed: int = 0
    rows: int = 9
    columns: int = 7
    density: float = 0.4
    storage: str = "float64"
    features: str = "float64"
    index: str = "int32"
    start: str = "random"
    first_step: int = 0
    n_steps: int = 40
    form: PairwiseForm = PairwiseForm.HINGE
    prox_interval: int = 3
    l1: float = 0.0
    l2: float = 0.0
    rate: float = 0.5
    decay: float = 0.0
    grow: bool = True
    transposed: bool = False
    batch_size: int = 1
    trials: int = 1
    group_size: int = 0

    @property
    def inputs(self) -> BilinearInputs:
        rng = np.random.default_rng(self.seed)
        shape = (self.columns, self.rows) if self.transposed else (self.rows, self.columns)
        sides = []
        for n_rows, n_features in ((6, shape[0]), (8, shape[1])):
            dense = rng.integers(-3, 4, (n_rows, n_features)) / 4.0  # so that differences cancel
            dense[1::2] *= rng.random((n_rows, n_features))[1::2] + 0.5
            dense *= rng.random(dense.shape) < self.density
            dense[2] = 0.0  # a row without features
            sides.append(csr(dense, (self.features, self.index)))
        return BilinearInputs(*sides)

    @property
    def w0(self) -> sp.csr_array:
        rng = np.random.default_rng(self.seed + 1)
        dense = {
            "zero": np.zeros((self.rows, self.columns)),
            "identity": np.eye(self.rows, self.columns),
            "random": rng.normal(size=(self.rows, self.columns))
            * (rng.random((self.rows, self.columns)) < 0.5),
        }[self.start]
        return csr(dense, (self.storage, self.index))

    @property
    def triplets(self) -> NDArray[np.int64]:
        rng = np.random.default_rng(self.seed + 2)
        triplets = rng.integers(0, 8, (self.n_steps, 2 + self.trials))
        triplets[:, 0] = rng.integers(0, 6, self.n_steps)  # d+ may be d-: delta is then empty
        return triplets

    @property
    def learning_rates(self) -> NDArray[np.float64]:
        steps = np.arange(self.first_step + 1, self.first_step + self.n_steps + 1.0)
        rates = self.rate * steps**-self.decay
        rates[:: max(7, self.n_steps // 3)] = 0.0  # a step that does not move
        return rates

    @property
    def rank_weights(self) -> NDArray[np.float64]:
        return np.cumsum(1.0 / np.arange(1.0, 6.0)) if self.trials > 1 else np.array([1.0])

    def weights(self, kernel: Kernel) -> BilinearWeights:
        groups = group_weights = None
        if self.group_size:
            groups = np.arange(self.rows) // self.group_size
            groups = np.random.default_rng(self.seed).permutation(groups)
            group_weights = np.sqrt(np.bincount(groups) + 0.5)
        weights = BilinearWeights(kernel, self.w0, groups, group_weights)
        if self.first_step:
            state = weights.state()
            state["shrinkage"][ShrinkageState.STEP] = self.first_step
            weights = BilinearWeights.restore(kernel, self.columns, state)
        return weights

    @property
    def rule(self) -> UpdateRule:
        return UpdateRule(self.prox_interval, self.l1, self.l2, self.grow)

    def train(
        self, weights: BilinearWeights, part: slice = slice(None), threads: int = 1
    ) -> StepResults:
        return weights.train(
            self.inputs,
            self.triplets[part],
            self.learning_rates[part],
            loss=TrainingLoss(self.form, rank_weights=self.rank_weights),
            rule=self.rule,
            transposed=self.transposed,
            execution=Execution(self.batch_size, threads=threads),
        )


def outcome(weights: BilinearWeights) -> Outcome:
    """Return everything that can be seen of W."""
    w = weights.weights()
    return {
        "indptr now": w.indptr,
        "indices now": w.indices,
        "weights now": w.data,
        "n_nonzero": np.array([weights.n_nonzero]),
        **weights.state(),
    }


CASES = st.builds(
    Case,
    seed=SEEDS,
    rows=st.integers(1, 20),
    columns=st.integers(1, 40),
    density=st.sampled_from([0.1, 0.5, 1.0]),
    storage=st.sampled_from(["float32", "float64"]),
    features=st.sampled_from(["float32", "float64"]),
    index=st.sampled_from(["int32", "int64"]),
    start=st.sampled_from(["zero", "identity", "random"]),
    first_step=st.sampled_from([0, 0, REBASE_WINDOW - 20, 3 * REBASE_WINDOW - 2]),
    form=st.sampled_from(BUILTIN_FORMS),
    prox_interval=st.sampled_from([1, 3, 100]),
    l1=st.sampled_from([0.0, 1e-3, 0.03, 1.0]),
    l2=st.sampled_from([0.0, 1e-2, 50.0]),
    rate=st.sampled_from([1e-2, 0.3, 2.0]),
    decay=st.sampled_from([0.0, 0.5, 1.0]),
    grow=st.booleans(),
    transposed=st.booleans(),
    batch_size=st.sampled_from([1, 4, 64]),
    trials=st.sampled_from([1, 5]),
)
