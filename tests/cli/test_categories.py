"""`ranking reproduce categories`, on made-up news."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
from click.testing import CliRunner

from ranking_cli.main import cli
from ranking_plugins.reproductions import categories


def write_news(folder: Path) -> Path:
    """Two frequent topics printed by words of their own, and one that is too rare."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    news = []
    for number in range(160):
        topic = "grain" if number % 2 else "ship"
        own = {"grain": "wheat corn harvest", "ship": "port vessel cargo"}[topic].split()
        words = [*rng.choice(own, 4), *rng.choice(["said", "mln", "dlrs", "week"], 6)]
        day = "6-APR-1987" if number < 110 else " 9-APR-1987"
        topics = [topic, "rare"] if number == 0 else [topic]
        news.append(
            {"title": None, "body": " ".join(words), "date": f"{day} 10:00:00", "topics": topics}
        )
    news.append({"title": "no topic", "body": "said", "date": "6-APR-1987 10:00:00", "topics": []})
    (folder / "news-0.json.gz").write_bytes(gzip.compress(json.dumps(news[:80]).encode()))
    (folder / "news-1.json").write_text(json.dumps(news[80:]))
    return folder


def test_topics_are_split_by_date(tmp_path):
    parts = categories.read(write_news(tmp_path / "news"), quick=False, seed=0)
    assert [part.query_ids.tolist() for part in parts] == [["grain", "ship"]] * 3
    assert [part.n_documents for part in parts] == [83, 27, 50]
    assert parts.test.n_relevant.sum() == 50


def test_the_methods_are_measured(tmp_path):
    write_news(tmp_path / "text" / "reuters21578")
    out = tmp_path / "out"
    result = CliRunner().invoke(
        cli, ["reproduce", "categories", "--data", str(tmp_path), "--quick", "-o", str(out)]
    )
    assert result.exit_code == 0, result.output
    every = json.loads((out / "results.json").read_text())["rows"]
    assert {row["method"] for row in every if row["dataset"] == "Reuters-21578, bigrams"}
    rows = {row["method"]: row for row in every if row["dataset"].endswith(" topics")}
    assert rows["pamir"]["paper"]["density"] == 0.2189
    assert all(row["metrics"]["map"] > 0.9 for row in rows.values())
    assert rows["domination-induction"]["density"] < rows["pamir"]["density"]


def test_missing_data_are_named(tmp_path):
    result = CliRunner().invoke(cli, ["reproduce", "categories", "--data", str(tmp_path)])
    assert result.exit_code == 1
    assert "has no .json or .json.gz files; give the folder that holds" in result.output
