"""Retrieval of texts: BM25, language models, and WARP that starts from BM25."""

from ranking.contracts.recipe import Axis, Recipe, Search

BM25 = "text:words=none,stop_words=english,weighting=bm25"
"""All words but stop words; k1 = 1.2 and b = 0.75."""

DIRICHLET = "text:words=none,stop_words=english,weighting=lm-dirichlet"


def _untrained(features: str) -> Recipe:
    return Recipe(
        parts={
            "features": features,
            "model": "diagonal",
            "loss": "hinge",
            "regularizer": "none",
            "solver": "sgd:max_steps=0",
        }
    )


def bm25() -> Recipe:
    """W = I between the counts of queries and the BM25 weights of documents."""
    return _untrained(BM25)


def lm_dirichlet() -> Recipe:
    """W = I between the counts of queries and the weights of Dirichlet smoothing, mu = 2000."""
    return _untrained(DIRICHLET)


def _from_bm25(loss: str, regularizer: str, rate: float) -> Recipe:
    return Recipe(
        parts={
            "features": f"{BM25},document_ids=true",
            "model": "bilinear",
            "loss": loss,
            "regularizer": regularizer,
            "solver": f"sgd:learning_rate={rate},schedule=constant,max_steps=50000",
        },
        # One step count per learning rate: each training starts from BM25.
        search=Search(
            part="solver",
            parameter="max_steps",
            values=(50000,),
            metric="ndcg@10",
            outer=Axis("solver", "learning_rate", (0.0001, 0.0003, 0.001, 0.003)),
        ),
    )


def bm25_warp() -> Recipe:
    """Learn one weight per pair of words, and per word and document, by WARP, starting from BM25.

    With validation data, the learning rate is the best of four from 0.0001 to 0.003.
    """
    return _from_bm25("warp", "none", 0.001)


def bm25_hinge() -> Recipe:
    """Learn a sparse matrix by the pairwise hinge with cumulative L1, starting from BM25."""
    return _from_bm25("hinge", "l1:strength=1e-5", 0.001)


def combine() -> Recipe:
    """Sum the scores of trained models; the data are validation data, which choose the weights."""
    return Recipe(
        parts={
            "features": "text:words=none,weighting=counts",
            "model": "combination",
            "loss": "metric",
            "regularizer": "none",
            "solver": "coordinate-search",
        }
    )
