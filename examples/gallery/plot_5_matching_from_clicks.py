"""
Matching from clicks
====================

A click log has queries, documents and numbers of clicks; both sides have features. PLS and RMLS
embed the features, so that queries that nobody has asked before can be matched too.
"""

# %%
# The data
# --------
# Features are words. Each query and each document is about one of five topics, and clicks follow
# topics.

import matplotlib.pyplot as plt
import numpy as np

from ranking import MatchingData, Ranker

rng = np.random.default_rng(0)


def describe(topics):
    """Return 12 words per topic, some of them present."""
    own = np.repeat(np.eye(5)[topics], 12, axis=1)
    return (rng.random((topics.size, 60)) < 0.03 + 0.3 * own).astype(float)


query_topics, document_topics = rng.integers(0, 5, size=240), rng.integers(0, 5, size=120)
queries, documents = describe(query_topics), describe(document_topics)
clicks = (query_topics[:, None] == document_topics) * rng.poisson(0.4, size=(240, 120))
words = [f"word{n}" for n in range(60)]
log, unseen = (
    MatchingData(
        queries[part],
        documents,
        clicks[part].astype(float),
        query_ids=[f"q{n}" for n in range(240)[part]],
        document_ids=[f"d{n}" for n in range(120)],
        query_feature_ids=words,
        document_feature_ids=words,
    )
    for part in (slice(0, 180), slice(180, 240))
)

# %%
# Train and measure
# -----------------
# The test queries are not in the log.

DIMENSIONS = (1, 2, 4, 8, 16)
fig, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
for recipe in ("pls", "rmls"):
    scores = []
    for n in DIMENSIONS:
        model = f"{Ranker.from_recipe(recipe).model.partition(':')[0]}:dimensions={n},biases=false"
        scores.append(
            Ranker.from_recipe(recipe, model=model).fit(log).score(unseen, metric="ndcg@10")
        )
    ax.plot(DIMENSIONS, scores, marker="o", label=recipe)
ax.set(xlabel="dimensions", ylabel="ndcg@10, unseen queries", xscale="log", ylim=(0, 1))
ax.set_xticks(DIMENSIONS, DIMENSIONS)
ax.legend()
plt.show()

# %%
# The embeddings
# --------------
# The first two dimensions of PLS, by topic.

ranker = Ranker.from_recipe("pls", model="factored:dimensions=8,biases=false").fit(log)
embedded = ranker.model_.embedding(log, ranker.kernel_).documents
fig, ax = plt.subplots(figsize=(5, 4), layout="constrained")
for topic in range(5):
    ax.scatter(*embedded[document_topics == topic, :2].T, s=14, label=f"topic {topic}")
ax.legend()
plt.show()
