"""Stepping W and scoring with it, every kernel side by side."""

from __future__ import annotations

import numpy as np

from ranking.kernels.bilinear import BilinearInputs, BilinearWeights
from ranking.kernels.contract import UpdateRule
from ranking.kernels.kernel import Kernel

from .common import KERNELS, PROFILE, kernel_or_skip
from .texts import identity, make_lists, make_texts

N_WORDS = {"fast": 2000, "full": 10_000}[PROFILE]
N_DRAWS = {"fast": 2000, "full": 100_000}[PROFILE]
N_TEXTS = {"fast": 1000, "full": 10_000}[PROFILE]
RATE = 0.5
L1 = 1e-5


class Bilinear:
    params = (KERNELS, [0.0, L1])
    param_names = ("kernel", "l1")

    def setup(self, kernel: str, l1: float) -> None:
        self.kernel: Kernel = kernel_or_skip(kernel)
        self.texts, labels = make_texts(N_TEXTS, N_WORDS)
        self.objects = BilinearInputs(self.texts, self.texts)
        self.tuples = self.kernel.sampling.sample_triplets(make_lists(labels), 1, 0, N_DRAWS)
        self.held_out = self.kernel.sampling.sample_triplets(make_lists(labels), 2, 0, 1000)

    def train(self, l1: float) -> BilinearWeights:
        made = BilinearWeights(self.kernel, identity(N_WORDS))
        made.train(self.objects, self.tuples, np.full(N_DRAWS, RATE), rule=UpdateRule(l1=l1))
        return made

    def time_steps(self, kernel: str, l1: float) -> None:
        self.train(l1)

    def peakmem_steps(self, kernel: str, l1: float) -> None:
        self.train(l1)

    def track_violations(self, kernel: str, l1: float) -> float:
        margins = self.train(l1).margins(self.objects, self.held_out)
        return float(np.mean(margins < 1.0))

    track_violations.unit = "share of tuples"

    def track_bytes(self, kernel: str, l1: float) -> float:
        made = self.train(l1)
        return made.store.memory() / made.n_nonzero

    track_bytes.unit = "bytes an entry"


class BilinearScores:
    params = KERNELS
    param_names = ("kernel",)

    def setup(self, kernel: str) -> None:
        self.kernel: Kernel = kernel_or_skip(kernel)
        self.texts, labels = make_texts(N_TEXTS, N_WORDS)
        made = BilinearWeights(self.kernel, identity(N_WORDS))
        tuples = self.kernel.sampling.sample_triplets(make_lists(labels), 1, 0, N_DRAWS)
        objects = BilinearInputs(self.texts, self.texts)
        made.train(objects, tuples, np.full(N_DRAWS, RATE), rule=UpdateRule(l1=L1))
        self.weights = made.weights()

    def time_scores(self, kernel: str) -> None:
        self.kernel.bilinear.scores(self.texts[:100], self.weights, self.texts)
