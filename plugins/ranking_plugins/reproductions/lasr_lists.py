"""Tables 3 and 4 of latent structured ranking: lists with and without structure, side by side."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ranking.contracts.model import MatchingModel
from ranking.errors import DataError
from ranking.inference.retrieval import top_k
from ranking.kernels.select import get_kernel
from ranking_plugins.reproductions import Options, Row, annotation
from ranking_plugins.reproductions.held_out import Split, Successions, split_examples, split_users
from ranking_plugins.reproductions.lasr import SUCCESSIONS, methods

title = "Latent structured ranking: what changes in the lists"
notes = (
    "One row per rank. Films: MovieLens 100K, which has titles, with two films that a user rated "
    "in succession as a pair, one popular and one less popular query; a star marks what the other "
    "list does not have, and in brackets are the numbers of pairs in the training and in the test "
    "part, as in Table 3, which has artists. Images: Corel 5K, which has no pictures here, so an "
    "image is named by its labels; labels in brackets are right, as those in bold of Table 4, "
    "which has ImageNet. Settings are those of `ranking reproduce lasr`."
)

FILMS = ("Star Wars", "Brazil")
"""Popular and less popular."""

LENGTH = 20
LABELS = 10
IMAGES = 8
WITHOUT, WITH = "without structure (t=0)", "with structure (t=1)"

Ints = NDArray[np.int64]


class Films(NamedTuple):
    """Pairs of successive films, and the titles of all."""

    pairs: Successions
    titles: list[str]


def rows(options: Options) -> Iterator[Row]:
    """Train both models on films and on images; show their lists."""
    yield from _films(options)
    yield from _images(options)


def _films(options: Options) -> Iterator[Row]:
    films = read_films(options.data / "interactions" / "movielens100k", options.quick)
    split = split_users(films.pairs, options.seed)
    options.tell("films: two stages")
    fitted = methods(50, SUCCESSIONS[50], 1, options)["lasr"](split, options.seed)
    models = {WITHOUT: fitted[0].model, WITH: fitted[1].model}
    queries = [films.titles.index(name) for name in FILMS]
    best = {
        name: _top(model, split.train, queries, LENGTH, options) for name, model in models.items()
    }
    for at, query in enumerate(queries):
        shown = {name: lists[at].tolist() for name, lists in best.items()}
        for rank in range(LENGTH):
            texts = {}
            for name, other in ((WITHOUT, WITH), (WITH, WITHOUT)):
                film = shown[name][rank]
                star = "" if film in shown[other] else " *"
                texts[name] = f"{films.titles[film]}{star} {_counts(split, query, film)}"
            yield Row(f"after {films.titles[query]}", str(rank + 1), {}, {}, texts=texts)
        totals = {name: _totals(split, query, films_of) for name, films_of in shown.items()}
        yield Row(f"after {films.titles[query]}", "all", {}, {}, texts=totals)


def read_films(folder: Path, quick: bool = False) -> Films:
    """Read MovieLens 100K; two consecutive ratings of a user are a pair."""
    with _open(folder, "ml-100k.item") as lines:
        table = list(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]
    titles = {int(row[0]): row[1] for row in table}
    with _open(folder, "ml-100k.inter.gz") as lines:
        next(lines)
        user, film, _, moment = np.loadtxt(lines).astype(np.int64).T
    order = np.lexsort((np.arange(user.size), moment, user))
    user, film = user[order], film[order]
    if quick:
        user, film = user[user <= 200], film[user <= 200]
    known, film = np.unique(film, return_inverse=True)
    same = user[1:] == user[:-1]
    pairs = Successions(user[1:][same], film[:-1][same], film[1:][same], known.size)
    return Films(pairs, [titles[one] for one in known.tolist()])


def _open(folder: Path, name: str) -> Any:
    path = folder / name
    if not path.exists():
        raise DataError(f"{path} does not exist; pass its folder with --data.")
    if name.endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8")
    return path.open(encoding="utf-8")


def _top(
    model: MatchingModel, data: Any, queries: list[int], k: int, options: Options
) -> list[Ints]:
    """Return the best documents of some queries."""
    best = top_k(model, data, k, get_kernel(options.kernel), options.threads)
    wanted = {one.query: one.documents for one in best if one.query in set(queries)}
    return [wanted[query] for query in queries]


def _counts(split: Split, query: int, film: int) -> str:
    return f"[{_pairs(split.train, query, film)}-{_pairs(split.test, query, film)}]"


def _totals(split: Split, query: int, films: list[int]) -> str:
    train, test = (
        sum(_pairs(part, query, film) for film in films) for part in (split.train, split.test)
    )
    return f"[{train}-{test}]"


def _pairs(data: Any, query: int, film: int) -> int:
    return int(sparse.csr_array(data.relevance)[query, film])


def _images(options: Options) -> Iterator[Row]:
    collection = annotation.COLLECTIONS[0]
    size = 300 if options.quick else None
    data = annotation.read(options.data / "multilabel", collection.files, size)
    split = split_examples(data, options.seed)
    base, name = None, ""
    models = {}
    for shown, name in (("WSABIE", "wsabie"), ("LaSR", "lasr t=1, folds, before")):
        options.tell(f"images: {name}")
        model = annotation.make_model(name, base, options)
        fitted = annotation.fit(model, collection.parts[name], split.train, options.seed, options)
        base = base or fitted.ranker
        models[shown] = cast(MatchingModel, fitted.ranker.model_)
    labels = split.test.document_ids.tolist()
    images = np.random.default_rng(options.seed).permutation(split.test.n_queries)[:IMAGES]
    queries = np.sort(images).tolist()
    best = {
        name: _top(model, split.test, queries, LABELS, options) for name, model in models.items()
    }
    for at, query in enumerate(queries):
        right = set(split.test.relevant(query).tolist())
        named = ", ".join(labels[one] for one in sorted(right))
        texts = {
            name: ", ".join(
                f"[{labels[one]}]" if one in right else labels[one] for one in lists[at].tolist()
            )
            for name, lists in best.items()
        }
        yield Row("Corel 5K, labels of images", named, {}, {}, texts=texts)
