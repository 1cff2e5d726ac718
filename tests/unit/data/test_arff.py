"""Multi-label ARFF files: what is read, from where labels are known, and what is refused."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.io import arff as scipy_arff

from ranking.data.readers.read import find_reader, read_any
from ranking.errors import DataError

HEADER = """\
% a comment
@relation 'two labels'

@ATTRIBUTE size NUMERIC
@attribute 'is \\'red\\'' {0,1}
@attribute cat {0, 1}
@attribute dog {0,1}
@data
"""
DENSE = HEADER + "% so far\n2.5,1,1,0\n0,0,0,0\n-1e-3, 0 ,1,'1'\n"
SPARSE = HEADER + "{0 2.5,1 1, 2 1}\r\n{}\r\n{3 1,2 1,0 -1e-3}\r\n"
XML = """<?xml version="1.0" encoding="utf-8"?>
<labels xmlns="http://mulan.sourceforge.net/labels">
<label name="cat"><label name="dog"/></label>
</labels>"""


@pytest.mark.parametrize("content", [DENSE, SPARSE])
@pytest.mark.parametrize("compressed", ["", ".gz"])
def test_examples_with_labels(write, registry, content, compressed):
    write(XML, "pets.xml")
    write("not this one", "pet.xml")
    path = write(content, f"pets-train.arff{compressed}")
    assert find_reader(path, registry=registry).name == "arff"
    data = read_any(path, registry=registry)
    np.testing.assert_array_equal(data.queries, np.float32([[2.5, 1], [0, 0], [-1e-3, 0]]))
    assert data.query_feature_ids.tolist() == ["size", "is 'red'"]
    assert data.documents is None
    assert data.document_ids.tolist() == ["cat", "dog"]
    assert data.relevance.toarray().tolist() == [[1, 0], [0, 0], [1, 1]]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [("=-2", ["cat", "dog"]), ("=-1", ["dog"]), ("=other.xml", ["cat", "dog"])],
)
def test_labels_by_number_or_by_another_file(write, registry, monkeypatch, labels, expected):
    path = write(SPARSE, "x.arff")
    monkeypatch.chdir(write(XML, "other.xml").parent)
    data = read_any(path, f"arff:labels{labels}", registry=registry)
    assert data.document_ids.tolist() == expected


@pytest.mark.parametrize(
    ("said", "expected"), [("-C -2", ["cat", "dog"]), ("-C 2", ["size", "red"])]
)
def test_labels_by_the_name_of_the_relation(write, registry, said, expected):
    content = f"@relation 'pets: {said}'\n" + "".join(
        f"@attribute {name} {{0,1}}\n" for name in ("size", "red", "cat", "dog")
    )
    data = read_any(write(content + "@data\n1,0,0,1\n"), registry=registry)
    assert data.document_ids.tolist() == expected
    assert data.relevant(0).tolist() == [1 if expected[1] == "dog" else 0]


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 6), st.integers(1, 5), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_dense_and_sparse_match_scipy(tmp_path_factory, registry, n, features, labels, seed):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, features)).astype(np.float32) * (rng.random((n, features)) < 0.5)
    table = np.hstack([values, rng.random((n, labels)) < 0.4]).astype(float)
    names = [*(f"f{k}" for k in range(features)), *(f"l{k}" for k in range(labels))]
    header = "@relation r\n" + "".join(f"@attribute {name} real\n" for name in names) + "@data\n"
    folder = tmp_path_factory.mktemp("arff")
    dense, thin = folder / "dense.arff", folder / "thin.arff"
    dense.write_text(header + "".join(",".join(map(repr, row)) + "\n" for row in table.tolist()))
    rows = [", ".join(f"{k} {row[k]!r}" for k in np.flatnonzero(row)) for row in table.tolist()]
    thin.write_text(header + "".join(f"{{{row}}}\n" for row in rows))
    expected = np.array(scipy_arff.loadarff(dense)[0].tolist())
    for path in (dense, thin):
        data = read_any(path, f"arff:labels=-{labels}", registry=registry)
        np.testing.assert_array_equal(data.queries, expected[:, :features].astype(np.float32))
        np.testing.assert_array_equal(data.relevance.toarray(), expected[:, features:])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("1,0,1", "line 9: there are 3 values and 4 attributes; complete the row."),
        ("1,0,x,0", "line 9: attribute 'cat' is 'x', no finite number; correct it."),
        ("nan,0,0,0", "line 9: attribute 'size' is 'nan', no finite number"),
        ("1_0,0,0,0", "line 9: attribute 'size' is '1_0', no finite number"),
        ("1e39,0,0,0", "line 9: attribute 'size' is 1e+39, too large for float32; rescale it."),
        ("?,0,0,0", "line 9: attribute 'size' has a missing value; fill it in."),
        ("1,0,2,0", "line 9: label 'cat' is 2; it must be 0 or 1."),
        ("{0 1", "line 9: the row has no closing brace; complete or remove it."),
        ("{4 1}", "line 9: there is no attribute 4; they are numbered from 0 to 3."),
        ("{0 1, 0 2}", "line 9: attribute 0 is there a second time; keep one."),
        ("{0}", "line 9: '0' is not `<index> <value>`; write both."),
        ("{-1 1}", "line 9: '-1 1' is not `<index> <value>`; write both."),
        ("{0 1}, {5}", "is not `<index> <value>`"),
        ("", "has no rows after @data; download or write it again."),
    ],
)
def test_invalid_rows_raise(write, registry, row, message):
    write(XML, "x.xml")
    with pytest.raises(DataError, match=re.escape(message)):
        read_any(write(HEADER + row, "x.arff"), registry=registry)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "@attribute a {red,green}",
            "line 2: attribute 'a' is '{red,green}', neither a number nor",
        ),
        ("@attribute a {1,0}", "line 2: attribute 'a' is '{1,0}', neither a number nor"),
        ("@attribute a string", "line 2: attribute 'a' is 'string', neither a number nor"),
        ("@attribute", "line 2: an attribute needs a name and a type"),
        ("@attribute '' real", "line 2: the attribute's name is empty; fill it in."),
        ("@attribute a real\n@attribute a real", "line 3: attribute 'a' was on line 2 already"),
        ("@attributes a real", "line 2: '@attributes a real' is no line of a header; correct it."),
        ("@attribute a real\n@data", "line 3: there are no attributes for a feature and a label"),
        ("@attribute a real", "has no @data; download or write it again."),
    ],
)
def test_invalid_headers_raise(write, registry, line, message):
    with pytest.raises(DataError, match=re.escape(message)):
        read_any(write(f"@relation r\n{line}\n"), registry=registry)


@pytest.mark.parametrize(
    ("xml", "message"),
    [
        (None, "does not say which attributes are labels; put Mulan's XML file next to it"),
        ("<labels>", "x.xml is not XML"),
        (
            '<labels><label name="cow"/></labels>',
            "x.xml has the label 'cow', which is no attribute",
        ),
        ("<labels/>", "x.xml names 0 of the 4 attributes of"),
        ('<!DOCTYPE l [<!ENTITY a "b">]><labels/>', "x.xml defines entities"),
    ],
)
def test_invalid_labels_raise(write, registry, xml, message):
    if xml is not None:
        write(xml, "x.xml")
    with pytest.raises(DataError, match=re.escape(message)):
        read_any(write(DENSE, "x.arff"), registry=registry)


@pytest.mark.parametrize("labels", ["4", "-4", "0"])
def test_all_or_no_attributes_as_labels_raise(write, registry, labels):
    with pytest.raises(DataError, match=f"4 attributes, and {labels} labels are requested"):
        read_any(write(DENSE), f"arff:labels={labels}", registry=registry)
