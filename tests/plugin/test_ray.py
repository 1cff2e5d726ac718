"""Engine ray: processes of a cluster train to the bits of one, also when one of them is killed."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner

from ranking import MatchingData, Ranker, get_kernel
from ranking.contracts.regularizer import RowMaximum
from ranking.errors import EngineError
from ranking_cli.main import cli
from ranking_plugins.engines.ray import RESTARTS, Ray, RayShards, connect
from ranking_plugins.solvers.shards import Computing, best_rows, split

if importlib.util.find_spec("ray") is None:
    pytest.skip("Ray is not installed: pip install ranking-kit[ray]", allow_module_level=True)

DENSE = "factored:dimensions=8,biases=false,init_scale=1"
PARTS = [
    ("l1l2-row:strength=0.5", DENSE),
    ("l1l2-row:strength=1", "sparse-factored:dimensions=30"),
    ("orthonormal", DENSE),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A cluster on this machine that all tests here share, since it takes seconds to start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        ray, ours = connect(None, 2)
        assert ours
        yield ray
        ray.shutdown()


def clicks(seed, n_queries=400, n_documents=300, widths=(500, 400)):
    rng = np.random.default_rng(seed)
    sides = [
        sp.random_array((n, w), density=0.02, rng=rng, dtype=np.float32, format="csr")
        for n, w in zip((n_queries, n_documents), widths, strict=True)
    ]
    return MatchingData(
        *sides, sp.csr_array(rng.poisson(0.05, (n_queries, n_documents)).astype(float))
    )


def fit(data, regularizer, model, **settings):
    solver = "alternating:max_epochs=4,tolerance=0,center=true"
    return Ranker(model, "alignment", regularizer, solver, kernel="cython", **settings).fit(data)


def same(one, other):
    assert one.history_ == other.history_
    for name, tensor in one.model_.tensors().items():
        assert other.model_.tensors()[name].tobytes() == tensor.tobytes(), name


def process_of(ray, worker):
    return ray.get(worker.__ray_call__.remote(lambda actor: os.getpid()))


@pytest.mark.parametrize(("regularizer", "model"), PARTS)
def test_two_processes_train_to_the_same_bits(seed, cluster, regularizer, model):
    data = clicks(seed)
    expected = fit(data, regularizer, model)
    same(expected, fit(data, regularizer, model, engine="ray:workers=2"))
    same(expected, fit(data, regularizer, model, engine="ray:workers=1", threads=2))


def fit_ials(data, **settings):
    parts = ("squared:unobserved=0.1", "l2:strength=0.1,frequency=1", "alternating:max_epochs=3")
    model = "factored:dimensions=8,biases=false"
    return Ranker(model, *parts, kernel="cython", **settings).fit(data.without_features())


def test_two_processes_train_ials_to_the_same_bits(seed, cluster):
    data = clicks(seed)
    expected = fit_ials(data)
    same(expected, fit_ials(data, engine="ray:workers=2"))
    same(expected, fit_ials(data, engine="ray:workers=1", threads=2))


STEPS = {
    "l1l2-row": ["best_rows", "best_rows"],
    "orthonormal": ["product_grams", "rotated", "product_grams", "rotated"],
}


@pytest.mark.parametrize(("regularizer", "model"), PARTS)
def test_a_killed_worker_changes_nothing_but_the_time(
    seed, cluster, regularizer, model, monkeypatch, caplog
):
    """One is killed after it was asked, at each kind of step in turn."""
    data = clicks(seed)
    expected = fit(data, regularizer, model)
    left, killed, ask = list(STEPS[regularizer.partition(":")[0]]), [], RayShards._request

    def ask_and_kill(shards, worker, step):
        name = shards.steps[step][0].partition(":")[2]
        kill = left and name == left[0] and worker is shards.workers[len(left) % 2]
        process = process_of(cluster, worker) if kill else 0
        queries = ask(shards, worker, step)
        if kill:
            os.kill(process, signal.SIGKILL)
            killed.append((left.pop(0), process))
        return queries

    monkeypatch.setattr(RayShards, "_request", ask_and_kill)
    same(expected, fit(data, regularizer, model, engine="ray:workers=2"))
    assert not left
    assert len({process for _, process in killed}) == len(killed) >= 2
    assert sum("another one gets its shard" in line for line in caplog.messages) == len(killed)


def test_only_lost_work_is_repeated(seed, cluster, monkeypatch):
    """The new worker repeats the half-step, and the other one nothing."""
    queries, killed, ask = {0: [], 1: []}, [], RayShards._request

    def count(shards, worker, step):
        number, name = shards.workers.index(worker), shards.steps[step][0].partition(":")[2]
        if not killed and number == 1 and name == "rotated":
            killed.append(process_of(cluster, worker))
            os.kill(killed[0], signal.SIGKILL)
        queries[number].append(name)
        return ask(shards, worker, step)

    monkeypatch.setattr(RayShards, "_request", count)
    Ranker(DENSE, "alignment", "orthonormal", "alternating:max_epochs=2", engine="ray").fit(
        clicks(seed)
    )
    half = ["product_grams", "rotated"]
    assert queries == {0: 3 * half, 1: 4 * half}


def test_a_worker_that_is_lost_again_and_again_ends_the_run(seed, cluster, monkeypatch):
    ask = RayShards._request

    def ask_and_kill(shards, worker, step):
        process = process_of(cluster, worker)
        queries = ask(shards, worker, step)
        os.kill(process, signal.SIGKILL)
        return queries

    monkeypatch.setattr(RayShards, "_request", ask_and_kill)
    with pytest.raises(EngineError, match=f"was lost {RESTARTS + 1} times"):
        fit(clicks(seed), PARTS[0][0], DENSE, engine="ray:workers=1")


def test_exceptions_of_workers_are_raised_here(cluster):
    matrix = sp.csr_array(np.eye(20, dtype=np.float32))
    with Ray(workers=2).scatter(split((matrix, matrix), 2)) as shards:
        by = Computing(get_kernel("cython"), 1)
        with pytest.raises(ValueError, match="there are embeddings for 7 features, and M has 20"):
            shards.map(best_rows, 0, np.zeros((7, 8), np.float32), by, RowMaximum(0.0, 1.0), None)


def test_more_workers_than_processors_are_refused(seed, cluster):
    with pytest.raises(EngineError, match="has 2 processors, and 3 workers with 2 threads"):
        fit(clicks(seed), PARTS[0][0], DENSE, engine="ray:workers=3", threads=2)


def test_one_cluster_at_a_time(seed, cluster):
    with pytest.raises(EngineError, match="connected to a Ray cluster already"):
        fit(clicks(seed), PARTS[0][0], DENSE, engine="ray:address=127.0.0.1:6379")


def test_a_cluster_of_others_needs_token_login(seed, cluster, monkeypatch):
    """Also if the program that calls has entered it."""
    monkeypatch.setattr(
        cluster.runtime_context.RuntimeContext, "gcs_address", property(lambda _: "10.0.0.5:6379")
    )
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with pytest.raises(EngineError, match="token authentication is off"):
        fit(clicks(seed), PARTS[0][0], DENSE, engine="ray")


OWN = """
import json, socket
from ranking_plugins.engines.ray import connect

ray, ours = connect(None, 1)
host, port = ray.get_runtime_context().gcs_address.rsplit(":", 1)
probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
probe.connect(("192.0.2.1", 9))  # sends nothing, but tells our address on the network
outside = probe.getsockname()[0]
probe.close()
reached = {}
for address in (host, outside):
    with socket.socket() as client:
        client.settimeout(5)
        reached[address] = client.connect_ex((address, int(port))) == 0
print(json.dumps({"host": host, "outside": outside, "reached": reached, "nodes": len(ray.nodes())}))
ray.shutdown()
"""


def test_a_cluster_of_our_own_is_closed_to_others(tmp_path):
    clean = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, "-P", "-c", OWN],
        env={**clean, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["host"] == "127.0.0.1"
    assert report["reached"].pop("127.0.0.1")
    assert not any(report["reached"].values()), report
    assert not (tmp_path / ".ray").exists()  # the token was never written down


def write_log(path, seed):
    words = np.random.default_rng(seed).choice(["cat", "dog", "car", "sun", "sea"], (60, 3))
    clicked = {f"{a} {b}\t{c} {a}": n + 1 for n, (a, b, c) in enumerate(words)}
    path.write_text("".join(f"{pair}\t{n}\n" for pair, n in clicked.items()))


def test_the_command_line(seed, tmp_path, monkeypatch):
    write_log(tmp_path / "log.tsv", seed)
    monkeypatch.chdir(tmp_path)
    words = ["train", "log.tsv", "--recipe", "rmls", "-o"]
    clean = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
    done = subprocess.run(
        [Path(sys.executable).with_name("ranking"), *words, "ray", "--engine", "ray:workers=2"],
        env={**clean, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert CliRunner().invoke(cli, [*words, "local"]).exit_code == 0
    expected, result = (Ranker.load(name).model_.tensors() for name in ("local", "ray"))
    assert all(result[name].tobytes() == tensor.tobytes() for name, tensor in expected.items())


def test_the_command_line_refuses_an_open_cluster(seed, tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.chdir(tmp_path)
    write_log(tmp_path / "log.tsv", seed)
    words = ["train", "log.tsv", "--recipe", "rmls", "-o", "m", "--engine"]
    done = CliRunner().invoke(cli, [*words, "ray:address=10.0.0.5:6379"])
    assert done.exit_code == 1
    assert "Set RAY_AUTH_MODE=token" in done.stderr


LONG = """
import time
from test_ray import DENSE, PARTS, clicks, fit
from ranking.contracts.callback import Callback

class Slow(Callback):
    name = "slow"
    def on_epoch_end(self, run, result):
        print("epoch", flush=True)
        time.sleep(2)
        return False

fit(clicks(0), PARTS[0][0], DENSE, engine="ray:workers=2", callbacks=[Slow()])
"""


def processes():
    """The parent, the state and the command of each process."""
    family = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            rest = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (folder / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue  # it has ended
        if rest[0] != "Z":
            family[int(folder.name)] = int(rest[1]), command
    return family


def descendants(process):
    """The processes below one, with their commands."""
    now, family = processes(), {process}
    while more := {one for one, (parent, _) in now.items() if parent in family} - family:
        family |= more
    return {one: now[one][1] for one in family - {process} if one in now}


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize("victim", ["RuntimeEnvAgent", "the driver"])
def test_a_killed_cluster_leaves_no_worker_behind(tmp_path, victim):
    """An agent takes its node with it, and Ray ends the program; so does the end of a driver."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
    driver = subprocess.Popen(
        [sys.executable, "-P", "-c", LONG],
        env={**clean, "HOME": str(tmp_path), "PYTHONPATH": str(Path(__file__).parent)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    below = {}
    try:
        assert driver.stdout.readline() == "epoch\n"
        below = descendants(driver.pid)
        assert len(below) >= 6, below
        agents = [one for one, command in below.items() if f"ray::{victim}" in command]
        os.kill(agents[0] if agents else driver.pid, signal.SIGKILL)
        output, _ = driver.communicate(timeout=30)
        if agents:
            assert driver.returncode == 1
            assert "raylet" in output, output[-2000:]  # the process that is a node of the cluster
        patience = time.monotonic() + 30
        # Ray's agents try for a minute to report the death to a head that is gone as well; then
        # they end too.
        below = {one: command for one, command in below.items() if "Agent" not in command}
        while left := {one: below[one] for one in processes() if one in below}:
            assert time.monotonic() < patience, left
            time.sleep(0.1)
    finally:
        driver.kill()
        driver.communicate()
        for one in set(processes()) & set(below):
            os.kill(one, signal.SIGKILL)
