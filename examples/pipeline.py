"""A ranker in a scikit-learn pipeline: search parameters by query, with metadata routing."""

import pandas as pd
import sklearn
from sklearn.inspection import permutation_importance
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ranking import Ranker, make_demo, make_ranking_scorer


def main() -> None:
    """Search the strength of L2, and show which features matter."""
    sklearn.set_config(enable_metadata_routing=True, transform_output="pandas")
    data = make_demo()["train"]
    X = pd.DataFrame(data.features, columns=[f"signal {at}" for at in range(12)])
    y, qid = data.grades, data.query_ids[data.row_groups]

    ranker = Ranker(loss="listnet", regularizer="l2", solver="lbfgs").set_fit_request(qid=True)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), ranker),
        {"ranker__regularizer": [f"l2:strength={one}" for one in (1, 0.01, 0.0001)]},
        scoring=make_ranking_scorer("ndcg@10"),
        cv=GroupKFold(3),
    )
    search.fit(X, y, qid=qid, groups=qid)
    print(search.best_params_, round(search.best_score_, 4))  # noqa: T201

    scorer = make_ranking_scorer("ndcg@10", qid=qid)
    importance = permutation_importance(search.best_estimator_, X, y, scoring=scorer, n_repeats=2)
    for at in importance.importances_mean.argsort()[::-1][:3]:
        print(X.columns[at], round(importance.importances_mean[at], 4))  # noqa: T201


if __name__ == "__main__":
    main()
