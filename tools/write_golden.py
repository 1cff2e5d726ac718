"""Write the model files of a release that every later version must read.

Usage: ``python -P tools/write_golden.py VERSION``. Writes tests/golden/VERSION with one small model
of each kind and expected.json, what each answers. Files that exist stay as they are. Run it at a
release, and never again for that version: ``tests/unit/test_golden.py`` loads the files of all
releases.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from ranking import JudgedLists, MatchingData, Ranker, TextCollection, make_demo

GOLDEN = Path(__file__).resolve().parents[1] / "tests" / "golden"
TEXTS = {
    "a": "the goalie stopped the puck",
    "b": "the puck slid over the ice",
    "c": "nasa will launch a rocket",
    "d": "a rocket to orbit the moon",
}
VIEWS = [(f"user{u}", f"item{i}") for u in range(12) for i in range(9) if (u * i + u + i) % 3]


def judged() -> dict[str, Any]:
    """Train on judged lists; the answer is scores of rows."""
    train = make_demo()["train"].select(np.arange(20))
    data = JudgedLists(train.features, train.grades, train.query_ids[train.row_groups])
    rows = [[round(0.1 * ((i * j) % 11), 1) for j in range(data.n_features)] for i in range(5)]
    rankers = {
        "linear": Ranker.from_recipe("domination"),
        "linear-scaled": Ranker.from_recipe("listnet", scale="standard"),
        "thresholds": Ranker.from_recipe("rankboost", solver="rankboost:max_epochs=10"),
        "trees": Ranker.from_recipe("lambdamart", solver="lightgbm:max_epochs=5,num_leaves=4"),
    }
    return {name: (ranker.fit(data), "predict", rows) for name, ranker in rankers.items()}


def texts() -> dict[str, Any]:
    """Train on texts; the answer is a search."""
    ids, documents = list(TEXTS), list(TEXTS.values())
    matches = np.kron(np.eye(2), 1.0 - np.eye(2))
    data = TextCollection(ids, documents, ids, documents, matches)
    solver = "sgd:max_steps=200,learning_rate=1"
    rankers = {
        "bilinear": Ranker.from_recipe("sgd-decaying", solver=solver),
        "diagonal": Ranker.from_recipe("bm25"),
        "sparse-factored": Ranker.from_recipe("rmls", model="sparse-factored:dimensions=4"),
        "factored-identity": Ranker.from_recipe("ssi", model="factored-identity:dimensions=4"),
        "topics": Ranker.from_recipe("bltm", model="topics:dimensions=2"),
        "kernel-expansion": Ranker(
            "kernel-expansion", "hinge", solver="kernel-passive-aggressive:max_steps=50"
        ),
    }
    return {name: (r.fit(data), "search", ["a puck on ice"]) for name, r in rankers.items()}


def views() -> dict[str, Any]:
    """Train on interactions; the answer is recommendations."""
    data = MatchingData.from_interactions(*zip(*VIEWS, strict=True))
    models = {
        "factored": ("warp", "factored:dimensions=4"),
        "structured": ("lasr", "structured:dimensions=4,stages=1,k=3"),
        "item-item": ("slim", "item-item"),
    }
    return {
        name: (Ranker.from_recipe(recipe, model=model).fit(data), "recommend", ["user1", "user5"])
        for name, (recipe, model) in models.items()
    }


def sums() -> dict[str, Any]:
    """Combine two models of interactions; the answer is recommendations."""
    data = MatchingData.from_interactions(*zip(*VIEWS, strict=True))
    solver = "selection:max_trials=6"
    ranker = Ranker.from_recipe("recommend", solver=solver, random_state=1).fit(data)
    return {"combination": (ranker, "recommend", ["user1", "user5"])}


def answer(ranker: Ranker, method: str, argument: Any) -> Any:
    """Return what a model answers, as JSON has it."""
    if method == "predict":
        return [float(score) for score in ranker.predict(np.array(argument))]
    result = getattr(ranker, method)(argument, k=3)
    return [[[str(key), float(score)] for key, score in result[one]] for one in argument]


def main() -> None:
    """Write the files of one version."""
    folder = GOLDEN / sys.argv[1]
    folder.mkdir(parents=True, exist_ok=True)
    answers = folder / "expected.json"
    expected = json.loads(answers.read_text()) if answers.exists() else {}
    cases = {**judged(), **texts(), **views(), **sums()}
    for name, (ranker, method, argument) in cases.items():
        file = folder / f"{name}.safetensors"
        if not file.exists():
            ranker.save(file)
            result = answer(ranker, method, argument)
            expected[name] = {"method": method, "argument": argument, "result": result}
    answers.write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
