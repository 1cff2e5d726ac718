"""
Lists as a whole, by latent structured ranking
==============================================

A factored model scores every item independently. Latent structured ranking (LaSR) adds a second
model that sees the best items of the first, so that a list can be consistent, or diverse.
"""

# %%
# The data
# --------
# Each user likes songs of two styles, and the held-out song may be of either.

import copy

import matplotlib.pyplot as plt
import numpy as np

from ranking import MatchingData, Ranker, split_data

rng = np.random.default_rng(1)
styles = np.arange(80) % 8
users, songs = [], []
for user in range(200):
    liking = 3.0 * np.isin(styles, rng.choice(8, 2, replace=False)) + rng.gumbel(size=80)
    for song in np.argsort(-liking)[:8]:
        users.append(f"user{user}")
        songs.append(f"song{song:02d}")
train, test = split_data(MatchingData.from_interactions(users, songs), "leave-one-out")

# %%
# Train two stages
# ----------------
# Stage 0 is WARP; stage 1 is trained with the lists of stage 0.

ranker = Ranker.from_recipe("lasr", model="structured:dimensions=16,stages=1,k=10").fit(train)

# %%
# Look at the lists
# -----------------
# How many of the eight styles do the ten best songs of a user cover, and how often is the held-out
# song among them?


def list_styles(ranker):
    """Return the number of styles in the list of each user."""
    return [
        len({styles[int(song[4:])] for song, _ in best})
        for _, best in ranker.rank(test, k=10, exclude=train)
    ]


fig, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
for stage in (0, 1):
    part = copy.copy(ranker)
    part.model_ = ranker.model_.at_stage(stage)
    counts = np.bincount(list_styles(part), minlength=9)[1:9]
    ax.bar(np.arange(1, 9) + 0.4 * stage - 0.2, counts, width=0.4, label=f"stage {stage}")
    recall = part.score(test, metric="recall@10", exclude=train)
    print(f"stage {stage}: recall@10 {recall:.3f}")
ax.set(xlabel="styles among the ten best songs", ylabel="users", xticks=range(1, 9))
ax.legend()
plt.show()
