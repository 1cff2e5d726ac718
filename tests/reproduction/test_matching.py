"""`ranking reproduce matching`: the command on a made-up collection, and PLS on real clicks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.sparse.linalg import svds

from ranking import MatchingData, Ranker
from ranking.data.click_matrix import click_matrix
from ranking_cli.main import cli
from ranking_plugins.reproductions import Options, mart
from ranking_plugins.reproductions.matching import METHODS, Scored, _trees, read
from ranking_plugins.reproductions.simulated_log import Log

WEEK = (
    "bm25",
    "random-walk",
    "lsi-qd",
    "lsi-dt",
    "svdfeature",
    "bltm",
    "ssi",
    "pls",
    "rmls",
    "rmls-centered",
)
HALF_YEAR = ("bm25", "svdfeature", "bltm", "pls (words)", "rmls", "rmls-centered")


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    """Texts on four topics, as a BEIR folder; a query wants the texts of its topic."""
    rng = np.random.default_rng(0)
    topics = rng.integers(0, 4, 90)
    words = np.array([[f"w{topic}x{i}" for i in range(30)] for topic in range(4)])
    folder = tmp_path / "ir" / "cranfield"
    (folder / "qrels").mkdir(parents=True)
    with (folder / "corpus.jsonl").open("w") as file:
        for at, topic in enumerate(topics):
            text = " ".join(rng.choice(words[topic], 20))
            file.write(json.dumps({"_id": f"d{at}", "title": "", "text": text}) + "\n")
    with (
        (folder / "queries.jsonl").open("w") as file,
        (folder / "qrels" / "test.tsv").open("w") as judged,
    ):
        judged.write("query-id\tcorpus-id\tscore\n")
        for at in range(40):
            topic = at % 4
            text = " ".join(rng.choice(words[topic], 3))
            file.write(json.dumps({"_id": f"q{at}", "text": text}) + "\n")
            for document in np.flatnonzero(topics == topic):
                judged.write(f"q{at}\td{document}\t{1 + int(document % 2)}\n")
    return tmp_path


def reproduced(folder: Path, out: Path) -> tuple[dict[str, dict[str, dict]], str]:
    result = CliRunner().invoke(
        cli, ["reproduce", "matching", "--data", str(folder), "--quick", "-o", str(out)]
    )
    assert result.exit_code == 0, result.output
    rows = json.loads((out / "results.json").read_text())["rows"]
    results: dict[str, dict[str, dict]] = {}
    for row in rows:
        results.setdefault(row["dataset"], {})[row["method"]] = row
    return results, result.stderr


def test_the_command_measures_every_method(collection, tmp_path, monkeypatch):
    monkeypatch.setattr(mart, "installed", lambda: False)
    tables, output = reproduced(collection, tmp_path / "out")
    assert mart.MISSING in output
    combined = {"random-walk+bm25", "lsi-qd+bm25"}
    week = tables["cranfield, week"]
    assert set(week) == {*WEEK, *combined}
    assert set(tables["cranfield, half year"]) == set(HALF_YEAR)
    assert week["pls"]["paper"] == {"ndcg@1": 0.676, "ndcg@3": 0.728, "ndcg@5": 0.736}
    values = {method: row["metrics"]["ndcg@5"] for method, row in week.items()}
    assert all(0.0 < value <= 1.0 for value in values.values())
    assert all(0.0 <= row["metrics"].get("p", 0.0) <= 1.0 for row in week.values())
    bins = [name for name in tables if name.startswith("cranfield, week: ") and "clicks" in name]
    assert len(bins) >= 2
    queries = sum(tables[name]["bm25"]["metrics"]["queries"] for name in bins)
    mean = sum(
        tables[name]["pls"]["metrics"]["ndcg@5"] * tables[name]["pls"]["metrics"]["queries"]
        for name in bins
    )
    assert mean / queries == pytest.approx(values["pls"])
    assert tables["cranfield, week: statistics"]["table 1"]["metrics"]["d_x"] > 90
    timing = next(rows for name, rows in tables.items() if name.startswith("timing"))
    assert set(timing) == {*(f"rmls, {n} threads" for n in (1, 2, 4)), "pls"}
    assert timing["pls"]["paper"]["elapsed"] == 945_382.0
    assert (tmp_path / "out" / "plots" / "figure-2-seconds-of-rmls.svg").exists()


def test_the_log_is_simulated_as_described(collection):
    texts = read(collection / "ir" / "cranfield")
    log, longer = Log(texts, 3, 1), Log(texts, 3, 26)
    assert np.diff(log.clicks.indptr).tolist() == [10] * log.n_queries
    assert (log.clicks != longer.clicks).nnz > 0
    assert longer.clicks.sum() > 15 * log.clicks.sum()
    assert np.array_equal(log.total_clicks, log.clicks.sum(axis=1))
    for query in range(log.n_queries):
        row = slice(*log.positions.indptr[query : query + 2])
        shown = log.positions.indices[row][np.argsort(log.positions.data[row])]
        best = np.argsort(-log.bm25[query], kind="stable")
        assert shown.tolist() == best[:10].tolist()
        assert set(log.pool[query]) == set(best[:20])
        assert (log.grades[query] > 0).any()
    assert sorted([*log.valid, *log.test]) == list(range(log.n_queries))
    # Clicks fall with the position, and rise with the grade.
    grades = texts.select(np.arange(texts.n_queries)).relevance.toarray()
    assert grades.max() == 2.0
    at = longer.clicks.tocoo()
    by_position = np.bincount(longer.positions.data.astype(int), weights=at.data, minlength=11)
    assert by_position[1] > 2.0 * by_position[6]
    assert sum(members.sum() for members in log.bins().values()) == log.n_queries


def test_trees_join_the_table(collection):
    pytest.importorskip("lightgbm")
    log = Log(read(collection / "ir" / "cranfield"), 0, 1)
    rng = np.random.default_rng(0)
    good = Scored(log.grades + rng.normal(size=log.grades.shape), 0.0, 0.0, 1.0)
    noise = good._replace(scores=rng.normal(size=log.grades.shape))
    options = Options(collection, True, "auto", 1, 0, lambda text: None)
    table = _trees(log, {"bm25": noise, "pls": good}, options)
    assert set(table) == {"mart-baseline", "mart-pls", "mart-all"}
    values = {name: log.values(one.scores)[log.test, 2].mean() for name, one in table.items()}
    assert values["mart-pls"] > values["mart-baseline"]


def test_trees_learn_what_a_sum_cannot(seed):
    """Relevance is where two scores agree in sign: neither alone says anything."""
    pytest.importorskip("lightgbm")
    rng = np.random.default_rng(seed)
    one, other = rng.normal(size=(2, 60, 50))
    grades = (one * other > 0.5).astype(float)
    result = mart.boost(
        [one[:40], other[:40]], grades[:40], [one[40:], other[40:]], seed=0, threads=1
    )
    best = np.take_along_axis(grades[40:], np.argsort(-result.scores, axis=1)[:, :5], axis=1)
    assert best.mean() > 0.9
    alone = mart.boost([one[:40]], grades[:40], [one[40:]], seed=0, threads=1)
    best = np.take_along_axis(grades[40:], np.argsort(-alone.scores, axis=1)[:, :5], axis=1)
    assert best.mean() < 0.7
    again = mart.boost(
        [one[:40], other[:40]], grades[:40], [one[40:], other[40:]], seed=0, threads=2
    )
    np.testing.assert_array_equal(again.scores, result.scores)


@pytest.mark.filterwarnings("ignore::ranking.errors.DataWarning")
@pytest.mark.parametrize("name", ["cranfield", "med"])
def test_pls_captures_the_energy_of_svds_on_real_texts(real_data, name):
    M = click_matrix(Log(read(real_data / "ir" / name), 0, 1).full).rows
    d = 50
    fitted = Ranker(
        f"factored:dimensions={d},biases=false",
        "alignment:per_query=false",
        "orthonormal:scale=1",
        "alternating:max_epochs=100,tolerance=1e-5",
    ).fit(MatchingData(None, None, M))
    U, V = (side[:, :d].astype(float) for side in (fitted.model_.U, fitted.model_.V))
    exact = (svds(M.astype(float), k=d, return_singular_vectors=False) ** 2).sum()
    assert np.linalg.norm(U.T @ (M @ V)) ** 2 == pytest.approx(exact, rel=1e-4)
    assert fitted.stopped_ == "converged"


def test_lsi_has_fewer_dimensions_than_a_small_log_has_queries(collection):
    texts = read(collection / "ir" / "cranfield")
    log = Log(texts.select(np.arange(12)), 0, 1)
    options = Options(collection, False, "auto", 1, 0, lambda _: None)
    ((label, scored),) = METHODS["lsi-qd"](log, options)
    assert label == f"{log.n_queries - 1} dimensions"
    assert scored.scores.shape == log.pool.shape
