"""`ranking reproduce letor`, on made-up folds."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from conftest import make_judged, write_letor

from ranking import JudgedLists, Ranker
from ranking_cli.main import cli
from ranking_plugins.reproductions import Options, letor


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Both data sets, five parts each; no query is in two of them."""
    for number, collection in enumerate(letor.COLLECTIONS):
        (tmp_path / collection.folder).mkdir(parents=True)
        for part in range(5):
            data = make_judged(10 * number + part, n_queries=8)
            data = JudgedLists(
                data.features, np.minimum(data.grades, 2), data.row_groups + 100 * part + 1
            )
            write_letor(tmp_path / collection.folder / f"S{part + 1}.txt", data)
    return tmp_path


@pytest.mark.slow
def test_the_folds_are_measured_beside_the_thesis(folder, tmp_path):
    out = tmp_path / "out"
    result = CliRunner().invoke(
        cli, ["reproduce", "letor", "--data", str(folder), "--format", "jsonl", "-o", str(out)]
    )
    assert result.exit_code == 0, result.output
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert {tuple(line) for line in lines} == {tuple(lines[0])}
    facts = json.loads((out / "results.json").read_text())
    assert len(facts["rows"]) == len(lines)
    for collection in ("OHSUMED", "MQ2008"):
        rows = {row["method"]: row for row in facts["rows"] if row["dataset"] == collection}
        assert (collection == "OHSUMED") == bool(rows["ListNet"]["paper"])
        for name in letor.METHODS:
            folds = [rows[f"{name}, fold {fold}"]["metrics"] for fold in range(1, 6)]
            for key in folds[0]:
                values = [fold[key] for fold in folds]
                assert rows[name]["metrics"][key] == pytest.approx(np.mean(values))
    published = next(row for row in facts["rows"] if row["method"] == "ListNet")
    assert published["paper"] == {"ndcg@5": 0.4432, "ndcg@10": 0.441}
    assert published["metrics"]["ndcg@5"] > 0.0
    assert "ListNet" in (out / "index.html").read_text()


def test_the_test_part_is_not_looked_at(folder):
    """Whatever its grades are, the weights of the fold are the same."""
    options = Options(folder, True, "auto", 1, 0, lambda text: None)
    parts = [letor._read(folder / letor.COLLECTIONS[0].folder, number) for number in range(5)]
    fitted: list[Ranker] = []
    original = Ranker.fit_with

    def spy(ranker: Ranker, *args: object, **options: object) -> object:
        fitted.append(ranker)
        return original(ranker, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ranker, "fit_with", spy)
        letor.run("OHSUMED", "domination", parts, 0, options)
        turned = parts[4]
        parts[4] = JudgedLists(
            turned.features, 2 - turned.grades, turned.query_ids[turned.row_groups]
        )
        letor.run("OHSUMED", "domination", parts, 0, options)
    first, second = (ranker.model_.weights.tobytes() for ranker in fitted)
    assert first == second


def test_missing_data_are_named(tmp_path):
    result = CliRunner().invoke(cli, ["reproduce", "letor", "--data", str(tmp_path)])
    assert result.exit_code == 1
    assert "S1.txt does not exist; give the folder that holds letor with --data" in result.output


@pytest.mark.slow
def test_a_table_a_data_set_with_empty_cells(folder):
    result = CliRunner().invoke(cli, ["reproduce", "letor", "--data", str(folder), "--quick"])
    assert result.exit_code == 0, result.output
    tables = [part.splitlines() for part in result.stdout.split("\n\n")]
    assert [{line.split()[0] for line in lines[2:]} for lines in tables] == [
        {collection.name} for collection in letor.COLLECTIONS
    ]
    assert "nan" not in result.stdout
