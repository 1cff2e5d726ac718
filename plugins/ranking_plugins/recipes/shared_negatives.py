"""Embeddings by losses of a positive against many shared negatives."""

from ranking.contracts.recipe import Recipe

MODEL = "factored:dimensions=64,score=cosine,biases=false"


def _recipe(loss: str, solver: str, model: str = MODEL) -> Recipe:
    return Recipe(
        parts={"model": model, "loss": loss, "regularizer": "none", "solver": solver},
    )


def softmax() -> Recipe:
    """Cosines with a temperature, by sampled softmax."""
    return _recipe("softmax:temperature=0.15", "sgd:epochs=20,n_negatives=1024")


def softmax_at_k() -> Recipe:
    """Cosines by the sampled softmax, weighted for the top 20 (SL@20)."""
    return _recipe("softmax-at-k:temperature=0.15", "sgd:epochs=20,n_negatives=1024")


def ccl() -> Recipe:
    """Cosines by the contrastive loss of SimpleX."""
    return _recipe("ccl", "sgd:epochs=20,n_negatives=1024")
