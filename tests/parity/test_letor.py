"""Parsing of LETOR text: arrays, or the defect and its location."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parity_helpers import Same, differences

from ranking.kernels import letor
from ranking.kernels.contract import Defect
from ranking.kernels.kernel import Kernel
from ranking.kernels.letor import Chunk

DTYPES = ("float32", "float64")


def check(same: Same, text: bytes, threads: int = 1) -> list[Chunk]:
    for dtype in DTYPES:
        expected = same.reference.letor.parse(text, dtype=dtype)
        chunks = same.kernel.letor.parse(text, dtype=dtype, threads=threads)
        assert len(chunks) == len(expected)
        for chunk, other in zip(chunks, expected, strict=True):
            one, two = vars(chunk).copy(), vars(other).copy()
            assert one.pop("defect") == two.pop("defect")
            assert differences(one, two) == []
    return expected


NUMBERS = [
    "0", "-0", "+0", "1", "+1", "-1", "1.", ".5", "-.5", "+1.e5", "1e5", "1E-5", "1e+05", "007",
    "0.1", "0.3", "123456.789012", "9007199254740992", "9007199254740993", "9007199254740995",
    "1e22", "1e23", "8.5e22", "123e22", "9007199254740993e22", "0.12345678901234567",
    "1.7976931348623157e308", "1.7976931348623158e308", "2.2250738585072011e-308", "5e-324",
    "2.4703282292062327e-324", "2.4703282292062328e-324", "1e-400", "0e999", "0e-99999999999",
    "3.4028234663852886e38", "3.4028235677973366e38", "1.17549435e-38", "7.006492321624085e-46",
    "18446744073709551615", "18446744073709551616", "99999999999999999999", "1" + "0" * 400,
    "0." + "0" * 400 + "1e401", "1e27", "7e27", "3e-27", "7.1e28", "1.00000005960464477539",
    "9999999999999999999e-27", "9999999999999999999e27", "4503599627370497.5", "4503599627370496.5",
]  # fmt: skip
NOT_NUMBERS = [
    "", "-", "+", ".", "e5", "1e", "1e+", "1_0", "0x1p3", "inf", "-Infinity", "nan", "1e999",
    "-1e999", "1..2", "1.2.3", "--1", "+-1", "1f", "1,5", "\u0661", "1\u00a0", "1e5.0", "NULL",
    "None", "na", "NA", "?", "nul", "nulll", "1e39", "-1e39", "1:2", ":", "1e99999999999999999999",
]  # fmt: skip


@pytest.mark.parametrize("number", [*NUMBERS, *NOT_NUMBERS])
def test_numbers(same: Same, number: str) -> None:
    check(same, f"1 qid:1 1:1 2:{number} 3:2\n".encode())
    check(same, f"{number} qid:1 1:1\n".encode())


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_are_those_of_python(kernel: Kernel, number: str) -> None:
    (chunk,) = kernel.letor.parse(f"0 qid:1 1:{number}\n".encode())
    if np.isfinite(float(number)):
        assert chunk.values.tobytes() == np.array([float(number)]).tobytes()
    else:
        assert chunk.defect


@pytest.mark.slow
@settings(deadline=None, max_examples=150)
@given(
    st.lists(
        st.one_of(
            st.floats(allow_nan=False, allow_infinity=False).map(repr),
            st.from_regex(
                r"[-+]?(\d{1,25}\.?\d{0,25}|\.\d{1,25})([eE][-+]?\d{1,3})?", fullmatch=True
            ),
        ).filter(str.isascii),
        min_size=1,
        max_size=20,
    )
)
def test_random_numbers(same: Same, numbers: list[str]) -> None:
    lines = [f"0 qid:1 1:{number}\n" for number in numbers if np.isfinite(float(number))]
    text = "".join(lines).encode()
    check(same, text)
    for chunk in same.kernel.letor.parse(text):
        assert chunk.values.tolist() == [float(line.split(":")[2]) for line in lines]


LINES = [
    b"2 qid:10 1:.5 2:-1e-2 #docid = GX008-86-444 inc = 1 prob = .08\n",
    b"0 qid:10 1:3 2:4\r\n",
    b"1 qid:11 2:7 1:0 # no id here\n",
    b"\t1  qid:\xc3\xa9\x0b3:1\x0c4:2 #docid=a\xc3\xa9 docid = b\n",
    b"1 qid:11#docid  =  x\n",
    b"0 qid:7 5:1 4:1 3:1 2:1 1:1 5:2 1:3\n",
    b"0 qid:7 5:1 4:1 3:1 bad 5:2\n",
    b"0 qid:7 2147483647:1 00000000000000000001:2\n",
    b"0 qid:7 2147483648:1\n",
    b"0 qid:7 9223372036854775808:1\n",
    b"0 qid:7 000000000000000000001:1\n",
    b"-1.5e0 qid:7 0:1 1:2 #docid\n",
    b"# docid = only\n",
    b" \t \n",
    b"\n",
    b"\r\n",
    b"1 qid:1 1:1 #mydocid = 3 docid x docid = \n",
    b"1 qid:1 1:1 #docid = = y\n",
    b"1 qid:1 1:1\xff #\n",
    b"1 qid:1 -1:x a:1 :3 4: qid 1\n",
    b"1 qid 1:1\n",
    b"x qid: 1:1 #\xff\n",
    b"x 1:1 #\xff\n",
    b"1 qid:\xed\xa0\x80 1:1\n",
    b"1 qid:1 1:1 #\xf4\x90\x80\x80\n",
    b"1 qid:1 1:1 #\xe0\x9f\xbf\n",
    b"1 qid:1 1:1 #\xf0\x9f\x98\x80 \xc2\x85docid = z\n",
    b"1 qid:\0 1:1\n",
    b"# \0\n",
    b"x #\0\n",
    b"1 qid:1 1:1 #\0 \xff\n",
]
PIECES = [
    b" ", b"\t", b"\r", b"\n", b"\x0b", b"\x1c", b"\x85", b"#", b":", b"-", b"+", b".", b"e", b"0",
    b"1", b"9", b"99999999999", b"qid:", b"qid", b"docid", b"=", b"NaN", b"null", b"inf", b"\0",
    b"\xff", b"\xc3\xa9", b"1:1", b" 2:0.5", b"_",
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(LINES)))
def test_lines(same: Same, number: int) -> None:
    check(same, LINES[number])
    check(same, LINES[0] + LINES[number] + LINES[1])


@settings(deadline=None, max_examples=300)
@given(st.lists(st.sampled_from(LINES + PIECES), max_size=30))
def test_pieces_in_any_order(same: Same, pieces: list[bytes]) -> None:
    check(same, b"".join(pieces) + b"\n")


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=300))
def test_any_bytes(same: Same, content: bytes) -> None:
    check(same, content + b"\n")


def good_lines(random_: random.Random, rows: int, regular: bool) -> list[bytes]:
    lines = []
    for row in range(rows):
        columns = list(range(1, 8))
        if not regular:
            columns = random_.sample(range(40), random_.randrange(8))
        pairs = " ".join(f"{c}:{random_.choice(NUMBERS[:20])}" for c in columns)
        comment = random_.choice(["", "", f" #docid = d{row}", " # x"])
        lines.append(f"{row % 3} qid:{row // 4} {pairs}{comment}\n".encode())
    return lines


@pytest.mark.parametrize("regular", [True, False])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_chunks(
    same: Same, monkeypatch: pytest.MonkeyPatch, seed: int, regular: bool, threads: int
) -> None:
    monkeypatch.setattr(letor, "CHUNK", 100)
    text = b"".join(good_lines(random.Random(seed), 300, regular))
    chunks = check(same, text, threads)
    assert len(chunks) > 10
    assert all(chunk.width == (7 if regular else -1) for chunk in chunks[:-1])
    assert sum(chunk.grades.size for chunk in chunks) == 300


@pytest.mark.parametrize("trial", range(60))
def test_mutations(same: Same, monkeypatch: pytest.MonkeyPatch, seed: int, trial: int) -> None:
    monkeypatch.setattr(letor, "CHUNK", 500)
    random_ = random.Random(seed * 1000 + trial)
    text = bytearray(b"".join(good_lines(random_, 40, regular=trial % 2 == 0)))
    for _ in range(random_.randrange(1, 4)):
        at = random_.randrange(len(text))
        text[at : at + random_.randrange(3)] = random_.choice(PIECES)
    check(same, bytes(text) + b"\n", threads=1 + trial % 2)


def test_a_long_line(same: Same) -> None:
    n = 20_000
    up = " ".join(f"{i}:1" for i in range(n))
    down = " ".join(f"{i}:1" for i in reversed(range(n)))
    check(same, f"1 qid:1 {up}\n0 qid:1 {down}\n".encode())
    check(same, f"1 qid:1 {down} 7:3 x\n".encode())


def test_buffers_are_large_enough(same: Same) -> None:
    check(same, b"1 qid:a 1:1 2:2 3:3 4:4 5:5 6:6 7:7 8:8 9:9#\n" * 50)
    check(same, b"1 qid:a\n" * 50)
    check(same, b"\n" * 50)
    assert same.kernel.letor.parse(b"") == []


def test_part_of_a_buffer(kernel: Kernel) -> None:
    buffer = bytearray(b"junk\n1 qid:7 3:4\nmore junk")
    (chunk,) = kernel.letor.parse(buffer, 5, 17)
    assert chunk.defect is None
    start, length = chunk.qids[0].tolist()
    assert buffer[start : start + length] == b"7"
    assert (chunk.low, chunk.high, chunk.width) == (3, 3, 1)


def test_arguments_are_validated(kernel: Kernel) -> None:
    with pytest.raises(ValueError, match="does not end with a newline"):
        kernel.letor.parse(b"1 qid:1 1:1")
    with pytest.raises(ValueError, match="start and stop are 0 and 9"):
        kernel.letor.parse(b"\n", 0, 9)
    with pytest.raises(TypeError, match="dtype is int64"):
        kernel.letor.parse(b"\n", dtype=np.int64)
    with pytest.raises(ValueError, match="threads is 0"):
        kernel.letor.parse(b"\n", threads=0)


def test_every_defect_is_covered(reference: Kernel) -> None:
    words = [b"1:1e39", b"1:x", b"2:1 1:1 2:1", b"1:null", b"qid:3"]
    lines = LINES + [b"1 qid:1 " + word + b"\n" for word in words]
    lines += [f"1 qid:1 {word}\n".encode() for word in LINES[19].decode().split()[2:]]
    defects = {Defect.NONE, Defect.NO_MEMORY}
    for line in [*lines, b"1 qid: 1:1\n", b"x qid:1\n"]:
        (chunk,) = reference.letor.parse(line, dtype="float32")
        defects.add(chunk.defect.defect if chunk.defect else Defect.NONE)
    assert defects == set(Defect)
