"""`ranking data`: what it shows and what it converts."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from conftest import make_judged, write_letor

from ranking.data.readers.read import read, read_any
from ranking.data.synthetic import SYNTHETIC_DATA
from ranking_cli.main import cli

LETOR = "1 qid:1 1:1 2:5 #docid = a\n0 qid:2 1:2 2:5\n1 qid:1 1:1 2:5 #docid = b\n"


def call(*words: object, code: int = 0) -> Result:
    """Call the command and expect an exit code."""
    result = CliRunner().invoke(cli, ["data", *(str(word) for word in words)])
    if result.exit_code != code:
        raise AssertionError(f"exit {result.exit_code}:\n{result.output}") from result.exception
    return result


def facts(path: Path, *words: object) -> dict[str, object]:
    """Return what the command says of a path."""
    lines = call(path, "--format", "jsonl", *words).stdout.splitlines()
    return {row["what"]: row["value"] for row in map(json.loads, lines)}


@pytest.fixture
def letor(tmp_path: Path) -> Path:
    """A file with everything to be warned of."""
    path = tmp_path / "data.txt"
    path.write_text(LETOR)
    return path


def test_judged_lists_and_doubts(letor):
    output = facts(letor)
    assert output["format"] == "letor"
    assert (output["rows"], output["queries"], output["features"]) == (3, 2, 2)
    assert output["grades"] == "0: 1, 1: 2"
    assert output["query ids"] == "1, 2"
    text = call(letor).stdout
    assert "1 of 2 queries are not next to each other" in text
    assert "2 of 2 queries have one grade only" in text
    assert "1 of 2 features are constant" in text
    assert "1 of 3 rows repeat the features of another row of their query" in text


@pytest.mark.parametrize(
    ("content", "want"),
    [
        ("user,item\n1,2\n3,2\n", {"format": "interactions", "judged pairs": 2}),
        ("1 0 a 1\n", {"format": "qrels", "kind": "judgements", "grades": "1: 1"}),
        ("1 Q0 a 1 0.5 t\n", {"format": "run", "kind": "ranking", "scores": "0.5: 1"}),
        ("a shoe\tshop\t3\n", {"format": "clicks", "kind": "texts", "documents": 1}),
        ("1 1:1\n2 1:3\n", {"format": "svmlight", "classes": 2}),
    ],
)
def test_other_kinds(tmp_path, content, want):
    path = tmp_path / "data"
    path.write_text(content)
    output = facts(path)
    assert {key: output[key] for key in want} == want


@pytest.mark.parametrize("form", ["table", "tsv", "markdown"])
def test_every_format_has_every_row(letor, form):
    assert "document ids" in call(letor, "--format", form).stdout


@pytest.mark.parametrize("name", ["copy.txt", "copy.txt.gz"])
def test_letor_to_letor(tmp_path, name):
    source = write_letor(tmp_path / "data.txt", make_judged(3))
    result = call(source, "--convert", "letor", "-o", tmp_path / name)
    assert result.stdout == ""
    one, other = read(source), read(tmp_path / name)
    np.testing.assert_array_equal(one.features, other.features)
    np.testing.assert_array_equal(one.grades, other.grades)
    assert one.doc_ids.tolist() == other.doc_ids.tolist()
    assert one.query_ids.tolist() == other.query_ids.tolist()
    packed = (tmp_path / name).read_bytes().startswith(b"\x1f\x8b")
    assert packed == name.endswith(".gz")


@pytest.mark.parametrize(("form", "reader"), [("tsv", "interactions"), ("parquet", "parquet")])
def test_interactions(tmp_path, form, reader):
    path = tmp_path / "ratings.dat"
    path.write_text("1::10::5::978300760\n2::10::3.5::978300761\n")
    call(path, "--convert", form, "-o", tmp_path / "out")
    data = read_any(tmp_path / "out", reader)
    assert data.relevance.toarray().tolist() == [[5], [3.5]]
    assert data.times.tolist() == [978300760, 978300761]


def test_features_that_are_not_written_are_reported(tmp_path):
    (tmp_path / "x.user").write_text("user_id:token\tage:float\n1\t30\n")
    path = tmp_path / "x.inter"
    path.write_text("user_id:token\titem_id:token\n1\t2\n")
    result = call(path, "--convert", "tsv", "-o", tmp_path / "out")
    assert "features are not written" in result.stderr


def test_judgements(tmp_path):
    path = tmp_path / "test.tsv"
    path.write_bytes(gzip.compress(b"query-id\tcorpus-id\tscore\nq\td\t2\n"))
    call(path, "--convert", "qrels", "-o", tmp_path / "out")
    assert (tmp_path / "out").read_text() == "q 0 d 2\n"


def test_misuse_and_failure(letor, tmp_path):
    assert "go together" in call(letor, "--convert", "letor", code=2).stderr
    assert "go together" in call(letor, "-o", tmp_path / "x", code=2).stderr
    call(tmp_path / "absent", code=2)
    failed = call(letor, "--convert", "run", "-o", tmp_path / "x", code=1)
    assert "a JudgedLists cannot be written as run" in failed.stderr
    failed = call(letor, "--convert", "letor", "-o", tmp_path / "no" / "x", code=2)
    assert "no does not exist; create it first" in failed.stderr
    assert "not in a known format" not in call(letor, "--reader", "qrels", code=1).stderr
    letor.write_text("nonsense\n")
    assert "not in a known format" in call(letor, code=1).stderr
    assert not (tmp_path / "x").exists()


def test_get_writes_what_the_reader_reads(tmp_path):
    folder = tmp_path / "new" / "folder"
    printed = call("get", "demo", "-o", folder).stderr
    parts = {part: read(folder / f"{part}.txt") for part in ("train", "valid", "test")}
    assert [data.n_queries for data in parts.values()] == [120, 40, 60]
    assert len({query for data in parts.values() for query in data.query_ids.tolist()}) == 220
    for part, data in parts.items():
        result = SYNTHETIC_DATA["demo"]()[part]
        assert f"{folder / part}.txt written" in printed
        sizes = np.diff(data.group_ptr)
        assert sizes.min() >= 12
        assert sizes.max() < 40
        assert np.unique(data.grades).tolist() == [0, 1, 2, 3]
        np.testing.assert_array_equal(data.features, result.features.astype(np.float32))
        assert data.doc_ids.tolist() == result.doc_ids.tolist()


def test_get_overwrites_nothing(tmp_path):
    (tmp_path / "valid.txt").write_text("mine")
    printed = call("get", "demo", "-o", tmp_path, code=2).stderr
    assert "valid.txt exists; name another folder with -o, or remove it." in printed
    assert [path.name for path in tmp_path.iterdir()] == ["valid.txt"]
    printed = call("get", "demo", "-o", tmp_path / "valid.txt", code=1).stderr
    assert "cannot be created" in printed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["get"], "say which data set: demo."),
        (["get", "ohsumed"], "there is no data set 'ohsumed'; available are demo."),
        (["get", "demo", "--convert", "letor"], "--convert is for a PATH"),
        (["some.txt", "demo"], "give one PATH, or `get NAME`; demo is not expected."),
        (["none.txt"], "Path 'none.txt' does not exist."),
    ],
)
def test_misuse_of_get(words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in call(*words, code=2).stderr
    assert not list(tmp_path.iterdir())


def test_get_goes_to_a_folder_of_its_name_and_a_file_called_get_is_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call("get", "demo")
    assert (tmp_path / "demo" / "train.txt").exists()
    (tmp_path / "get").write_text(LETOR)
    assert facts(Path("get"))["rows"] == facts(Path("./get"))["rows"] == 3
    printed = call("get", "--convert", "letor", "-o", "demo", code=2).stderr
    assert "demo is a folder; name the file that --convert writes." in printed


RATINGS = "user,item,rating,timestamp\n" + "".join(
    f"u{user},i{item},{1 + (user + item) % 5},{10 * user + item}\n"
    for user in range(6)
    for item in range(4)
)


@pytest.mark.parametrize(
    ("method", "n_test"), [("by-time", 5), ("leave-one-out", 6), ("random", 5)]
)
def test_a_split_divides_interactions(tmp_path, method, n_test):
    path = tmp_path / "ratings.csv"
    path.write_text(RATINGS)
    printed = call(path, "--split", method, "-o", tmp_path / "parts").stderr
    train, test = (read_any(tmp_path / "parts" / f"{name}.tsv") for name in ("train", "test"))
    assert test.relevance.nnz == n_test
    assert train.relevance.nnz == 24 - n_test
    assert f"test.tsv written: {n_test} interactions" in printed
    if method == "by-time":
        assert train.times.max() < test.times.min()
        assert "test has 1 users without training data, such as 'u5'; they are ranked by" in printed


def test_a_split_of_texts_is_a_beir_folder(tmp_path):
    source, folder = tmp_path / "smart", tmp_path / "parts"
    source.mkdir()
    (source / "a.all").write_text(
        "".join(f".I {at}\n.T\nTitle {at}\n.W\nbody \u00e9 {at}\n" for at in range(1, 9))
    )
    (source / "a.qry").write_text("".join(f".I {at}\n.W\nquery {at}\n" for at in range(1, 6)))
    (source / "a.rel").write_text(
        "".join(f"{at} {at + shift} 1\n" for at in range(1, 6) for shift in (0, 3))
    )
    whole = read_any(source)
    printed = call(source, "--split", "by-query", "--valid", "-o", folder).stderr
    assert (
        "train.tsv written: 6 judgements of 3 queries; read it by --reader beir:split=train"
        in printed
    )
    parts = [read_any(folder, f"beir:split={name}") for name in ("train", "valid", "test")]
    assert sorted(one for part in parts for one in part.query_ids.tolist()) == [
        "1",
        "2",
        "3",
        "4",
        "5",
    ]
    texts = dict(zip(map(str, whole.query_ids.tolist()), whole.query_texts, strict=True))
    for part in parts:
        assert part.document_texts == whole.document_texts
        assert [texts[one] for one in part.query_ids.tolist()] == list(part.query_texts)
        rows = [whole.query_ids.astype(str).tolist().index(one) for one in part.query_ids.tolist()]
        assert (part.relevance != whole.relevance[rows]).nnz == 0
    message = call(
        folder, "--reader", "beir:split=train", "--split", "random", "-o", folder, code=2
    )
    assert "name another folder" in message.output


def test_a_split_of_a_click_log_is_logs(tmp_path):
    log = tmp_path / "log.tsv"
    log.write_text("".join(f"query {at}\tdocument {at % 3}\t{at}\n" for at in range(10)))
    printed = call(log, "--split", "by-query", "-o", tmp_path / "parts").stderr
    assert "test.tsv written: 2 judgements of 2 queries" in printed
    lines = [(tmp_path / "parts" / f"{name}.tsv").read_text() for name in ("train", "test")]
    assert sorted("".join(lines).splitlines()) == sorted(log.read_text().splitlines())


def test_a_split_of_judged_lists_divides_no_query(tmp_path):
    path = write_letor(tmp_path / "all.txt", make_judged(0, n_queries=10))
    call(path, "--split", "by-query", "--share", "0.3", "--valid", "-o", tmp_path)
    parts = [read(tmp_path / f"{name}.txt") for name in ("train", "valid", "test")]
    assert [part.n_queries for part in parts] == [5, 2, 3]
    ids = np.concatenate([part.query_ids for part in parts])
    assert sorted(ids.tolist()) == sorted(read(path).query_ids.tolist())
    assert (
        "rows of a query belong together"
        in call(path, "--split", "random", "-o", tmp_path, code=1).output
    )
    assert "name a method" in call(path, "--share", "0.3", code=2).output
    assert "a folder" in call(path, "--split", "random", code=2).output


LOG = """query,document,position,click
a,x,1,1
a,x,1,1
a,x,2,1
a,x,2,0
a,y,1,1
a,y,2,1
a,y,2,0
b,z,1,0
"""


@pytest.mark.filterwarnings("ignore:.*repeat a user and an item")
@pytest.mark.parametrize("packed", [False, True])
def test_propensities_of_a_log_are_written_with_its_clicks(tmp_path: Path, packed: bool) -> None:
    path, clicks = tmp_path / ("log.csv.gz" if packed else "log.csv"), tmp_path / "clicks.csv"
    path.write_bytes(gzip.compress(LOG.encode()) if packed else LOG.encode())
    result = call(path, "--propensities", "-o", clicks, "--format", "jsonl")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(row["position"], row["impressions"], row["clicks"]) for row in rows] == [
        (1, 4, 3),
        (2, 4, 2),
    ]
    assert [row["propensity"] for row in rows] == pytest.approx([1.0, 0.5], rel=1e-3)
    data = read_any(clicks)
    assert data.query_ids.tolist() == ["a"]
    assert data.relevance.toarray() == pytest.approx(np.array([[4.0, 3.0]]), rel=1e-3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("query,document,position\na,x,1\n", "needs one column for the click"),
        ("query,document,position,click\na,x,1\n", "line 2: expected 4 columns, got 3"),
        ("query,document,position,click\na,x,one,1\n", "line 2: 'one' is not an integer"),
        ("", "it has none"),
    ],
)
def test_a_log_without_its_columns_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "log.csv"
    path.write_text(text)
    assert message in call(path, "--propensities", code=1).stderr


def test_propensities_are_without_other_actions(letor: Path) -> None:
    call(letor, "--propensities", "--convert", "letor", code=2)
