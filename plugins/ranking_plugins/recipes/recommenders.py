"""Recommenders from linear algebra on the interactions: graph filter, iALS, EASE and SLIM."""

from ranking.contracts.recipe import Axis, Recipe, Search


def graph_filter() -> Recipe:
    """Filter a user's history by the graph of items, as GF-CF, with smaller exponents of degrees.

    With validation data, the weight of the low-pass filter and its number of directions are the
    best of five by three; it is trained once.
    """
    return Recipe(
        parts={
            "model": "item-item:dimensions=128,low_pass=0.1",
            "loss": "alignment:per_query=false,query_degree=0.4,document_degree=0.4",
            "regularizer": "orthonormal:scale=1",
            "solver": "graph-filter",
        },
        search=Search(
            part="model",
            parameter="low_pass",
            values=(0.0, 0.1, 0.2, 0.3, 1.0),
            metric="ndcg@20",
            outer=Axis("model", "dimensions", (256, 128, 64)),
        ),
    )


def ials() -> Recipe:
    """Factorize the interactions, all other pairs weakly 0 (iALS), by alternating least squares.

    With validation data, the strength of L2 is the best of four.
    """
    return Recipe(
        parts={
            "model": "factored:dimensions=64,biases=false",
            "loss": "squared:unobserved=auto",
            "regularizer": "l2:strength=0.15,frequency=1",
            "solver": "alternating:max_epochs=5",
        },
        search=Search(
            part="regularizer",
            parameter="strength",
            values=(0.5, 0.2, 0.1, 0.05),
            metric="ndcg@20",
        ),
    )


def ease() -> Recipe:
    """Predict each item from all others by ridge regression, in closed form (EASE).

    With validation data, the strength of L2 is the best of four.
    """
    return Recipe(
        parts={
            "model": "item-item",
            "loss": "squared",
            "regularizer": "l2:strength=500",
            "solver": "closed-form",
        },
        search=Search(
            part="regularizer",
            parameter="strength",
            values=(2000.0, 500.0, 100.0, 20.0),
            metric="ndcg@20",
        ),
    )


def slim() -> Recipe:
    """Predict each item from few others by non-negative sparse regression (SLIM).

    With validation data, the strength of the elastic net is the best of four.
    """
    return Recipe(
        parts={
            "model": "item-item",
            "loss": "squared",
            "regularizer": "elastic:strength=50,share=0.1",
            "solver": "coordinate:nonnegative=true,tolerance=0.0001,max_epochs=10",
        },
        search=Search(
            part="regularizer",
            parameter="strength",
            values=(300.0, 100.0, 30.0, 10.0),
            metric="ndcg@20",
        ),
    )


def recommend() -> Recipe:
    """Try the best families on held-out positives, and keep the best or the sum of two.

    The budget is a number of trials, and optionally of seconds.
    """
    return Recipe(
        parts={
            "model": "combination:normalize=true",
            "loss": "metric:measure=ndcg@20",
            "regularizer": "none",
            "solver": "selection",
        }
    )
