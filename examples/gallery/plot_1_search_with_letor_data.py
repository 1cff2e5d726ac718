"""
Search with LETOR data
======================

Judged lists are queries with documents, features and grades. This example trains three recipes,
chooses their parameters on validation data, and compares them once on test data.
"""

# %%
# The data
# --------
# ``make_demo`` generates judged lists; ``read_data("train.txt")`` reads your own LETOR files.

import matplotlib.pyplot as plt

from ranking import ParameterSearch, Ranker, compare, make_demo
from ranking.registry import get_registry

parts = make_demo()
train, valid, test = parts["train"], parts["valid"], parts["test"]
print(train.n_queries, "queries with", train.n_features, "features")

# %%
# Train
# -----
# A recipe searches its parameters on the validation data.

METRIC = "ndcg@10(gain=exp2)"
RECIPES = ("regression", "listnet", "domination")
rankers, evaluations = {}, {}
for recipe in RECIPES:
    ranker = Ranker.from_recipe(recipe)
    search = get_registry().create("recipe", recipe).search
    ranker.fit_with(ParameterSearch(ranker.plan(), search), train, valid=valid)
    rankers[recipe] = ranker
    evaluations[recipe] = ranker.evaluate(test, metrics=METRIC)

# %%
# Compare
# -------
# The bars are means over the test queries; the lines are 95 % intervals by bootstrap.

(metric,) = evaluations["listnet"].means()
means = [evaluations[recipe].mean(metric) for recipe in RECIPES]
intervals = [evaluations[recipe].interval(metric) for recipe in RECIPES]
errors = [
    [mean - low for mean, (low, _) in zip(means, intervals, strict=True)],
    [high - mean for mean, (_, high) in zip(means, intervals, strict=True)],
]
fig, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
ax.bar(RECIPES, means, yerr=errors, capsize=4, color="#3d6fb4")
ax.set(ylabel=METRIC, ylim=(0, 1))
plt.show()

# %%
# The intervals overlap, because queries differ a lot. A paired test of the differences by query has
# more power:

for result in compare(evaluations):
    print(f"{result.b} - {result.a}: {result.difference:+.4f}, p = {result.p_randomisation:.3f}")

# %%
# Read the model
# --------------
# A linear model has one weight per feature.

weights = rankers["domination"].model_.weights
fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
ax.bar([str(name) for name in rankers["domination"].model_.feature_ids], weights, color="#3d6fb4")
ax.set(xlabel="feature", ylabel="weight")
plt.show()
