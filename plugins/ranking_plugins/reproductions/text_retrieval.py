"""Retrieval of texts: BM25, and matrices that are learnt from it, on public collections."""

from __future__ import annotations

import csv
import gzip
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ranking import Ranker, TextCollection, TextFeatures
from ranking.data.inputs import Trainable
from ranking.data.readers.texts import Smart
from ranking.errors import DataError
from ranking.kernels.select import get_kernel
from ranking.metrics.bootstrap import bootstrap_interval
from ranking.metrics.evaluation import evaluate_model
from ranking.metrics.parse import parse_metric
from ranking_plugins.recipes.text_retrieval import BM25, NGRAMS
from ranking_plugins.reproductions import Options, Row

title = "Retrieval of texts: BM25, and matrices that are learnt from it"
notes = (
    "nDCG@10 over all documents. SciFact: official split, 809 training claims and 300 test claims; "
    "'seen' are the test claims with a relevant document that is also relevant for a training "
    "claim, 'unseen' the others. bm25-warp chooses on held-out training claims, in five folds: a "
    "fifth of the training claims, connected by their documents, such that none of their documents "
    "is seen (isolated claims), and a fifth of the others. It chooses its learning rate and the "
    "least similarity with a training query (query_similarity) below which a query is ranked by "
    "BM25: the best mean over all held-out claims for which the isolated ones are not below BM25, "
    "else BM25. The chosen setting is trained again on all training claims. Models of words have "
    "one setting, for comparison. Cranfield, MED and CISI: five folds over queries, the next fold "
    "for validation; the same choice. 'low' and 'high' are a 95 % interval over queries."
)

RATES = (0.1, 0.3)
SIMILARITIES = (0.2, 0.3, 0.4, 0.5, 0.6)
LABELS = {"cranfield": "Cranfield", "med": "MED", "cisi": "CISI"}
METRIC = parse_metric("ndcg@10")
FOLDS = 5
STEPS, FOLD_STEPS, QUICK_STEPS = 50_000, 20_000, 500

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Learner(NamedTuple):
    """What is trained from BM25: features, loss, regularizer, learning rate and model."""

    name: str
    features: str
    loss: str
    regularizer: str
    rate: float
    model: str = "bilinear"


OF_WORDS = (
    Learner("bm25-hinge, words", BM25, "hinge", "l1:strength=1e-5", 0.01),
    Learner("bm25-warp, words", BM25, "warp", "none", 0.001),
)
OF_PHRASES = Learner("bm25-warp", NGRAMS, "warp", "none", RATES[-1], "bilinear:trainable=unshared")
SHORTER = ",k1=0.9,b=0.4"
"""Added to features; the defaults of Anserini."""

UNTRAINED = {
    "cosine": "cosine",
    "lm-dirichlet": "lm-dirichlet",
    "bm25": "bm25",
    "bm25, k1=0.9, b=0.4": "bm25",
}
"""Methods by their recipe."""


class Setting(NamedTuple):
    """What validation chooses; without a similarity, it is BM25."""

    rate: float
    similarity: float | None

    def features(self) -> str:
        """Return the features of texts."""
        return BM25 if self.similarity is None else _with_similarity(self.similarity)


class HeldOut(NamedTuple):
    """Queries to learn from, queries to validate, and which of the latter are isolated.

    Isolated queries share no relevant document with those to learn from.
    """

    fit: TextCollection
    valid: TextCollection
    isolated: Bools


def rows(options: Options) -> Iterator[Row]:
    """Train and measure each method on each collection."""
    yield from options.completed("SciFact") or scifact_rows(options)
    for name, label in LABELS.items():
        yield from options.completed(label) or _folds(name, label, options)


def count_rows(options: Options) -> int:
    """Return the number of rows."""
    return len(UNTRAINED) + len(OF_WORDS) + 1 + len(LABELS) * (len(UNTRAINED) + 1)


def scifact_rows(options: Options) -> Iterator[Row]:
    """Train and measure each method on SciFact."""
    train, test = read_scifact(options.data / "ir" / "scifact")
    if options.quick:
        train, test = _select(train, np.arange(100)), _select(test, np.arange(50))
    unseen = ~has_seen(test, train)
    groups = {"": np.ones(unseen.size, np.bool_), " seen": ~unseen, " unseen": unseen}
    for name in UNTRAINED:
        values = measure(_untrained(name, train, options), test, options)
        yield _row("SciFact", name, values, groups)
    steps = QUICK_STEPS if options.quick else STEPS
    for learner in OF_WORDS:
        ranker, seconds = train_from_bm25(learner, train, steps, options)
        yield _row("SciFact", learner.name, measure(ranker, test, options), groups, seconds, ranker)
    parts = hold_out(train)[: 1 if options.quick else None]
    setting = choose(parts, steps, options)
    ranker, seconds = _with_setting(setting, train, steps, options)
    values = measure(ranker, test, options)
    row = _row("SciFact", OF_PHRASES.name, values, groups, seconds, ranker)
    yield _described(row, [setting])


def _described(row: Row, settings: Sequence[Setting]) -> Row:
    """Return the row with the chosen settings, one per fold."""
    spelled = [
        "BM25" if one.similarity is None else f"rate {one.rate:g}, similarity {one.similarity:g}"
        for one in settings
    ]
    row.texts["chosen"] = " / ".join(spelled)
    return row


def _folds(name: str, label: str, options: Options) -> Iterator[Row]:
    data = Smart().read(options.data / "ir" / name)
    judged = np.flatnonzero(np.diff(data.relevance.indptr) > 0)
    judged = judged[[bool((_grades(data, q) > 0).any()) for q in judged.tolist()]]
    part = np.random.default_rng(0).permutation(judged.size) % FOLDS
    steps = QUICK_STEPS if options.quick else FOLD_STEPS
    values: dict[str, list[Floats]] = {one: [] for one in (*UNTRAINED, OF_PHRASES.name)}
    seen: list[Bools] = []
    total, settings = 0.0, []
    for fold in range(1 if options.quick else FOLDS):
        valid_fold = (fold + 1) % FOLDS
        test, valid = (_select(data, judged[part == one]) for one in (fold, valid_fold))
        fit = _select(data, judged[(part != fold) & (part != valid_fold)])
        rest = _select(data, judged[part != fold])
        for one in UNTRAINED:
            values[one].append(measure(_untrained(one, rest, options), test, options))
        setting = choose([HeldOut(fit, valid, ~has_seen(valid, fit))], steps, options)
        ranker, seconds = _with_setting(setting, rest, steps, options)
        values[OF_PHRASES.name].append(measure(ranker, test, options))
        seen.append(has_seen(test, rest))
        total += seconds
        settings.append(setting)
    marked = np.concatenate(seen)
    groups = {"": np.ones(marked.size, np.bool_), " seen": marked, " unseen": ~marked}
    for one, results in values.items():
        trained = one == OF_PHRASES.name
        row = _row(label, one, np.concatenate(results), groups, total if trained else 0.0)
        yield _described(row, settings) if trained else row


def choose(parts: Sequence[HeldOut], steps: int, options: Options) -> Setting:
    """Return the best setting that is not below BM25 on the isolated queries, else BM25.

    Values are those of the validation queries of all parts.
    """
    base = _joined(
        [measure(_untrained("bm25", one.fit, options), one.valid, options) for one in parts]
    )
    isolated = np.concatenate([one.isolated for one in parts])
    best, reached = Setting(RATES[0], None), float(base.mean())
    for rate in RATES:
        by_part = [_by_similarity(one, rate, steps, options) for one in parts]
        for similarity in SIMILARITIES:
            values = _joined([values_of[similarity] for values_of in by_part])
            below = isolated.any() and values[isolated].mean() < base[isolated].mean()
            options.tell(
                f"rate {rate:g}, similarity {similarity:g}: validation {values.mean():.4f}, "
                f"isolated {_mean(values[isolated]):.4f} "
                f"(BM25 {base.mean():.4f}, {_mean(base[isolated]):.4f})"
            )
            if not below and values.mean() > reached:
                best, reached = Setting(rate, similarity), float(values.mean())
    return best


def _by_similarity(part: HeldOut, rate: float, steps: int, options: Options) -> dict[float, Floats]:
    """Return the values of the validation queries for each similarity.

    Training does not depend on it: a training query has all its phrases.
    """
    learner = OF_PHRASES._replace(rate=rate, features=_with_similarity(SIMILARITIES[0]))
    ranker, _ = train_from_bm25(learner, part.fit, steps, options)
    assert ranker.text_ is not None
    assert ranker.documents_ is not None
    values = {}
    for similarity in SIMILARITIES:
        text = TextFeatures.from_spec(_with_similarity(similarity))
        text.restore(ranker.text_.tensors())
        data = ranker.documents_.with_queries(list(part.valid.query_texts), text)
        data = data._replace(relevance=part.valid.relevance)
        values[similarity] = measure(ranker, data, options)
    return values


def _joined(values: Sequence[Floats]) -> Floats:
    joined: Floats = np.concatenate(values)
    return joined


def _mean(values: Floats) -> float:
    return float(values.mean()) if values.size else float("nan")


def _with_similarity(similarity: float) -> str:
    return f"{NGRAMS},query_similarity={similarity}"


def _with_setting(
    setting: Setting, data: TextCollection, steps: int, options: Options
) -> tuple[Ranker, float]:
    """Train what was chosen on all of the training data."""
    if setting.similarity is None:
        return _untrained("bm25", data, options), 0.0
    learner = OF_PHRASES._replace(rate=setting.rate, features=setting.features())
    return train_from_bm25(learner, data, steps, options)


def train_from_bm25(
    learner: Learner, data: TextCollection, steps: int, options: Options
) -> tuple[Ranker, float]:
    """Train W from the identity, which is BM25; return the ranker and processor seconds."""
    parts: dict[str, Any] = {
        "model": learner.model,
        "loss": learner.loss,
        "regularizer": learner.regularizer,
        "features": learner.features,
        "kernel": options.kernel,
        "threads": options.threads,
        "random_state": options.seed,
    }
    started = time.process_time()
    solver = f"sgd:learning_rate={learner.rate},schedule=constant,max_steps={steps}"
    ranker = Ranker(solver=solver, **parts).fit(data)
    return ranker, time.process_time() - started


def _untrained(method: str, data: TextCollection, options: Options) -> Ranker:
    settings: dict[str, Any] = {"kernel": options.kernel, "threads": options.threads}
    if "k1" in method:
        settings["features"] = BM25 + SHORTER
    return Ranker.from_recipe(UNTRAINED[method], **settings).fit(data)


def measure(ranker: Ranker, data: TextCollection | Trainable, options: Options) -> Floats:
    """Return nDCG@10 of each query."""
    kernel = get_kernel(options.kernel)
    matching = ranker.to_model_data(data)
    values = evaluate_model(ranker.model_, [METRIC], matching, kernel, options.threads)
    return values[METRIC.spelled()]


def _row(
    dataset: str,
    method: str,
    values: Floats,
    groups: dict[str, Bools],
    seconds: float = 0.0,
    ranker: Ranker | None = None,
) -> Row:
    metrics = {
        f"ndcg@10{suffix}": float(values[marked].mean())
        for suffix, marked in groups.items()
        if marked.any()
    }
    metrics["low"], metrics["high"] = bootstrap_interval(values)
    if ranker is None:
        return Row(dataset, method, metrics, {}, seconds)
    weights = ranker.model_.weights  # type: ignore[attr-defined]
    size = weights.data.nbytes + weights.indices.nbytes + weights.indptr.nbytes
    return Row(dataset, method, metrics, {}, seconds, size, ranker.model_.density)


def hold_out(data: TextCollection) -> list[HeldOut]:
    """Return five folds; each holds out isolated queries, and a fifth of the others.

    Queries and relevant documents are a graph, and the isolated queries of a fold are a fifth of
    its connected components. Over all folds, each query is isolated once.
    """
    pairs = sparse.csr_array(data.relevance > 0)
    graph = sparse.block_array([[None, pairs], [pairs.T, None]], format="csr")
    component = sparse.csgraph.connected_components(graph, directed=False)[1][: data.n_queries]
    rng = np.random.default_rng(0)
    names = np.unique(component)
    fold_of = dict(zip(names.tolist(), (rng.permutation(names.size) % FOLDS).tolist(), strict=True))
    fold = np.array([fold_of[one] for one in component.tolist()])
    parts = []
    for number in range(FOLDS):
        others = rng.permutation(np.flatnonzero(fold != number))
        random, rest = np.split(others, [others.size // FOLDS])
        fit = _select(data, np.sort(rest))
        valid = _select(data, np.concatenate((np.flatnonzero(fold == number), np.sort(random))))
        parts.append(HeldOut(fit, valid, ~has_seen(valid, fit)))
    return parts


def has_seen(data: TextCollection, train: TextCollection) -> Bools:
    """Return whether a query has a relevant document that is relevant for a training query."""
    known = np.asarray((train.relevance > 0).sum(axis=0)).ravel() > 0
    seen: Bools = np.asarray((data.relevance > 0) @ known.astype(float)) > 0
    return seen


def _grades(data: TextCollection, query: int) -> Floats:
    entries: Floats = data.relevance.data[slice(*data.relevance.indptr[query : query + 2])]
    return entries


def _select(data: TextCollection, queries: NDArray[np.int64]) -> TextCollection:
    return data.select(queries)


def read_scifact(folder: Path) -> tuple[TextCollection, TextCollection]:
    """Read the claims to learn from and the test claims: those that cite documents, as in BEIR."""
    corpus = [
        (row["doc_id"], f"{row['title']}\n{row['abstract']}")
        for row in _table(folder / "corpus_train.csv.gz")
    ]
    column = {name: at for at, (name, _) in enumerate(corpus)}
    ids, texts = zip(*corpus, strict=True)
    parts = []
    for name in ("claims_train.csv.gz", "claims_validation.csv"):
        claims: dict[str, tuple[str, set[int]]] = {}
        for row in _table(folder / name):
            cited = re.findall(r"\d+", row["cited_doc_ids"])
            if cited:
                known = claims.setdefault(row["id"], (row["claim"], set()))[1]
                known.update(column[one] for one in cited)
        entries = [
            (at, document) for at, (_, cited) in enumerate(claims.values()) for document in cited
        ]
        at, documents = np.array(sorted(entries)).T
        relevance = sparse.coo_array(
            (np.ones(at.size), (at, documents)), shape=(len(claims), len(corpus))
        )
        queries = [claim for claim, _ in claims.values()]
        parts.append(TextCollection(list(claims), queries, ids, texts, relevance.tocsr()))
    return parts[0], parts[1]


def _table(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        raise DataError(
            f"{path} does not exist; give the folder that holds ir/scifact with --data."
        )
    csv.field_size_limit(1 << 30)
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))
