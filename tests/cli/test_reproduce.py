"""The mechanics of `ranking reproduce`: progress, a killed run, plots, the quick mark."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

import ranking_cli.reproduce as command
from ranking_cli.main import cli
from ranking_plugins.reproductions import Chart, Options, Progress, Row


class Made:
    """A reproduction of two data sets, which may be killed before a row."""

    def __init__(self) -> None:
        self.computed: list[str] = []
        self.stop_before = ""

    def rows(self, options: Options):
        for dataset in ("one", "two"):
            yield from options.completed(dataset) or self.of(dataset, options)

    def of(self, dataset: str, options: Options):
        for method in ("a", "b"):
            name = f"{dataset} {method}"
            if name == self.stop_before:
                raise KeyboardInterrupt
            self.computed.append(name)
            arrays = options.remember(name, lambda: {"x": np.array([0.1, np.pi])})
            history = [{"epoch": 1, "error": 0.5}, {"epoch": 2, "error": 0.25}]
            yield Row(dataset, method, {"m": float(arrays["x"][1])}, {"m": 1.0}, history=history)


@pytest.fixture
def fake_reproduction(monkeypatch):
    reproduction = Made()
    module = SimpleNamespace(
        title="Made",
        notes="Made up.",
        rows=reproduction.rows,
        count_rows=lambda options: 4,
        charts=lambda rows: [Chart("Figure 2", "threads", {"a": [(1.0, 2.0), (2.0, 1.0)]})],
    )
    monkeypatch.setattr(command, "load", lambda name: module)
    return reproduction


def call(tmp_path, *more):
    words = ["reproduce", "grid", "--data", str(tmp_path), "-o", str(tmp_path / "out"), *more]
    return CliRunner().invoke(cli, words)


def test_a_killed_run_continues_and_shows_its_progress(fake_reproduction, tmp_path):
    fake_reproduction.stop_before = "two b"
    assert call(tmp_path).exit_code != 0
    facts = json.loads((tmp_path / "out" / "results.json").read_text())
    assert facts["complete"] is False
    assert len(facts["rows"]) == 3
    fake_reproduction.computed.clear()
    fake_reproduction.stop_before = ""
    result = call(tmp_path)
    assert result.exit_code == 0, result.output
    # The data set that was finished is not computed again.
    assert fake_reproduction.computed == ["two a", "two b"]
    assert "continuing a run that was stopped after 3 rows" in result.stderr
    assert "4 of 4: two, b" in result.stderr
    facts = json.loads((tmp_path / "out" / "results.json").read_text())
    assert facts["complete"] is True
    assert [row["metrics"]["m"] for row in facts["rows"]] == [np.pi] * 4
    assert not (tmp_path / "out" / "partial").exists()
    # A run that was complete starts again; so does one with another seed.
    fake_reproduction.computed.clear()
    assert call(tmp_path).exit_code == 0
    assert len(fake_reproduction.computed) == 4


def test_partial_results_of_other_settings_are_not_used(fake_reproduction, tmp_path):
    fake_reproduction.stop_before = "one b"
    call(tmp_path)
    assert (tmp_path / "out" / "partial" / "one-a.json").exists()
    fake_reproduction.stop_before = "one a"
    call(tmp_path, "--seed", "1")
    assert not (tmp_path / "out" / "partial" / "one-a.json").exists()


def test_plots_are_files_and_quick_is_marked(fake_reproduction, tmp_path):
    result = call(tmp_path, "--quick")
    assert command.QUICK in result.stderr
    page = (tmp_path / "out" / "index.html").read_text()
    assert command.QUICK in page
    assert "Made (quick)" in page
    assert "ranking reproduce grid --seed 0 --quick" in page
    drawings = sorted(path.name for path in (tmp_path / "out" / "plots").glob("*.svg"))
    curves = {"figure-2.svg", "one-error.svg", "two-error.svg"}
    assert curves <= set(drawings)
    assert all(name.endswith("-quick.svg") for name in set(drawings) - curves)  # the bars
    drawing = (tmp_path / "out" / "plots" / "figure-2.svg").read_text()
    assert drawing.startswith('<svg xmlns="http://www.w3.org/2000/svg"')
    assert "<style>" in drawing
    assert call(tmp_path).exit_code == 0
    assert command.QUICK not in (tmp_path / "out" / "index.html").read_text()


def test_png_where_matplotlib_is_installed(fake_reproduction, tmp_path):
    pytest.importorskip("matplotlib")
    call(tmp_path)
    assert (tmp_path / "out" / "plots" / "figure-2.png").read_bytes()[:4] == b"\x89PNG"


def test_the_estimate_leaves_out_what_was_known(monkeypatch):
    now = iter([0.0, 1.0, 11.0, 21.0, 31.0])
    monkeypatch.setattr("ranking_plugins.reproductions.time.monotonic", lambda: next(now))
    messages: list[str] = []
    progress = Progress(4, messages.append)
    progress.step("first", known=True)
    progress.step("second")
    progress.step("third")
    progress.step("last")
    assert messages == [
        "1 of 4: first",
        "2 of 4: second; about 20 s left",
        "3 of 4: third; about 10 s left",
        "4 of 4: last",
    ]
