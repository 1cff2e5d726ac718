"""`ranking serve` as a real process on loopback."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from ranking import JudgedLists, MatchingData, Ranker, TextCollection
from ranking_cli.main import cli
from ranking_cli.serving.models import ServedModel

pytest.importorskip("uvicorn", reason="uvicorn is not installed")
pytest.importorskip("starlette", reason="starlette is not installed")


PROGRAM = "from ranking_cli.main import cli; cli()"


def films(seed: int = 0) -> Ranker:
    users, items = np.divmod(np.random.default_rng(0).choice(2400, 400, replace=False), 60)
    names = [f"u{one}" for one in users], [f"i{one}" for one in items]
    data = MatchingData.from_interactions(*names)
    return Ranker.from_recipe("warp", random_state=seed).fit(data)


def products() -> Ranker:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3)) * [1.0, 50.0, 0.1]
    grades = np.digitize(X[:, 0] + rng.normal(size=200), [0.0, 1.0])
    data = JudgedLists(X, grades, np.arange(200) // 10)
    return Ranker(loss="domination", regularizer="l2:strength=0.1", scale="standard").fit(data)


def words() -> Ranker:
    texts = ["goal ice puck", "rocket moon", "ice goal", "orbit moon star"]
    relevance = [[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0]]
    collection = TextCollection(["a", "b"], ["goal", "moon"], list("wxyz"), texts, relevance)
    return Ranker(model="bilinear", loss="hinge", solver="sgd:max_steps=50", features="text").fit(
        collection
    )


class Server:
    """A server in its own process."""

    def __init__(self, *arguments: str, token: str = "") -> None:
        environment = {**os.environ, "RANKING_TOKEN": token}
        self.token = token
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", PROGRAM, "serve", *arguments, "--port", "0"],
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        line = self.process.stderr.readline()
        if "http://" not in line:
            self.stop()
            raise AssertionError(line)
        self.url = line.strip().rpartition(" ")[2]

    def get(self, path: str) -> str:
        with urllib.request.urlopen(self.url + path, timeout=30) as answer:
            return answer.read().decode()

    def post(self, path: str, body: Any, token: str | None = None) -> tuple[int, dict[str, Any]]:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token if token is None else token}"}
        request = urllib.request.Request(self.url + path, content, headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:  # Python 3.14 warns of one that is not closed
                return error.code, json.load(error)

    def stop(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(timeout=60)
        self.process.stderr.close()
        return code


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    for name, ranker in (("films", films()), ("products", products()), ("words", words())):
        ranker.save(folder / f"{name}.safetensors")
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    paths = [str(folder / f"{name}.safetensors") for name in ("films", "words")]
    server = Server(*paths, f"shop={folder / 'products.safetensors'}", "--max-body", "20000")
    yield server
    server.stop()


def as_results(best: Any) -> list[dict[str, Any]]:
    return [{"id": one, "score": score} for one, score in best]


def test_recommend_and_similar_answer_what_python_answers(server, folder):
    ranker = Ranker.load(folder / "films.safetensors")
    for exclude in (True, False):
        body = {"model": "films", "user": "u3", "k": 4, "exclude_seen": exclude}
        status, answer = server.post("/recommend", body)
        expected = as_results(ranker.recommend(["u3"], 4, exclude_seen=exclude)["u3"])
        assert (status, answer) == (200, {"model": "films", "results": expected})
    status, answer = server.post("/similar", {"model": "films", "item": "i5", "k": 3})
    assert (status, answer["results"]) == (200, as_results(ranker.similar_items(["i5"], 3)["i5"]))


@pytest.mark.parametrize("by_name", [True, False])
def test_rank_scores_documents_by_their_features(server, folder, by_name):
    ranker = Ranker.load(folder / "products.safetensors")
    rows = np.random.default_rng(1).normal(size=(100, 3)) * [1.0, 50.0, 0.1]
    documents = [
        {"id": f"p{at}", "features": dict(zip("123", row, strict=True)) if by_name else row}
        for at, row in enumerate(rows.tolist())
    ]
    status, answer = server.post("/rank", {"model": "shop", "documents": documents, "k": 7})
    scores = ranker.predict(rows)
    best = np.argsort(-scores, kind="stable")[:7]
    assert status == 200
    assert [one["id"] for one in answer["results"]] == [f"p{at}" for at in best]
    np.testing.assert_array_equal([one["score"] for one in answer["results"]], scores[best])


def test_rows_are_explained(server, folder):
    ranker = Ranker.load(folder / "products.safetensors")
    rows = np.random.default_rng(1).normal(size=(5, 3)) * [1.0, 50.0, 0.1]
    documents = [{"id": f"p{at}", "features": row} for at, row in enumerate(rows.tolist())]
    body = {"model": "shop", "documents": documents, "document": "p2"}
    status, answer = server.post("/explain", body)
    assert status == 200
    assert answer["score"] == pytest.approx(ranker.predict(rows)[2])
    assert {one["document"] for one in answer["contributions"]} == {"1", "2", "3"}
    status, answer = server.post("/explain", {**body, "document": "p9"})
    assert (status, "none of the documents" in answer["error"]) == (400, True)


def test_new_users_are_folded_in_by_their_history(server, folder):
    ranker = Ranker.load(folder / "films.safetensors")
    status, answer = server.post("/recommend", {"model": "films", "history": ["i1", "i2"], "k": 3})
    assert status == 200
    assert answer["results"] == as_results(ranker.recommend_for(["i1", "i2"], 3))
    status, answer = server.post("/explain", {"model": "films", "query": "u1", "document": "i3"})
    assert status == 200
    assert answer["score"] == pytest.approx(
        sum(one.contribution for one in ranker.explain("u1", "i3"))
    )
    for body in ({"history": []}, {"history": "i1"}, {"history": ["i1"], "user": "u1"}):
        status, answer = server.post("/recommend", {"model": "films", **body})
        assert status == 400
        assert "history" in answer["error"]


def test_texts_are_searched_and_explained(server, folder):
    ranker = Ranker.load(folder / "words.safetensors")
    status, answer = server.post("/rank", {"model": "words", "query": "goal", "k": 2})
    assert (status, answer["results"]) == (200, as_results(ranker.search(["goal"], 2)["goal"]))
    status, answer = server.post(
        "/explain", {"model": "words", "query": "goal", "document": "goal ice"}
    )
    assert status == 200
    total = sum(one["contribution"] for one in answer["contributions"])
    assert answer["score"] == pytest.approx(total)
    status, answer = server.post("/explain", {"model": "words", "term": "goal", "k": 2})
    assert status == 200
    assert answer["related"][0]["term"] == str(ranker.related_features("goal", 1)[0].feature)


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("/recommend", {"user": "u1"}, 400, "give model, one of films, words, shop"),
        ("/recommend", {"model": "films", "user": "nobody"}, 400, "does not know user 'nobody'"),
        ("/recommend", {"model": "films", "user": ["u1"]}, 400, ""),
        ("/recommend", {"model": "films", "user": {"a": 1}}, 400, ""),
        ("/recommend", {"model": "films", "user": "u1", "k": 0}, 400, "k is 0"),
        ("/recommend", {"model": "films", "user": "u1", "k": True}, 400, "k is True"),
        ("/recommend", {"model": "films"}, 400, "give user"),
        ("/similar", {"model": "shop", "item": "i1"}, 400, "models of users and items"),
        ("/rank", {"model": "shop", "documents": []}, 400, "give query"),
        ("/rank", {"model": "shop", "documents": [{"id": 1, "features": [1]}]}, 400, "3 numbers"),
        (
            "/rank",
            {"model": "shop", "documents": [{"id": 1, "features": {"9": 1}}]},
            400,
            "unknown feature '9'",
        ),
        (
            "/rank",
            {"model": "shop", "documents": [{"id": 1, "features": ["a", 1, 2]}]},
            400,
            "features are numbers",
        ),
        ("/rank", {"model": "shop", "documents": [{"id": 1, "features": [1e999, 1, 2]}]}, 400, ""),
        ("/rank", {"model": "words", "query": 5}, 400, "must be a text"),
        ("/rank", b"{", 400, "not JSON"),
        ("/rank", b"[1]", 400, "must be a JSON object"),
        ("/rank", b'{"k": NaN}', 400, "not a number of JSON"),
        ("/rank", b"[" * 15000, 400, "not JSON"),
        ("/rank", b" " * 30000, 413, "longer than 20000 bytes"),
    ],
)
def test_bad_requests_say_what_to_change(server, path, body, status, message):
    code, answer = server.post(path, body)
    assert code == status, answer
    assert message in answer["error"]


def test_health_metrics_and_description(server):
    health = json.loads(server.get("/health"))
    assert health["status"] == "ok"
    assert [one["name"] for one in health["models"]] == ["films", "words", "shop"]
    before = server.get("/metrics")
    server.post("/recommend", {"model": "films", "user": "u1"})
    line = 'ranking_requests_total{path="/recommend",status="200"}'
    counts = [
        int(next((one.split()[-1] for one in text.splitlines() if one.startswith(line)), "0"))
        for text in (before, server.get("/metrics"))
    ]
    assert counts[1] == counts[0] + 1
    description = json.loads(server.get("/openapi.json"))
    assert {"/rank", "/recommend", "/similar", "/explain", "/health", "/metrics"} == set(
        description["paths"]
    )
    assert "POST /recommend" in server.get("/")


def test_the_model_of_a_replaced_file_is_freed(folder, tmp_path):
    path = tmp_path / "films.safetensors"
    shutil.copyfile(folder / "films.safetensors", path)
    served = ServedModel("films", path, "auto", 1)
    served.ranker().recommend(["u1"])  # what requests share is cached in the model
    previous = weakref.ref(served.ranker())
    films(seed=2).save(path)
    assert served.ranker() is not None
    assert previous() is None


def test_a_replaced_file_is_served_and_a_damaged_one_is_not(folder, tmp_path):
    path = tmp_path / "films.safetensors"
    shutil.copy(folder / "films.safetensors", path)
    server = Server(str(path))
    try:
        body = {"user": "u3", "k": 3}
        first = server.post("/recommend", body)[1]["results"]
        changed = films(seed=5)
        changed.save(path)  # atomic
        expected = as_results(changed.recommend(["u3"], 3)["u3"])
        assert expected != first
        assert server.post("/recommend", body)[1]["results"] == expected
        path.write_bytes(b"damaged")
        assert server.post("/recommend", body)[1]["results"] == expected
        health = json.loads(server.get("/health"))
        assert health["status"] == "degraded"
        assert "films.safetensors" in health["models"][0]["problem"]
    finally:
        assert server.stop() in (0, -signal.SIGTERM)


def test_a_token_is_asked_for(folder):
    server = Server(str(folder / "films.safetensors"), token="secret")
    try:
        assert server.post("/recommend", {"user": "u1"})[0] == 200
        for wrong in ("", "Secret", "secretsecret"):
            assert server.post("/recommend", {"user": "u1"}, token=wrong)[0] == 401
    finally:
        server.stop()


def test_a_token_may_be_in_a_file(folder, tmp_path):
    path = tmp_path / "token"
    path.write_text("secret\n")
    server = Server(str(folder / "films.safetensors"), "--token-file", str(path))
    try:
        assert server.post("/recommend", {"user": "u1"})[0] == 401
        assert server.post("/recommend", {"user": "u1"}, token="secret")[0] == 200
    finally:
        server.stop()


def test_requests_from_many_threads_get_the_same_answers(server, folder):
    from concurrent.futures import ThreadPoolExecutor

    bodies = [{"model": "films", "user": f"u{at % 40}", "k": 5} for at in range(200)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda body: server.post("/recommend", body), bodies))
    ranker = Ranker.load(folder / "films.safetensors")
    for body, (status, answer) in zip(bodies, answers, strict=True):
        assert status == 200
        assert answer["results"] == as_results(ranker.recommend([body["user"]], 5)[body["user"]])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_server_stops_when_it_is_told(folder, number):
    server = Server(str(folder / "films.safetensors"))
    start = time.monotonic()
    code = server.stop(number)
    assert code in (0, 1, -number)
    assert time.monotonic() - start < 30


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{films}", "--host", "0.0.0.0"], "RANKING_TOKEN"),
        (["missing.safetensors"], "no model file"),
        (["a={films}", "a={films}"], "the same name"),
        (["{films}", "--port", "70000"], "70000"),
    ],
)
def test_misuse_is_refused(folder, arguments, message, monkeypatch):
    monkeypatch.delenv("RANKING_TOKEN", raising=False)
    paths = [one.replace("{films}", str(folder / "films.safetensors")) for one in arguments]
    done = CliRunner().invoke(cli, ["serve", *paths])
    assert done.exit_code == 2
    assert message in done.output
