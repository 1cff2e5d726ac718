"""Readers of texts, interactions and labelled collections: good files, defects and real data."""

import contextlib
import datetime
import gzip
import json
import lzma
import sys
import warnings

import numpy as np
import pandas
import polars
import pyarrow
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from ranking.data.frames import features_from_frame, matching_from_frame
from ranking.data.matching_data import MatchingData
from ranking.data.readers import rows
from ranking.data.readers.interactions import read_features
from ranking.data.readers.opening import open_bytes
from ranking.data.readers.read import find_reader, read_any
from ranking.data.text_collection import TextCollection
from ranking.data.writers import write as write_data
from ranking.errors import DataError, DataWarning, PartError

try:
    from compression import zstd as zstandard  # Python 3.14
except ImportError:
    zstandard = pytest.importorskip("zstandard")

CSV = "user,item,rating,timestamp\nu1,i1,5,10\nu2,i1,3,20\nu1,i2,1,30\n"
TAB = "Category\tText\nd\tstring\nclass\t\n\na\tfirst text\nb\tsecond\na\tthird\n"
SVMLIGHT = "1 1:.5 3:2\n-1 2:1\n1 3:4 # a comment\n"


def pack(content):
    return {
        "plain": content,
        "gzip": gzip.compress(content),
        "xz": lzma.compress(content),
        "zst": zstandard.compress(content),
        "two frames": zstandard.compress(content[:5]) + zstandard.compress(content[5:]),
    }


@pytest.mark.parametrize("kind", pack(b""))
def test_compression_is_detected_by_its_bytes(write, registry, kind):
    path = write(pack(CSV.encode())[kind], "misnamed.csv")
    assert read_any(path, registry=registry).relevance.nnz == 3


@pytest.mark.parametrize("kind", ["gzip", "xz", "zst", "two frames"])
def test_truncated_files_raise(write, registry, kind):
    content = pack(CSV.encode() * 99)[kind]
    for keep in (len(content) - 3, len(content) // 2):
        with pytest.raises(DataError, match=r"file is cut off or damaged .*; download or copy"):
            read_any(write(content[:keep]), "interactions", registry=registry)


def test_zst_without_a_module_says_what_to_install(write, monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    path = write(zstandard.compress(b"x"))
    with pytest.raises(DataError, match=r"pip install 'ranking-kit\[zst\]'"), open_bytes(path):
        pass


# --- recognition --------------------------------------------------------------------------------

RECOGNISED = {
    "letor": "1 qid:1 1:1\n",
    "svmlight": SVMLIGHT,
    "qrels": "1 0 d 1\n",
    "run": "1 Q0 d 1 0.5 t\n",
    "clicks": "cheap flights\tflights.example\t3\n",
    "interactions": CSV,
    "movielens": "1\t0\t5\t978300760\n",
    "tab": TAB,
    "arff": "@relation 'x: -C 1'\n@attribute a {0,1}\n@attribute b real\n@data\n{0 1,1 2}\n",
    "adjacency": "1 5\n2 6 0\n1 6\n",
}


@pytest.mark.parametrize("name", RECOGNISED)
def test_exactly_one_reader_recognises_each_format(write, registry, name):
    assert find_reader(write(RECOGNISED[name]), registry=registry).name == name


@pytest.mark.parametrize(
    "content", ["1 2 3 4\n", "1\t2\t3\n", "a\tb\n", '"a\n', "1,2,3,978300760,5\n"]
)
def test_unknown_formats_are_not_recognised(write, registry, content):
    with pytest.raises(DataError, match="not in a known format"):
        find_reader(write(content), registry=registry)


def test_ambiguous_format_raises(write, registry, monkeypatch):
    factory = registry.find("reader", "run").load()
    monkeypatch.setattr(factory, "recognises", classmethod(lambda *_: True))
    with pytest.raises(DataError, match="may be qrels or run; say so with --reader NAME"):
        find_reader(write("1 0 d 1\n"), registry=registry)


# --- policies that all readers of text share ----------------------------------------------------

GOOD = {name: text for name, text in RECOGNISED.items() if name != "letor"}


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("change", ["crlf", "mark", "no last newline", "blank lines"])
def test_text_variants_give_the_same_data(write, registry, name, change):
    content = GOOD[name].encode()
    changed = {
        "crlf": content.replace(b"\n", b"\r\n"),
        "mark": b"\xef\xbb\xbf" + content,
        "no last newline": content.removesuffix(b"\n"),
        "blank lines": content + b"\n\n",
    }[change]
    want = read_any(write(content), registry=registry)
    data = read_any(write(changed, "other"), registry=registry)
    assert repr(data) == repr(want)
    assert data.query_ids.tolist() == want.query_ids.tolist()


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize(
    ("tail", "message"),
    [(b"\0\n", r"line \d+: there is a NUL byte"), (b"\xff\xfe\n", r"line \d+: ")],
    ids=["NUL", "not UTF-8"],
)
def test_binary_content_raises_in_all_readers(write, registry, name, tail, message):
    path = write(GOOD[name].encode() + tail)
    with pytest.raises(DataError, match=message) as caught:
        read_any(path, name, registry=registry)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize("name", GOOD)
def test_empty_file_raises(write, registry, name):
    with pytest.raises(DataError, match=r"is empty|no lines|no row|header"):
        read_any(write(b""), name, registry=registry)
    with pytest.raises(DataError, match="is empty"):
        read_any(write(b""), registry=registry)


def test_a_line_of_ten_megabytes(write, registry):
    long = "word " * (2 << 20)
    data = read_any(write(TAB + f"b\t{long}\n"), registry=registry)
    assert len(data.document_texts[3]) == len(long)
    with pytest.raises(DataError, match=r"line 2: .* columns and should be 4"):
        read_any(write("user,item,rating,time\n" + "x," * (5 << 20)), registry=registry)


# --- texts --------------------------------------------------------------------------------------


@pytest.fixture
def beir(write):
    lines = [
        {"_id": "d1", "title": "Title", "text": "body", "metadata": {}},
        {"_id": "d2", "text": "other"},
    ]
    write("".join(json.dumps(line) + "\n" for line in lines), "beir/corpus.jsonl")
    write(
        gzip.compress(b'{"_id": "q1", "text": "x"}\n{"_id": "q2", "text": "y"}\n'),
        "beir/queries.jsonl.gz",
    )
    return write(
        "query-id\tcorpus-id\tscore\nq2\td2\t2\nq2\td1\t0\n", "beir/qrels/test.tsv"
    ).parents[1]


def test_beir(beir, write, registry):
    data = read_any(beir, registry=registry)
    assert isinstance(data, TextCollection)
    assert data.query_ids.tolist() == ["q2"]
    assert data.document_texts == ("Title\nbody", "other")
    assert data.relevance.toarray().tolist() == [[0, 2]]
    assert data.relevance.nnz == 2
    write("query-id\tcorpus-id\tscore\nq1\td2\t1\n", "beir/qrels/train.tsv")
    with pytest.raises(DataError, match=r"has test, train; choose .*beir:split=NAME"):
        read_any(beir, registry=registry)
    assert read_any(beir, "beir:split=train", registry=registry).query_texts == ("x",)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("corpus.jsonl", '{"_id": "d1"\n', "corpus.jsonl, line 1: this is not JSON"),
        ("corpus.jsonl", '{"_id": 1, "text": "x"}\n', 'line 1: there is no "_id"'),
        ("corpus.jsonl", "[]\n", "line 1: there is no"),
        ("corpus.jsonl", "[" * 100_000 + "\n", "line 1: this is not JSON"),
        ("corpus.jsonl", '{"_id": "d", "text": ""}\n' * 2, "line 2: id 'd' was there already"),
        ("corpus.jsonl", '{"_id": "d1", "text": ""}\n', "document 'd2', which has no text"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq9\td1\t1\n", "query 'q9', which has no"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq2\td1\n", "line 2: there are 2 columns"),
    ],
)
def test_invalid_beir_raises(beir, write, registry, file, content, message):
    write(content, f"beir/{file}")
    with pytest.raises(DataError, match=message):
        read_any(beir, registry=registry)


@pytest.fixture
def smart(write):
    write(".I 1\n.T\na title\n.A\nan author\n.W\nthe text\n.I 2\n.W\nmore\n", "s/X.ALL")
    write(".I 001\n.W\nquestion\n.I 004\n.W\nother\n", "s/X.QRY")
    return write("1 2 1\n2 1 4\n2 2 -1\n", "s/Xqrel").parent


def test_smart_as_cranfield(smart, registry):
    with pytest.warns(DataWarning, match="number the queries by their order in X.QRY"):
        data = read_any(smart, registry=registry)
    assert data.query_ids.tolist() == ["1", "2"]
    assert data.query_texts == ("question", "other")
    assert data.document_texts == ("a title\nthe text", "more")
    assert data.relevance.toarray().tolist() == [[0, 4], [1, 0]]
    assert data.relevance.nnz == 3


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("X.ALL", "text\n", "line 1: a record must begin with `.I`"),
        ("X.ALL", ".I one\n", "line 1: a record must begin"),
        ("X.ALL", ".I 1\n.W\nx\n.I 1\n", "line 4: id 1 was there already"),
        ("Xqrel", "9 1 1\n", "query 9 is not in"),
        ("Xqrel", "1 9 1\n", "document '9', which has no text"),
        ("Xqrel", "1\n", "there are 1 columns; judgements have 3 or 4"),
        ("Xqrel", "1 2 1\n1 2 1\n", "line 2: document '2' of query '1' was on line 1"),
        ("Y.QRY", ".I 1\n", "one file each .* has 1, 2, 1"),
    ],
)
def test_invalid_smart_raises(smart, write, registry, file, content, message):
    write(content, f"s/{file}")
    with pytest.raises(DataError, match=message):
        read_any(smart, "smart", registry=registry)


def test_clicks(write, registry):
    path = write("red shoes\tshoe shop\t2\nblue\tsky\t1\nred shoes\tshoe shop\t3\n")
    with pytest.warns(DataWarning, match="1 of 3 interactions repeat"):
        data = read_any(path, registry=registry)
    assert data.query_texts == ("blue", "red shoes")
    assert data.document_texts == ("shoe shop", "sky")
    assert data.relevance.toarray().tolist() == [[0, 1], [5, 0]]
    for content, message in (
        ("a\tb\t-1\n", "line 1: there are -1 clicks"),
        ("a\t\t1\n", "line 1: the document is empty"),
        ("a\tb\n", "line 1: there are 2 columns and should be 3"),
    ):
        with pytest.raises(DataError, match=message):
            read_any(write(content), "clicks", registry=registry)


# --- interactions -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        CSV,
        CSV.replace(",", "\t"),
        '"user","item","rating","timestamp"\n"u1",i1,5,10\nu2,i1,3,20\nu1,"i2",1,30\n',
        CSV.replace("user,item,rating,timestamp", "userId,movieId,weight,time"),
    ],
    ids=["csv", "tsv", "quoted", "names"],
)
def test_delimited_interactions(write, registry, content):
    data = read_any(write(content), registry=registry)
    assert isinstance(data, MatchingData)
    assert data.query_ids.tolist() == ["u1", "u2"]
    assert data.relevance.toarray().tolist() == [[5, 1], [3, 0]]
    assert data.times.tolist() == [10, 30, 20]


@pytest.mark.parametrize("between", ["\t", "::"])
def test_movielens(write, registry, between):
    rows = [("1", "1193", "5", "978300760"), ("2", "661", "3", "978302109")]
    data = read_any(write("\n".join(map(between.join, rows))), registry=registry)
    assert data.document_ids.tolist() == ["1193", "661"]
    assert data.relevance.toarray().tolist() == [[5, 0], [0, 3]]


def test_typed_headers_read_their_feature_tables(write, registry):
    path = write("user_id:token\titem_id:token\trating:float\n1\ta\t4\n2\tb\t5\n", "x.inter")
    write("user_id:token\tage:float\tjob:token\n1\t30\tcook\n2\t40\t\n", "x.user")
    write(
        gzip.compress(b"item_id:token\tyear:token\tkind:token_seq\na\t1995\tu v\nb\t\tv\n"),
        "x.item.gz",
    )
    data = read_any(path, registry=registry)
    assert data.query_feature_ids.tolist() == ["age", "job=cook"]
    assert data.queries.toarray().tolist() == [[30, 1], [40, 0]]
    assert data.document_feature_ids.tolist() == ["year=1995", "kind=u", "kind=v"]
    assert data.documents.toarray().tolist() == [[1, 1, 1], [0, 0, 1]]


def test_numbers_are_not_one_hot_encoded(write):
    table = read_features(write("id,age,zip,genre\na,30,02134,x|y\nb,41,K1A,y\n"))
    assert table.names.tolist() == ["age", "zip=02134", "zip=K1A", "genre=x", "genre=y"]
    with pytest.raises(DataError, match="line 3: id 'a' was on line 2 already"):
        read_features(write("id,age\na,1\na,2\n"))
    with pytest.raises(DataError, match="a column besides the ids"):
        read_features(write("id\na\n"))


@pytest.mark.parametrize(
    ("content", "reader", "message"),
    [
        ("user,item,rating\nu,i\n", "interactions", "line 2: there are 2 columns and should be 3"),
        ("user,item,rating\nu,i,x\n", "interactions", "line 2: the rating 'x' is not a finite"),
        ("user,item,rating\nu,i,inf\n", "interactions", "line 2: the rating 'inf'"),
        ("user,item\nu,\n", "interactions", "line 2: the item is empty"),
        ('user,item\n"u,i\n', "interactions", "line 2: this is not a row of CSV"),
        ("user,item\n", "interactions", "has no rows"),
        ("user,user\nu,i\n", "interactions", "line 1: a column has no name, or two"),
        ("a,b\nu,i\n", "interactions", "no column that is the user .* user=COLUMN"),
        ("user,uid,item\nu,u,i\n", "interactions", "several columns for the user"),
        ("user,item\nu,i\n", "interactions:value=v", "has no column 'v'; it has user, item"),
        ("1\t2\t3\n", "movielens", "line 1: there are 3 columns and should be 4"),
    ],
)
def test_invalid_interactions_raise(write, registry, content, reader, message):
    path = write(content)
    with pytest.raises(DataError, match=message) as caught:
        read_any(path, reader, registry=registry)
    assert str(caught.value).startswith(str(path))


def test_unknown_duplicates_raises(registry):
    with pytest.raises(PartError, match="sum or max or last"):
        registry.create("reader", "interactions:duplicates=mean")


COLUMNS = {"user": [7, 8, 7], "item": ["a", "a", "b"], "rating": [5, 3, 1]}


@pytest.mark.parametrize("make", [pandas.DataFrame, polars.DataFrame, pyarrow.table])
def test_frames(make):
    features = make({"item": ["a", "b"], "price": [1.5, 2.5], "tag": ["x", None]})
    data = matching_from_frame(make(COLUMNS), item_features=features)
    assert data.query_ids.tolist() == [7, 8]
    assert data.relevance.toarray().tolist() == [[5, 1], [3, 0]]
    assert data.document_feature_ids.tolist() == ["price", "tag=x"]
    assert data.documents.toarray().tolist() == [[1.5, 1], [2.5, 0]]


@pytest.mark.parametrize("make", [pandas.DataFrame, polars.DataFrame, pyarrow.table])
def test_lists_and_dates_of_frames(make):
    table = features_from_frame(
        make({"id": [1, 2], "tags": [["x", "y", "x"], []], "on": [True, False]})
    )
    assert table.names.tolist() == ["tags=x", "tags=y", "on"]
    assert table.features.toarray().tolist() == [[1, 1, 1], [0, 0, 0]]
    days = np.array(["1970-01-02", "1970-01-01", "1970-01-03"], "datetime64[us]")
    data = matching_from_frame(make(COLUMNS | {"time": days}))
    assert data.times.tolist() == [86400, 172800, 0]


def test_categories_of_frames():
    kinds = polars.Series(["x", "y"], dtype=polars.Enum(["y", "x"]))
    table = features_from_frame(polars.DataFrame({"id": [1, 2], "kind": kinds}))
    assert table.names.tolist() == ["kind=x", "kind=y"]
    frame = pandas.DataFrame({"id": [1, 2], "kind": pandas.Categorical([3, 4])})
    assert features_from_frame(frame).names.tolist() == ["kind=3", "kind=4"]


def test_arrow_stream_is_accepted():
    class OnlineTrainer:
        def __arrow_c_stream__(self, requested_schema=None):
            return pyarrow.table(COLUMNS).__arrow_c_stream__(requested_schema)

    assert matching_from_frame(OnlineTrainer()).relevance.nnz == 3


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (object(), "not a supported data frame"),
        (polars.DataFrame({"user": [1], "thing": [2]}), "item by its name"),
        (polars.DataFrame({"user": [1, None], "item": [2, 3]}), "column user: row 1 is missing"),
        (polars.DataFrame({"user": [1], "item": [2], "rating": ["x"]}), "numbers or dates"),
    ],
)
def test_invalid_frames_raise(frame, message):
    with pytest.raises(DataError, match=message):
        matching_from_frame(frame)


def test_invalid_features_of_frames_raise():
    frame = polars.DataFrame({"id": [1], "when": [datetime.datetime(2000, 1, 1)]})
    with pytest.raises(DataError, match=r"column when is of type .* which cannot become a feature"):
        features_from_frame(frame)
    with pytest.raises(DataError, match=r"column x: row 0 \(1\) is nan"):
        features_from_frame(polars.DataFrame({"id": [1], "x": [float("nan")]}))


def test_parquet_and_arrow(tmp_path, registry):
    pyarrow.parquet.write_table(pyarrow.table(COLUMNS), tmp_path / "a")
    pyarrow.feather.write_feather(pyarrow.table(COLUMNS), tmp_path / "b")
    for name in "ab":
        data = read_any(tmp_path / name, registry=registry)
        assert data.query_ids.tolist() == [7, 8]
    (tmp_path / "cut").write_bytes((tmp_path / "a").read_bytes()[:-9])
    with pytest.raises(DataError, match="cut is damaged or no Parquet file"):
        read_any(tmp_path / "cut", registry=registry)


def test_parquet_without_pyarrow(tmp_path, registry, monkeypatch):
    pyarrow.parquet.write_table(pyarrow.table(COLUMNS), tmp_path / "a")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataError, match=r"pip install 'ranking-kit\[frames\]'"):
        read_any(tmp_path / "a", registry=registry)


word = st.text(st.characters(codec="utf-8", categories=["L", "N"]), min_size=1, max_size=5)
interactions = st.lists(
    st.tuples(word, word, st.floats(-1e9, 1e9), st.floats(0, 1e9)),
    min_size=1,
    unique_by=lambda row: row[:2],
)


@settings(deadline=None, max_examples=30)
@given(interactions, st.sampled_from(["tsv", "parquet"]))
def test_write_and_read_round_trip(tmp_path_factory, registry, rows, form):
    want = MatchingData.from_interactions(*(list(column) for column in zip(*rows, strict=True)))
    path = tmp_path_factory.mktemp("interactions") / "data"
    write_data(want, form, path)
    data = read_any(path, registry=registry)
    for name in ("query_ids", "document_ids", "times"):
        np.testing.assert_array_equal(getattr(data, name), getattr(want, name))
    np.testing.assert_array_equal(data.relevance.toarray(), want.relevance.toarray())


# --- labelled collections -----------------------------------------------------------------------


def test_class_and_text(write, registry):
    data = read_any(write(TAB), registry=registry)
    assert data.document_texts == ("first text", "second", "third")
    assert data.relevant(0).tolist() == [2]
    with pytest.raises(DataError, match="line 8: there are 3 columns and should be 2"):
        read_any(write(TAB + "a\tb\tc\n"), registry=registry)
    with pytest.raises(DataError, match="three header lines"):
        read_any(write("a\tb\nc\td\ne\tf\n"), "tab", registry=registry)


def test_folders(write, registry):
    write("one", "c/x/1.txt")
    write("two", "c/y/1.txt")
    folder = write(b"caf\xe9", "c/x/2.txt").parents[1]
    with pytest.raises(DataError, match=r"2.txt, line 1: the text is not UTF-8"):
        read_any(folder, "folders", registry=registry)
    data = read_any(folder, "folders:encoding=latin-1", registry=registry)
    assert data.document_ids.tolist() == ["x/1.txt", "x/2.txt", "y/1.txt"]
    assert data.document_texts[1] == "café"
    assert data.relevant(0).tolist() == [1]
    with pytest.raises(DataError, match="is a directory"):
        read_any(folder, registry=registry)
    with pytest.raises(DataError, match="no folders with texts"):
        read_any(folder / "x", "folders", registry=registry)
    with pytest.raises(DataError, match="is not a folder"):
        read_any(folder / "x" / "1.txt", "folders", registry=registry)


def test_svmlight_with_classes(write, registry, tmp_path):
    data = read_any(write(SVMLIGHT), registry=registry)
    assert data.classes.tolist() == [-1, 1]
    assert data.queries.tolist() == [[0.5, 0, 2], [0, 1, 0], [0, 0, 4]]
    assert data.relevant(0).tolist() == [2]
    rows = sparse.random_array((20, 5), density=0.5, rng=np.random.default_rng(0))
    dump_svmlight_file(rows, np.arange(20) % 3, str(tmp_path / "s"), zero_based=False)
    data = read_any(tmp_path / "s", registry=registry)
    np.testing.assert_allclose(data.queries, rows.toarray(), rtol=1e-6)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1 1:1\n1 qid:1 1:1\n", "line 2: there is a qid, so these are judged lists"),
        ("1 1:1 # \0\n", "line 1: there is a NUL byte"),
        ("1 1:1\n# \n 1e99 1:1 1:1\n", "line 3: '1:1' gives feature 1 a second time"),
        ("1 1:1\n\n1e99 1:1\n", "line 3: the class '1e\\+99' is not a whole number"),
        ("1 1:1e39\n", "'1:1e39' is too large for float32; rescale the feature\\."),
        ("1.5 1:1\n", "line 1: the class '1.5' is not a whole number"),
        ("1,2 1:1\n", "the class '1,2' is not"),
        ("1 1:x\n", "'1:x' has a value that is not a finite number"),
        ("1 1:1 1:2\n", "a second time"),
        ("1\n", "no row with a feature"),
    ],
)
def test_invalid_svmlight_raises(write, registry, content, message):
    with pytest.raises(DataError, match=message):
        read_any(write(content), "svmlight", registry=registry)
    with pytest.raises(PartError, match="threads=0 must lie in"):
        read_any(write(content), "svmlight:threads=0", registry=registry)


@pytest.mark.parametrize("kernel", ["reference", "cython", "rust"])
@pytest.mark.parametrize("block", [64, 1 << 22])
def test_svmlight_matches_scikit_learn(write, registry, monkeypatch, load_kernel, kernel, block):
    load_kernel(kernel)
    monkeypatch.setattr(rows, "BLOCK", block)
    rng = np.random.default_rng(0)
    lines = [
        f" {rng.integers(-3, 4)}\t"
        + " ".join(f"{k}:{rng.normal():.9g}" for k in np.flatnonzero(rng.random(30) < 0.3) + 1)
        for _ in range(300)
    ]
    lines[::7] = ["# caf\xe9 1:2" if at % 2 else "" for at in range(len(lines[::7]))]
    content = "\r\n".join(f"{line}# 5 6:7 docid = x" for line in lines).encode("latin-1")
    path = write(content)
    data = read_any(path, "svmlight", kernel=kernel, threads=2, registry=registry)
    features, classes = load_svmlight_file(str(path), n_features=data.n_query_features)
    np.testing.assert_array_equal(data.queries, features.toarray().astype(np.float32))
    assert data.classes[data.labels[0]].tolist() == classes.tolist()


IMAGES = b"\0\0\x08\x03" + bytes([0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3]) + bytes(range(6))
LABELS = b"\0\0\x08\x01" + bytes([0, 0, 0, 2]) + bytes([7, 8])


def test_idx(write, registry):
    path = write(gzip.compress(IMAGES), "t-images-idx3-ubyte.gz")
    with pytest.raises(DataError, match="labels are missing; put t-labels-idx1-ubyte next to it"):
        read_any(path, registry=registry)
    labels = write(LABELS, "t-labels-idx1-ubyte")
    data = read_any(path, registry=registry)
    assert data.queries.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert data.queries.dtype == np.float32
    assert data.classes.tolist() == [7, 8]
    with pytest.raises(DataError, match="name the file of images"):
        read_any(labels, registry=registry)
    write(LABELS[:-1], labels.name)
    with pytest.raises(DataError, match=r"announces 2 bytes of shape \(2,\), and there are 1"):
        read_any(path, registry=registry)
    write(b"\0\0\x08\x01" + bytes([0, 0, 0, 1, 7]), labels.name)
    with pytest.raises(DataError, match=r"2 images and .* 1 labels"):
        read_any(path, registry=registry)
    forged = b"\0\0\x08\x03" + b"\xff" * 12
    with pytest.raises(DataError, match=r"announces 792281624.* and there are 0"):
        read_any(write(forged, "images"), registry=registry)


def test_npz(tmp_path, registry):
    path = tmp_path / "data.npz"
    np.savez(path, X=np.ones((3, 2, 2), np.uint8), y=np.array([1.0, 2.0, 1.0]))
    data = read_any(path, registry=registry)
    assert data.queries.shape == (3, 4)
    assert data.classes.tolist() == [1, 2]
    np.savez(path, X=np.ones((3, 2)), z=np.arange(3))
    with pytest.raises(DataError, match="no array y, only X, z; name the arrays with"):
        read_any(path, registry=registry)
    assert read_any(path, "npz:labels=z", registry=registry).n_queries == 3
    np.savez(path, X=np.array([{}], object), y=[1])
    with pytest.raises(DataError, match=r"cannot be read .*; save plain arrays"):
        read_any(path, registry=registry)
    np.savez(path, X=np.ones((3, 2)), y=np.arange(2))
    with pytest.raises(DataError, match="one label per row"):
        read_any(path, registry=registry)
    np.savez(path, X=np.array([["a"]]), y=np.arange(1))
    with pytest.raises(DataError, match="save numbers"):
        read_any(path, registry=registry)
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(DataError, match="cannot be read"):
        read_any(path, registry=registry)


# --- real data ----------------------------------------------------------------------------------

REAL = {
    "ir/cranfield": (225, 1400, 1837),
    "ir/med": (30, 1033, 696),
    "ir/cisi": (112, 1460, 3114),
    "ir/adi": (35, 82, 170),
    "interactions/movielens100k/ml-100k.inter.gz": (943, 1682, 100_000),
    "interactions/movielens100k/MovieLens100k_data.parquet.brotli": (943, 1682, 100_000),
    "interactions/movielens1m/ml-1m.train.rating.gz": (6040, 3704, 994_169),
    "interactions/movielens1m/ml-1m.test.rating.gz": (6040, 1921, 6040),
    "interactions/lastfm_hetrec2011/user_artists.dat.gz": (1892, 17_632, 92_834),
    "text/20newsgroups/20newsgroups-train.tab.gz": (11_293, 11_293, 20),
    "text/20newsgroups/20newsgroups-test.tab.gz": (7528, 7528, 20),
    "text/r8/reuters-r8-train.tab.gz": (5485, 5485, 8),
    "text/r8/reuters-r8-test.tab.gz": (2189, 2189, 8),
    "multilabel/corel5k/Corel5k-train-sparse.arff.gz": (4500, 374, 15_847),
    "multilabel/corel5k/Corel5k-test-sparse.arff": (500, 374, 1763),
    "multilabel/corel5k/Corel5k-test.arff.gz": (500, 374, 1763),
    "multilabel/delicious/delicious-train.arff.gz": (12_920, 983, 246_088),
    "multilabel/delicious/delicious-test.arff.gz": (3185, 983, 60_229),
    "interactions/citeulike_a/users.dat.gz": (5551, 16_980, 204_986),
    "mnist/train-images-idx3-ubyte.gz": (60_000, 60_000, 10),
    "mnist/t10k-images-idx3-ubyte.gz": (10_000, 10_000, 10),
}


@pytest.mark.parametrize("path", REAL)
def test_real_counts(real_data, registry, path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # Cranfield numbers its queries by order
        data = read_any(real_data / path, registry=registry)
    count = data.relevance.nnz if data.classes is None else data.classes.size
    assert (data.n_queries, data.n_documents, count) == REAL[path]


def test_real_features(real_data, registry):
    folder = real_data / "interactions" / "movielens100k"
    data = read_any(folder / "ml-100k.inter.gz", registry=registry)
    assert "occupation=technician" in data.query_feature_ids
    assert "class=Comedy" in data.document_feature_ids
    users = folder / "MovieLens100k_users.parquet.brotli"
    path = folder / "MovieLens100k_data.parquet.brotli"
    data = read_any(path, f"parquet:user_features={users}", registry=registry)
    assert data.query_feature_ids[0] == "age"
    assert data.queries.toarray()[0, 0] == 24


# --- whatever bytes come in ---------------------------------------------------------------------

SEEDS = [
    *(text.encode() for text in RECOGNISED.values()),
    IMAGES,
    b"PK\3\4",
    b"PAR1",
    b"ARROW1",
    gzip.compress(b"1 0 a 1\n"),
    zstandard.compress(b"1 0 a 1\n"),
]


@pytest.mark.filterwarnings("ignore::ranking.errors.DataWarning")
@settings(deadline=None, max_examples=200)
@given(st.data())
def test_arbitrary_bytes_are_read_or_raise_data_error(tmp_path_factory, registry, data):
    content = bytearray(data.draw(st.sampled_from(SEEDS) | st.binary(max_size=60)))
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(content)))
        content[at : at + data.draw(st.integers(0, 2))] = data.draw(
            st.binary(max_size=3) | st.sampled_from([b"\n", b"\t", b" ", b":", b"nan", b'"', b"::"])
        )
    path = tmp_path_factory.mktemp("fuzz") / data.draw(st.sampled_from(["data", "data.npz"]))
    path.write_bytes(bytes(content))
    for name in ["auto", *registry.names("reader")]:
        with contextlib.suppress(DataError):
            read_any(path, name, registry=registry)
