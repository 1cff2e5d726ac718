"""Tables 1 to 7 and figure 2 of matching from clicks (Wu, Lu and Li, 2013), on simulated logs.

The protocol is the paper's: all of the log is learnt from, queries and documents are described by
words and by clicks, the judged documents of the log's queries are re-ranked, half of the queries
choose the parameters (by NDCG@5) and the other half is the test.
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse, stats

from ranking import Ranker
from ranking.data.matching_data import MatchingData
from ranking.data.readers.read import read_any
from ranking.data.text_collection import TextCollection
from ranking.errors import DataError
from ranking_plugins.recipes.matching import lsi
from ranking_plugins.reproductions import Arrays, Chart, Options, Progress, Row, mart
from ranking_plugins.reproductions.matching_paper import (
    HALF_YEAR,
    HALF_YEAR_BINS,
    STATISTICS,
    WEEK,
    WEEK_BINS,
    Triple,
)
from ranking_plugins.reproductions.seeds import half_width
from ranking_plugins.reproductions.simulated_log import METRICS, Floats, Log

title = "Matching from clicks: RMLS and PLS compared with baselines"
notes = (
    "The paper's logs are not public: its numbers, in the columns 'paper', are of other data. The "
    "clicks here are simulated from judgements: BM25 shows ten documents for each query, a user "
    "looks at position i with probability 1/i and clicks with probability 0.05 + 0.9 (2^g - 1) / "
    "(2^G - 1) of the grade g; a query is asked 1 to 1,000 times in the week, and 26 times as "
    "often in the half year. Queries without a relevant document among the 20 are left out. As in "
    "the paper, queries and documents are described by words (tf-idf) and by their clicks, all of "
    "the log is learnt from, the judged documents of each query of the log (the 20 best of BM25) "
    "are re-ranked, half of "
    "the queries choose parameters by NDCG@5, and the other half is the test. Values are means "
    "over seeds of the clicks and of the halves; ± is half of Student's 95 % interval of the mean. "
    "p is that of a paired t-test of NDCG@5 against pls (the week) or rmls (the half year), over "
    "the test queries of all seeds. rmls is the paper's, rmls-centered takes from M what "
    "popularity alone explains; +bm25 adds scores, standardized for each query; mart-... are "
    "boosted trees (LightGBM, lambdarank; the paper has MART) over the scores of all baselines "
    "and of the matching model named, trained on the validation queries. ssi learns from documents "
    "down to the lowest clicked one (Joachims, 2002). Methods that the paper could not run on half "
    "a year are left out there, as in the paper."
)

COLLECTIONS = ("cranfield", "med", "cisi")
SEEDS = 3
LOGS = {"week": 1, "half year": 26}
BASELINES = ("bm25", "random-walk", "lsi-qd", "lsi-dt", "svdfeature", "bltm", "ssi")
COMBINED = ("random-walk", "lsi-qd")
WEIGHTS = tuple(round(0.1 * tenth, 1) for tenth in range(1, 10))
PLS_SOLVER = "alternating:max_epochs=60,tolerance=1e-5"


class Scored(NamedTuple):
    """Scores of the judged documents of all queries, and the cost of a model."""

    scores: Floats
    seconds: float
    model_bytes: float
    density: float


Candidates = Iterator[tuple[str, Scored]]


def count(options: Options) -> int:
    """Return the number of models to choose, over all logs."""
    seeds, names = _extent(options)
    per_log = [len(_methods(log)) for log in LOGS]
    return len(names) * seeds * sum(per_log) + 1


def _extent(options: Options) -> tuple[int, tuple[str, ...]]:
    return (1, COLLECTIONS[:1]) if options.quick else (SEEDS, COLLECTIONS)


def rows(options: Options) -> Iterator[Row]:
    """Evaluate every method on each log."""
    seeds, names = _extent(options)
    progress = Progress(count(options), options.tell)
    if not mart.installed():
        options.tell(mart.MISSING)
    for name in names:
        texts = read(options.data / "ir" / name)
        for log_name, weeks in LOGS.items():
            logs = [Log(texts, options.seed + seed, weeks) for seed in range(seeds)]
            runs = [_run(name, log_name, log, options, progress) for log in logs]
            yield from _table(f"{name}, {log_name}", log_name, logs, runs)
    yield from _timing(options)
    progress.step("timing")


def _methods(log_name: str) -> list[str]:
    if log_name == "week":
        return [method for method in METHODS if method != "pls (words)"]
    return ["bm25", "svdfeature", "bltm", "pls (words)", "rmls", "rmls-centered"]


def _run(
    name: str, log_name: str, log: Log, options: Options, progress: Progress
) -> dict[str, Scored]:
    """Choose and score every method on one log."""
    results: dict[str, Scored] = {}
    for method in _methods(log_name):
        key = f"{name} {log_name} {log.seed} {method}"
        known = (
            options.scratch is not None
            and (options.scratch / f"{key.replace(' ', '-')}.json").exists()
        )

        def compute(method: str = method) -> Arrays:
            label, scored = _best(log, METHODS[method](log, options))
            options.tell(f"  {method}: {label}")
            return {"scores": scored.scores, "cost": np.array(scored[1:])}

        stored = options.remember(key, compute)
        cost = stored["cost"].tolist()
        results[method] = Scored(stored["scores"], *cost)
        progress.step(f"{name}, {log_name}, seed {log.seed}, {method}", known)
    for method in [one for one in COMBINED if one in results]:
        results[f"{method}+bm25"] = _best(log, _with(results[method], results["bm25"]))[1]
    results.update(_trees(log, results, options))
    return results


def _best(log: Log, candidates: Candidates) -> tuple[str, Scored]:
    """Return the best candidate on the validation queries (the first of equal ones)."""
    remaining = list(candidates)
    values = [float(log.values(scored.scores)[log.valid, 2].mean()) for _, scored in remaining]
    return remaining[int(np.argmax(values))]


def _with(scored: Scored, plain: Scored) -> Candidates:
    """Yield sums of the scores of a method and of BM25, by the weight of the method."""
    for weight in WEIGHTS:
        total = weight * _standard(scored.scores) + (1.0 - weight) * _standard(plain.scores)
        yield f"weight {weight}", scored._replace(scores=total)


def _standard(scores: Floats) -> Floats:
    deviation = scores.std(axis=1, keepdims=True)
    centered = scores - scores.mean(axis=1, keepdims=True)
    standard: Floats = centered / np.where(deviation > 0.0, deviation, 1.0)
    return standard


def _trees(log: Log, results: dict[str, Scored], options: Options) -> dict[str, Scored]:
    """Return boosted trees over the scores of baselines, and of matching models in addition."""
    if not mart.installed():
        return {}
    baselines = [one for one in BASELINES if one in results]
    matching = [one for one in results if one not in baselines and not one.endswith("+bm25")]
    added = {"baseline": [], **{one: [one] for one in matching}, "all": matching}
    boosted = {}
    for name, more in added.items():
        columns = [_standard(results[one].scores) for one in (*baselines, *more)]
        trees = mart.boost(
            [one[log.valid] for one in columns],
            log.grades[log.valid],
            columns,
            seed=options.seed,
            threads=options.threads,
        )
        boosted[f"mart-{name}"] = Scored(trees.scores, trees.seconds, trees.model_bytes, math.nan)
    return boosted


def _table(
    dataset: str, log_name: str, logs: list[Log], runs: list[dict[str, Scored]]
) -> Iterator[Row]:
    """Yield tables 1 to 7 of one log: statistics, methods, and methods by bins of clicks."""
    yield Row(f"{dataset}: statistics", "table 1", logs[0].statistics(), STATISTICS[log_name])
    published = WEEK if log_name == "week" else HALF_YEAR
    reference = "pls" if log_name == "week" else "rmls"
    values = {
        method: [log.values(run[method].scores) for log, run in zip(logs, runs, strict=True)]
        for method in runs[0]
    }
    for method, results in values.items():
        of_seeds = [each[log.test] for log, each in zip(logs, results, strict=True)]
        others = [each[log.test] for log, each in zip(logs, values[reference], strict=True)]
        metrics, by_seed = _means(of_seeds)
        if method != reference:
            differences = np.concatenate(of_seeds)[:, 2] - np.concatenate(others)[:, 2]
            changed = bool(np.any(differences))
            metrics["p"] = float(stats.ttest_1samp(differences, 0.0)[1]) if changed else 1.0
        seconds, size, density = np.mean([run[method][1:] for run in runs], axis=0).tolist()
        paper = _paper(published.get(method))
        yield Row(dataset, method, metrics, paper, seconds, size, density, by_seed=by_seed)
    yield from _binned(dataset, log_name, logs, values)


def _binned(
    dataset: str, log_name: str, logs: list[Log], values: dict[str, list[Floats]]
) -> Iterator[Row]:
    """Yield tables 6 and 7: the test queries by their total clicks."""
    published = WEEK_BINS if log_name == "week" else HALF_YEAR_BINS
    for at, name in enumerate(logs[0].bins()):
        members = [log.test[log.bins()[name][log.test]] for log in logs]
        n_queries = sum(one.size for one in members)
        if not n_queries:
            continue
        for method, results in values.items():
            if method.startswith("mart"):
                continue
            pooled = np.concatenate([one[rows] for one, rows in zip(results, members, strict=True)])
            metrics = dict(zip(METRICS, pooled.mean(axis=0).tolist(), strict=True))
            metrics["queries"] = float(n_queries)
            in_paper = published[method][at] if method in published else None
            yield Row(f"{dataset}: {name}", method, metrics, _paper(in_paper))


def _means(of_seeds: list[Floats]) -> tuple[dict[str, float], list[dict[str, float]]]:
    """Return means over seeds with half widths, and the means of each seed."""
    by_seed = [dict(zip(METRICS, each.mean(axis=0).tolist(), strict=True)) for each in of_seeds]
    metrics: dict[str, float] = {}
    for name in METRICS:
        values = np.array([each[name] for each in by_seed])
        metrics[name] = float(values.mean())
        if values.size > 1:
            metrics[f"{name} ±"] = half_width(values)
    return metrics, by_seed


def _paper(values: Triple | None) -> dict[str, float]:
    return {} if values is None else dict(zip(METRICS, values, strict=True))


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


def _trained(
    log: Log, data: MatchingData, parts: tuple[str, str, str, str], options: Options
) -> Scored:
    """Train, and score the judged documents."""
    ranker = Ranker(
        *parts, kernel=options.kernel, threads=options.threads, random_state=options.seed
    )
    begin = time.process_time()
    ranker.fit(data)
    seconds = time.process_time() - begin
    size = sum(
        tensor.nbytes
        for name, tensor in ranker.model_.tensors().items()
        if not name.startswith(("query_feature_ids", "document_feature_ids"))
    )
    scores = log.judged_scores(ranker.predict(data))
    return Scored(scores, seconds, size, ranker.model_.density)


def _dimensions(options: Options) -> tuple[int, ...]:
    return (20,) if options.quick else (50, 100, 200)


def _bm25(log: Log, options: Options) -> Candidates:
    documents = log.words.document_rows
    density = documents.nnz / math.prod(documents.shape)
    yield "as it is", Scored(log.judged_scores(log.bm25), 0.0, 8.0 * documents.nnz, density)


def _random_walk(log: Log, options: Options) -> Candidates:
    for steps in (2, 5, 10):
        parts = ("bilinear:initial=zero", "alignment", "none", f"random-walk:steps={steps}")
        yield f"{steps} steps", _trained(log, log.ids, parts, options)


def _lsi_qd(log: Log, options: Options) -> Candidates:
    """Decompose queries by documents."""
    parts = lsi().parts
    most = min(log.ids.relevance.shape) - 1
    for d in sorted({min(d, most) for d in _dimensions(options)}):
        model = f"factored:dimensions={d},biases=false,init_scale=1"
        specs = (model, parts["loss"], parts["regularizer"], parts["solver"])
        yield f"{d} dimensions", _trained(log, log.ids, specs, options)


def _lsi_dt(log: Log, options: Options) -> Candidates:
    """Decompose documents by words; a query is a short document."""
    for d in _dimensions(options):
        parts = (
            f"factored:dimensions={d},biases=false",
            "squared",
            "none",
            "svd:matrix=documents",
        )
        yield f"{d} dimensions", _trained(log, log.words, parts, options)


def _ssi(log: Log, options: Options) -> Candidates:
    for rate in (0.01,) if options.quick else (0.01, 0.1):
        parts = (
            "factored-identity:dimensions=50",
            "hinge",
            "none",
            f"minibatch:epochs=20,learning_rate={rate}",
        )
        yield f"rate {rate}", _trained(log, log.preferences, parts, options)


def _svdfeature(log: Log, options: Options) -> Candidates:
    settings = ((0.03, "squared"), (0.1, "squared"), (0.1, "logistic"))
    for rate, loss in settings[:1] if options.quick else settings:
        parts = (
            "factored:dimensions=50,biases=true",
            f"pointwise-{loss}",
            "l2:strength=1e-6",
            f"minibatch:epochs=20,learning_rate={rate}",
        )
        yield f"{loss}, rate {rate}", _trained(log, log.full, parts, options)


def _bltm(log: Log, options: Options) -> Candidates:
    for words in (0.7,) if options.quick else (0.5, 0.9):
        model = f"topics:dimensions={20 if options.quick else 50},words={words}"
        parts = (model, "likelihood", "none", "em:max_epochs=30")
        yield f"words {words}", _trained(log, log.counts, parts, options)


def _pls_of(log: Log, data: MatchingData, options: Options) -> Candidates:
    for d in _dimensions(options):
        model = f"factored:dimensions={d},biases=false,init_scale=1"
        parts = (model, "alignment", "orthonormal:scale=1", PLS_SOLVER)
        yield f"{d} dimensions", _trained(log, data, parts, options)


def _pls(log: Log, options: Options) -> Candidates:
    return _pls_of(log, log.full, options)


def _pls_words(log: Log, options: Options) -> Candidates:
    return _pls_of(log, log.words, options)


def _rmls(log: Log, options: Options, center: str = "false") -> Candidates:
    strengths, rounds = ((1.0,), (2,)) if options.quick else ((0.5, 1.0, 2.0), (1, 3))
    for strength, epochs in itertools.product(strengths, rounds):
        parts = (
            "sparse-factored:dimensions=300,init_scale=1",
            "alignment",
            f"l1l2-row:strength={strength}",
            f"alternating:max_epochs={epochs},tolerance=0,center={center}",
        )
        yield f"strength {strength}, {epochs} rounds", _trained(log, log.full, parts, options)


def _rmls_centered(log: Log, options: Options) -> Candidates:
    return _rmls(log, options, "true")


METHODS: dict[str, Callable[[Log, Options], Candidates]] = {
    "bm25": _bm25,
    "random-walk": _random_walk,
    "lsi-qd": _lsi_qd,
    "lsi-dt": _lsi_dt,
    "svdfeature": _svdfeature,
    "bltm": _bltm,
    "ssi": _ssi,
    "pls": _pls,
    "pls (words)": _pls_words,
    "rmls": _rmls,
    "rmls-centered": _rmls_centered,
}

TIMED = (20_000, 25, 100)
"""Rows and columns of M, non-zeros per row, dimensions."""

THREADS = (1, 2, 4)


def _timing(options: Options) -> Iterator[Row]:
    """Yield the time of RMLS and PLS on one matrix, and figure 2: RMLS by threads."""
    size, filled, d = (2000, 10, 20) if options.quick else TIMED
    rng = np.random.default_rng(options.seed)
    entries = (rng.random(size * filled), rng.integers(0, size, size * filled))
    M = sparse.csr_array((*entries, np.arange(0, size * filled + 1, filled)), shape=(size, size))
    M.sum_duplicates()
    data = MatchingData(None, None, M)
    rmls = (
        f"sparse-factored:dimensions={d},init_scale=1",
        "l1l2-row:strength=1",
        "alternating:max_epochs=10,tolerance=0",
    )
    pls = (f"factored:dimensions={d},biases=false,init_scale=1", "orthonormal:scale=1", PLS_SOLVER)
    dataset = f"timing, M of {size:,} x {size:,}, {filled} non-zeros per row, d = {d}"
    paper = {"rmls": {1: 1380.0}, "pls": {1: 945_382.0}}
    for method, parts, threads in (
        *(("rmls", rmls, threads) for threads in THREADS),
        ("pls", pls, 1),
    ):
        ranker = Ranker(
            parts[0],
            "alignment:per_query=false",
            parts[1],
            parts[2],
            kernel=options.kernel,
            threads=threads,
        )
        begin, processor = time.perf_counter(), time.process_time()
        ranker.fit(data)
        metrics = {
            "threads": float(threads),
            "elapsed": time.perf_counter() - begin,
            "processor": time.process_time() - processor,
        }
        known = paper[method].get(threads)
        published = {} if known is None else {"elapsed": known}
        name = f"{method}, {threads} threads" if method == "rmls" else method
        yield Row(dataset, name, metrics, published, metrics["processor"])


def charts(rows: list[Row]) -> list[Chart]:
    """Return figure 2: the time of RMLS by threads."""
    points = [
        (row.metrics["threads"], row.metrics["elapsed"])
        for row in rows
        if row.dataset.startswith("timing") and row.method.startswith("rmls")
    ]
    return [Chart("figure-2-seconds-of-rmls", "threads", {"rmls": points})] if points else []
