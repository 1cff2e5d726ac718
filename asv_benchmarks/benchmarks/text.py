"""Text features: time, memory, and how well their cosines find texts of the same class."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize

from ranking import JudgedLists
from ranking.data.text.features import TextFeatures
from ranking.metrics.evaluation import evaluate, mean
from ranking.metrics.parse import parse_metric

from .common import PROFILE

N_TEXTS = {"fast": 2000, "full": 20000}[PROFILE]
N_CLASSES = 20
N_WORDS = 30000
QUERIES = 200
FEATURES = {
    "tf-idf": TextFeatures(),
    "tf-idf, pairs": TextFeatures(ngrams="1-2"),
    "singhal": TextFeatures(weighting="singhal"),
    "counts": TextFeatures(weighting="counts"),
    "hashing": TextFeatures(hashing=2**16),
    "scikit-learn": TfidfVectorizer(max_features=10000, dtype=np.float32),
}


def make_texts(n_texts: int = N_TEXTS, seed: int = 0) -> tuple[list[str], np.ndarray]:
    """Texts of about 100 words and their classes.

    Frequencies of words fall as 1/rank, as in languages. A tenth of a text's words come from its
    class, which has the same frequencies in an order of its own.
    """
    rng = np.random.default_rng(seed)
    words = np.array([f"w{number:x}" for number in range(N_WORDS)])
    shares = 1.0 / np.arange(1, N_WORDS + 1)
    shares /= shares.sum()
    own_order = [rng.permutation(N_WORDS) for _ in range(N_CLASSES)]
    classes = rng.integers(0, N_CLASSES, n_texts)
    texts = []
    for label in classes:
        sample = rng.choice(N_WORDS, size=int(rng.integers(50, 150)), p=shares)
        own = rng.random(sample.size) < 0.1
        sample[own] = own_order[label][sample[own]]
        texts.append(" ".join(words[sample]))
    return texts, classes


def cosine_map(features: sparse.csr_array, classes: np.ndarray) -> float:
    """MAP of all other texts by cosine, for the first texts as queries; same class is relevant."""
    rows = normalize(features)
    scores = (rows[:QUERIES] @ rows.T).toarray()
    others = ~np.eye(QUERIES, classes.size, dtype=bool)
    grades = (classes[:QUERIES, None] == classes)[others]
    qids = np.nonzero(others)[0]
    data = JudgedLists(np.ones((qids.size, 1), np.float32), grades, qids)
    values = evaluate([parse_metric("map")], data, scores[others])
    return mean(*values.values())


class Text:
    """Fit and transform in one go; scikit-learn is the yardstick."""

    params = (list(FEATURES),)
    param_names = ("features",)
    timeout = 600

    def setup(self, name: str) -> None:
        self.texts, self.classes = make_texts()
        self.features = FEATURES[name]

    def time_fit_transform(self, name: str) -> None:
        self.features.fit_transform(self.texts)

    def peakmem_fit_transform(self, name: str) -> None:
        self.features.fit_transform(self.texts)

    def track_cosine_map(self, name: str) -> float:
        return cosine_map(self.features.fit_transform(self.texts), self.classes)
