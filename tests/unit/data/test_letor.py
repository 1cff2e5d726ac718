"""The LETOR reader, in every kernel: each policy of its table; scikit-learn as oracle.

What the kernels parse is compared bit by bit in tests/parity/test_letor.py.
"""

import dataclasses
import gzip
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from ranking.data.judged_lists import JudgedLists
from ranking.data.readers import rows as rows_module
from ranking.data.readers.letor import Letor
from ranking.data.readers.read import read, read_any
from ranking.data.writers import write as write_data
from ranking.errors import DataError, DataWarning, KernelUnavailableError, PartError
from ranking.kernels import letor as letor_chunks
from ranking.kernels.select import get_kernel

GOOD = b"""\
2 qid:10 1:.5 2:-1e-2 #docid = GX008-86-444 inc = 1 prob = .08
0 qid:10 1:3 #docid = GX9
1 qid:11 2:7 # no id here
"""


@pytest.fixture(scope="module", autouse=True, params=["reference", "cython", "rust"])
def kernel_name(request, load_kernel):
    load_kernel(request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RANKING_KERNEL", request.param)
        yield request.param


def test_valid_file(write, registry):
    data = read(write(GOOD), registry=registry)
    np.testing.assert_array_equal(data.features, np.float32([[0.5, -0.01], [3, 0], [0, 7]]))
    assert data.features.dtype == np.float32
    assert data.grades.tolist() == [2, 0, 1]
    assert data.query_ids.tolist() == ["10", "11"]
    assert data.group_ptr.tolist() == [0, 2, 3]
    assert data.doc_ids.tolist() == ["GX008-86-444", "GX9", "0"]
    assert data.feature_ids.tolist() == [1, 2]


@pytest.mark.parametrize("name", ["data.txt.gz", "misnamed.txt"])
def test_gzip_is_detected_by_its_bytes(write, registry, name):
    data = read(write(gzip.compress(GOOD), name), registry=registry)
    assert data.n_rows == 3


def test_float64_is_read_to_the_last_bit(write, registry):
    path = write("1 qid:1 1:0.1234567890123456789 2:1e300\n")
    data = read(path, "letor:dtype=float64", registry=registry)
    assert data.features.tolist() == [[0.1234567890123456789, 1e300]]


def test_unknown_dtype_raises():
    with pytest.raises(PartError, match="float32 or float64"):
        Letor(dtype="float16")


@pytest.mark.parametrize("threads", [0, 1025])
def test_threads_out_of_range_raise(threads):
    with pytest.raises(PartError, match=r"threads=.* must lie in 1\.\.1024"):
        Letor(threads=threads)


REFUSED = {
    "no qid on some lines": ("1 qid:1 1:1\n1 1:1\n", "line 2: there is no qid .* rows before have"),
    "no qid on any line": ("1 1:1\n2 1:1\n", "line 1: there is no qid .* it is the first row"),
    "only a grade": ("1 qid:1 1:1\n1\n", "line 2: there is no qid"),
    "empty qid": ("1 qid: 1:1\n", "line 1: the qid is empty"),
    "qid elsewhere": ("1 qid:1 1:1 qid:2\n", "line 1: 'qid:2' must come right after the grade"),
    "nan grade": ("1 qid:1 1:1\nnan qid:1 1:1\n", "line 2: the grade 'nan' is not a finite"),
    "inf grade": ("inf qid:1 1:1\n", "the grade 'inf' is not"),
    "too large a grade": ("1e999 qid:1 1:1\n", "the grade '1e999' is not"),
    "underscore in a grade": ("1_0 qid:1 1:1\n", "the grade '1_0' is not"),
    "no number for a grade": ("x qid:1 1:1\n", "the grade 'x' is not"),
    "nan value": ("1 qid:1 1:nan\n", "line 1: '1:nan' is a missing value; fill it in"),
    "inf value": ("1 qid:1 1:-inf\n", "'1:-inf' has a value that is not a finite number"),
    "too large a value": ("1 qid:1 1:1e999\n", "'1:1e999' has a value that is not a finite"),
    "too large for float32": ("1 qid:1 1:1e39\n", "too large for float32.* letor:dtype=float64"),
    "underscore in a value": ("1 qid:1 1:1_0\n", "'1:1_0' has a value"),
    "NULL": ("1 qid:1 1:2 11:NULL\n", "line 1: '11:NULL' is a missing value; fill it in"),
    "space after the colon": ("1 qid:1 1: .5\n", "'1:' is not <index>:<value>; write both"),
    "no value": ("1 qid:1 1:\n", "'1:' is not <index>:<value>"),
    "no index": ("1 qid:1 :3\n", "':3' is not <index>:<value>"),
    "no colon": ("1 qid:1 3\n", "'3' is not <index>:<value>"),
    "a qid twice": ("1 qid:1 qid:1 1:1\n", "'qid:1' must come right after the grade, once"),
    "infinity in words": ("1 qid:1 1:Infinity\n", "'1:Infinity' has a value that is not a finite"),
    "hexadecimal": ("1 qid:1 1:0x10\n", "'1:0x10' has a value that is not a finite"),
    "a question mark": ("1 qid:1 3:?\n", r"'3:\?' is a missing value"),
    "a defect after a carriage return": ("1 qid:1 1:1\r\n1 qid:1 1:x\r\n", "line 2: '1:x' has a"),
    "two colons": ("1 qid:1 1:2:3\n", "'1:2:3' has a value"),
    "letters for an index": ("1 qid:1 a:1\n", "'a:1' has an index that is not a number"),
    "negative index": ("1 qid:1 -1:1\n", "'-1:1' has a negative index"),
    "index above 2**31 - 1": ("1 qid:1 2147483648:1\n", "index above 2147483647; renumber"),
    "index above 2**63": (f"1 qid:1 {2**63}:1\n", "index above 2147483647; renumber"),
    "absurd index": (f"1 qid:1 {'9' * 5000}:1\n", r"'9{30}\.\.\.' has an index above"),
    "a feature twice": ("1 qid:1 1:1 2:1 1:1\n", "'1:1' gives feature 1 a second time"),
    "NUL byte": (b"1 qid:1 1:1\n\0\0\n", "line 2: there is a NUL byte"),
    "not UTF-8 in the comment": (b"1 qid:1 1:1 #docid = \xff\n", "not UTF-8; convert"),
    "not UTF-8 in the qid": (b"1 qid:\xe9 1:1\n", "not UTF-8; convert"),
    "not UTF-8 in a feature": (b"1 qid:1 1:1\xa0\n", "line 1: .* not a finite number"),
    "no rows": ("# only this\n\n", "there are no rows"),
    "nothing at all": ("", "there are no rows"),
    "no features": ("1 qid:1\n2 qid:1\n", "no row has a feature"),
    "a document twice": (
        "1 qid:1 1:1 #docid = d\n0 qid:2 1:1 #docid = d\n0 qid:1 1:1 #docid = d\n",
        "line 3: document 'd' of query 1 was on line 1 already",
    ),
    "a number that is also a docid": (
        "1 qid:1 1:1 #docid = 1\n0 qid:1 1:1\n",
        "line 2: document '1' of query 1 was on line 1 already",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_invalid_input_raises_data_error(write, registry, case):
    content, message = REFUSED[case]
    path = write(content)
    with pytest.raises(DataError, match=message) as caught:
        read(path, "letor", registry=registry)
    assert str(caught.value).startswith(f"{path}")


@pytest.mark.parametrize(
    "content",
    [
        GOOD.replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf" + GOOD,
        b"# a comment\n\n" + GOOD + b"\n   \n",
        GOOD.removesuffix(b"\n"),
        GOOD.replace(b" ", b"\t"),
        GOOD.replace(b"1:.5 2:-1e-2", b"2:-1e-2 01:.5"),
    ],
    ids=["crlf", "byte-order mark", "blank and comment lines", "no last newline", "tabs", "order"],
)
def test_format_variants_give_the_same_data(write, registry, content):
    want = read(write(GOOD), registry=registry)
    data = read(write(content, "other.txt"), registry=registry)
    np.testing.assert_array_equal(data.features, want.features)
    assert data.doc_ids.tolist() == want.doc_ids.tolist()
    assert data.query_ids.tolist() == want.query_ids.tolist()


@pytest.mark.parametrize("block", [8, 16, 64, 100])
def test_where_blocks_end_does_not_matter(write, registry, monkeypatch, block):
    monkeypatch.setattr(rows_module, "BLOCK", block)
    content = b"\xef\xbb\xbf" + GOOD + b"\r\n# " + b"x" * 300 + b"\n0 qid:12 2:1 1:4"
    data = read(write(content), "letor", registry=registry)
    np.testing.assert_array_equal(data.features, np.float32([[0.5, -0.01], [3, 0], [0, 7], [4, 1]]))
    assert data.doc_ids.tolist() == ["GX008-86-444", "GX9", "0", "0"]
    with pytest.raises(DataError, match="line 6: '2:' is not"):
        read(write(content.replace(b"2:1 1:4", b"2: 1:4")), "letor", registry=registry)


def test_threads_do_not_matter(write, registry, monkeypatch):
    monkeypatch.setattr(letor_chunks, "CHUNK", 500)
    lines = [f"{i % 3} qid:{i // 7} 1:{i} 2:{i / 7} #docid = {i}" for i in range(500)]
    path = write("\n".join(lines))
    one = read(path, "letor", registry=registry)
    many = read(path, "letor:threads=3", registry=registry)
    assert one.features.tobytes() == many.features.tobytes()
    assert one.doc_ids.tolist() == many.doc_ids.tolist()
    path = write("\n".join([*lines[:300], "1 qid:1 1:x", *lines[300:], "1 qid:1 a:1"]))
    with pytest.raises(DataError, match="line 301: '1:x'"):
        read(path, "letor:threads=3", registry=registry)


@pytest.mark.slow
def test_a_line_of_ten_megabytes(write, registry, kernel_name):
    count = 200_000 if kernel_name == "reference" else 1_000_000
    up = " ".join(f"{i}:.5" for i in range(1, count + 1))
    down = " ".join(f"{i}:.25" for i in range(count, 0, -1))
    data = read(write(f"1 qid:1 {up}\n0 qid:1 {down}\n"), registry=registry)
    assert data.features.shape == (2, count)
    assert (data.features == np.float32([[0.5], [0.25]])).all()
    with pytest.raises(DataError, match="line 2: '7:3' gives feature 7 a second time"):
        read(write(f"1 qid:1 {up}\n0 qid:1 {down} 7:3\n"), registry=registry)


@pytest.mark.parametrize("regular", [0, 1, 40, 57])
def test_sparse_rows_after_dense_rows(write, registry, monkeypatch, regular):
    monkeypatch.setattr(letor_chunks, "CHUNK", 200)
    monkeypatch.setattr(rows_module, "STEP", 20)
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(60, 5)), 3)
    X[:, 4] += 10  # the last column has no zeros
    lines = []
    for row, x in enumerate(X):
        columns = rng.permutation(5) if row >= regular else np.arange(5)
        if row >= regular:
            x[columns[:2]] *= columns[:2] == 4
            columns = columns[x[columns] != 0]
        lines.append(f"0 qid:1 {' '.join(f'{c + 1}:{x[c]}' for c in columns)}")
    data = read(write("\n".join(lines)), registry=registry)
    np.testing.assert_array_equal(data.features, X.astype(np.float32))


def resident(field):
    """Return the resident memory of this process in bytes: VmRSS, or its peak VmHWM."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(rf"^{field}:\s+(\d+) kB", status, flags=re.MULTILINE)[1])


@pytest.mark.skipif(sys.platform != "linux", reason="/proc has the peak of the resident memory")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("differ", [False, True])
def test_memory_is_about_that_of_the_result(write, monkeypatch, kernel_name, dtype, differ):
    if kernel_name == "reference":
        pytest.skip("the reference makes Python objects")
    monkeypatch.setattr(rows_module, "BLOCK", 1 << 17)
    pairs = " ".join(f"{i}:{i / 97:.6f}" for i in range(1, 137))
    line = f"1 qid:1 {pairs}\n"
    path = write(line * 20_000 + ("0 qid:2 1:1\n" if differ else ""))
    get_kernel()
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again
    before = resident("VmRSS")
    data = Letor(dtype=dtype).read(path)
    peak = resident("VmHWM") - before
    # Rows that differ have an index of four bytes per value.
    share = 1 + (4 / data.features.itemsize if differ else 0)
    assert peak > 0.5 * data.features.nbytes
    assert peak < (share + 0.3) * data.features.nbytes + (1 << 21)


def test_qid_is_text(write, registry):
    path = write("1 qid:-3 1:1\n1 qid:q 1:1\n1 qid:é 1:1\n1 qid:7 1:1\n1 qid:07 1:1\n")
    assert read(path, registry=registry).query_ids.tolist() == ["-3", "q", "é", "7", "07"]


def test_scattered_rows_are_gathered_with_a_warning(write, registry):
    path = write("1 qid:1 1:1\n1 qid:2 1:2\n0 qid:1 1:3\n0 qid:3 1:4\n")
    with pytest.warns(DataWarning, match="rows of 1 of 3 queries are not next to each other") as w:
        data = read(path, registry=registry)
    assert len(w) == 1
    assert data.query_ids.tolist() == ["1", "2", "3"]
    assert data.features.ravel().tolist() == [1, 3, 2, 4]


def test_index_zero_starts_the_numbering_at_zero(write, registry):
    data = read(write("1 qid:1 0:5 2:6\n"), registry=registry)
    assert data.feature_ids.tolist() == [0, 2]
    data = read(write("1 qid:1 0:5 2:6\n1 qid:1 1:7\n"), registry=registry)
    assert data.feature_ids.tolist() == [0, 1, 2]


def test_unused_feature_keeps_its_column_in_a_dense_file(write, registry):
    data = read(write("1 qid:1 1:5 3:6\n1 qid:1 1:7\n"), registry=registry)
    assert data.feature_ids.tolist() == [1, 2, 3]


def test_huge_index_needs_one_column(write, registry):
    data = read(write("1 qid:1 2147483647:5 7:1\n"), registry=registry)
    assert data.feature_ids.tolist() == [7, 2147483647]
    assert data.features.tolist() == [[1, 5]]


def test_sparse_files_become_csr(write, registry):
    lines = [f"{i % 2} qid:{i // 10} {2 * i + 2}:1 {2 * i + 1}:2" for i in range(1000)]
    data = read(write("\n".join(lines)), registry=registry)
    assert sparse.issparse(data.features)
    assert data.features.shape == (1000, 2000)
    assert data.features[[3], :].indices.tolist() == [6, 7]
    assert data.features[[3], :].data.tolist() == [2, 1]


@pytest.mark.parametrize("keep", [8, 30, -1])
def test_a_gzip_file_that_is_cut_off(write, registry, keep):
    path = write(gzip.compress(GOOD * 100)[:keep], "cut.txt.gz")
    with pytest.raises(DataError, match=r"cut.txt.gz: the gzip file is cut off .*download"):
        read(path, "letor", registry=registry)
    with pytest.raises(DataError, match="cut off"):
        read(path, registry=registry)


def test_a_gzip_file_that_is_damaged(write, registry):
    content = bytearray(gzip.compress(GOOD * 100))
    content[20] ^= 0xFF
    with pytest.raises(DataError, match="cut off or damaged"):
        read(write(bytes(content)), "letor", registry=registry)


def test_paths_that_cannot_be_read(tmp_path, write, registry):
    with pytest.raises(DataError, match="there is no such file"):
        read(tmp_path / "absent.txt", registry=registry)
    with pytest.raises(DataError, match="is a directory"):
        read(str(tmp_path), registry=registry)
    with pytest.raises(DataError, match="is empty"):
        read(write(b""), registry=registry)
    with pytest.raises(DataError, match="no file to read"):
        read([], registry=registry)


@pytest.mark.parametrize(
    ("error", "message"),
    [(PermissionError(13, "denied"), "check its permissions"), (OSError(5, "I/O"), "read: I/O")],
)
def test_os_errors_become_data_errors(write, registry, monkeypatch, error, message):
    def refuse(*args):
        raise error

    path = write(GOOD)
    monkeypatch.setattr("ranking.data.readers.opening.open_regular", refuse)
    with pytest.raises(DataError, match=message):
        read(path, registry=registry)


@pytest.mark.parametrize("content", ["a,b\n1,2\n", "1\n", "#\n", b"\0\0"])
def test_unknown_format_lists_the_readers(write, registry, content):
    with pytest.raises(DataError, match=r"not in a known format.* letor, .*--reader NAME"):
        read(write(content), registry=registry)


def test_an_unknown_reader(write, registry):
    with pytest.raises(PartError, match=r"there is no reader 'lettor'.* Did you mean 'letor'"):
        read(write(GOOD), "lettor", registry=registry)


def test_several_files_are_concatenated(write, registry):
    one = write(GOOD)
    two = write("1 qid:12 3:4\n", "two.txt")
    data = read([one, str(two)], registry=registry)
    assert data.query_ids.tolist() == ["10", "11", "12"]
    assert data.feature_ids.tolist() == [1, 2, 3]
    assert data.features[3].tolist() == [0, 0, 4]
    assert data.row_order.tolist() == [0, 1, 2, 3]


def test_query_in_two_files_raises_with_both_names(write, registry):
    one, two = write(GOOD), write("1 qid:11 1:1\n", "two.txt")
    with pytest.raises(DataError, match=r"query 11 is in .*data.txt and in .*two.txt"):
        read([one, two], registry=registry)


@st.composite
def rows(draw):
    n = draw(st.integers(1, 12))
    number = st.floats(-1e6, 1e6, width=32, allow_subnormal=False)
    features = draw(st.lists(st.lists(number, min_size=3, max_size=3), min_size=n, max_size=n))
    grades = draw(st.lists(st.integers(-1, 4), min_size=n, max_size=n))
    qids = sorted(draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    return np.array(features), np.array(grades), np.array(qids)


@settings(deadline=None, max_examples=50)
@given(rows())
def test_write_and_read_round_trip(tmp_path_factory, rows):
    features, grades, qids = rows
    path = tmp_path_factory.mktemp("letor") / "data.txt"
    with path.open("w") as stream:
        for x, grade, qid in zip(features, grades, qids, strict=True):
            pairs = " ".join(f"{index}:{value!r}" for index, value in enumerate(x.tolist(), 1))
            stream.write(f"{grade} qid:{qid} {pairs}\n")
    data = Letor(dtype="float64").read(path)
    np.testing.assert_array_equal(data.features, features)
    np.testing.assert_array_equal(data.grades, grades)
    np.testing.assert_array_equal(
        np.repeat(data.query_ids, np.diff(data.group_ptr)), qids.astype(str)
    )


@pytest.mark.filterwarnings("ignore::ranking.errors.DataWarning")
@settings(deadline=None, max_examples=50)
@given(rows(), st.booleans())
def test_writer_round_trips(tmp_path_factory, rows, is_sparse):
    features, grades, qids = rows
    features[0] = 1.0  # a file has to have some feature, and sparse ones only know what occurs
    matrix = sparse.csr_array(features) if is_sparse else features.astype(np.float32)
    names = [f"d{row}" for row in range(qids.size)]
    want = JudgedLists(matrix, grades, qids, doc_ids=names, feature_ids=[2, 3, 5])
    path = tmp_path_factory.mktemp("letor") / "data.gz"
    write_data(want, "letor", path)
    data = Letor(dtype="float64" if is_sparse else "float32").read(path)
    np.testing.assert_array_equal(data.aligned_features([2, 3, 5]), features)
    np.testing.assert_array_equal(data.grades, want.grades)
    assert data.doc_ids.tolist() == names
    assert data.query_ids.tolist() == want.query_ids.astype(str).tolist()


@settings(deadline=None, max_examples=50)
@given(rows())
def test_result_matches_scikit_learn(tmp_path_factory, rows):
    features, grades, qids = rows
    features[0] = 1.0  # scikit-learn leaves zeros out, and a file has to have some feature
    path = str(tmp_path_factory.mktemp("letor") / "data.txt")
    dump_svmlight_file(features, grades, path, query_id=qids, zero_based=False)
    data = Letor(dtype="float64").read(Path(path))
    want, labels, want_qids = load_svmlight_file(path, query_id=True, zero_based=False)
    np.testing.assert_array_equal(data.features, want.toarray())
    np.testing.assert_array_equal(data.grades, labels)
    actual = np.repeat(data.query_ids, np.diff(data.group_ptr)).astype(int)
    np.testing.assert_array_equal(actual, want_qids)


@pytest.fixture
def letor(real_data):
    return real_data / "letor"


@pytest.mark.parametrize(
    ("folder", "counts"),
    [("ohsumed/QueryLevelNorm", (16140, 106, 45)), ("mq2008", (15211, 784, 46))],
)
def test_real_files(letor, registry, folder, counts):
    paths = [letor / folder / f"S{i}.txt.gz" for i in range(1, 6)]
    data = read(paths, registry=registry)
    assert (data.n_rows, data.n_queries, data.n_features) == counts
    assert set(data.grades.tolist()) == {0, 1, 2}
    assert isinstance(data.features, np.ndarray)
    blocks = [load_svmlight_file(str(path), n_features=counts[2]) for path in paths]
    want = np.vstack([features.toarray() for features, _ in blocks]).astype(np.float32)
    np.testing.assert_array_equal(data.features, want)


@pytest.mark.parametrize("part", ["S1", "S2", "S3", "S4", "S5"])
def test_real_missing_values_raise(letor, registry, part):
    path = letor / "ohsumed" / "Feature-null" / f"{part}.txt.gz"
    with pytest.raises(DataError, match=rf"{part}.txt.gz, line \d+: '\d+:NULL' is a missing value"):
        read(path, registry=registry)


def test_kernel_and_threads_reach_the_parser(write, registry, kernel_name, monkeypatch):
    used = []

    class Spy:
        @staticmethod
        def parse_letor(source, out, threads):
            used.append((kernel_name, threads))
            kernel.letor.implementation.parse_letor(source, out, threads)

    monkeypatch.setenv("RANKING_KERNEL", "no kernel has this name")
    kernel = get_kernel(kernel_name)
    spy = dataclasses.replace(kernel, implementations={**kernel.implementations, "letor": Spy})
    path = write(GOOD)
    expected = Letor(kernel=kernel).read(path)
    for reader in ("auto", "letor"):
        data = read([path], reader, kernel=spy, threads=3, registry=registry)
        assert data.features.tobytes() == expected.features.tobytes()
    read_any(path, "letor:threads=2", kernel=spy, threads=3, registry=registry)
    read_any(path, Letor(kernel=spy), kernel="reference", threads=3, registry=registry)
    assert used == [(kernel_name, 3)] * 2 + [(kernel_name, 2), (kernel_name, 1)]
    with pytest.raises(KernelUnavailableError, match="there is no kernel 'fast'"):
        read(path, kernel="fast", registry=registry)
