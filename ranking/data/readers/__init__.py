"""Built-in readers of files and folders; they return one of `ranking.data.kinds`."""

from __future__ import annotations

from ranking.contracts.hooks import Lazy, hookimpl

HERE = "ranking.data.readers"


@hookimpl
def ranking_readers() -> dict[str, Lazy]:
    """Register the readers by name, without importing them."""
    return {
        "letor": Lazy(f"{HERE}.letor:Letor", help="LETOR, or SVMlight with qid."),
        "qrels": Lazy(f"{HERE}.trec:QrelsReader", help="TREC or BEIR judgements."),
        "run": Lazy(f"{HERE}.trec:RunReader", help="TREC runs."),
        "beir": Lazy(f"{HERE}.texts:Beir", help="A BEIR folder: corpus, queries, qrels."),
        "smart": Lazy(f"{HERE}.texts:Smart", help="A SMART folder: .ALL, .QRY, .REL."),
        "clicks": Lazy(f"{HERE}.texts:Clicks", help="A click log: query, document, clicks."),
        "interactions": Lazy(
            f"{HERE}.interactions:Interactions", help="CSV or TSV of user, item, value, time."
        ),
        "movielens": Lazy(
            f"{HERE}.interactions:Movielens", help="MovieLens ratings with tabs or ::."
        ),
        "parquet": Lazy(
            f"{HERE}.interactions:Parquet", help="Interactions in a Parquet or Arrow file."
        ),
        "tab": Lazy(f"{HERE}.labelled:Tab", help="Class and text, after three header lines."),
        "folders": Lazy(f"{HERE}.labelled:Folders", help="One folder of texts per class."),
        "idx": Lazy(f"{HERE}.labelled:Idx", help="MNIST's images and labels."),
        "npz": Lazy(f"{HERE}.labelled:Npz", help="NumPy arrays X and y."),
        "svmlight": Lazy(f"{HERE}.svmlight:Svmlight", help="SVMlight with classes, without qid."),
        "arff": Lazy(f"{HERE}.arff:Arff", help="Multi-label ARFF, with Mulan's XML or as MEKA."),
        "adjacency": Lazy(
            f"{HERE}.adjacency:Adjacency", help="One line per user: number of items, their ids."
        ),
    }
