"""Table 5 of latent structured ranking: which labels an example has, best first."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
from scipy import sparse

from ranking import Ranker
from ranking.contracts.model import MatchingModel, Model
from ranking.data.matching import Matching
from ranking.data.readers.read import read_any
from ranking.errors import DataError
from ranking.evaluation.measure import measure
from ranking.metrics.evaluate import mean
from ranking.metrics.parse import parse_metric
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
"""On ImageNet, which cannot be compared but in its order."""


class Collection(NamedTuple):
    """A data set, and what was chosen on every tenth training example, held out."""

    name: str
    train: str
    test: str
    one_vs_rest: str
    rank_svm: tuple[str, str]
    wsabie: tuple[str, str]
    lasr: tuple[str, str]


def rows(options: Options) -> Iterator[Row]:
    """Train and measure the four methods on each data set."""
    for collection in COLLECTIONS:
        train, test = (
            read(options.data / "multilabel" / path, options.quick)
            for path in (collection.train, collection.test)
        )
        yield from _methods(collection, train, test, options)
