"""`ranking eval` of runs, and `ranking compare`."""

from __future__ import annotations

import gzip
import html.parser
import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import call
from conftest import make_judged, write_letor

DATA = make_judged(2, n_queries=20)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Two models, their runs, and the data as LETOR and as qrels."""
    paths = {"train": write_letor(tmp_path / "train.txt", make_judged(0))}
    paths["test"] = write_letor(tmp_path / "test.txt", DATA)
    for name, strength in (("a", 0.01), ("b", 100.0)):
        paths[name] = tmp_path / f"{name}.safetensors"
        words = ["--loss", "domination", "--regularizer", f"l2:strength={strength}"]
        call("train", paths["train"], *words, "--quiet", "-o", paths[name])
        paths[f"{name}.run"] = tmp_path / f"{name}.run"
        call("rank", paths[name], paths["test"], "-o", paths[f"{name}.run"])
    lines = [
        f"{DATA.query_ids[DATA.row_groups[row]]} 0 d{DATA.doc_ids[row]} {DATA.grades[row]:g}\n"
        for row in range(DATA.n_rows)
    ]
    paths["qrels"] = tmp_path / "judged.qrels"
    paths["qrels"].write_text("".join(lines))
    return paths


METRICS = "ndcg@10,map,mrr,recall@5,auc"


def test_a_run_measures_as_the_model_that_wrote_it(files):
    words = ["--metrics", METRICS, "--format", "jsonl"]
    by_model = call("eval", files["a"], files["test"], *words).stdout
    by_run = call("eval", "--run", files["a.run"], "--qrels", files["qrels"], *words).stdout
    assert by_run == by_model
    for name in ("a.run", "qrels"):
        packed = files[name].with_suffix(".gz")
        packed.write_bytes(gzip.compress(files[name].read_bytes()))
        files[name] = packed
    packed = call("eval", "--run", files["a.run"], "--qrels", files["qrels"], *words).stdout
    assert packed == by_run


def test_the_interval_stands_beside_the_mean(files):
    words = ["eval", files["a"], files["test"], "--metrics", "map"]
    last = json.loads(call(*words, "--format", "jsonl").stdout.splitlines()[-1])
    assert list(last) == ["query", "metrics", "interval"]
    low, high = last["interval"]["map"]
    assert low < last["metrics"]["map"] < high
    header, row = (line.split("\t") for line in call(*words, "--format", "tsv").stdout.splitlines())
    assert header == ["metric", "mean", "queries", "low", "high"]
    assert [float(row[at]) for at in (1, 3, 4)] == [last["metrics"]["map"], low, high]


def test_queries_that_are_in_one_file_only_are_counted(files, tmp_path):
    short = tmp_path / "short.run"
    lines = files["a.run"].read_text().splitlines(keepends=True)
    queries = list(dict.fromkeys(line.split()[0] for line in lines))
    selection = [line for line in lines if line.split()[0] in queries[:5]]
    short.write_text("".join([*selection, "999 Q0 d1 1 1.0 ranking\n"]))
    result = call("eval", "--run", short, "--qrels", files["qrels"], "-q", "--format", "tsv")
    assert [line.split("\t")[0] for line in result.stdout.splitlines()[1:]] == [*queries[:5], "all"]
    assert "15 of the queries of" in result.stderr
    assert "1 of the queries of" in result.stderr
    short.write_text("999 Q0 d1 1 1.0 ranking\n")
    result = call("eval", "--run", short, "--qrels", files["qrels"], code=1)
    assert "check that they belong together" in result.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["eval"],
        ["eval", "{a}"],
        ["eval", "--run", "{a.run}"],
        ["eval", "{a}", "{test}", "--run", "{a.run}", "--qrels", "{qrels}"],
        ["compare", "{a}", "{test}"],
        ["compare", "{a}", "{a}", "{test}"],
        ["compare", "{a}", "{b.run}", "{qrels}"],
        ["compare", "{a}", "{b}", "{test}", "--metrics", "ndgc"],
        ["compare", "{a.run}", "{b.run}", "{qrels}", "{qrels}"],
    ],
)
def test_misuse(files, words):
    spelled = [files[w[1:-1]] if w.startswith("{") else w for w in words]
    assert call(*spelled, code=2).stderr


def test_compare(files, tmp_path):
    words = ["--metrics", "map,pair-error", "--format", "jsonl"]
    models = call("compare", files["a"], files["b"], files["test"], *words).stdout
    runs = call("compare", files["a.run"], files["b.run"], files["qrels"], *words).stdout
    rows, same = ([json.loads(line) for line in text.splitlines()] for text in (models, runs))
    assert [{**row, "A": 0, "B": 0} for row in rows] == [{**row, "A": 0, "B": 0} for row in same]
    for row in rows:
        assert row["B - A"] == pytest.approx(row["mean B"] - row["mean A"])
        assert row["low"] <= row["B - A"] <= row["high"]
        assert row["p"] <= row["p Holm"] <= 1.0
        assert row["wins"] + row["ties"] + row["losses"] <= DATA.n_queries
    expected = call("eval", files["b"], files["test"], "--metrics", "map", "--format", "jsonl")
    last = json.loads(expected.stdout.splitlines()[-1])
    assert rows[0]["mean B"] == pytest.approx(last["metrics"]["map"])


class Closed(html.parser.HTMLParser):
    """Collects what a page would fetch."""

    fetched: list[str]

    def handle_starttag(self, tag, attrs):
        self.fetched += [value for key, value in attrs if key in ("src", "href", "data")]


def test_several_files_count_as_one(files, tmp_path):
    parts = [
        write_letor(tmp_path / f"part{start}.txt", DATA.select(range(start, DATA.n_queries, 2)))
        for start in (0, 1)
    ]
    files["c"] = tmp_path / "c.safetensors"
    files["c"].write_bytes(files["b"].read_bytes())
    words = ["--metrics", "map", "--format", "jsonl", "-o", tmp_path / "report.html"]
    for systems in (["a", "b"], ["a", "b", "c"]):
        start = ["compare", *(files[name] for name in systems)]
        whole = [
            json.loads(line) for line in call(*start, files["test"], *words).stdout.split("\n")[:-1]
        ]
        split = [json.loads(line) for line in call(*start, *parts, *words).stdout.split("\n")[:-1]]
        assert [(row["A"], row["B"], row["wins"], row["losses"]) for row in split] == [
            (row["A"], row["B"], row["wins"], row["losses"]) for row in whole
        ]
        for one, other in zip(split, whole, strict=True):
            assert one["B - A"] == pytest.approx(other["B - A"])
    assert f"Comparison on {parts[0]}, {parts[1]}" in (tmp_path / "report.html").read_text()


def test_the_report_needs_nothing_else(files, tmp_path):
    report = tmp_path / "report.html"
    words = ["compare", files["a.run"], files["b.run"], files["qrels"], "--metrics", "map"]
    assert "<html" not in call(*words, "-o", report).stdout
    text = report.read_text()
    page = Closed()
    page.fetched = []
    page.feed(text)
    assert page.fetched == []
    assert "url(" not in text
    assert "@import" not in text
    charts = re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL)
    assert len(charts) == 1
    bars = ElementTree.fromstring(charts[0]).findall("rect")
    assert len(bars) == DATA.n_queries
    again = tmp_path / "again.html"
    call(*words, "-o", again)
    assert again.read_bytes() == report.read_bytes()


def test_a_name_cannot_break_out_of_the_report(tmp_path):
    from ranking.metrics.comparison import compare
    from ranking.metrics.parse import parse_metric
    from ranking_cli.compare_report import MOST_BARS, report

    metrics = [parse_metric("map")]
    values = {
        system: {metrics[0].spelled(): np.random.default_rng(at).random(MOST_BARS + 1)}
        for at, system in enumerate(["<script>", "b&"])
    }
    text = report(compare(metrics, list(range(MOST_BARS + 1)), values), "<data>")
    assert "<script>" not in text
    assert "<data>" not in text
    chart = re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL)[0]
    assert len(ElementTree.fromstring(chart).findall("polygon")) == 2
