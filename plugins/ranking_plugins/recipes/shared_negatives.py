"""Embeddings by losses of a positive against many shared negatives."""

from ranking.contracts.recipe import Recipe, Search

SOFTMAX = "sgd:epochs=20,learning_rate=0.01,n_negatives=1024"
MODEL = "factored:dimensions=64,score=cosine,biases=false"


TEMPERATURES = Search("loss", "temperature", (0.3, 0.2, 0.15, 0.1), "ndcg@20")
"""From smooth to sharp, each training from the embeddings of the one before."""


def _recipe(loss: str, solver: str, search: Search | None = None) -> Recipe:
    return Recipe({"model": MODEL, "loss": loss, "regularizer": "none", "solver": solver}, search)


def softmax() -> Recipe:
    """Cosines with a temperature, by sampled softmax.

    With validation data, the temperature is the best of four.
    """
    return _recipe("softmax:temperature=0.2", SOFTMAX, TEMPERATURES)


def softmax_at_k() -> Recipe:
    """Cosines by the sampled softmax, weighted for the top 20 (SL@20).

    With validation data, the temperature is the best of four.
    """
    return _recipe("softmax-at-k:temperature=0.2", SOFTMAX, TEMPERATURES)


def ccl() -> Recipe:
    """Cosines by the contrastive loss of SimpleX."""
    return _recipe("ccl", "sgd:epochs=20,n_negatives=1024")
