"""`ranking path`: strengths, warm-started, measured on validation data or by folds."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from conftest import make_judged, write_letor

from ranking import Ranker
from ranking.data.split import query_kfold
from ranking.training.wrappers.path import RegularizationPath
from ranking_cli.main import cli
from ranking_plugins.solvers import Coordinate

EXACT = Coordinate(max_epochs=5000, tolerance=1e-12)
STRENGTHS = (0.3, 0.03, 0.003)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    return {
        name: str(write_letor(tmp_path / f"{name}.txt", make_judged(seed, n_queries=20)))
        for seed, name in enumerate(("train", "valid"))
    }


def call(*words: str) -> list[dict]:
    result = CliRunner().invoke(cli, ["path", *words, "--format", "jsonl"])
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_warm_start_does_not_change_the_end():
    train, valid = make_judged(0, n_queries=20), make_judged(1, n_queries=20)
    ranker = Ranker(loss="domination", regularizer="l1", solver=EXACT)
    ranker.fit_with(
        RegularizationPath(ranker.plan(), STRENGTHS, ["map", "ndcg@5"]), train, valid=valid
    )
    path = ranker.report_
    for point in path:
        cold = Ranker(
            loss="domination", regularizer=f"l1:strength={point.strength}", solver=EXACT
        ).fit(train)
        penalty = cold.regularizer_.penalty(cold.model_.weights)
        assert point.loss == pytest.approx(cold.objective_ - penalty, rel=1e-5)
        assert point.metrics["map"] == pytest.approx(cold.score(valid, metric="map"))
        loss = cold.loss_.coordinate_problem(valid, cold.model_.weights, cold.kernel_, 1, "paper")
        assert point.held_out_loss == pytest.approx(loss.value(), rel=1e-4)
    assert [p.density for p in path] == sorted(p.density for p in path)
    assert [p.loss for p in path] == sorted((p.loss for p in path), reverse=True)
    best = max(path, key=lambda point: point.metrics["map"])
    assert ranker.regularizer_.strength == best.strength


def test_folds_are_means_over_paths():
    data = make_judged(3, n_queries=18)
    ranker = Ranker(loss="domination", regularizer="l2")
    path = RegularizationPath(ranker.plan(), STRENGTHS, ["map"])
    rows = path.cross_validate(data, 3, seed=5)
    values = [
        [p.metrics["map"] for p in path.fit(train, test).report]
        for train, test in query_kfold(data, 3, 5)
    ]
    np.testing.assert_allclose([row["map"] for row in rows], np.mean(values, axis=0))
    expected = np.std(values, axis=0, ddof=1) / np.sqrt(3)
    np.testing.assert_allclose([row["map se"] for row in rows], expected)
    assert rows == path.cross_validate(data, 3, seed=5, jobs=2)


def test_the_command_prints_and_plots(files, tmp_path):
    out = tmp_path / "path.html"
    rows = call(
        *(files["train"], "--valid", files["valid"], "--loss", "domination"),
        *("--regularizer", "l1", "--regularizer", "l2", "--strengths", "0.01,1,0.1"),
        *("--metrics", "ndcg@10,map", "-o", str(out)),
    )
    assert [(row["regularizer"], row["strength"]) for row in rows] == [
        (name, strength) for name in ("l1", "l2") for strength in (1.0, 0.1, 0.01)
    ]
    for name in ("l1", "l2"):
        mine = [row for row in rows if row["regularizer"] == name]
        assert [row for row in mine if row[""]] == [max(mine, key=lambda row: row["ndcg@10"])]
    text = out.read_text()
    for column in ("loss", "held-out loss", "density", "epochs", "ndcg@10", "map"):
        assert f"<code>{column}</code>" in text
    assert "Learning curve of the best strength" in text


def test_folds_on_the_command_line(files, tmp_path):
    out = tmp_path / "cv.html"
    rows = call(files["train"], "--folds", "3", "--recipe", "domination", "-o", str(out))
    assert len(rows) == 13
    assert {"map", "map se", "density se"} <= set(rows[0])
    assert "Learning curve" not in out.read_text()


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (["--loss", "domination"], "--valid DATA or --folds N"),
        (["--loss", "domination", "--folds", "3", "--strengths", "1,x"], "numbers above 0"),
        (["--loss", "domination", "--folds", "3", "--strengths", "0"], "numbers above 0"),
    ],
)
def test_misuse_says_what_to_do(files, words, printed):
    result = CliRunner().invoke(cli, ["path", files["train"], *words])
    assert result.exit_code == 2
    assert printed in result.output


def test_a_regularizer_without_a_strength_is_refused(judged):
    ranker = Ranker(
        loss="hinge",
        regularizer="none",
        solver="passive-aggressive:max_steps=10,steps_per_epoch=10",
    )
    with pytest.raises(ValueError, match="no parameter 'strength'"):
        RegularizationPath(ranker.plan(), STRENGTHS, ["map"]).fit(judged, judged)
