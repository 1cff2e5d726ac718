"""Public leaderboards of recommenders: recall@20 and NDCG@20 beside published lines.

To add a recipe, add a `Method` to `METHODS`: its settings to try, of which the best by NDCG@20 on
validation pairs, one in ten of the training pairs, is trained on all of them. The test pairs are
looked at once.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from ranking import MatchingData, Ranker
from ranking.data.split import split_data
from ranking.metrics.evaluation import mean
from ranking_plugins.families import FAMILIES, Trial
from ranking_plugins.reproductions import Options, Row, text_retrieval
from ranking_plugins.reproductions.leaderboard_data import (
    Split,
    read_gowalla,
    read_irbench,
    read_last_out,
)
from ranking_plugins.solvers.selection import Selection

title = "Leaderboards: recommenders beside published lines"
notes = (
    "Recall@20 is the share of a user's test items among the first 20, training items left out; "
    "recall@20/min divides by min(20, test items), as IR-Benchmark does. NDCG@20 is binary. Users "
    "without test items do not count. hr@10 and ndcg@10 rank the last item of a user among 99 "
    "others that the user does not have, sampled with the seed; the published lines have other "
    "samples. Settings are the best by NDCG@20 on one in ten of the training pairs, of up to 3,000 "
    "users, or by hr@10 of the last training item of each user where the test items are last ones; "
    "then all training pairs are trained on. Seconds are those of this "
    "last training, in processor time of all threads; `search seconds` those of the choice, and "
    "megabytes those of the model's parameters. `peak megabytes` is the largest memory of the "
    "process so far. Recipe recommend chooses by itself, on positives that it holds out. Lines of "
    "SciFact are those of reproduction text-retrieval."
)

SPLIT_SEED = 1
"""Of the validation pairs, so that all methods and seeds choose on the same."""

VALID_USERS = 3000
"""Users whose validation pairs are measured, at most."""

QUICK = "selection:max_trials=2,users=200"
"""The selection of a quick run."""

CANDIDATES = 99
"""Sampled items that the last item of a user is ranked among."""


class Method(NamedTuple):
    """A recipe and the settings that are tried on validation pairs.

    Attributes
    ----------
    trials : sequence of Trial
    most_items : int
        Larger catalogues are left out.
    """

    recipe: str
    trials: Sequence[Trial]
    most_items: int = 1 << 31


class Board(NamedTuple):
    """A data set and its published lines, as (recall or hit rate, NDCG)."""

    name: str
    folder: str
    read: Any
    published: Mapping[str, tuple[float, float]]
    last_out: bool = False


def _strengths(recipe: str, template: str, values: Sequence[float]) -> list[Trial]:
    return [Trial(recipe, {"regularizer": template.format(value)}) for value in values]


METHODS: list[Method] = [
    Method("graph-filter", FAMILIES["graph-filter"]),
    Method("ials", FAMILIES["ials"]),
    Method("softmax", FAMILIES["softmax"]),
    Method("warp", FAMILIES["warp"]),
    Method("ease", _strengths("ease", "l2:strength={}", (4000, 1000, 200, 50)), most_items=15_000),
    Method("slim", FAMILIES["slim"], most_items=15_000),
    Method("recommend", [Trial("recommend")]),
]
"""In this order. Append a method to add it."""

BOARDS = [
    Board(
        "Gowalla (LightGCN split)",
        "interactions/gowalla_lightgcn",
        read_gowalla,
        {
            "MF-BPR": (0.1627, 0.1378),
            "SLIM": (0.1699, 0.1382),
            "EASE": (0.1765, 0.1467),
            "LightGCN": (0.1820, 0.1547),
            "MF-CCL": (0.1837, 0.1493),
            "GF-CF": (0.1849, 0.1518),
            "UltraGCN": (0.1862, 0.1580),
            "SimpleX": (0.1872, 0.1557),
        },
    ),
    Board(
        "Health (IR-Benchmark)",
        "interactions/irbench/amazon2014-health.zip",
        read_irbench,
        {"BPR": (0.1627, 0.1234), "SL": (0.1719, 0.1261), "SL@20": (0.1823, 0.1390)},
    ),
    Board(
        "Electronic (IR-Benchmark)",
        "interactions/irbench/amazon2014-electronic.zip",
        read_irbench,
        {"BPR": (0.0816, 0.0527), "SL": (0.0821, 0.0529), "SL@20": (0.0901, 0.0590)},
    ),
    Board(
        "MovieLens 1M (IR-Benchmark)",
        "interactions/irbench/movielens-1m.zip",
        read_irbench,
        {"SL@20": (0.3580, 0.3677)},
    ),
    Board(
        "MovieLens 1M (leave last out)",
        "interactions/movielens1m",
        read_last_out,
        {
            "EASE": (0.7192, 0.4494),
            "SLIM": (0.7162, 0.4468),
            "iALS": (0.7109, 0.4382),
            "NeuMF": (0.7093, 0.4349),
            "MF-BPR": (0.6305, 0.3730),
        },
        last_out=True,
    ),
]


class Chosen(NamedTuple):
    """The best trial on validation pairs, the best of its variants, and what choosing took."""

    trial: Trial
    variant: int
    seconds: float


def rows(options: Options) -> Iterator[Row]:
    """Yield the published lines and those of each method, board after board."""
    boards = BOARDS[1:2] if options.quick else BOARDS
    done = {
        (dataset, method.split()[0]): row for (dataset, method), row in options.finished.items()
    }
    for board in boards:
        if not (options.data / board.folder).exists():
            options.tell(f"{board.name} is left out: there is no {board.folder}")
            continue
        yield from published(board)
        split = board.read(options.data / board.folder)
        for method in METHODS:
            if split.train.n_documents > method.most_items:
                continue
            before = done.get((board.name, method.recipe))
            yield before or measured(board, split, method, options)
    if not options.quick:
        yield from _scifact(options)


def _scifact(options: Options) -> Iterator[Row]:
    """Yield the lines of SciFact, which are computed all at once."""
    if not (options.data / "ir" / "scifact").exists():
        options.tell("SciFact is left out: there is no ir/scifact")
        return
    for name, value in (("BM25", 0.679), ("SPLADE++", 0.704)):
        yield Row("SciFact", f"published {name}", {}, {"ndcg@10": value})
    yield from text_retrieval.scifact_rows(options)


def published(board: Board) -> Iterator[Row]:
    """Yield the published lines of a board."""
    names = ("hr@10", "ndcg@10") if board.last_out else ("recall@20", "ndcg@20")
    for name, values in board.published.items():
        yield Row(board.name, f"published {name}", {}, dict(zip(names, values, strict=True)))


def measured(board: Board, split: Split, method: Method, options: Options) -> Row:
    """Choose settings on validation pairs, train on all training pairs, and test once."""
    trials = method.trials[:1] if options.quick else method.trials
    selected = choose(board, split.train, trials, options)
    trial = selected.trial
    quick = options.quick and method.recipe == "recommend"
    parts = {**trial.parts, **({"solver": QUICK} if quick else {})}
    start = time.process_time()
    ranker = _ranker(method.recipe, parts, options).fit(split.train)
    variant = trial.variants[selected.variant]
    ranker.model_ = ranker.model_.adjusted(**variant) or ranker.model_
    seconds = time.process_time() - start
    values = measure(board, ranker, split, options.seed)
    words = [*trial.parts.values(), *(f"{key}={value}" for key, value in variant.items())]
    words += _selected(ranker)
    name = " ".join([method.recipe, *words])
    options.tell(f"{board.name}: {name}: {values}")
    size = sum(tensor.nbytes for tensor in ranker.model_.tensors().values())
    # Linux counts in kilobytes.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    metrics = {
        **values,
        "search seconds": round(selected.seconds, 1),
        "peak megabytes": round(peak),
    }
    return Row(board.name, name, metrics, {}, seconds, float(size), ranker.model_.density)


def _selected(ranker: Ranker) -> list[str]:
    """Return what a recipe that selects among recipes has chosen."""
    if not isinstance(ranker.solver_, Selection):
        return []
    report = ranker.solver_.report
    recipes = [str(one["recipe"]) for one in report["chosen"]]
    weights = report["weights"]
    return [f"{weight:g} x {name}" for weight, name in zip(weights, recipes, strict=True)]


def choose(board: Board, train: MatchingData, trials: Sequence[Trial], options: Options) -> Chosen:
    """Return the trial with the best value on validation pairs, taken from the training pairs."""
    if len(trials) == 1 and len(trials[0].variants) == 1:
        return Chosen(trials[0], 0, 0.0)
    start = time.process_time()
    method, metric = ("leave-one-out", "hr@10") if board.last_out else ("random", "ndcg@20")
    halves = split_data(train, method=method, share=0.1, seed=SPLIT_SEED, check=False)
    part, valid = (cast(MatchingData, half) for half in halves)
    some = valid if board.last_out else _some_users(valid)
    best, selected = -np.inf, (trials[0], 0)
    for trial in trials:
        ranker = _ranker(trial.recipe, trial.parts, options).fit(part)
        trained = ranker.model_
        for at, variant in enumerate(trial.variants):
            ranker.model_ = trained.adjusted(**variant) or trained
            value = measure(board, ranker, Split(part, some), options.seed)[metric]
            settings = " ".join(map(str, [*trial.parts.values(), variant or ""]))
            options.tell(f"{trial.recipe} {settings}: {metric} {value:.4f} on validation pairs")
            if value > best:
                best, selected = value, (trial, at)
    return Chosen(*selected, time.process_time() - start)


def measure(board: Board, ranker: Ranker, split: Split, seed: int) -> dict[str, float]:
    """Return the metrics of a board on the second part of a split."""
    if board.last_out:
        return last_out_values(ranker, split, seed)
    return values_of(ranker, split.test, split.train)


def values_of(ranker: Ranker, test: MatchingData, train: MatchingData) -> dict[str, float]:
    """Return recall@20 by both definitions, and NDCG@20."""
    known = np.isin(test.query_ids, train.query_ids[np.diff(train.relevance.indptr) > 0])
    users = np.flatnonzero(known & (np.diff(test.relevance.indptr) > 0))
    part = MatchingData(
        relevance=test.relevance[users],
        query_ids=test.query_ids[users],
        document_ids=test.document_ids,
    )
    evaluation = ranker.evaluate(part, metrics="recall@20,ndcg@20", exclude=train)
    recall = evaluation["recall@20"]
    counts = np.diff(part.relevance.indptr)
    return {
        "recall@20": evaluation.mean("recall@20"),
        "recall@20/min": mean(recall * counts / np.minimum(counts, 20)),
        "ndcg@20": evaluation.mean("ndcg@20"),
    }


def last_out_values(ranker: Ranker, split: Split, seed: int) -> dict[str, float]:
    """Return hit rate and NDCG at 10 of the last item of each user among sampled others."""
    rng = np.random.default_rng(seed)
    train, test = split
    hits, gains = [], []
    tested = np.flatnonzero(np.diff(test.relevance.indptr))
    for block in np.array_split(tested, -(-tested.size // 512)):
        users = MatchingData(
            relevance=test.relevance[block],
            query_ids=test.query_ids[block],
            document_ids=test.document_ids,
        )
        for user, scores in zip(block.tolist(), ranker.predict(users), strict=True):
            last = test.relevance.indices[test.relevance.indptr[user]]
            row = np.searchsorted(train.query_ids, test.query_ids[user])
            own = train.relevance.indices[slice(*train.relevance.indptr[row : row + 2])]
            free = np.ones(scores.size, np.bool_)
            free[own], free[last] = False, False
            others = np.flatnonzero(free)
            sampled = rng.choice(others, min(CANDIDATES, others.size), replace=False)
            rank = int((scores[sampled] >= scores[last]).sum())  # ties count against it
            hits.append(rank < 10)
            gains.append(1.0 / np.log2(rank + 2.0) if rank < 10 else 0.0)
    return {"hr@10": float(np.mean(hits)), "ndcg@10": float(np.mean(gains))}


def _some_users(data: MatchingData) -> MatchingData:
    """Return a sample of the users that have pairs."""
    users = np.flatnonzero(np.diff(data.relevance.indptr) > 0)
    rng = np.random.default_rng(SPLIT_SEED)
    users = np.sort(rng.permutation(users)[:VALID_USERS])
    return MatchingData(
        relevance=data.relevance[users],
        query_ids=data.query_ids[users],
        document_ids=data.document_ids,
    )


def _ranker(recipe: str, settings: Mapping[str, Any], options: Options) -> Ranker:
    return Ranker.from_recipe(
        recipe,
        **settings,
        kernel=options.kernel,
        threads=options.threads,
        random_state=options.seed,
    )
