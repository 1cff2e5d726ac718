"""Table 5 of latent structured ranking: the labels of an example, best first."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse

from ranking import Ranker
from ranking.contracts.model import Model
from ranking.data.matching_data import MatchingData
from ranking.data.readers.read import read_any
from ranking.errors import DataError
from ranking.metrics.evaluation import evaluate_model, mean
from ranking.metrics.parse import parse_metric
from ranking.models.bilinear import Bilinear
from ranking.models.factored import Factored
from ranking.models.structured import Structured
from ranking_plugins.reproductions import Options, Row
from ranking_plugins.reproductions.held_out import split_examples
from ranking_plugins.reproductions.seeds import Values, gains, means

MEASURES = {
    "r@1": "recall@1(empty=skip)",
    "r@5": "recall@5(empty=skip)",
    "r@10": "recall@10(empty=skip)",
    "map": "map(empty=skip)",
    "mean rank": "mean-rank",
}

PAPER = {
    "one-vs-rest": (0.0283, 0.0848, 0.132, 0.065, 667.0),
    "rank-svm": (0.0535, 0.141, 0.193, 0.102, 804.0),
    "wsabie": (0.0839, 0.196, 0.263, 0.144, 626.0),
    "lasr t=1": (0.0945, 0.221, 0.291, 0.161, 523.0),
}
"""On ImageNet, with which nothing but the order can be compared."""


WARP = "warp:max_trials=100"
PAIRS = "sgd:sampling=positives"
FIXED = f"{PAIRS},schedule=constant"
HINGE = "one-vs-rest:max_iterations"


class Parts(NamedTuple):
    """The settings of one method; epochs are passes over the labels of the examples."""

    loss: str
    regularizer: str
    solver: str
    passes: int = 0


class Collection(NamedTuple):
    """A data set, and the settings chosen by MAP on its validation examples."""

    name: str
    files: tuple[str, str]
    parts: dict[str, Parts]


DIMENSIONS = 100
GOING_ON = "wsabie, going on"
"""The control of LaSR that begins with WSABIE's vectors: as many more passes, without lists."""
BEFORE = Parts(WARP, "max-norm:limit=1.4", f"{PAIRS},learning_rate=0.005", 80)
"""What trains both on Corel 5K; chosen with the mean rank in sight, too."""
FOLDS = 5
"""Parts of the examples whose lists come from a WSABIE that was trained without them."""

COLLECTIONS = (
    Collection(
        "Corel 5K",
        ("corel5k/Corel5k-train-sparse.arff.gz", "corel5k/Corel5k-test-sparse.arff"),
        {
            "one-vs-rest": Parts("hinge", "l2:strength=0.4", f"{HINGE}=10"),
            "one-vs-rest, logistic": Parts("logistic", "l2:strength=0.0001", "one-vs-rest"),
            "rank-svm": Parts("hinge", "l2:strength=1e-6", f"{FIXED},learning_rate=0.01", 400),
            "wsabie": Parts(WARP, "max-norm:limit=1.5", f"{PAIRS},learning_rate=0.02", 100),
            GOING_ON: BEFORE,
            "lasr t=1": Parts(WARP, "max-norm:limit=1.1", f"{PAIRS},learning_rate=0.02", 100),
            "lasr t=1, folds": Parts(WARP, "max-norm:limit=1.4", f"{PAIRS},learning_rate=0.02", 60),
            "lasr t=1, folds, before": BEFORE,
        },
    ),
    Collection(
        "Delicious",
        ("delicious/delicious-train.arff.gz", "delicious/delicious-test.arff.gz"),
        {
            "one-vs-rest": Parts("hinge", "l2:strength=0.1", f"{HINGE}=1"),
            "one-vs-rest, logistic": Parts("logistic", "l2:strength=0.0001", "one-vs-rest"),
            "rank-svm": Parts("hinge", "l2:strength=1e-7", f"{FIXED},learning_rate=0.01", 100),
            "wsabie": Parts(WARP, "max-norm:limit=6", f"{PAIRS},learning_rate=0.05", 16),
            "lasr t=1": Parts(WARP, "max-norm:limit=4", f"{PAIRS},learning_rate=0.05", 16),
            "lasr t=1, folds": Parts(WARP, "max-norm:limit=4", f"{PAIRS},learning_rate=0.05", 16),
        },
    ),
)


class Fitted(NamedTuple):
    """A trained method."""

    ranker: Ranker
    seconds: float


def rows(options: Options, seeds: Sequence[int]) -> Iterator[Row]:
    """Train and measure the methods on each data set, with each seed."""
    for collection in COLLECTIONS:
        data = read(options.data / "multilabel", collection.files, 300 if options.quick else None)
        splits = [split_examples(data, seed) for seed in seeds]
        base: list[Fitted] = []
        before: list[Values] = []
        for method, parts in collection.parts.items():
            options.tell(f"{collection.name}: {method}")
            fitted, values = [], []
            for at, (seed, split) in enumerate(zip(seeds, splits, strict=True)):
                if method == GOING_ON:
                    fitted.append(go_on(base[at].ranker, parts, split.train, options))
                else:
                    model = make_model(method, base[at].ranker if base else None, options)
                    fitted.append(fit(model, parts, split.train, seed, options))
                values.append(measured(fitted[at].ranker, split.test, options.threads))
            paper = dict(zip(MEASURES, PAPER.get(method, ()), strict=False))
            yield _row(collection.name, method, values, paper, fitted)
            if base:
                yield _row(collection.name, f"{method}, gain", gains(values, before), {}, fitted)
            if method == "wsabie":
                base, before = fitted, values


def read(folder: Path, files: Sequence[str], size: int | None = None) -> MatchingData:
    """Return all examples, of unit length and with a constant feature more, or the first few."""
    parts = []
    for name in files:
        if not (folder / name).exists():
            raise DataError(
                f"{folder / name} does not exist; give the folder that holds it with --data."
            )
        part = read_any(folder / name)
        assert isinstance(part, MatchingData)
        parts.append(part.unit_length())
    features = sparse.vstack([part.query_rows for part in parts], format="csr")
    ones = np.ones((features.shape[0], 1), np.float32)
    whole = MatchingData(
        sparse.hstack((features, ones), format="csr"),
        None,
        sparse.vstack([part.relevance for part in parts], format="csr"),
        document_ids=parts[0].document_ids,
    )
    return whole if size is None else whole.select(np.arange(min(size, whole.n_queries)))


def fit(model: Model, parts: Parts, train: MatchingData, seed: int, options: Options) -> Fitted:
    """Train one method."""
    solver = parts.solver
    if parts.passes:
        solver += (
            f",max_steps={_max_steps(parts, train, options)},steps_per_epoch={train.relevance.nnz}"
        )
    ranker = Ranker(
        model,
        parts.loss,
        parts.regularizer,
        solver,
        kernel=options.kernel,
        threads=options.threads,
        random_state=seed,
    )
    started = time.perf_counter()
    ranker.fit(train)
    return Fitted(ranker, time.perf_counter() - started)


def go_on(base: Ranker, parts: Parts, train: MatchingData, options: Options) -> Fitted:
    """Train a copy of a trained method for longer; Adagrad restarts, as for a later stage."""
    ranker = copy.copy(base).set_params(regularizer=parts.regularizer, solver=parts.solver)
    started = time.perf_counter()
    ranker.partial_fit(train, steps=_max_steps(parts, train, options))
    return Fitted(ranker, time.perf_counter() - started)


def _max_steps(parts: Parts, train: MatchingData, options: Options) -> int:
    return int(train.relevance.nnz) * (1 if options.quick else parts.passes)


def measured(ranker: Ranker, test: MatchingData, threads: int) -> Values:
    """Return the metrics of the table."""
    metrics = {name: parse_metric(spelled) for name, spelled in MEASURES.items()}
    values = evaluate_model(ranker.model_, list(metrics.values()), test, ranker.kernel_, threads)
    return {name: mean(values[metric.spelled()]) for name, metric in metrics.items()}


def _row(
    dataset: str, method: str, values: list[Values], paper: Values, fitted: Sequence[Fitted]
) -> Row:
    first = fitted[0].ranker
    return Row(
        dataset,
        method,
        means(values),
        paper,
        float(np.mean([one.seconds for one in fitted])),
        sum(tensor.nbytes for tensor in first.model_.tensors().values()),
        first.model_.density,
        first.history_,
        values,
    )


def make_model(method: str, base: Ranker | None, options: Options) -> Model:
    """Return the model of a method; a later stage looks at what the base finds."""
    width = 8 if options.quick else DIMENSIONS
    if method == "wsabie":
        return Factored(width, biases=False, init_scale=1.0)
    if method.startswith("lasr"):
        init, scale = ("previous-stage", 0.6) if "before" in method else ("scratch", 1.0)
        folds = FOLDS if "folds" in method else 0
        return Structured(width, init_scale=scale, base=base, init=init, folds=folds)
    return Bilinear(initial="zero")
