"""Lists of neighbours: what is read, and what is refused."""

import re

import pytest

from ranking.data.readers.read import find_reader, read_any
from ranking.errors import DataError

USERS = "2 7 0\n0\n1 7\n"


def test_users_and_items(write, registry):
    path = write(USERS)
    assert find_reader(path, registry=registry).name == "adjacency"
    data = read_any(path, registry=registry)
    assert data.query_ids.tolist() == [0, 1, 2]
    assert data.document_ids.tolist() == [0, 7]
    assert data.relevance.toarray().tolist() == [[1, 1], [0, 0], [0, 1]]


def test_features_of_items(write, registry):
    tags = write("1 30\n0\n2 4 30\n", "tags.dat")
    path = write("2 2 0\n1 2\n", "users.dat")
    data = read_any(path, f"adjacency:item_features={tags}", registry=registry)
    assert data.document_ids.tolist() == [0, 1, 2]
    assert data.relevance.toarray().tolist() == [[1, 0, 1], [0, 0, 1]]
    assert data.document_feature_ids.tolist() == [4, 30]
    assert data.documents.toarray().tolist() == [[0, 1], [0, 0], [1, 1]]
    path = write("1 0\n2 1 3\n")
    with pytest.raises(DataError, match=r"line 2: there is item 3, and .*tags.dat has 3 lines"):
        read_any(path, f"adjacency:item_features={tags}", registry=registry)


def test_numeric_table_is_not_recognised_as_adjacency(write, registry):
    judgements = "3 0 5 1\n3 0 6 1\n3 0 7 0\n"
    assert find_reader(write(judgements), registry=registry).name == "qrels"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1 5\n3 1 2\n", "line 2: the line announces 3 and has 2 numbers after it; complete it"),
        ("1 5\n\n1 2\n", "line 2: the line announces nothing and has 0 numbers after it"),
        ("2 5 5\n", "line 1: 5 is there twice; keep one."),
        ("1 x\n", "line 1: 'x' is not a number from 0 on; correct it."),
        ("1 -5\n", "line 1: '-5' is not a number from 0 on; correct it."),
        ("0\n0\n", "all lines are empty; download or write it again."),
    ],
)
def test_invalid_input_raises_data_error(write, registry, content, message):
    with pytest.raises(DataError, match=re.escape(message)):
        read_any(write(content), "adjacency", registry=registry)
