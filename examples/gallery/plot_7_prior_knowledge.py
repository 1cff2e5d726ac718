"""
Prior knowledge about features
==============================

A bilinear model of 64 pixels has 4,096 weights, one for each pair. It is known before any training
that pixels far apart have little to do with each other, and that pixels form regions. A mask and a
tree express this. The images are scikit-learn's digits; an image is relevant for another one if
both show the same digit.
"""

# %%
# One hundred images are used for training, 400 for validation, and the others for testing. Every
# image is a query that ranks all others of its part.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from ranking import MatchingData, Ranker
from ranking_plugins.regularizers import HierarchicalGroupL1, Mask

digits = load_digits()
images = digits.data / np.linalg.norm(digits.data, axis=1, keepdims=True)
order = np.random.default_rng(0).permutation(len(images))


def part(start, stop):
    """Return some images, as queries and as documents."""
    at = order[start:stop]
    return MatchingData(
        images[at],
        images[at],
        labels=(digits.target[at], digits.target[at]),
        query_ids=at,
        document_ids=at,
        queries_are_documents=True,
    )


train, valid, test = part(0, 100), part(100, 500), part(500, len(order))

# %%
# A pixel is a feature with an id from 1 to 64, row by row. The mask contains the pairs of pixels
# with a distance of at most two. The tree contains the quarters of the image, and their quarters.

pixels = [(row, column) for row in range(8) for column in range(8)]
ids = {pixel: int(train.query_feature_ids[at]) for at, pixel in enumerate(pixels)}
near = [(ids[a], ids[b]) for a in pixels for b in pixels if max(abs(np.subtract(a, b))) <= 2]
tree = {
    ids[row, column]: f"{row // 4}{column // 4}/{row // 2}{column // 2}" for row, column in pixels
}

# %%
# Each model is trained with a few strengths; the best one on the validation part is tested once.

candidates = {
    "none": ["none"],
    "l1": [f"l1:strength={value}" for value in (0.0001, 0.0003, 0.001, 0.003)],
    "mask": [Mask(near), Mask(near, outside=0.0003), Mask(near, outside=0.001)],
    "tree": [HierarchicalGroupL1(value, tree) for value in (0.00001, 0.00003, 0.0001)],
}
solver = "sgd:max_steps=20000,steps_per_epoch=20000,learning_rate=20"
best = {}
for name, regularizers in candidates.items():
    rankers = [Ranker("bilinear", "hinge", one, solver).fit(train) for one in regularizers]
    values = [ranker.score(valid, metric="map") for ranker in rankers]
    best[name] = rankers[int(np.argmax(values))]
    print(
        f"{name:5} valid {max(values):.3f}  test {best[name].score(test, metric='map'):.3f}"
        f"  density {best[name].model_.density:.2f}"
    )

# %%
# They differ by less than 0.01 here, and the mask has a third of the weights. What the pixel in the
# middle of the image matches:

figure, axes = plt.subplots(1, len(best), figsize=(12, 3))
for axis, (name, ranker) in zip(axes, best.items(), strict=True):
    weights = ranker.model_.weights.toarray()[pixels.index((4, 3))]
    axis.imshow(
        weights.reshape(8, 8), cmap="RdBu", vmin=-abs(weights).max(), vmax=abs(weights).max()
    )
    axis.set_title(name)
    axis.axis("off")
figure.tight_layout()
