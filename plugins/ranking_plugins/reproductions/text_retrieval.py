"""Retrieval of texts: BM25, and matrices that are learnt from it, on public collections."""

from __future__ import annotations

import csv
import gzip
import itertools
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ranking import Ranker, TextCollection
from ranking.data.inputs import Trainable
from ranking.data.readers.texts import Smart
from ranking.errors import DataError
from ranking.kernels.select import get_kernel
from ranking.metrics.bootstrap import bootstrap_interval
from ranking.metrics.evaluation import evaluate_model
from ranking.metrics.parse import parse_metric
from ranking.models.bilinear import Bilinear
from ranking_plugins.recipes.text_retrieval import BM25, PHRASES
from ranking_plugins.reproductions import Options, Row

title = "Retrieval of texts: BM25, and matrices that are learnt from it"
notes = (
    "nDCG@10 over all documents. SciFact: official split, 809 training claims and 300 test claims; "
    "'seen' are the test claims with a relevant document that is also relevant for a training "
    "claim, 'unseen' the others. A quarter of the training claims (connected by their documents) "
    "are held out, so that none of their documents is seen, and a fifth of the others. On these "
    "the learning rate, k1 and b, and the share are chosen: the share of the change of W that is "
    "applied, "
    "W = I + share (trained - I), so that 0 is BM25. The best mean over all of them is taken for "
    "which the unseen ones are not below BM25. The chosen setting is trained again on all training "
    "claims. Cranfield, MED and CISI: five folds over queries, the next fold for validation; the "
    "same choice. 'low' and 'high' are a 95 % interval over queries."
)

RATES = (0.03, 0.1, 0.3)
SHARES = (0.1, 0.25, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
LABELS = {"cranfield": "Cranfield", "med": "MED", "cisi": "CISI"}
METRIC = parse_metric("ndcg@10")
FOLDS = 5
STEPS, FOLD_STEPS, QUICK_STEPS = 50_000, 20_000, 500

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Learner(NamedTuple):
    """What is trained from BM25: features, loss, regularizer, rates and model."""

    name: str
    features: Sequence[str]
    loss: str
    regularizer: str
    rates: Sequence[float]
    model: str = "bilinear"


SHORTER = ",k1=0.9,b=0.4"
"""Added to features; the defaults of Anserini. Validation chooses between them and ours."""

LEARNERS = (
    Learner("bm25-hinge, words", (BM25,), "hinge", "l1:strength=1e-5", (0.01,)),
    Learner("bm25-warp, words", (BM25,), "warp", "none", (0.001,)),
    Learner(
        "bm25-warp",
        (PHRASES, PHRASES + SHORTER),
        "warp",
        "none",
        RATES,
        "bilinear:trainable=unshared",
    ),
)
UNTRAINED = {
    "cosine": "cosine",
    "lm-dirichlet": "lm-dirichlet",
    "bm25": "bm25",
    "bm25, k1=0.9, b=0.4": "bm25",
}
"""Methods by their recipe."""


class Trained(NamedTuple):
    """A trained ranker, its W and the W that it started from."""

    ranker: Ranker
    start: sparse.csr_array
    end: sparse.csr_array
    seconds: float

    def at(self, share: float) -> Ranker:
        """Return the ranker with a share of the change of W."""
        model = self.ranker.model_
        assert isinstance(model, Bilinear)
        mixed = sparse.csr_array(self.start + share * (self.end - self.start))
        model.weights = mixed.astype(model.dtype)
        return self.ranker


class Setting(NamedTuple):
    """What validation chose."""

    rate: float
    share: float
    features: str


def rows(options: Options) -> Iterator[Row]:
    """Train and measure each method on each collection."""
    yield from options.completed("SciFact") or scifact_rows(options)
    for name, label in LABELS.items():
        yield from options.completed(label) or _folds(name, label, options)


def count_rows(options: Options) -> int:
    """Return the number of rows, if validation stays at no share of 1."""
    return len(UNTRAINED) + 2 * len(LEARNERS) + len(LABELS) * (len(UNTRAINED) + 1)


def scifact_rows(options: Options) -> Iterator[Row]:
    """Train and measure each method on SciFact."""
    train, test = read_scifact(options.data / "ir" / "scifact")
    if options.quick:
        train, test = _select(train, np.arange(100)), _select(test, np.arange(50))
    unseen = ~_has_seen(test, train)
    groups = {"": np.ones(unseen.size, np.bool_), " seen": ~unseen, " unseen": unseen}
    bm25 = None
    for name in UNTRAINED:
        ranker = _untrained(name, train, options)
        values = measure(ranker, test, options)
        bm25 = values if name == "bm25" else bm25
        yield _row("SciFact", name, values, groups)
    steps = QUICK_STEPS if options.quick else STEPS
    fit, valid, isolated = hold_out(train)
    base = measure(_untrained("bm25", fit, options), valid, options)
    for learner in LEARNERS:
        setting = _choose(learner, fit, valid, (base, isolated), steps, options)
        trained = train_from_bm25(learner, train, setting, steps, options)
        for share in dict.fromkeys((setting.share, 1.0)):
            ranker = trained.at(share)
            name = learner.name if share == setting.share else f"{learner.name}, share 1"
            values = measure(ranker, test, options)
            row = _row("SciFact", name, values, groups, trained.seconds, ranker)
            row.metrics.update({"rate": setting.rate, "share": share})
            row.texts["features"] = setting.features
            yield row


def _folds(name: str, label: str, options: Options) -> Iterator[Row]:
    data = Smart().read(options.data / "ir" / name)
    judged = np.flatnonzero(np.diff(data.relevance.indptr) > 0)
    judged = judged[[bool((_grades(data, q) > 0).any()) for q in judged.tolist()]]
    part = np.random.default_rng(0).permutation(judged.size) % FOLDS
    steps = QUICK_STEPS if options.quick else FOLD_STEPS
    learner = LEARNERS[-1]
    values: dict[str, list[Floats]] = {one: [] for one in (*UNTRAINED, learner.name)}
    seen: list[Bools] = []
    seconds, settings = 0.0, []
    for fold in range(1 if options.quick else FOLDS):
        valid_fold = (fold + 1) % FOLDS
        test, valid = (_select(data, judged[part == one]) for one in (fold, valid_fold))
        fit = _select(data, judged[(part != fold) & (part != valid_fold)])
        rest = _select(data, judged[part != fold])
        for one in UNTRAINED:
            values[one].append(measure(_untrained(one, rest, options), test, options))
        base = measure(_untrained("bm25", fit, options), valid, options)
        isolated = ~_has_seen(valid, fit)
        setting = _choose(learner, fit, valid, (base, isolated), steps, options)
        trained = train_from_bm25(learner, rest, setting, steps, options)
        values[learner.name].append(measure(trained.at(setting.share), test, options))
        seen.append(_has_seen(test, rest))
        seconds += trained.seconds
        settings.append(setting)
    marked = np.concatenate(seen)
    groups = {"": np.ones(marked.size, np.bool_), " seen": marked, " unseen": ~marked}
    for one, results in values.items():
        row = _row(label, one, np.concatenate(results), groups)
        if one == learner.name:
            rate, share = np.mean([one[:2] for one in settings], axis=0)
            row.metrics.update({"rate": float(rate), "share": float(share)})
            row.texts["features"] = " / ".join(dict.fromkeys(one.features for one in settings))
        yield row


def _choose(
    learner: Learner,
    fit: TextCollection,
    valid: TextCollection,
    reference: tuple[Floats, Bools],
    steps: int,
    options: Options,
) -> Setting:
    """Return the best setting that is not below BM25 on the isolated queries.

    Parameters
    ----------
    reference : pair of arrays
        The values of BM25 on the validation queries, and which of them are isolated.
    """
    base, isolated = reference
    best = Setting(learner.rates[0], 0.0, learner.features[0])
    reached = float(base.mean())
    for features, rate in itertools.product(learner.features, learner.rates):
        trained = train_from_bm25(learner, fit, Setting(rate, 1.0, features), steps, options)
        matching = trained.ranker.to_model_data(valid)
        for share in SHARES:
            values = measure(trained.at(share), matching, options)
            unseen_mean, unseen_reference = _mean(values[isolated]), _mean(base[isolated])
            safe = not isolated.any() or unseen_mean >= unseen_reference
            options.tell(
                f"{learner.name}: {features}, rate {rate:g}, share {share:g}: "
                f"validation {values.mean():.4f}, "
                f"isolated {unseen_mean:.4f} (BM25 {base.mean():.4f}, {unseen_reference:.4f})"
            )
            if safe and values.mean() > reached:
                best, reached = Setting(rate, share, features), float(values.mean())
    return best


def _mean(values: Floats) -> float:
    return float(values.mean()) if values.size else float("nan")


def train_from_bm25(
    learner: Learner, data: TextCollection, setting: Setting, steps: int, options: Options
) -> Trained:
    """Train W from the identity, which is BM25."""
    parts: dict[str, Any] = {
        "model": learner.model,
        "loss": learner.loss,
        "regularizer": learner.regularizer,
        "features": setting.features,
        "kernel": options.kernel,
        "threads": options.threads,
        "random_state": options.seed,
    }
    started = time.process_time()
    solver = f"sgd:learning_rate={setting.rate},schedule=constant,max_steps={steps}"
    ranker = Ranker(solver=solver, **parts).fit(data)
    seconds = time.process_time() - started
    model = ranker.model_
    assert isinstance(model, Bilinear)
    end = model.weights
    # Terms come first on both sides; what follows is not shared.
    assert ranker.text_ is not None
    terms = np.arange(ranker.text_.n_features)
    start = sparse.coo_array((np.ones(terms.size), (terms, terms)), shape=end.shape).tocsr()
    return Trained(ranker, start, end, seconds)


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


def hold_out(data: TextCollection) -> tuple[TextCollection, TextCollection, Bools]:
    """Return queries to learn from and to validate, and which of the latter are isolated.

    Isolated queries share no relevant document with those to learn from: they are a quarter of the
    connected components of queries and relevant documents. Of the other queries a fifth is held
    out.
    """
    pairs = sparse.csr_array(data.relevance > 0)
    graph = sparse.block_array([[None, pairs], [pairs.T, None]], format="csr")
    component = sparse.csgraph.connected_components(graph, directed=False)[1][: data.n_queries]
    rng = np.random.default_rng(0)
    names = rng.permutation(np.unique(component))
    isolated = np.isin(component, names[: names.size // 4])
    others = rng.permutation(np.flatnonzero(~isolated))
    validation, fit = np.sort(others[: others.size // 5]), np.sort(others[others.size // 5 :])
    valid_queries = np.concatenate((np.flatnonzero(isolated), validation))
    train, valid = _select(data, fit), _select(data, valid_queries)
    return train, valid, ~_has_seen(valid, train)


def _has_seen(data: TextCollection, train: TextCollection) -> Bools:
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
