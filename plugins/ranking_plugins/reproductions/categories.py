"""Figures 16, 17 and 18 of the thesis on Domination Rank (Stevens, 2010): topics of news.

Each topic ranks all documents; those that have it come first. One weight vector a topic, for
PAMIR, for Domination Rank with feature induction, and for Domination Rank over all features.
"""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ranking import MatchingData, Ranker
from ranking.data.text.features import TextFeatures
from ranking.errors import DataError
from ranking.kernels.select import get_kernel
from ranking.metrics.evaluation import evaluate_model, mean
from ranking.metrics.parse import parse_metric
from ranking.models.bilinear import Bilinear
from ranking.training.wrappers.per_query import PerQuery
from ranking_plugins.recipes.domination import INDUCTION_STRENGTHS, domination_induction
from ranking_plugins.reproductions import Chart, Options, Row, topic_details
from ranking_plugins.reproductions.topic_details import by_topic, one_topic

title = "Topics as rankings: PAMIR and Domination Rank with few weights"
notes = (
    "Reuters-21578: documents with a topic and a body, trained up to 7 April 1987 and tested on "
    "the later ones, a quarter of the training part held out for validation. Topics with at least "
    "10 documents to train on and 2 each to validate and to test. Features are Singhal's, of words "
    "that occur twice. The aggressiveness and the strengths are chosen for all topics together, "
    "by average precision on the validation part. Errors are means over topics. Seconds are "
    "processor time of the training that was chosen; 'valid map' is its average precision on the "
    "validation part, 'chosen' its aggressiveness or strength. The paper's numbers are those of "
    "RCV1, which is another, larger collection. Bigrams are pairs of neighbouring words that occur "
    "twice, with their counts, scaled to unit length. 'By topic' has the average precision on the "
    "test part. The single topic is the one in the middle by average precision of feature "
    "induction on the validation part; its values are those of the validation part, and its "
    "history has one row per epoch."
)

FEATURES = "text:words=none,min_count=2,weighting=singhal"
BIGRAMS = "text:words=none,ngrams=2,min_count=2,weighting=counts,unit_length=true"
LAST_OF_TRAINING = datetime(1987, 4, 7)
MEASURES = {
    "map": "map",
    "p@10": "p@10",
    "domination error": "domination-error",
    "all-pairs error": "all-pairs-error",
}
INDUCTION = "domination-induction"
PAPER = {
    "pamir": (0.705, 0.915, 0.9738, 0.0137, 0.2189),
    INDUCTION: (0.670, 0.918, 0.9757, 0.0243, 0.0018),
}
PAPER_BIGRAMS = {"pamir": (0.4013, 0.3505), INDUCTION: (0.4832, 0.7735)}
LEAST = (10, 2, 2)
"""Documents that a topic must have to train, to validate and to test."""

Ints = NDArray[np.int64]
Fit = Callable[[float, MatchingData], Bilinear]


class Parts(NamedTuple):
    """The same topics, other documents."""

    train: MatchingData
    valid: MatchingData
    test: MatchingData


def rows(options: Options) -> Iterator[Row]:
    """Train and measure each method; then single topics."""
    folder = options.data / "text" / "reuters21578"
    parts = read(folder, options.quick, options.seed)
    precisions, valid_precision = {}, np.zeros(0)
    for name, (fit, grid) in methods(options).items():
        values = grid[1:2] if options.quick else grid
        selected = _best(name, fit, values, parts, options)
        paper = dict(zip((*MEASURES, "density"), PAPER.get(name, ()), strict=False))
        precisions[name] = _values(selected.model, parts.test, options)["map"]
        if name == INDUCTION:
            valid_precision = _values(selected.model, parts.valid, options)["map"]
        yield _row(f"Reuters-21578, {parts.train.n_queries} topics", name, selected, paper)
    pairs = read(folder, options.quick, options.seed, BIGRAMS)
    for name, published in PAPER_BIGRAMS.items():
        fit, grid = methods(options)[name]
        values = grid[1:2] if options.quick else grid
        selected = _best(f"bigrams, {name}", fit, values, pairs, options)
        yield _row(
            "Reuters-21578, bigrams", name, selected, dict(zip(MEASURES, published, strict=False))
        )
    yield from by_topic(parts.train, precisions, tuple(PAPER))
    yield from one_topic(parts.train, parts.valid, valid_precision, options)


def methods(options: Options) -> dict[str, tuple[Fit, Sequence[float]]]:
    """Return the training of each method, and the values to choose from."""
    max_steps = 20_000 if options.quick else 1_000_000
    induction = domination_induction().parts["solver"]

    def pamir(aggressiveness: float, data: MatchingData) -> Bilinear:
        solver = f"passive-aggressive:max_steps={max_steps},aggressiveness={aggressiveness}"
        ranker = _ranker(options, "bilinear:initial=zero", "hinge", "none", solver)
        model = ranker.fit(data).model_
        assert isinstance(model, Bilinear)
        return model

    def domination(penalty: str, solver: str) -> Fit:
        def fit(strength: float, data: MatchingData) -> Bilinear:
            parts = ("linear", "domination", f"{penalty}:strength={strength}", solver)
            return _per_query(_ranker(options, *parts), data)

        return fit

    return {
        "pamir": (pamir, (0.001, 0.01, 0.1)),
        INDUCTION: (domination("l1", induction), INDUCTION_STRENGTHS),
        "domination-induction, l2": (domination("l2", induction), (0.01, 0.001)),
        "domination, all features": (domination("l2", "coordinate"), (0.01, 0.001)),
    }


def _per_query(ranker: Ranker, data: MatchingData) -> Bilinear:
    model = PerQuery(ranker.plan()).fit(data).model
    assert isinstance(model, Bilinear)
    return model


def _ranker(options: Options, model: str, loss: str, regularizer: str, solver: str) -> Ranker:
    return Ranker(
        model,
        loss,
        regularizer,
        solver,
        kernel=options.kernel,
        threads=options.threads,
        random_state=options.seed,
    )


class Chosen(NamedTuple):
    """The model that is best on the validation part, and what it was chosen from."""

    model: Bilinear
    value: float
    seconds: float
    valid: float
    test: dict[str, float]


def _best(
    name: str, fit: Fit, strengths: Sequence[float], parts: Parts, options: Options
) -> Chosen:
    """Return the model of the value that is best on the validation part."""
    fits: list[tuple[float, float, float, Bilinear]] = []
    for value in strengths:
        options.tell(f"{name}: {value:g}")
        started = time.process_time()
        model = fit(value, parts.train)
        seconds = time.process_time() - started
        fits.append((_measured(model, parts.valid, options)["map"], value, seconds, model))
    reached, strength, seconds, model = max(fits, key=lambda one: one[0])
    return Chosen(model, strength, seconds, reached, _measured(model, parts.test, options))


def _row(dataset: str, name: str, selected: Chosen, paper: dict[str, float]) -> Row:
    weights = selected.model.weights
    return Row(
        dataset,
        name,
        {**selected.test, "valid map": selected.valid, "chosen": selected.value},
        paper,
        selected.seconds,
        weights.data.nbytes + weights.indices.nbytes + weights.indptr.nbytes,
        selected.model.density,
    )


def _measured(model: Bilinear, data: MatchingData, options: Options) -> dict[str, float]:
    return {name: mean(column) for name, column in _values(model, data, options).items()}


def _values(
    model: Bilinear, data: MatchingData, options: Options
) -> dict[str, NDArray[np.float64]]:
    """Return the measures of each topic."""
    metrics = {name: parse_metric(spelled) for name, spelled in MEASURES.items()}
    kernel = get_kernel(options.kernel)
    values = evaluate_model(model, list(metrics.values()), data, kernel, options.threads)
    return {name: values[metric.spelled()] for name, metric in metrics.items()}


def charts(rows: Sequence[Row]) -> list[Chart]:
    """Return the plots of figures 17 and 18."""
    return list(topic_details.charts(rows))


def read(folder: Path, quick: bool, seed: int, spec: str = FEATURES) -> Parts:
    """Return the topics and their documents; the few most frequent topics if that is enough."""
    files = sorted(folder.glob("*.json*"))
    if not files:
        raise DataError(
            f"{folder} has no .json or .json.gz files; give the folder that holds "
            "text/reuters21578 with --data."
        )
    documents = [one for path in files for one in _documents(path)]
    early = np.array([_date(one) <= LAST_OF_TRAINING for one in documents])
    shuffled = np.random.default_rng(seed).permutation(np.flatnonzero(early))
    held_out = shuffled.size // 4
    places = (np.sort(shuffled[held_out:]), np.sort(shuffled[:held_out]), np.flatnonzero(~early))
    topics = sorted({topic for one in documents for topic in one["topics"]})
    has = np.array([[topic in one["topics"] for one in documents] for topic in topics], float)
    counts = np.array([has[:, places_of_part].sum(axis=1) for places_of_part in places])
    classes = np.flatnonzero((counts >= np.array(LEAST)[:, None]).all(axis=0))
    if quick:
        classes = np.sort(classes[np.argsort(-counts[0, classes])[:4]])
    texts = [f"{one.get('title') or ''} {one['body']}" for one in documents]
    features = TextFeatures.from_spec(spec).fit([texts[at] for at in places[0].tolist()])

    def part(selection: Ints) -> MatchingData:
        return MatchingData(
            None,
            features.transform([texts[at] for at in selection.tolist()]),
            sp.csr_array(has[np.ix_(classes, selection)]),
            query_ids=[topics[at] for at in classes.tolist()],
            document_feature_ids=np.array(features.feature_names),
        )

    return Parts(*(part(places_of_part) for places_of_part in places))


def _documents(path: Path) -> list[dict[str, Any]]:
    """Return the documents of a file that have a topic and a body."""
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [one for one in json.loads(text) if one.get("topics") and one.get("body")]


def _date(document: dict[str, Any]) -> datetime:
    return datetime.strptime(document["date"].strip()[:11].strip(), "%d-%b-%Y")
