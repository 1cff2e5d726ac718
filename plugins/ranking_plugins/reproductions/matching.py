"""Tables 2 and 4 of matching from clicks (Wu, Lu and Li, 2013), on collections with judgements.

No query log with clicks is public, so clicks are derived. The judgements of 40 % of the queries
are clicks, as many as the grade; and the first words of each document are a query for which it was
clicked, as titles are in a log. Parameters are selected on 20 % of the queries by NDCG@5, and the
table is of the other 40 %, each ranking all documents.
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import math
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ranking import Ranker
from ranking.data.judged_lists import JudgedLists
from ranking.data.matching_data import MatchingData
from ranking.data.readers.read import read_any
from ranking.data.text.features import TextFeatures
from ranking.data.text_collection import TextCollection
from ranking.errors import DataError
from ranking.kernels.select import get_kernel
from ranking.metrics.evaluation import evaluate, mean
from ranking.metrics.parse import parse_metric
from ranking.models.factored import Factored
from ranking_plugins.recipes.matching import lsi
from ranking_plugins.reproductions import Options, Row, mart
from ranking_plugins.reproductions.text_baselines import bm25, random_walk

Floats = NDArray[np.float64]

title = "Matching from clicks: RMLS and PLS compared with baselines"
notes = (
    "The paper's log is not public; its numbers, beside, are of that log and not of these data. "
    "Here the clicks are the judgements of 40 % of the queries, and the first 12 words of each "
    "document, as a query for which it was clicked. Parameters are the best on 20 % of the queries "
    "by NDCG@5; the table is of the other 40 %, which no method has seen, each ranking all "
    "documents. Words are those of the documents without English stop words. lsi-qd and the random "
    "walk know queries of the log only: a new one enters at the 10 that are most like it. rmls is "
    "the paper's, rmls-centered takes from M what popularity alone explains. +bm25 adds the "
    "scores, standardized for each query. mart-baseline has boosted trees (LightGBM, lambdarank; "
    "the paper has MART) over the standardized scores of bm25, random-walk, lsi-qd and lsi-dt, "
    "trained on the validation queries as in the paper; mart-pls and the others have one score "
    "more, mart-all all of them."
)

PAPER = {
    "rmls": (0.686, 0.732, 0.729),
    "pls": (0.676, 0.728, 0.736),
    "random-walk": (0.655, 0.704, 0.704),
    "random-walk+bm25": (0.671, 0.718, 0.716),
    "lsi-qd": (0.588, 0.665, 0.676),
    "lsi-qd+bm25": (0.649, 0.705, 0.706),
    "lsi-dt": (0.616, 0.675, 0.680),
    "bm25": (0.637, 0.690, 0.690),
    "mart-baseline": (0.661, 0.737, 0.779),
    "mart-pls": (0.683, 0.751, 0.792),
    "mart-rmls": (0.681, 0.750, 0.789),
    "mart-all": (0.689, 0.757, 0.797),
}
BASELINES = ("bm25", "random-walk", "lsi-qd", "lsi-dt")
METRICS = ("ndcg@1", "ndcg@3", "ndcg@5")
COLLECTIONS = ("cranfield", "cisi", "med", "scifact")
WORDS = "text:words=20000,stop_words=english"
HEAD = 12
"""Words of a document that become a query of the log."""

ENTRIES = 10
"""Most similar queries of the log that represent a new query."""

WEIGHTS = tuple(round(0.1 * tenth, 1) for tenth in range(1, 10))


class Scored(NamedTuple):
    """The result of a method: scores of the validation and test queries, and its cost."""

    valid: Floats
    test: Floats
    seconds: float
    model_bytes: int
    density: float


class Collection:
    """Texts, the queries of each part, and the derived log."""

    def __init__(self, name: str, texts: TextCollection, seed: int) -> None:
        self.name, self.texts = name, texts
        queries = np.flatnonzero(texts.n_relevant > 0)
        order = np.random.default_rng(seed).permutation(queries)
        cuts = (int(0.4 * order.size), int(0.6 * order.size))
        self.train, self.valid, self.test = np.split(order, cuts)
        self.features = TextFeatures.from_spec(f"{WORDS},sublinear=true")
        self.features.fit(texts.document_texts)
        self.documents = self.features.transform(texts.document_texts)
        self.queries = self.features.transform(texts.query_texts)

    @cached_property
    def log(self) -> MatchingData:
        """The clicks."""
        heads = [" ".join(text.split()[:HEAD]) for text in self.texts.document_texts]
        judged = self.texts.relevance[self.train].maximum(0.0)
        own = sparse.eye_array(len(heads)) * judged.max()
        names = np.array(self.features.feature_names)
        return MatchingData(
            sparse.vstack([self.queries[self.train], self.features.transform(heads)]),
            self.documents,
            sparse.csr_array(sparse.vstack([judged, own])),
            query_feature_ids=names,
            document_feature_ids=names,
        )

    def select(self, queries: NDArray[np.int64]) -> MatchingData:
        """Return some queries against all documents."""
        names = np.array(self.features.feature_names)
        return MatchingData(
            self.queries[queries],
            self.documents,
            self.texts.relevance[queries],
            query_feature_ids=names,
            document_feature_ids=names,
        )

    @cached_property
    def entries(self) -> Any:
        """The most similar queries of the log for each query, with their cosines."""
        similarity = (self.queries @ self.log.query_rows.T).toarray()
        worst = np.partition(similarity, -ENTRIES, axis=1)[:, [-ENTRIES]]
        return sparse.csr_array(np.where(similarity >= worst, similarity, 0.0))

    @cached_property
    def judged(self) -> tuple[JudgedLists, JudgedLists]:
        """The judgements of the validation and the test queries, one row per pair."""
        return self._judged(self.valid), self._judged(self.test)

    def _judged(self, queries: NDArray[np.int64]) -> JudgedLists:
        grades = np.maximum(self.texts.relevance[queries].toarray(), 0.0)
        rows = np.repeat(np.arange(queries.size), grades.shape[1])
        return JudgedLists(np.zeros((grades.size, 1), np.float32), grades.ravel(), rows)

    def evaluate_scores(self, scores: Floats, part: int) -> dict[str, float]:
        """Return the means of the metrics of scores with one row per query."""
        metrics = [parse_metric(name) for name in METRICS]
        values = evaluate(metrics, self.judged[part], scores.ravel(), get_kernel("auto"))
        return {
            name: mean(values[metric.spelled()])
            for name, metric in zip(METRICS, metrics, strict=True)
        }

    def best(self, candidates: Iterator[tuple[str, Scored]]) -> tuple[str, Scored]:
        """Return the best candidate on the validation queries (the first of equal ones)."""
        results = list(candidates)
        values = [self.evaluate_scores(scored.valid, 0)["ndcg@5"] for _, scored in results]
        return results[int(np.argmax(values))]


def rows(options: Options) -> Iterator[Row]:
    """Evaluate every method on each collection."""
    names = COLLECTIONS[:1] if options.quick else COLLECTIONS
    for name in names:
        collection = Collection(name, read(options.data / "ir" / name), options.seed)
        plain = _bm25(collection)
        results = {"bm25": plain}
        yield _row(collection, "bm25", plain)
        for method, candidates in METHODS.items():
            options.tell(f"{name}: {method}")
            selected, scored = collection.best(candidates(collection, options))
            options.tell(f"  {selected}")
            results[method] = scored
            yield _row(collection, method, scored)
            both = collection.best(_with(scored, plain))[1]
            yield _row(collection, f"{method}+bm25", both)
        yield from _mart(collection, results, options)


def _mart(collection: Collection, results: dict[str, Scored], options: Options) -> Iterator[Row]:
    """Yield boosted trees over the scores of baselines, and of matching models in addition."""
    if not mart.installed():
        options.tell(mart.MISSING)
        return
    matching = [method for method in results if method not in BASELINES]
    added = {"baseline": [], **{method: [method] for method in matching}, "all": matching}
    grades = np.maximum(collection.texts.relevance[collection.valid].toarray(), 0.0)
    for name, more in added.items():
        options.tell(f"{collection.name}: mart-{name}")
        columns = [results[method] for method in (*BASELINES, *more)]
        boosted = mart.boost(
            [_standard(scored.valid) for scored in columns],
            grades,
            [_standard(scored.test) for scored in columns],
            seed=options.seed,
            threads=options.threads,
        )
        scored = Scored(
            boosted.scores, boosted.scores, boosted.seconds, boosted.model_bytes, math.nan
        )
        yield _row(collection, f"mart-{name}", scored)


def _row(collection: Collection, method: str, scored: Scored) -> Row:
    paper = dict(zip(METRICS, PAPER.get(method, ()), strict=False))
    return Row(
        collection.name,
        method,
        collection.evaluate_scores(scored.test, 1),
        paper,
        scored.seconds,
        scored.model_bytes,
        scored.density,
    )


def read(path: Path) -> TextCollection:
    """Return a collection of texts with judgements."""
    if not path.exists():
        raise DataError(f"{path} does not exist; pass the folder that contains ir/ with --data.")
    if path.name == "scifact":
        return _scifact(path)
    data = read_any(path)
    assert isinstance(data, TextCollection)
    return data


def _scifact(path: Path) -> TextCollection:
    """Return the claims of both parts that cite an abstract as evidence, and all abstracts."""
    documents = {
        row["doc_id"]: f"{row['title']} {row['abstract']}"
        for row in _csv(path / "corpus_train.csv.gz")
    }
    claims: dict[str, str] = {}
    pairs: dict[tuple[str, str], None] = {}
    for name in ("claims_train.csv.gz", "claims_validation.csv"):
        for row in _csv(path / name):
            if row["evidence_doc_id"]:
                claims[row["id"]] = row["claim"]
                pairs[row["id"], row["evidence_doc_id"].split(".")[0]] = None
    queries, places = list(claims), {one: at for at, one in enumerate(documents)}
    at_query = {one: at for at, one in enumerate(queries)}
    entries = (
        np.ones(len(pairs)),
        ([at_query[query] for query, _ in pairs], [places[document] for _, document in pairs]),
    )
    relevance = sparse.coo_array(entries, shape=(len(queries), len(documents)))
    return TextCollection(
        queries, list(claims.values()), list(documents), list(documents.values()), relevance
    )


def _csv(path: Path) -> Iterator[dict[str, str]]:
    content = path.read_bytes()
    text = gzip.decompress(content) if path.suffix == ".gz" else content
    yield from csv.DictReader(io.StringIO(text.decode("utf-8")))


def _bm25(collection: Collection) -> Scored:
    counts = TextFeatures.from_spec(f"{WORDS},weighting=counts")
    counts.fit(collection.texts.document_texts)
    documents = counts.transform(collection.texts.document_texts)
    queries = counts.transform(collection.texts.query_texts)
    scores = bm25(queries, documents)
    size = documents.data.nbytes + documents.indices.nbytes
    density = documents.nnz / (documents.shape[0] * documents.shape[1])
    return Scored(scores[collection.valid], scores[collection.test], 0.0, size, density)


def _with(scored: Scored, plain: Scored) -> Iterator[tuple[str, Scored]]:
    """Yield sums of the scores of a method and of BM25, by the weight of the method."""
    for weight in WEIGHTS:
        valid, test = (
            weight * _standard(one) + (1.0 - weight) * _standard(other)
            for one, other in ((scored.valid, plain.valid), (scored.test, plain.test))
        )
        yield f"weight {weight}", scored._replace(valid=valid, test=test)


def _standard(scores: Floats) -> Floats:
    deviation = scores.std(axis=1, keepdims=True)
    centered = scores - scores.mean(axis=1, keepdims=True)
    standard: Floats = centered / np.where(deviation > 0.0, deviation, 1.0)
    return standard


def _random_walk(collection: Collection, options: Options) -> Iterator[tuple[str, Scored]]:
    clicks = collection.log.relevance
    size = clicks.data.nbytes + clicks.indices.nbytes
    for steps in (2, 3, 5, 10):
        scores = [
            random_walk(clicks, collection.entries[part], steps)
            for part in (collection.valid, collection.test)
        ]
        density = clicks.nnz / (clicks.shape[0] * clicks.shape[1])
        yield f"{steps} steps", Scored(scores[0], scores[1], 0.0, size, density)


def _train(data: MatchingData, parts: tuple[str, str, str, str], options: Options) -> Any:
    ranker = Ranker(
        *parts, kernel=options.kernel, threads=options.threads, random_state=options.seed
    )
    begin = time.perf_counter()
    ranker.fit(data)
    return ranker, time.perf_counter() - begin


def _dimensions(options: Options) -> tuple[int, ...]:
    return (50,) if options.quick else (50, 100, 200)


PLS_SOLVER = "alternating:max_epochs=60,tolerance=1e-5"


def _pls(collection: Collection, options: Options) -> Iterator[tuple[str, Scored]]:
    for d in _dimensions(options):
        parts = (
            f"factored:dimensions={d},biases=false,init_scale=1",
            "alignment",
            "orthonormal:scale=1",
            PLS_SOLVER,
        )
        yield f"{d} dimensions", _words(collection, parts, options)


def _rmls(
    collection: Collection, options: Options, center: str = "false"
) -> Iterator[tuple[str, Scored]]:
    strengths, rounds = ((1.0,), (1,)) if options.quick else ((0.25, 0.5, 1.0, 2.0), (1, 2, 4))
    for strength, epochs in itertools.product(strengths, rounds):
        parts = (
            "sparse-factored:dimensions=500,init_scale=1",
            "alignment",
            f"l1l2-row:strength={strength}",
            f"alternating:max_epochs={epochs},tolerance=0,center={center}",
        )
        yield f"strength {strength}, {epochs} rounds", _words(collection, parts, options)


def _rmls_centered(collection: Collection, options: Options) -> Iterator[tuple[str, Scored]]:
    return _rmls(collection, options, "true")


def _words(collection: Collection, parts: tuple[str, str, str, str], options: Options) -> Scored:
    """Train on words of both sides, and score new queries by their words."""
    ranker, seconds = _train(collection.log, parts, options)
    size = sum(
        tensor.nbytes
        for name, tensor in ranker.model_.tensors().items()
        if name.startswith(("U", "V"))
    )
    valid, test = (
        ranker.predict(collection.select(part)) for part in (collection.valid, collection.test)
    )
    return Scored(valid, test, seconds, size, ranker.model_.density)


def _lsi_dt(collection: Collection, options: Options) -> Iterator[tuple[str, Scored]]:
    """Decompose documents by words; a query is a short document."""
    words = MatchingData(None, None, collection.documents)
    for d in _dimensions(options):
        ranker, seconds = _train(words, _lsi_parts(d), options)
        U, V = _factors(ranker, d)
        valid, test = (
            (collection.queries[part] @ V) @ U.T for part in (collection.valid, collection.test)
        )
        yield f"{d} dimensions", Scored(valid, test, seconds, 4 * (U.size + V.size), 1.0)


def _lsi_qd(collection: Collection, options: Options) -> Iterator[tuple[str, Scored]]:
    """Decompose queries by documents; a new query is the sum of its most similar ones."""
    log = collection.log
    clicks = MatchingData(None, None, log.relevance)
    for d in _dimensions(options):
        ranker, seconds = _train(clicks, _lsi_parts(d), options)
        U, V = _factors(ranker, d)
        valid, test = (
            (collection.entries[part] @ U) @ V.T for part in (collection.valid, collection.test)
        )
        yield f"{d} dimensions", Scored(valid, test, seconds, 4 * (U.size + V.size), 1.0)


def _lsi_parts(d: int) -> tuple[str, str, str, str]:
    """Return the parts of recipe lsi, with so many dimensions."""
    parts = lsi().parts
    model = f"factored:dimensions={d},biases=false,init_scale=1"
    return model, parts["loss"], parts["regularizer"], parts["solver"]


def _factors(ranker: Ranker, d: int) -> tuple[Floats, Floats]:
    """Return U and V S of the decomposition U S V'."""
    model = cast(Factored, ranker.model_)
    return model.U[:, :d].astype(np.float64), model.V[:, :d].astype(np.float64)


Tried = Callable[[Collection, Options], Iterator[tuple[str, Scored]]]
METHODS: dict[str, Tried] = {
    "random-walk": _random_walk,
    "lsi-qd": _lsi_qd,
    "lsi-dt": _lsi_dt,
    "pls": _pls,
    "rmls": _rmls,
    "rmls-centered": _rmls_centered,
}
