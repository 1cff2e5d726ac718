"""Recommending films: who saw what, and what is known about the films.

Makes up a cinema, then trains WARP on it, measures it, and shows what it offers: the best films
for a viewer, similar films, films that nobody has seen yet, and films for a viewer who came after
the training. It ends with the learning curve as a page.

    python -P examples/films.py [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from ranking import FeatureTable, MatchingData, Ranker, split_data
from ranking_cli.main import cli
from ranking_plugins.callbacks import EarlyStopping

NOUNS = {
    "crime": "alibi heist compatibility ransom cellar witness informer safe",
    "space": "orbit comet station signal colony eclipse airlock crater",
    "romance": "letters waltz harbour garden summer promise balcony ferry",
    "western": "saddle canyon sheriff prairie wagon duel stagecoach ranch",
    "horror": "attic fog mirror doll basement howl crypt shadow",
}
WORDS = ("last", "red", "silent", "distant")
DECADES = ("1970s", "1980s", "1990s", "2000s", "2010s")
N_VIEWERS, N_SEEN = 300, 15


def make_films(rng: np.random.Generator) -> FeatureTable:
    """Return films with a genre and a decade."""
    films = [
        (f"{word} {noun}", genre)
        for genre, nouns in NOUNS.items()
        for noun in nouns.split()
        for word in WORDS
    ]
    titles = [title for title, _ in films]
    genres, decades = list(NOUNS), rng.integers(0, len(DECADES), size=len(films))
    kinds = np.eye(len(genres))[[genres.index(genre) for _, genre in films]]
    times = np.eye(len(DECADES))[decades]
    rows = sp.csr_array(np.hstack([kinds, times]))
    return FeatureTable(np.array(titles), rows, np.array([*genres, *DECADES]))


def make_views(rng: np.random.Generator, films: FeatureTable) -> MatchingData:
    """Return who saw what: a genre and a decade for each viewer, and films that many see.

    Beside genre and decade a film has a feature of its own, so that it need not be as its kind.
    """
    shared = films.features.toarray()
    popular = rng.gumbel(scale=0.7, size=films.ids.size)
    viewers, seen = [], []
    for viewer in range(N_VIEWERS):
        taste = np.zeros(films.names.size)
        taste[rng.choice(len(NOUNS), size=2, replace=False)] = (3.0, 1.5)
        taste[len(NOUNS) + rng.integers(len(DECADES))] = 1.5
        liked = shared @ taste + popular + rng.gumbel(scale=0.7, size=films.ids.size)
        best = np.argsort(-liked)[:N_SEEN]
        viewers += [f"viewer {viewer}"] * N_SEEN
        seen += films.ids[best].tolist()
    return MatchingData.from_interactions(viewers, seen, item_features=films).with_indicators()


def say(*words: object) -> None:
    """Print a line."""
    print(*words, flush=True)  # noqa: T201


def show_measured(train: MatchingData, test: MatchingData, ranker: Ranker) -> None:
    """Compare with the most popular films, the same for every user."""
    often = np.asarray(train.relevance.sum(axis=0)).ravel()
    known, relevant = train.relevance.toarray() > 0, test.relevance.toarray() > 0
    order = np.argsort(-np.where(known, -1.0, often), axis=1, kind="stable")[:, :10]
    share = np.take_along_axis(relevant, order, axis=1).any(axis=1).mean()
    say("\nThe film that was held out is among the ten offered")
    say(f"  by what most have seen  {share:.3f} of the time")
    say(f"  by WARP                 {ranker.score(test, metric='recall@10', exclude=train):.3f}")


def show_offers(train: MatchingData, ranker: Ranker) -> None:
    """Print the best films of a viewer."""
    titles = train.document_ids
    viewer = str(train.query_ids[0])
    say(f"\n{viewer} has seen", ", ".join(titles[train.relevant(0)]))
    for film, score in ranker.rank(train, k=5, exclude=train)[viewer]:
        say(f"  {score:7.3f}  {film}")


def show_similar(train: MatchingData, ranker: Ranker, title: str) -> None:
    """Print the films whose embeddings point in the same direction."""
    say(f"\nLike {title}")
    for film, cosine in ranker.similar(train, k=5)[title]:
        say(f"  {cosine:7.3f}  {film}")


def show_new(train: MatchingData, ranker: Ranker) -> None:
    """Rank films that nobody has seen: a genre and a decade are enough."""
    names = [*NOUNS, *DECADES]
    kinds = [(genre, decade) for genre in NOUNS for decade in DECADES]
    rows = [[float(name in kind) for name in names] for kind in kinds]
    new = MatchingData(
        train.queries,
        rows,
        np.zeros((train.n_queries, len(kinds))),
        query_ids=train.query_ids,
        query_feature_ids=train.query_feature_ids,
        document_ids=[f"a new {genre} film, {decade}" for genre, decade in kinds],
        document_feature_ids=names,
    )
    viewer = str(new.query_ids[0])
    say(f"\nNew films for {viewer}, of {len(kinds)}")
    for film, score in ranker.rank(new, k=3)[viewer]:
        say(f"  {score:7.3f}  {film}")


def show_newcomer(train: MatchingData, ranker: Ranker, seen: list[str]) -> None:
    """Rank films for a new viewer; the model stays as it is."""
    say("\nFor a new viewer, who has seen", ", ".join(seen))
    for title, score in ranker.fold_in(train, [seen], k=5)[0]:
        say(f"  {score:7.3f}  {title}")


def main(folder: Path = Path("films")) -> None:
    """Run the example."""
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(0)
    films = make_films(rng)
    views = make_views(rng, films)
    say(views)
    train, test = split_data(views, "leave-one-out")
    learn, valid = split_data(train, "leave-one-out", seed=1)

    ranker = Ranker(
        model="factored:dimensions=32",
        loss="warp",
        solver="sgd:max_steps=200000",
        callbacks=[EarlyStopping(metric="recall@10", patience=3)],
    )
    ranker.fit(learn, valid=valid, exclude_seen=True)
    say(f"{ranker.n_iter_} epochs, stopped: {ranker.stopped_}")

    show_measured(train, test, ranker)
    show_offers(train, ranker)
    show_similar(train, ranker, "red orbit")
    show_new(train, ranker)
    show_newcomer(train, ranker, ["silent fog", "last crypt", "distant doll"])

    model, report = folder / "films.safetensors", folder / "training.html"
    ranker.save(model)
    say()
    cli(["report", str(model), "-o", str(report)], standalone_mode=False)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
