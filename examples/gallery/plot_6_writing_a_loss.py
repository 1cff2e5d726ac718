"""
Writing a loss
==============

A pairwise loss is a function of the margin z = f(positive) - f(negative), and its slope. This
example writes the hinge with a smooth corner, checks it, and trains with it. In Python it is slow;
`ranking new-plugin` writes the same in C, Cython, Rust or numba, for the compiled kernels.
"""

# %%
# The loss
# --------

import dataclasses
from typing import ClassVar

import matplotlib.pyplot as plt
import numpy as np

from ranking import Ranker, make_demo
from ranking.contracts import Loss, number


@dataclasses.dataclass
class SmoothHinge(Loss):
    """The hinge with a parabola of the given width instead of its corner."""

    name: ClassVar[str] = "smooth-hinge"
    interfaces: ClassVar[frozenset] = frozenset({"pairwise"})
    form: ClassVar[None] = None
    trials: ClassVar[int] = 1
    width: float = number(0.5, above=0.0)

    def pairwise_value(self, margin):
        """Return the loss of each margin."""
        gap = 1.0 - margin
        inner = np.clip(gap, 0.0, self.width)
        return inner * inner / (2 * self.width) + np.maximum(gap - self.width, 0.0)

    def pairwise_slope(self, margin):
        """Return the derivative at each margin."""
        return -np.clip((1.0 - margin) / self.width, 0.0, 1.0)

    def rank_weight(self, rank):
        """Weight all violations equally."""
        return np.ones(rank.shape)


# %%
# Check the derivative
# --------------------

margins = np.linspace(-1.0, 2.0, 301)
loss, step = SmoothHinge(), 1e-6
numeric = (loss.pairwise_value(margins + step) - loss.pairwise_value(margins - step)) / (2 * step)
assert np.allclose(numeric, loss.pairwise_slope(margins), atol=1e-5)

fig, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
for width in (0.1, 0.5, 1.0):
    ax.plot(margins, SmoothHinge(width).pairwise_value(margins), label=f"width {width}")
ax.plot(margins, np.maximum(1.0 - margins, 0.0), "k--", label="hinge")
ax.set(xlabel="margin", ylabel="loss")
ax.legend()
plt.show()

# %%
# Train
# -----
# An object of the class can be used like the name of a built-in loss. Invalid values such as
# ``width=0`` are refused because of the declaration of the field.

parts = make_demo()
solver = "sgd:max_steps=20000,learning_rate=0.5"
for loss in ("hinge", SmoothHinge(0.5)):
    ranker = Ranker("linear", loss, solver=solver).fit(parts["train"])
    print(loss, round(ranker.score(parts["test"], metric="ndcg@10"), 4))
