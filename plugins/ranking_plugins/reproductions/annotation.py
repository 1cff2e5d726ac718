"""Table 5 of latent structured ranking: the labels of an example, best first."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
from scipy import sparse

from ranking import Ranker
from ranking.contracts.model import Model
from ranking.data.matching import Matching
from ranking.data.readers.read import read_any
from ranking.errors import DataError
from ranking.evaluation.measure import measure
from ranking.metrics.evaluate import mean
from ranking.metrics.parse import parse_metric
from ranking.models.bilinear import Bilinear
from ranking.models.factored import Factored
from ranking.models.structured import Structured
from ranking_plugins.reproductions import Options, Row

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
PAIRS = "sgd:draw=pairs"


class Parts(NamedTuple):
    """What trains one method; draws are passes over the labels that the examples have."""

    loss: str
    regularizer: str
    solver: str
    passes: int = 0


class Collection(NamedTuple):
    """A data set, and what was chosen on every tenth training example, held out."""

    name: str
    train: str
    test: str
    parts: dict[str, Parts]


DIMENSIONS = 100

COLLECTIONS = (
    Collection(
        "Corel 5K",
        "corel5k/Corel5k-train-sparse.arff.gz",
        "corel5k/Corel5k-test-sparse.arff",
        {
            "one-vs-rest": Parts("logistic", "l2:strength=0.0001", "one-vs-rest"),
            "rank-svm": Parts("hinge", "l2:strength=1e-7", f"{PAIRS},rate=0.1,schedule=fixed", 30),
            "wsabie": Parts(WARP, "max-norm:limit=1.5", f"{PAIRS},rate=0.05", 30),
            "lasr t=1": Parts(WARP, "max-norm:limit=1.25", f"{PAIRS},rate=0.02", 30),
        },
    ),
    Collection(
        "Delicious",
        "delicious/delicious-train.arff.gz",
        "delicious/delicious-test.arff.gz",
        {
            "one-vs-rest": Parts("logistic", "l2:strength=0.0001", "one-vs-rest"),
            "rank-svm": Parts("hinge", "l2:strength=1e-7", f"{PAIRS},rate=0.1,schedule=fixed", 8),
            "wsabie": Parts(WARP, "max-norm:limit=4", f"{PAIRS},rate=0.05", 8),
            "lasr t=1": Parts(WARP, "max-norm:limit=3", f"{PAIRS},rate=0.05", 8),
        },
    ),
)


def rows(options: Options) -> Iterator[Row]:
    """Train and measure the four methods on each data set."""
    for collection in COLLECTIONS:
        train, test = (
            read(options.data / "multilabel" / path, 300 if options.quick else None)
            for path in (collection.train, collection.test)
        )
        base: Factored | None = None
        for method, parts in collection.parts.items():
            options.tell(f"{collection.name}: {method}")
            ranker, row = run(collection.name, method, parts, base, train, test, options)
            if method == "wsabie":
                base = cast(Factored, ranker.model_)
            yield row


def read(path: Path, size: int | None = None) -> Matching:
    """Return examples of unit length with a constant feature more, or the first so many."""
    if not path.exists():
        raise DataError(f"{path} does not exist; give the folder that holds it with --data.")
    data = read_any(path)
    assert isinstance(data, Matching)
    ones = np.ones((data.n_queries, 1), np.float32)
    features = sparse.hstack((data.unit_length().query_rows, ones), format="csr")
    whole = Matching(features, None, data.relevance, document_ids=data.document_ids)
    return whole if size is None else whole.select(np.arange(min(size, whole.n_queries)))


def run(
    dataset: str,
    method: str,
    parts: Parts,
    base: Factored | None,
    train: Matching,
    test: Matching,
    options: Options,
) -> tuple[Ranker, Row]:
    """Train and measure one method."""
    solver = parts.solver
    if parts.passes:
        draws = train.relevance.nnz * (1 if options.quick else parts.passes)
        solver += f",draws={draws},epoch={train.relevance.nnz}"
    ranker = Ranker(
        _model(method, base, options),
        parts.loss,
        parts.regularizer,
        solver,
        kernel=options.kernel,
        threads=options.threads,
        seed=options.seed,
    )
    started = time.perf_counter()
    ranker.fit(train)
    seconds = time.perf_counter() - started
    metrics = {name: parse_metric(spelled) for name, spelled in MEASURES.items()}
    values = measure(ranker.model_, list(metrics.values()), test, ranker.kernel_, options.threads)
    row = Row(
        dataset,
        method,
        {name: mean(values[metric.spelled()]) for name, metric in metrics.items()},
        dict(zip(MEASURES, PAPER[method], strict=True)),
        seconds,
        sum(tensor.nbytes for tensor in ranker.model_.tensors().values()),
        ranker.model_.density,
        ranker.history_,
    )
    return ranker, row


def _model(method: str, base: Factored | None, options: Options) -> Model:
    width = 8 if options.quick else DIMENSIONS
    if method == "wsabie":
        return Factored(width, biases=False)
    if method == "lasr t=1":
        return Structured(width, stages=1, base=base)
    return Bilinear(initial="zero")
