"""Third-party distributions, discovered by their entry points in a separate process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

GOOD = '''
import dataclasses
from typing import ClassVar

from ranking.contracts.loss import Loss
from ranking.contracts import hookimpl


@dataclasses.dataclass
class Strange(Loss):
    """A loss that no solver can minimise yet."""

    name: ClassVar[str] = "strange"


@hookimpl
def ranking_losses():
    return {"strange": Strange}
'''
BROKEN = "import a_module_that_is_not_there\n"
CLASHING = """
from ranking.contracts import hookimpl


@hookimpl
def ranking_losses():
    return {"domination": dict}
"""


def distribution(folder: Path, name: str, code: str) -> None:
    """Lay a distribution out as an installer would."""
    module = name.replace("-", "_")
    (folder / f"{module}.py").write_text(code)
    info = folder / f"{module}-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(f"[ranking]\nplugin = {module}\n")


@pytest.fixture
def third_party(tmp_path: Path) -> Path:
    distribution(tmp_path, "ranking-good", GOOD)
    distribution(tmp_path, "ranking-broken", BROKEN)
    distribution(tmp_path, "ranking-clashing", CLASHING)
    return tmp_path


def plugins(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Call `ranking plugins` with the third-party distributions."""
    command = [
        str(Path(sys.executable).with_name("ranking")),
        "plugins",
        "--format",
        "jsonl",
        *words,
    ]
    env = {**os.environ, "PYTHONPATH": str(folder), **environment}
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done


def test_a_good_plugin_is_listed_and_broken_ones_are_reported(third_party):
    done = plugins(third_party, "--load")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    result = {(row["kind"], row["name"]): row for row in rows}
    assert result["loss", "strange"] == {
        "kind": "loss",
        "name": "strange",
        "origin": "ranking-good",
        "version": "1.2",
        "help": "A loss that no solver can minimise yet.",
    }
    assert result["loss", "domination"]["origin"] == "ranking-kit"
    assert "ranking-broken 1.2, plugin plugin: cannot be loaded: ModuleNotFoundError" in done.stderr
    assert "ranking-clashing 1.2" in done.stderr
    assert "ranking-kit 0.1.0 has that name" in done.stderr


@pytest.mark.slow
def test_the_matrix_shows_the_reason_of_an_incompatibility(third_party):
    rows = [json.loads(line) for line in plugins(third_party, "--matrix").stdout.splitlines()]
    refused = [row for row in rows if row["loss"] == "strange"]
    assert refused
    assert not any(row["works"] for row in refused)
    parts = {"model": "linear", "solver": "coordinate"}
    fitting = [row for row in refused if all(row[kind] == parts[kind] for kind in parts)]
    assert fitting
    for row in fitting:
        assert "no coordinate interface" in row["reason"]
        assert row["instead"].startswith(("loss domination", "loss hinge and solver sgd"))


def test_plugins_are_switched_off(third_party):
    done = plugins(third_party, RANKING_DISABLED_PLUGINS="ranking-good,ranking-broken:plugin")
    assert "strange" not in done.stdout
    assert "ranking-good 1.2, plugin plugin: switched off" in done.stderr
    assert "ranking-broken 1.2, plugin plugin: switched off" in done.stderr
