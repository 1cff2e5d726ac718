"""Targets of what is read back: model files, which are used, and checkpoints, which are resumed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import numpy as np
from scipy import sparse

import ranking_cli.train
from fuzzing.target import Target
from ranking import JudgedLists, MatchingData, PerQuery, Ranker, TextCollection, write_data
from ranking.errors import RankingError
from ranking_cli.main import cli
from ranking_plugins.callbacks import Checkpoint

SGD = "sgd:max_steps=20"
TREES = "lightgbm:max_epochs=2,num_leaves=3,min_data_in_leaf=2"
STEPS = "sgd:max_steps=40,steps_per_epoch=10"


def small_texts() -> TextCollection:
    """Return four texts in two classes."""
    texts = ["puck ice goal", "ice team goal", "moon orbit rocket", "rocket moon launch"]
    classes = np.array(["a", "a", "b", "b"])
    ids = np.arange(4)
    return TextCollection(
        ids, texts, ids, texts, labels=(classes, classes), queries_are_documents=True
    )


def small_data() -> tuple[JudgedLists, MatchingData, MatchingData]:
    """Return judged lists, relevance without features, and relevance with features."""
    rng = np.random.default_rng(0)
    judged = JudgedLists(rng.normal(size=(12, 3)), rng.integers(0, 3, 12), np.repeat([1, 2], 6))
    relevance = sparse.csr_array((rng.random((6, 7)) < 0.5).astype(float))
    ids = {"query_ids": [f"u{i}" for i in range(6)], "document_ids": [f"i{i}" for i in range(7)]}
    featured = MatchingData(
        queries=sparse.csr_array(rng.normal(size=(6, 3))),
        documents=sparse.csr_array(rng.normal(size=(7, 4))),
        relevance=relevance,
    )
    return judged, MatchingData(relevance=relevance, **ids), featured


def save_small_models(folder: Path) -> dict[str, tuple[Path, Any]]:
    """Train a small model of each kind; return its file and its data."""
    judged, matching, featured = small_data()
    texts = small_texts()
    rankers: dict[str, tuple[Ranker, Any]] = {
        "linear": (Ranker(loss="domination"), judged),
        "scaled": (Ranker(loss="domination", scale="standard"), judged),
        "thresholds": (Ranker.from_recipe("rankboost", solver="rankboost:max_epochs=4"), judged),
        "item-item": (Ranker.from_recipe("ease"), matching),
        "low-pass": (
            Ranker.from_recipe("graph-filter", model="item-item:dimensions=2,low_pass=0.1"),
            matching,
        ),
        "sparse-factored": (
            Ranker.from_recipe("rmls", model="sparse-factored:dimensions=3"),
            matching,
        ),
        "shared": (
            Ranker.from_recipe(
                "softmax", model="factored:dimensions=3,biases=false", solver="sgd:epochs=2"
            ),
            matching,
        ),
        "bilinear": (Ranker("bilinear", "hinge", "l1:strength=0.001", SGD), texts),
        "factored": (Ranker("factored:dimensions=3,biases=true", "warp", solver=SGD), matching),
        "featured": (Ranker("factored:dimensions=3", "bpr", solver=SGD), featured),
        "structured": (Ranker("structured:dimensions=3,k=3", "warp", solver=SGD), matching),
        "cascade": (Ranker("structured:dimensions=3,k=2", "warp", solver=SGD), texts),
    }
    if find_spec("lightgbm"):
        rankers["trees"] = Ranker.from_recipe("lambdamart", solver=TREES), judged
    saved = {}
    for name, (ranker, data) in rankers.items():
        saved[name] = folder / f"{name}.safetensors", data
        ranker.fit(data).save(saved[name][0])
    combined = Ranker.from_recipe(
        "combine", model=f"combination:models={saved['factored'][0]}+{saved['item-item'][0]}"
    )
    saved["combination"] = folder / "combination.safetensors", matching
    combined.fit(matching).save(saved["combination"][0])
    ranker = Ranker(loss="domination", solver="coordinate:max_epochs=3")
    prepared = ranker.prepare_data(texts)
    wrapper = PerQuery(ranker.plan())
    result = wrapper.fit(*wrapper.prepare(prepared.data, None))
    saved["per query"] = folder / "perquery.safetensors", texts
    ranker.adopt(result, prepared).save(saved["per query"][0])
    return saved


def use(path: Path, data: Any) -> None:
    """Load a model, and do with it what its kind can: rank, explain, export, train on."""
    loaded = Ranker.load(path)
    loaded.evaluate(data, metrics=["map"])
    uses: list[Callable[[], object]] = [lambda: loaded.partial_fit(data, steps=3)]
    exports: tuple[str, ...] = ("json", "vespa", "npy")
    if isinstance(data, JudgedLists):
        uses.append(lambda: loaded.predict(np.zeros((2, 3))))
        exports = ("json", "vespa", "elasticsearch-ltr", "solr-ltr")
    elif isinstance(data, TextCollection):
        uses.append(lambda: loaded.search(["ice moon"], k=2))
        uses.append(lambda: loaded.explain("ice moon", "moon puck"))
        exports = ("json", "sparse-index", "anserini")
    elif data.query_ids[0] == "u0":
        uses.append(lambda: loaded.recommend(["u1"], k=2))
        uses.append(lambda: loaded.similar_items(["i1"], k=2))
        uses.append(lambda: loaded.fold_in(data, {"new": ["i1", "i2"]}, k=2))
    if not isinstance(data, JudgedLists):
        uses.append(lambda: loaded.rank(data, k=3))
    uses += [lambda to=to: export(loaded, path.with_name("export"), to) for to in exports]
    outcomes = [outcome(each) for each in uses]
    errors = [one for one in outcomes if one is not None]
    if len(errors) == len(outcomes):
        raise errors[0]


def outcome(act: Callable[[], object]) -> RankingError | None:
    """Return the error with which a use is refused; anything else passes through."""
    try:
        act()
    except RankingError as error:
        return error
    return None


def export(ranker: Ranker, path: Path, to: str) -> None:
    """Export a model; what is JSON must be read back as strict JSON."""
    target = path / to
    path.mkdir(exist_ok=True)
    for file in ranker.export(target, to, overwrite=True):
        lines = file.suffix == ".jsonl"
        if lines or file.suffix == ".json" or file == target:
            text = file.read_bytes().decode()
            for one in text.split("\n")[:-1] if lines else [text]:
                json.loads(one, parse_constant=not_json)


def not_json(word: str) -> None:
    """Fail for NaN and Infinity, which other programs do not read."""
    raise AssertionError(f"an export holds {word}")


def model_targets(folder: Path) -> Iterator[Target]:
    """Yield a small model file of each kind, which is loaded and used."""
    for name, (path, data) in save_small_models(folder).items():
        yield Target(
            f"model {name}",
            "a.safetensors",
            path.read_bytes(),
            lambda path, data=data: use(path, data),
        )


FACTORED = {"model": "factored:dimensions=3"}
UNBIASED = {"model": "factored:dimensions=3,biases=false"}
ITEMS = {"model": "item-item", "loss": "squared", "regularizer": "elastic:strength=0.1"}
SQUARED = {**UNBIASED, "loss": "squared:unobserved=0.1", "regularizer": "l2:strength=0.1"}
HALF = {"loss": "alignment", "regularizer": "l1l2-row"}
SHARED = "sgd:max_steps=40,steps_per_epoch=10,n_negatives=3"

JUDGED_PARTS: dict[str, dict[str, str]] = {
    "coordinate": {"loss": "domination", "solver": "coordinate:max_epochs=4"},
    "pairwise lists": {"loss": "hinge", "solver": "coordinate:max_epochs=3"},
    "passive-aggressive": {"loss": "hinge", "solver": "passive-aggressive"},
    "sgd": {"loss": "logistic", "solver": STEPS},
    "lbfgs": {"loss": "listnet", "solver": "lbfgs:max_epochs=3,iterations=1"},
    "adarank": {"loss": "metric-exponential", "solver": "adarank:max_epochs=3"},
    "rankboost": {
        **{"model": "thresholds", "loss": "exponential-pairs"},
        "solver": "rankboost:max_epochs=3",
    },
    "trees": {"model": "trees", "loss": "lambdarank", "solver": TREES},
}
FEATURED_PARTS: dict[str, dict[str, str]] = {
    "bilinear": {"model": "bilinear", "loss": "hinge", "solver": STEPS},
    "row blocks": {**FACTORED, "loss": "hinge", "solver": "coordinate:max_epochs=3"},
}
MATCHING_PARTS: dict[str, dict[str, str]] = {
    "factored": {**FACTORED, "loss": "warp", "solver": STEPS},
    "listwise": {**FACTORED, "loss": "domination", "solver": STEPS},
    "alternating": {**FACTORED, **HALF, "solver": "alternating:max_epochs=3"},
    "cascade": {"model": "structured:dimensions=3,k=2", "loss": "warp", "solver": STEPS},
    "shared negatives": {**UNBIASED, "loss": "softmax", "solver": SHARED},
    "item columns": {**ITEMS, "solver": "coordinate:max_epochs=3"},
    "weighted squares": {**SQUARED, "solver": "alternating:max_epochs=3"},
}


def trainings() -> dict[str, tuple[dict[str, str], Any]]:
    """Return parts and data of trainings that leave a checkpoint."""
    tables = zip((JUDGED_PARTS, MATCHING_PARTS, FEATURED_PARTS), small_data(), strict=True)
    parts_by_name = {name: (parts, data) for table, data in tables for name, parts in table.items()}
    if not find_spec("lightgbm"):
        del parts_by_name["trees"]
    return parts_by_name


def checkpoint_targets(folder: Path) -> Iterator[Target]:
    """Yield checkpoints, from which a training is resumed."""
    for name, (parts, data) in trainings().items():
        path = folder / f"{name.replace(' ', '-')}.checkpoint"
        keep = Checkpoint(path, every=0.0)
        Ranker(**parts, callbacks=[keep]).fit(data)  # type: ignore[arg-type]

        def resume(path: Path, parts: Any = parts, data: Any = data) -> None:
            snapshot = Checkpoint(path, every=1e9).read()
            Ranker(**parts).plan().trainer(data).train(snapshot)

        yield Target(f"checkpoint {name}", "a.checkpoint", path.read_bytes(), resume)
    yield search_target(folder, small_data()[0])


def search_target(folder: Path, judged: JudgedLists) -> Target:
    """Return the checkpoint of a search, which the command line resumes."""
    rng = np.random.default_rng(1)
    other = JudgedLists(rng.normal(size=(12, 3)), rng.integers(0, 3, 12), np.repeat([1, 2], 6))
    write_data(judged, "letor", folder / "train.letor")
    write_data(other, "letor", folder / "valid.letor")
    output = folder / "search"
    checkpoint = folder / "search.checkpoint"
    words = ["train", str(folder / "train.letor"), "--valid", str(folder / "valid.letor")]
    words += ["--recipe", "domination", "-o", str(output), "--quiet"]

    class Interrupted(Checkpoint):
        """A checkpoint that stays behind because the third trial fails."""

        def write(self, run: Any) -> None:
            super().write(run)
            if len(self.outer_facts["search"]["trials"]) == 2:
                raise KeyboardInterrupt

    own, ranking_cli.train.Checkpoint = ranking_cli.train.Checkpoint, Interrupted
    try:
        cli(words, standalone_mode=False)
    except (SystemExit, KeyboardInterrupt, click.Abort):
        pass
    finally:
        ranking_cli.train.Checkpoint = own

    def resume(path: Path) -> None:
        checkpoint.write_bytes(path.read_bytes())
        try:
            cli([*words, "--resume"], standalone_mode=False)
        except click.ClickException as error:
            raise RankingError(error.message) from error

    return Target("checkpoint search", "a.search", checkpoint.read_bytes(), resume, 1)
