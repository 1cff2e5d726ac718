"""Plugins that misbehave: the program goes on, or stops, and says who did what."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest
from conftest import make_judged, make_tastes, write_letor

from ranking import Ranker
from ranking.data.writers import write
from ranking_plugins.losses import Hinge

PARTS = '''
import dataclasses
import time
from typing import ClassVar

import numpy as np

from ranking.contracts.loss import Loss
from ranking.contracts.metric import Metric
from ranking.contracts.callback import Callback
from ranking.contracts.reader import Reader
from ranking.contracts.regularizer import Regularizer
from ranking.contracts.solver import Solver
from ranking.contracts import hookimpl


@dataclasses.dataclass
class Odd(Loss):
    """The hinge, until it is asked for its slopes."""

    name: ClassVar[str] = "odd"
    interfaces: ClassVar[frozenset] = frozenset({"pairwise"})
    form: ClassVar[None] = None
    trials: ClassVar[int] = 1

    how: str = "well"

    def pairwise_value(self, margin):
        return np.maximum(0.0, 1.0 - margin)

    def pairwise_slope(self, margin):
        if self.how == "empty":
            return np.full(margin.shape, np.nan)
        if self.how == "shape":
            return np.zeros(3)
        if self.how == "type":
            return [0.0] * margin.size
        if self.how == "raise":
            raise ZeroDivisionError("the plugin divides")
        if self.how == "slow":
            time.sleep(0.4)
        return np.where(margin < 1.0, -1.0, 0.0)

    def rank_weight(self, rank):
        return np.ones(rank.shape)


@dataclasses.dataclass
class Nothing(Regularizer):
    """Answers words."""

    name: ClassVar[str] = "nothing"

    def penalty(self, parameters):
        return "none"

    def prox(self, parameters, step):
        return parameters


@dataclasses.dataclass
class Yes(Solver):
    """Says yes, and no more."""

    name: ClassVar[str] = "yes"

    @classmethod
    def accepts(cls, model, loss, regularizer):
        return True

    def run_epochs(self, problem):
        yield 1


@dataclasses.dataclass
class Once(Metric):
    """One number, however many queries there are."""

    name: ClassVar[str] = "once"

    def per_query(self, data, scores):
        return np.array([1.0, 2.0, 3.0])

    def spelled(self):
        return "once"


@dataclasses.dataclass
class Curious(Reader):
    """Fails on whatever it is shown."""

    name: ClassVar[str] = "curious"

    @classmethod
    def recognises(cls, path, head):
        raise OSError("no idea what this is")

    def read(self, path):
        raise NotImplementedError


@hookimpl
def ranking_losses():
    return {"odd": Odd}


@hookimpl
def ranking_regularizers():
    return {"nothing": Nothing, "none": Nothing, 7: Nothing}


@hookimpl
def ranking_solvers():
    return {"yes": Yes}


@hookimpl
def ranking_metrics():
    return {"once": Once}


@hookimpl
def ranking_readers():
    return {"curious": Curious}


@hookimpl
def ranking_models():
    return 5


@hookimpl
def ranking_recipes():
    raise RuntimeError("no recipes today")
'''


def distribution(folder: Path, name: str, code: str) -> None:
    """Lay a distribution out as an installer would."""
    module = name.replace("-", "_")
    (folder / f"{module}.py").write_text(code)
    info = folder / f"{module}-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(f"[ranking]\nplugin = {module}\n")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with data."""
    write_letor(tmp_path / "train.txt", make_judged(0))
    write(make_tastes(0), "tsv", tmp_path / "matching.tsv")
    return tmp_path


def ranking(
    folder: Path, *words: str, code: int = 0, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Call `ranking` in a folder with third-party plugins."""
    command = [str(Path(sys.executable).with_name("ranking")), *words]
    variables = {key: value for key, value in os.environ.items() if not key.startswith("RANKING_")}
    env = {**variables, "PYTHONPATH": str(folder), **environment}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


BUILT_IN = ("train", "train.txt", "--loss", "domination", "-o", "model.safetensors")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("import a_module_that_is_not_there", "cannot be loaded: ModuleNotFoundError: No module"),
        ("raise ValueError('not today')", "cannot be loaded: ValueError: not today"),
        ("def broken(:", "cannot be loaded: SyntaxError: "),
        ("import time; time.sleep(1.2)", "is slow: importing ranking_bad took "),
    ],
)
def test_one_that_fails_or_is_slow_at_import_is_named_and_the_rest_goes_on(here, body, message):
    distribution(here, "ranking-bad", body)
    done = ranking(here, *BUILT_IN)
    assert f"Warning: ranking-bad 1.2, plugin plugin: {message}" in done.stderr
    assert (here / "model.safetensors").exists()
    assert f"ranking-bad 1.2, plugin plugin: {message}" in ranking(here, "plugins", "--load").stderr


@pytest.mark.slow
def test_an_unknown_name_lists_the_plugins_that_were_left_out(here):
    distribution(here, "ranking-bad", "raise ValueError('not today')")
    done = ranking(here, *BUILT_IN[:2], "--loss", "no-such-loss", "-o", "m", code=2)
    assert "there is no loss 'no-such-loss'" in done.stderr
    assert "Left out: ranking-bad 1.2, plugin plugin: cannot be loaded: ValueError" in done.stderr


def test_nonsense_from_hooks_is_left_out_and_the_rest_of_the_plugin_works(here):
    distribution(here, "ranking-odd", PARTS)
    message = ranking(here, "plugins", "--load").stderr
    for words in (
        "regularizer 'none' is left out: ranking-kit 0.1.0 has that name",
        "regularizer 7 is not a name with a factory",
        "ranking_models() failed: TypeError",
        "ranking_recipes() failed: RuntimeError: no recipes today",
    ):
        assert f"ranking-odd 1.2, plugin plugin: {words}" in message
    names = ranking(here, "plugins", "--load", "--format", "jsonl").stdout
    assert '"name": "odd", "origin": "ranking-odd"' in names


TRAIN = ("train", "matching.tsv", "--model", "bilinear", "-o", "m.safetensors")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("empty", "pairwise_slope returned nan for finite arguments"),
        ("shape", "pairwise_slope returned shape (3,), expected (64,)"),
        ("type", "pairwise_slope returned list, not an array of numbers"),
        ("raise", "pairwise_slope raised ZeroDivisionError: the plugin divides"),
    ],
)
def test_an_invalid_result_of_a_loss_names_it(here, how, message):
    distribution(here, "ranking-odd", PARTS)
    words = ("--loss", f"odd:how={how}", "--solver", "sgd:max_steps=200,learning_rate=0.1")
    done = ranking(here, *TRAIN, *words, code=1)
    assert f"Error: loss 'odd' of ranking-odd 1.2: {message}" in done.stderr


@pytest.mark.slow
def test_a_loss_that_is_slow_is_named_and_trains(here):
    distribution(here, "ranking-odd", PARTS)
    words = ("--loss", "odd:how=slow", "--solver", "sgd:max_steps=200,learning_rate=0.1")
    done = ranking(here, *TRAIN, *words)
    message = (
        r"Warning: loss 'odd' of ranking-odd 1.2 is slow: it took \d+\.\d s of the \d+\.\d s of"
    )
    assert re.search(message, done.stderr)
    assert (here / "m.safetensors").exists()


@pytest.mark.slow
def test_an_invalid_result_of_a_regularizer_names_it(here):
    distribution(here, "ranking-odd", PARTS)
    words = (
        "--loss",
        "hinge",
        "--regularizer",
        "nothing",
        "--solver",
        "sgd:max_steps=200,learning_rate=0.1",
    )
    done = ranking(here, *TRAIN, *words, "--model", "factored", code=1)
    assert "regularizer 'nothing' of ranking-odd 1.2: penalty returned str" in done.stderr


@pytest.mark.slow
def test_an_invalid_result_of_a_solver_names_it(here):
    distribution(here, "ranking-odd", PARTS)
    done = ranking(here, *BUILT_IN, "--solver", "yes", "--model", "linear", code=1)
    assert (
        "solver 'yes' of ranking-odd 1.2: accepts answered bool, not a Compatibility" in done.stderr
    )


@pytest.mark.slow
def test_a_metric_of_the_wrong_shape_is_named_and_a_reader_that_fails_is_passed_over(here):
    distribution(here, "ranking-odd", PARTS)
    trained = ranking(here, *BUILT_IN)
    message = "reader 'curious' of ranking-odd 1.2 is skipped: OSError: no idea what this is"
    assert f"Warning: {message}" in trained.stderr
    done = ranking(here, "eval", "model.safetensors", "train.txt", "--metrics", "once", code=1)
    assert "metric 'once' of ranking-odd 1.2: per_query answered (3,)" in done.stderr


def test_listing_does_not_import_third_party_plugins(here):
    distribution(here, "ranking-bad", "open('touched', 'w').close()")
    listed = ranking(here, "plugins", "--format", "jsonl").stdout
    rows = [json.loads(line) for line in listed.splitlines()]
    assert not (here / "touched").exists()
    (row,) = [row for row in rows if row["origin"] == "ranking-bad"]
    assert (row["kind"], row["name"], row["version"]) == ("plugin", "plugin", "1.2")
    assert "ranking_bad, not imported" in row["help"]
    assert any(row["kind"] == "loss" and row["origin"] == "ranking-kit" for row in rows)
    ranking(here, "plugins", "--load")
    assert (here / "touched").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("environment", "loaded", "message"),
    [
        ({}, ["a", "b"], ""),
        ({"RANKING_PLUGINS": "off"}, [], "switched off by RANKING_PLUGINS=off"),
        ({"RANKING_ALLOWED_PLUGINS": ""}, [], "not loaded: it is not in RANKING_ALLOWED_PLUGINS"),
        ({"RANKING_ALLOWED_PLUGINS": "Ranking_B"}, ["b"], "it is not in RANKING_ALLOWED_PLUGINS"),
        ({"RANKING_ALLOWED_PLUGINS": "ranking-a:plugin"}, ["a"], "not in RANKING_ALLOWED"),
        ({"RANKING_DISABLED_PLUGINS": "ranking-b"}, ["a"], "switched off"),
        (
            {"RANKING_ALLOWED_PLUGINS": "ranking-b", "RANKING_DISABLED_PLUGINS": "ranking-b"},
            [],
            "switched off",
        ),
    ],
)
def test_only_trusted_plugins_are_imported(here, environment, loaded, message):
    for one in "ab":
        distribution(here, f"ranking-{one}", f"open('touched-{one}', 'w').close()")
    done = ranking(here, *BUILT_IN, "--quiet", **environment)
    assert "Warning" not in done.stderr
    assert sorted(path.name[-1] for path in here.glob("touched-*")) == loaded
    for words in (("plugins",), ("plugins", "--load")):
        output = ranking(here, *words, **environment).stderr
        for one in "ab":
            assert (f"ranking-{one} 1.2, plugin plugin:" in output) == (one not in loaded)
        assert message in output


@pytest.mark.slow
def test_a_model_file_names_the_plugins_that_made_it(here):
    distribution(here, "ranking-odd", PARTS)
    words = ("--loss", "odd", "--solver", "sgd:max_steps=200,learning_rate=0.1")
    ranking(here, *TRAIN, *words)
    header = (here / "m.safetensors").read_bytes()[:20000]
    assert b"ranking-odd" in header
    measured = ("eval", "m.safetensors", "matching.tsv", "--metrics", "map")
    assert "was made with" not in ranking(here, *measured).stderr
    info = here / "ranking_odd-1.2.dist-info"
    newer = info.rename(here / "ranking_odd-1.3.dist-info")
    (newer / "METADATA").write_text("Metadata-Version: 2.1\nName: ranking-odd\nVersion: 1.3\n")
    message = ranking(here, *measured).stderr
    assert "m.safetensors was made with ranking-odd 1.2 (loss odd), and here is 1.3" in message
    for path in newer.iterdir():
        path.unlink()
    newer.rmdir()
    message = ranking(here, *measured).stderr
    assert "made with ranking-odd 1.2 (loss odd), which is not installed here" in message
    assert "pip install ranking-odd==1.2" in message


MODEL = '''
import dataclasses
from typing import ClassVar

from ranking.models.linear import Linear
from ranking.contracts import hookimpl


@dataclasses.dataclass
class Line(Linear):
    """Linear, by another name."""

    name: ClassVar[str] = "line"


@hookimpl
def ranking_models():
    return {"line": Line}
'''


@pytest.mark.slow
def test_a_model_that_is_not_installed_is_refused_with_its_package(here):
    distribution(here, "ranking-line", MODEL)
    ranking(here, *BUILT_IN, "--model", "line")
    measured = ("eval", "model.safetensors", "train.txt", "--metrics", "map")
    ranking(here, *measured)
    message = ranking(here, *measured, code=1, RANKING_PLUGINS="off").stderr
    assert "model.safetensors needs model 'line' of ranking-line 1.2" in message
    assert "pip install ranking-line==1.2" in message
    assert "switched off by RANKING_PLUGINS=off" in message


@dataclasses.dataclass
class Mine(Hinge):
    """A loss of this module, so one that is watched."""

    name: ClassVar[str] = "mine"
    form: ClassVar[None] = None


def test_a_part_that_was_watched_is_left_as_it_was():
    ranker = Ranker(loss=Mine(), solver="sgd:max_steps=100,learning_rate=0.1").fit(make_tastes(0))
    assert not vars(ranker.loss_)
    assert ranker.description_["plugins"] == {}
    assert ranker.description_["parts"]["loss"]["distribution"] == __name__
