"""Stepping W and scoring with it, every kernel side by side."""

from __future__ import annotations

import numpy as np

from ranking.kernels.bilinear import BilinearInputs, BilinearWeights
from ranking.kernels.contract import UpdateRule
from ranking.kernels.kernel import Kernel
from ranking.kernels.pairwise import TrainingLoss

from .common import KERNELS, PROFILE, kernel_or_skip
from .texts import identity, make_lists, make_texts

N_WORDS = {"fast": 2000, "full": 10_000}[PROFILE]
N_STEPS = {"fast": 2000, "full": 100_000}[PROFILE]
N_TEXTS = {"fast": 1000, "full": 10_000}[PROFILE]
RATE = 0.5
L1 = 1e-5
N_TRIALS = 10


class Bilinear:
    params = (KERNELS, [0.0, L1])
    param_names = ("kernel", "l1")

    def setup(self, kernel: str, l1: float) -> None:
        self.kernel: Kernel = kernel_or_skip(kernel)
        self.texts, labels = make_texts(N_TEXTS, N_WORDS)
        self.inputs = BilinearInputs(self.texts, self.texts)
        self.triplets = self.kernel.sampling.sample_triplets(make_lists(labels), 1, 0, N_STEPS)
        self.held_out = self.kernel.sampling.sample_triplets(make_lists(labels), 2, 0, 1000)

    def train(self, l1: float) -> BilinearWeights:
        output = BilinearWeights(self.kernel, identity(N_WORDS))
        output.train(self.inputs, self.triplets, np.full(N_STEPS, RATE), rule=UpdateRule(l1=l1))
        return output

    def time_steps(self, kernel: str, l1: float) -> None:
        self.train(l1)

    def peakmem_steps(self, kernel: str, l1: float) -> None:
        self.train(l1)

    def track_violations(self, kernel: str, l1: float) -> float:
        margins = self.train(l1).margins(self.inputs, self.held_out)
        return float(np.mean(margins < 1.0))

    track_violations.unit = "share of triplets"

    def track_bytes(self, kernel: str, l1: float) -> float:
        output = self.train(l1)
        return output.store.memory() / output.n_nonzero

    track_bytes.unit = "bytes an entry"


class BilinearWARP:
    """Steps of WARP: negatives are scored until one violates the margin."""

    params = KERNELS
    param_names = ("kernel",)

    def setup(self, kernel: str) -> None:
        self.kernel: Kernel = kernel_or_skip(kernel)
        self.texts, labels = make_texts(N_TEXTS, N_WORDS)
        self.inputs = BilinearInputs(self.texts, self.texts)
        lists = make_lists(labels)
        self.triplets = self.kernel.sampling.sample_triplets(lists, 1, 0, N_STEPS, N_TRIALS)
        self.held_out = self.kernel.sampling.sample_triplets(lists, 2, 0, 1000)
        ranks = np.arange(N_TEXTS)
        self.loss = TrainingLoss(rank_weights=np.cumsum(1.0 / np.maximum(ranks, 1)) - 1.0)

    def train(self) -> BilinearWeights:
        output = BilinearWeights(self.kernel, identity(N_WORDS))
        output.train(self.inputs, self.triplets, np.full(N_STEPS, 0.1 * RATE), loss=self.loss)
        return output

    def time_steps(self, kernel: str) -> None:
        self.train()

    def peakmem_steps(self, kernel: str) -> None:
        self.train()

    def track_violations(self, kernel: str) -> float:
        margins = self.train().margins(self.inputs, self.held_out)
        return float(np.mean(margins < 1.0))

    track_violations.unit = "share of triplets"


class BilinearScores:
    params = KERNELS
    param_names = ("kernel",)

    def setup(self, kernel: str) -> None:
        self.kernel: Kernel = kernel_or_skip(kernel)
        self.texts, labels = make_texts(N_TEXTS, N_WORDS)
        output = BilinearWeights(self.kernel, identity(N_WORDS))
        triplets = self.kernel.sampling.sample_triplets(make_lists(labels), 1, 0, N_STEPS)
        inputs = BilinearInputs(self.texts, self.texts)
        output.train(inputs, triplets, np.full(N_STEPS, RATE), rule=UpdateRule(l1=L1))
        self.weights = output.weights()

    def time_scores(self, kernel: str) -> None:
        self.kernel.bilinear.scores(self.texts[:100], self.weights, self.texts)
