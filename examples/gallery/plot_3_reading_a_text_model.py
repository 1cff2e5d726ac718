"""
Reading a sparse text model
===========================

A bilinear model scores a query q and a document d by qᵀWd. W has a weight for each pair of words,
most of them zero, so the model can be read.
"""

# %%
# The data
# --------
# Texts of two topics; a text matches the others of its topic.

import matplotlib.pyplot as plt
import numpy as np

from ranking import Ranker, TextCollection

texts = [
    "the goalie stopped the puck",
    "a goal on the ice for the team",
    "the coach and the goalie of the team",
    "the puck slid over the ice",
    "nasa will launch a rocket",
    "the shuttle went into orbit",
    "a rocket to orbit the moon",
    "the pilot of the shuttle saw the moon",
]
topics = np.repeat([0, 1], 4)
names = [f"text{n}" for n in range(len(texts))]
matches = (topics[:, None] == topics) & ~np.eye(8, dtype=bool)
data = TextCollection(names, texts, names, texts, matches.astype(float))

# %%
# Train
# -----

ranker = Ranker(
    model="bilinear",
    loss="hinge",
    regularizer="l1:strength=0.001",
    solver="sgd:max_steps=1000,learning_rate=2",
    features="text:stop_words=english",
)
ranker.fit(data)
print(f"{ranker.model_.density:.0%} of the weights are not zero")
for text, score in ranker.search(["who guards the ice"], k=3)["who guards the ice"]:
    print(f"{score:.3f}  {texts[names.index(text)]}")

# %%
# Read
# ----
# Rows are query words, columns are document words. Weights connect words of the same topic, even
# if no text contains both.

words = np.array(ranker.text_.feature_names)
topic = [
    np.mean([topics[i] for i, text in enumerate(texts) if word in text.split()]) for word in words
]
order = np.argsort(topic)
weights = ranker.model_.weights.toarray()[np.ix_(order, order)]
limit = np.abs(weights).max()
fig, ax = plt.subplots(figsize=(7, 6), layout="constrained")
image = ax.imshow(weights, cmap="RdBu", vmin=-limit, vmax=limit)
ax.set(xlabel="document term", ylabel="query term")
ax.set_xticks(range(words.size), words[order], rotation=90, fontsize=8)
ax.set_yticks(range(words.size), words[order], fontsize=8)
fig.colorbar(image, label="weight")
plt.show()
