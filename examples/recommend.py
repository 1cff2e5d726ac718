"""Recommend from a data frame of ratings: train, measure, recommend, save."""

import numpy as np
import pandas as pd

from ranking import MatchingData, Ranker, split_data


def ratings() -> pd.DataFrame:
    """Return synthetic ratings: users of three tastes, items of three kinds."""
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 90, 4000), rng.integers(0, 60, 4000)
    values = np.where(users % 3 == items % 3, 4, 2) + rng.integers(0, 2, 4000)
    frame = pd.DataFrame({"userId": users, "movieId": items, "rating": values})
    return frame.assign(timestamp=np.arange(4000)).drop_duplicates(["userId", "movieId"])


def main() -> None:
    """Hold out the last item of each user, and recommend."""
    data = MatchingData.from_interactions(ratings(), min_rating=4)
    train, test = split_data(data, "leave-one-out")
    metrics = ["hit@10", "ndcg@10", "coverage@10", "popularity@10"]
    for recipe in ("popularity", "item-knn", "ials"):
        ranker = Ranker.from_recipe(recipe).fit(train)
        evaluation = ranker.evaluate(test, metrics=metrics, exclude=train)
        print(recipe, {name: round(value, 3) for name, value in evaluation.means().items()})  # noqa: T201

    print(ranker.recommend([7], k=3).to_frame())  # noqa: T201
    for reason in ranker.explain(7, ranker.recommend([7])[7][0][0])[:3]:
        print(f"because of {reason.query_feature}: {reason.contribution:+.3f}")  # noqa: T201
    ranker.save("films.safetensors")


if __name__ == "__main__":
    main()
