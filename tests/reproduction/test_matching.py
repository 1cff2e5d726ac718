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
from ranking_plugins.reproductions import mart
from ranking_plugins.reproductions.matching import Collection, read

METHODS = ("random-walk", "lsi-qd", "lsi-dt", "pls", "rmls", "rmls-centered")
TREES = ("baseline", "pls", "rmls", "rmls-centered", "all")


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


def reproduced(folder: Path, out: Path) -> tuple[dict[str, dict], str]:
    result = CliRunner().invoke(
        cli, ["reproduce", "matching", "--data", str(folder), "--quick", "-o", str(out)]
    )
    assert result.exit_code == 0, result.output
    rows = json.loads((out / "results.json").read_text())["rows"]
    assert "mart" in (out / "index.html").read_text()
    return {row["method"]: row for row in rows}, result.stderr


def test_the_command_measures_every_method(collection, tmp_path, monkeypatch):
    pytest.importorskip("lightgbm")
    rows, output = reproduced(collection, tmp_path / "out")
    expected = {"bm25", *METHODS, *(f"{one}+bm25" for one in METHODS)}
    assert set(rows) == expected | {f"mart-{one}" for one in TREES}
    values = {method: row["metrics"]["ndcg@5"] for method, row in rows.items()}
    # Words of a topic go together in the clicks, so all that learn from them find the topic.
    assert all(0.0 <= value <= 1.0 for value in values.values())
    assert min(values[method] for method in ("pls", "rmls-centered", "mart-all")) > 0.7
    assert rows["mart-pls"]["paper"] == {"ndcg@1": 0.683, "ndcg@3": 0.751, "ndcg@5": 0.792}
    assert "is not installed" not in output
    # Without the extra, all but the trees are the same.
    monkeypatch.setattr(mart, "installed", lambda: False)
    less, output = reproduced(collection, tmp_path / "less")
    assert set(less) == expected
    assert mart.MISSING in output
    assert {name: row["metrics"] for name, row in less.items()} == {
        name: rows[name]["metrics"] for name in expected
    }


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
    result = Collection(name, read(real_data / "ir" / name), 0)
    M = click_matrix(result.log).rows
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
