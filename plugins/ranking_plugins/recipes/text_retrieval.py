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


NGRAMS = f"{BM25},document_ids=true,query_ngrams=2"
"""BM25, a feature for each document, and pairs of neighbouring words that only queries have."""

PHRASES = f"{NGRAMS},query_similarity=0.4"
"""The same; a query has pairs that it shares with training queries of a cosine of 0.4 or more."""


def _from_bm25(
    features: str, model: str, loss: str, regularizer: str, rates: tuple[float, ...]
) -> Recipe:
    """Return a recipe with the second of the rates; validation chooses among them and BM25."""
    return Recipe(
        parts={
            "features": features,
            "model": model,
            "loss": loss,
            "regularizer": regularizer,
            "solver": f"sgd:learning_rate={rates[1]},schedule=constant,max_steps=50000",
        },
        # No steps are BM25, from which the training of each learning rate starts.
        search=Search(
            part="solver",
            parameter="max_steps",
            values=(0, 50000),
            metric="ndcg@10",
            outer=Axis("solver", "learning_rate", rates),
        ),
    )


def bm25_warp() -> Recipe:
    """Add to BM25 which phrases of queries lead to which document, by WARP.

    W has a weight for each pair of neighbouring words of a training query and each document; its
    weights of words stay those of BM25. A query has the phrases that it shares with similar
    training queries, so without a similar one its scores are those of BM25. With validation data,
    the learning rate is the best of 0.1 and 0.3, or the model is BM25.
    """
    return _from_bm25(PHRASES, "bilinear:trainable=unshared", "warp", "none", (0.1, 0.3))


def bm25_hinge() -> Recipe:
    """Learn a sparse matrix by the pairwise hinge with cumulative L1, starting from BM25."""
    rates = (0.0003, 0.001, 0.003, 0.01)
    features = f"{BM25},document_ids=true"
    return _from_bm25(features, "bilinear", "hinge", "l1:strength=1e-5", rates)


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
