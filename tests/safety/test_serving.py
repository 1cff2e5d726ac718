"""What a hostile client sends to `ranking serve`: an answer or an error in JSON, and in time."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from ranking import JudgedLists, MatchingData, Ranker

pytest.importorskip("uvicorn", reason="uvicorn is not installed")
pytest.importorskip("starlette", reason="starlette is not installed")

from ranking_cli.main import cli
from ranking_cli.serving import app as serving
from ranking_cli.serving.models import Models, ServedModel

TOOLS = Path(__file__).parents[2] / "tools"
ROWS = JudgedLists(np.eye(3) * 1e3, [0, 1, 2], [0, 0, 0])
BEST = {"model": "linear", "documents": [{"id": "a", "features": [1, 2, 3]}]}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    users = MatchingData.from_interactions(["u1", "u1", "u2"], ["x", "y", "x"])
    rankers = {
        "linear": Ranker(loss="domination").fit(ROWS),
        "films": Ranker("factored:dimensions=3", "warp", solver="sgd:max_steps=9").fit(users),
    }
    rankers["linear"].model_.weights[:] = 10.0, 1.0, 1.0
    for name, ranker in rankers.items():
        ranker.save(folder / f"{name}.safetensors")
    return Models(
        [ServedModel(name, folder / f"{name}.safetensors", "auto", 1) for name in rankers]
    )


@pytest.fixture
def post(models, monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    from fuzzing.serving import request

    def send(path, body, **limits):
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        app = serving.build_app(models, serving.Limits(**limits))
        status, answer = request(app, path, content)
        return status, json.loads(answer, parse_constant=pytest.fail)

    return send


@pytest.mark.parametrize("value", [10**400, -(10**400)])
def test_numbers_beyond_double_precision_are_refused(post, value):
    status, answer = post("/rank", {**BEST, "documents": [{"id": 1, "features": [value, 0, 0]}]})
    assert (status, "double precision" in answer["error"]) == (400, True)


def test_scores_that_are_not_finite_are_refused(post):
    status, answer = post("/rank", {**BEST, "documents": [{"id": 1, "features": [1e308, 0, 0]}]})
    assert (status, "not finite" in answer["error"]) == (400, True)


@pytest.mark.parametrize("name", [None, True, [[1]], {"a": 1}, 0.5])
def test_ids_of_documents_are_texts_or_whole_numbers(post, name):
    status, answer = post("/rank", {**BEST, "documents": [{"id": name, "features": [1, 2, 3]}]})
    assert (status, "documents[0]" in answer["error"]) == (400, True)


@pytest.mark.parametrize("where", ["id", "key", "user"])
def test_half_characters_are_refused(post, where):
    body = {
        "id": b'{"model": "linear", "documents": [{"id": "\\ud800", "features": [1, 2, 3]}]}',
        "key": b'{"model": "linear", "documents": [{"id": 1, "features": {"\\ud800": 1}}]}',
        "user": b'{"model": "films", "user": "\\udfff"}',
    }[where]
    status, answer = post("/recommend" if where == "user" else "/rank", body)
    assert (status, "surrogates" in answer["error"]) == (400, True)


def test_messages_repeat_no_long_texts(post):
    status, answer = post("/recommend", {"model": "films", "user": "\x1b[2J" + "u" * 10**5})
    assert status == 400
    assert len(answer["error"]) < 2000
    assert "\x1b" not in answer["error"]


def test_an_answer_that_takes_long_is_given_up_and_others_go_on(post, monkeypatch):
    release = threading.Event()
    slow = {**serving.ANSWERS, "similar": lambda ranker, body: release.wait(20)}
    monkeypatch.setattr(serving, "ANSWERS", slow)
    try:
        start = time.monotonic()
        status, answer = post("/similar", {"model": "films", "item": "x"}, seconds=0.05)
        assert (status, time.monotonic() - start < 5.0) == (503, True)
        assert "ask for less" in answer["error"]
        assert post("/recommend", {"model": "films", "user": "u1"})[0] == 200
    finally:
        release.set()


def test_a_defect_is_hidden_from_the_client_and_cannot_act_on_the_terminal(
    post, monkeypatch, capsys
):
    def fail(ranker, body):
        raise KeyError("\x1b[2J")

    monkeypatch.setattr(serving, "ANSWERS", {**serving.ANSWERS, "similar": fail})
    status, answer = post("/similar", {"model": "films", "item": "x"})
    assert (status, "KeyError" in answer["error"]) == (500, False)
    shown = capsys.readouterr().err
    assert "KeyError" in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize("kind", ["fifo", "folder", "gone", "empty", "link to itself"])
def test_what_replaces_a_model_file_is_a_problem_and_the_model_goes_on(tmp_path, kind):
    path = tmp_path / "m.safetensors"
    Ranker(loss="domination").fit(ROWS).save(path)
    model = ServedModel("m", path, "auto", 1)
    first = model.ranker()
    path.unlink()
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "empty":
        path.touch()
    elif kind == "link to itself":
        path.symlink_to(path)
    assert model.ranker() is first
    assert bool(model.problem) == (kind in ("fifo", "folder", "empty"))


def test_a_token_is_read_from_a_regular_file_only(tmp_path, models):
    model, token = next(iter(models)).path, tmp_path / "token"
    os.mkfifo(token)
    done = CliRunner().invoke(cli, ["serve", str(model), "--token-file", str(token)])
    assert (done.exit_code, "not a regular file" in done.output) == (2, True)


@pytest.mark.slow
def test_slow_clients_are_cut_off(tmp_path):
    """A client that sends its headers, or its body, byte by byte holds no connection."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "cli"))
    try:
        from test_serve import Server
    finally:
        sys.path.pop(0)
    path = tmp_path / "m.safetensors"
    Ranker(loss="domination").fit(ROWS).save(path)
    server = Server(str(path), "--timeout", "0.5")
    try:
        host, _, port = server.url.rpartition("/")[2].partition(":")
        request = b"POST /rank HTTP/1.1\r\nHost: a\r\n"
        whole = b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"
        long = request + b"Content-Length: 50\r\n\r\n"
        for first, sent, expected in (
            (b"", request, b""),
            (whole, request, b""),
            (b"", long, b"503"),
        ):
            with socket.create_connection((host, int(port)), timeout=20) as client:
                if first:
                    client.sendall(first)
                    received = b""
                    while not received.rstrip().endswith(b"}"):  # may come in parts
                        received += client.recv(10**5)
                    assert b"200 OK" in received
                start = time.monotonic()
                client.sendall(sent)
                trickle(client)
                answer = client.recv(10**5)
                assert expected in answer if expected else not answer
                assert 0.3 < time.monotonic() - start < 10.0
        assert server.post("/rank", BEST | {"model": "m"})[0] == 200
    finally:
        server.stop()


def trickle(client: socket.socket) -> None:
    """Send some more bytes, one by one, all within the limit."""
    for _ in range(4):
        time.sleep(0.05)
        client.sendall(b"x")
