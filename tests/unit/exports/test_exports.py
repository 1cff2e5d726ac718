"""Exports: each is scored by its consumer, or by an evaluator written from its documentation."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from ranking import JudgedLists, MatchingData, Ranker, TextCollection
from ranking.errors import CombinationError, DataError, FileError, PartError
from ranking.io import EXPORT_FORMATS
from ranking.io.exports.formats import FORMATS

N_ROWS = 1000
SIDES = ("queries", "documents")


def judged(seed: int = 0) -> JudgedLists:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_ROWS, 4)) * [1.0, 50.0, 0.2, 3.0] + [0.0, 100.0, 1.0, -5.0]
    grades = np.digitize(X[:, 0] + 0.02 * X[:, 1] + rng.normal(size=N_ROWS), [1.5, 3.0])
    return JudgedLists(X, grades, np.arange(N_ROWS) // 20)


def linear(scale: str | None = "standard") -> Ranker:
    return Ranker(loss="domination", regularizer="l2:strength=0.1", scale=scale).fit(judged())


def interactions() -> MatchingData:
    rng = np.random.default_rng(0)
    users, items = np.divmod(rng.choice(2400, size=400, replace=False), 60)
    return MatchingData.from_interactions(
        [f"u{user}" for user in users], [f"i{item}" for item in items]
    )


@pytest.fixture(scope="module")
def films() -> Ranker:
    return Ranker.from_recipe("warp").fit(interactions())


@pytest.fixture(scope="module")
def texts() -> Ranker:
    words = ["goal", "ice", "puck", "moon", "rocket", "orbit", "star"]
    rng = np.random.default_rng(1)
    documents = [" ".join(rng.choice(words, size=4)) for _ in range(30)]
    relevance = rng.random((5, 30)) < 0.2
    collection = TextCollection(
        list("abcde"), [f"{words[i]} {words[i + 1]}" for i in range(5)], range(30), documents,
        relevance.astype(float),
    )  # fmt: skip
    solver = "sgd:max_steps=50,learning_rate=0.1"  # no weight becomes negative
    return Ranker(model="diagonal", loss="hinge", solver=solver, features="text").fit(collection)


def expected_scores(films: Ranker) -> np.ndarray:
    """Return the scores of all users and items, in the order of the training data."""
    return films.model_.scores(interactions(), films.kernel_)


def test_every_format_has_a_line_of_help():
    assert list(FORMATS) == list(EXPORT_FORMATS)


@pytest.mark.parametrize("scale", [None, "standard", "min-max", "robust"])
@pytest.mark.parametrize("target", ["elasticsearch-ltr", "opensearch-ltr"])
def test_elasticsearch_scores_as_we_do(target, scale, tmp_path):
    ranker, data = linear(scale), judged(1)
    ranker.export(tmp_path / "m.json", target, name="m", feature_names=list("abcd"))
    body = json.loads((tmp_path / "m.json").read_text())["model"]
    assert body["name"] == "m"
    assert body["model"]["type"] == "model/linear"
    weights = json.loads(body["model"]["definition"])  # a text that holds flat JSON
    normalizers = body["model"].get("feature_normalizers", {})
    total = np.zeros(N_ROWS, np.float32)
    for at, name in enumerate("abcd"):  # float32, in the order of the feature set
        value = data.features[:, at].astype(np.float32)
        if name in normalizers:
            norm = normalizers[name]["standard"]
            value = (value - np.float32(norm["mean"])) / np.float32(norm["standard_deviation"])
        total += np.float32(weights[name]) * value
    np.testing.assert_allclose(total, ranker.score_rows(data), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("scale", [None, "standard", "robust"])
def test_solr_scores_as_we_do(scale, tmp_path):
    ranker, data = linear(scale), judged(1)
    ranker.export(tmp_path / "m.json", "solr-ltr", name="m")
    model = json.loads((tmp_path / "m.json").read_text())
    assert model["class"] == "org.apache.solr.ltr.model.LinearModel"
    total = np.zeros(N_ROWS, np.float32)
    for at, feature in enumerate(model["features"]):
        value = data.features[:, at].astype(np.float32)
        if "norm" in feature:
            assert feature["norm"]["class"] == "org.apache.solr.ltr.norm.StandardNormalizer"
            params = feature["norm"]["params"]
            assert all(isinstance(one, str) for one in params.values())
            value = (value - np.float32(params["avg"])) / np.float32(params["std"])
        total += np.float32(model["params"]["weights"][feature["name"]]) * value
    np.testing.assert_allclose(total, ranker.score_rows(data), rtol=2e-5, atol=2e-5)


def evaluate_vespa(expression: str, rows: np.ndarray, names: list[str]) -> np.ndarray:
    """Evaluate a rank expression of sums, products, if and log, row by row."""
    text = re.sub(r"attribute\((\w+)\)", r"v['\1']", expression)
    text = re.sub(r"if \((.*?) < 0, (.*?), (log\(1 \+ .*?\))\)", r"((\2) if \1 < 0 else \3)", text)
    code = compile(" ".join(text.split()), "expression", "eval")
    return np.array(
        [eval(code, {"log": np.log}, {"v": dict(zip(names, row, strict=True))}) for row in rows]
    )


@pytest.mark.parametrize("scale", [None, "standard", "log"])
def test_vespa_scores_as_we_do(scale, tmp_path):
    ranker, data = linear(scale), judged(1)
    ranker.export(tmp_path / "v", "vespa", name="products", feature_names=list("abcd"))
    profile = (tmp_path / "v" / "products.profile").read_text()
    expression = re.search(r"expression \{(.*?)\n        \}", profile, re.DOTALL).group(1)
    scores = evaluate_vespa(expression, data.features, list("abcd"))
    np.testing.assert_allclose(scores, ranker.score_rows(data), rtol=1e-9, atol=1e-9)
    with pytest.raises(DataError, match="name of a field"):
        ranker.export(tmp_path / "w", "vespa")


@pytest.mark.parametrize("scale", [None, "standard", "log"])
def test_onnxruntime_scores_linear_models_as_we_do(scale, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    pytest.importorskip("onnx", reason="onnx is not installed")
    ranker, data = linear(scale), judged(1)
    ranker.export(tmp_path / "m.onnx", "onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    (scores,) = session.run(["scores"], {"features": data.features})
    np.testing.assert_allclose(scores, ranker.score_rows(data), rtol=1e-12, atol=1e-12)


def test_onnxruntime_recommends_as_we_do(films, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    pytest.importorskip("onnx", reason="onnx is not installed")
    films.export(tmp_path / "m.onnx", "onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    users = np.arange(films.seen_.user_ids.size)
    scores, items = session.run(
        ["scores", "documents"], {"query": users, "k": np.array([5], np.int64)}
    )
    results = films.recommend(films.seen_.user_ids, 5, exclude_seen=False)
    for row, (_, best) in enumerate(results):
        assert [name for name, _ in best] == films.seen_.item_ids[items[row]].tolist()
        np.testing.assert_allclose(scores[row], [score for _, score in best], rtol=1e-5)


def test_onnxruntime_scores_texts_as_we_do(texts, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    pytest.importorskip("onnx", reason="onnx is not installed")
    texts.export(tmp_path / "m.onnx", "onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    documents = texts.documents_.rows.toarray().astype(np.float32)
    query = texts.text_.transform_queries(["goal ice"]).toarray().astype(np.float32)
    queries = np.repeat(query, documents.shape[0], axis=0)
    (scores,) = session.run(["scores"], {"queries": queries, "documents": documents})
    ours = dict(texts.search(["goal ice"], k=None)["goal ice"])
    ids = texts.documents_.ids.tolist()
    np.testing.assert_allclose(scores, [ours[one] for one in ids], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("quantised", [False, True])
def test_an_inverted_index_with_expanded_queries_scores_as_we_do(texts, quantised, tmp_path):
    texts.export(tmp_path / "index", "anserini" if quantised else "sparse-index")
    rows = (tmp_path / "index" / "documents.jsonl").read_text().splitlines()
    documents = {row["id"]: row["vector"] for row in map(json.loads, rows)}
    rows = (tmp_path / "index" / "expansions.jsonl").read_text().splitlines()
    expansions = {row["term"]: row["vector"] for row in map(json.loads, rows)}
    for query in ("goal ice", "moon"):
        expanded: dict[str, float] = {}
        for word in query.split():
            for term, weight in expansions[word].items():
                expanded[term] = expanded.get(term, 0.0) + weight
        ours = {str(one): score for one, score in texts.search([query], k=None)[query]}
        theirs = {
            one: sum(weight * vector.get(term, 0) for term, weight in expanded.items())
            for one, vector in documents.items()
        }
        a, b = np.array([[ours[one], theirs[one]] for one in documents]).T
        ratio = (a @ b) / (a @ a)  # the query's unit length changes no order
        # A quantised weight is off by at most half of 1 / 100, in tens of products.
        np.testing.assert_allclose(b, ratio * a, atol=ratio * 0.02 if quantised else 1e-5)


def test_negative_weights_are_counted_and_refused_by_inverted_indexes(texts, tmp_path):
    weights = texts.model_.weights.copy()
    texts.model_.weights = -weights
    try:
        with pytest.raises(CombinationError, match=f"{weights.nnz} of {weights.nnz} weights"):
            texts.export(tmp_path / "index", "sparse-index")
    finally:
        texts.model_.weights = weights


def test_numpy_embeddings_give_the_scores(films, tmp_path):
    films.export(tmp_path / "out", "npy")
    queries, documents = (
        np.load(tmp_path / "out" / f"{side}.npy", allow_pickle=False) for side in SIDES
    )
    np.testing.assert_allclose(queries @ documents.T, expected_scores(films), atol=1e-5)
    ids = json.loads((tmp_path / "out" / "document_ids.json").read_text())
    assert ids == films.seen_.item_ids.tolist()


def test_parquet_embeddings_give_the_scores(films, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    films.export(tmp_path / "out", "parquet")
    tables = [parquet.read_table(tmp_path / "out" / f"{side}.parquet") for side in SIDES]
    assert str(tables[0].schema.field("embedding").type).startswith("fixed_size_list")
    queries, documents = (np.array(one["embedding"].to_pylist()) for one in tables)
    np.testing.assert_allclose(queries @ documents.T, expected_scores(films), atol=1e-5)
    assert tables[1]["id"].to_pylist() == films.seen_.item_ids.tolist()


def test_faiss_finds_the_items_that_we_recommend(films, tmp_path):
    faiss = pytest.importorskip("faiss", reason="faiss is not installed")
    films.export(tmp_path / "index", "faiss")
    films.export(tmp_path / "arrays", "npy")
    index = faiss.read_index(str(tmp_path / "index" / "documents.faiss"))
    queries = np.load(tmp_path / "arrays" / "queries.npy")
    _, positions = index.search(queries, 5)
    check_items(films, positions)


def test_usearch_finds_the_items_that_we_recommend(films, tmp_path):
    index_of = pytest.importorskip("usearch.index", reason="usearch is not installed").Index
    films.export(tmp_path / "index", "usearch")
    films.export(tmp_path / "arrays", "npy")
    index = index_of.restore(tmp_path / "index" / "documents.usearch")
    queries = np.load(tmp_path / "arrays" / "queries.npy")
    check_items(films, np.array([index.search(row, 5, exact=True).keys for row in queries]))


def check_items(films: Ranker, positions: np.ndarray) -> None:
    results = films.recommend(films.seen_.user_ids, 5, exclude_seen=False)
    for row, (_, best) in enumerate(results):
        assert films.seen_.item_ids[positions[row]].tolist() == [name for name, _ in best]


def test_json_of_each_kind_of_model_gives_its_scores(films, texts, tmp_path):
    ranker, data = linear("log"), judged(1)
    ranker.export(tmp_path / "linear.json", "json")
    content = json.loads((tmp_path / "linear.json").read_text())
    values = np.sign(data.features) * np.log1p(np.abs(data.features))
    parts = np.array([[f["weight"], f["center"], f["width"]] for f in content["features"]])
    scores = ((values - parts[:, 1]) / parts[:, 2]) @ parts[:, 0]
    np.testing.assert_allclose(scores, ranker.score_rows(data), rtol=1e-9)
    films.export(tmp_path / "films.json", "json")
    content = json.loads((tmp_path / "films.json").read_text())
    rows = [
        np.array([one["embedding"] for one in content[side]]) for side in ("queries", "documents")
    ]
    np.testing.assert_allclose(rows[0] @ rows[1].T, expected_scores(films), atol=1e-5)
    texts.export(tmp_path / "texts.json", "json")
    content = json.loads((tmp_path / "texts.json").read_text())
    weights = texts.model_.weights
    assert len(content["weights"]) == weights.nnz


def test_vespa_feeds_of_embeddings_give_the_scores(films, tmp_path):
    films.export(tmp_path / "v", "vespa", name="films")
    feeds = {
        name: [json.loads(line) for line in (tmp_path / "v" / name).read_text().splitlines()]
        for name in ("documents.jsonl", "queries.jsonl")
    }
    documents = [row["fields"]["embedding"]["assign"]["values"] for row in feeds["documents.jsonl"]]
    queries = [row["input.query(embedding)"]["values"] for row in feeds["queries.jsonl"]]
    np.testing.assert_allclose(
        np.array(queries) @ np.array(documents).T, expected_scores(films), atol=1e-5
    )
    profile = (tmp_path / "v" / "films.profile").read_text()
    assert f"tensor<float>(x[{len(queries[0])}])" in profile


@pytest.mark.parametrize(
    ("target", "scale", "message"),
    [
        ("elasticsearch-ltr", "log", "no logarithm"),
        ("solr-ltr", "log", "no logarithm"),
        ("solr-ltr", "query-min-max", "all documents of a query"),
        ("onnx", "query-min-max", "all documents of a query"),
        ("parquet", "standard", "embeddings|queries and documents|users and items"),
        ("sparse-index", "standard", "collection of texts"),
    ],
)
def test_what_a_format_cannot_express_is_refused(target, scale, message, tmp_path):
    with pytest.raises((CombinationError, DataError), match=message):
        linear(scale).export(tmp_path / "out", target)
    assert not list(tmp_path.iterdir())


def test_misuse_is_refused(films, tmp_path):
    with pytest.raises(PartError, match="elasticsearch-ltr"):
        films.export(tmp_path / "x", "elastic")
    with pytest.raises(DataError, match="4 features, and 1 names"):
        linear().export(tmp_path / "x", "json", feature_names=["a"])
    films.export(tmp_path / "out", "npy")
    with pytest.raises(FileError, match="not empty"):
        films.export(tmp_path / "out", "npy")
    films.export(tmp_path / "out", "npy", overwrite=True)
    (tmp_path / "file").write_text("x")
    with pytest.raises(FileError, match="writes a folder"):
        films.export(tmp_path / "file", "npy")
