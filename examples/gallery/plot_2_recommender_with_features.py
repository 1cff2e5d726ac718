"""
A recommender with features and cold start
==========================================

Users and films, who saw what, and the genre of each film. The example trains WARP with and without
features, and recommends films that nobody has seen yet.
"""

# %%
# The data
# --------
# Sixty films of four genres; each of 150 users prefers one genre.

import matplotlib.pyplot as plt
import numpy as np

from ranking import FeatureTable, MatchingData, Ranker, split_data

rng = np.random.default_rng(0)
GENRES = np.array(["crime", "romance", "space", "western"])
films = np.array([f"{genre}-{n}" for genre in GENRES for n in range(15)])
kinds = np.repeat(np.eye(4), 15, axis=0)
table = FeatureTable(films, kinds, GENRES)

users, seen = [], []
for user in range(150):
    liking = 2.5 * (kinds @ rng.permutation([1.0, 0.4, 0.0, 0.0])) + rng.gumbel(size=films.size)
    for film in films[np.argsort(-liking)[:6]]:
        users.append(f"user{user}")
        seen.append(film)

# %%
# With and without features
# -------------------------
# ``with_indicators`` adds one feature per film to the genres. One film of each user is held out for
# testing.

plain = MatchingData.from_interactions(users, seen)
described = MatchingData.from_interactions(users, seen, item_features=table).with_indicators()
curves = {}
for name, data in {"ids only": plain, "ids and genres": described}.items():
    train, test = split_data(data, "leave-one-out")
    ranker = Ranker.from_recipe(
        "warp", model="factored:dimensions=16", callbacks=["curve:metrics=recall@10"]
    )
    ranker.fit(train, valid=test, exclude_seen=True)
    curves[name] = [
        value for row in ranker.history_ for key, value in row.items() if "recall@10" in key
    ]

fig, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
for name, values in curves.items():
    ax.plot(range(1, len(values) + 1), values, label=name)
ax.set(xlabel="epoch", ylabel="recall@10 of the held-out film", ylim=(0, 1))
ax.legend()
plt.show()

# %%
# Similar films
# -------------

print(ranker.similar(train, k=5)["space-3"])

# %%
# Cold start
# ----------
# A new film has no views, but a genre, and the genre has an embedding.

new = MatchingData(
    None,
    np.eye(4),
    np.zeros((train.n_queries, 4)),
    query_ids=train.query_ids,
    document_ids=[f"new-{genre}" for genre in GENRES],
    document_feature_ids=GENRES,
)
scores = ranker.predict(new)[:12]
fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
image = ax.imshow(scores, cmap="viridis", aspect="auto")
ax.set(xticks=range(4), xticklabels=new.document_ids, yticks=range(12))
ax.set_yticklabels(train.query_ids[:12])
fig.colorbar(image, label="score of a film that nobody has seen")
plt.show()
