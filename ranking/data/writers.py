"""Write data in a format that its reader reads back unchanged."""

from __future__ import annotations

import gzip
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from ranking._utils.files import write_bytes
from ranking.data.frames import pyarrow_module
from ranking.data.judged_lists import JudgedLists
from ranking.data.kinds import Data
from ranking.data.matching_data import MatchingData
from ranking.data.relevance import RelevanceData
from ranking.data.text_collection import TextCollection
from ranking.data.trec import Judgements, Run
from ranking.errors import DataError

BEIR = ("beir-corpus", "beir-queries", "beir-qrels")
"""The three files of a BEIR folder."""

FORMATS = ("letor", "qrels", "run", "tsv", "parquet", "clicks", *BEIR)


def write(data: Data, form: str, path: str | Path) -> None:
    """Write data to a file atomically; compressed if its name ends in ``.gz``.

    Parameters
    ----------
    data : JudgedLists, MatchingData, TextCollection, Judgements or Run
    form : {"letor", "qrels", "run", "tsv", "parquet", "clicks", "beir-corpus", ...}
        letor takes judged lists, run takes runs, qrels takes judgements and relevance matrices,
        tsv and parquet take interactions, without their features. Collections of texts are written
        as clicks (query, document and clicks by tabs), or as the files of a BEIR folder:
        beir-corpus is corpus.jsonl, beir-queries queries.jsonl and beir-qrels qrels/SPLIT.tsv.
    path : str or Path
    """
    path = Path(path)
    if form == "letor" and isinstance(data, JudgedLists):
        content = _encode(_letor(data))
    elif form == "run" and isinstance(data, Run):
        content = _encode(_run(data))
    elif form == "qrels" and isinstance(data, Judgements):
        content = _encode(_qrels(data.query_ids[data.row_groups], data.document_ids, data.grades))
    elif form == "qrels" and isinstance(data, RelevanceData) and data.relevance is not None:
        queries, documents = _pairs(data)
        content = _encode(_qrels(queries, documents, data.relevance.data))
    elif form == "tsv" and isinstance(data, MatchingData) and data.relevance is not None:
        content = _encode(_tsv(data))
    elif form == "parquet" and isinstance(data, MatchingData) and data.relevance is not None:
        content = _parquet(data)
    elif form in TEXTS and isinstance(data, TextCollection) and data.relevance is not None:
        content = _encode(TEXTS[form](data))
    else:
        raise DataError(
            f"a {type(data).__name__} cannot be written as {form}; letor takes judged lists, run "
            "takes runs, qrels judgements, tsv and parquet interactions, clicks and the files of "
            "BEIR collections of texts with relevance."
        )
    if path.name.endswith(".gz"):
        content = gzip.compress(content, mtime=0)
    try:
        write_bytes(path, content)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror}.") from error


def _encode(lines: Iterable[str]) -> bytes:
    return "".join(lines).encode()


def _letor(data: JudgedLists) -> Iterator[str]:
    _check_ids(data.query_ids)
    if data.has_doc_ids:
        _check_ids(data.doc_ids)
    names = data.feature_ids.tolist()
    for row in range(data.n_rows):
        if sparse.issparse(data.features):
            entries = slice(*data.features.indptr[row : row + 2])
            columns = [names[column] for column in data.features.indices[entries]]
            values = data.features.data[entries]
        else:
            columns, values = names, data.features[row]
        # As text each value has the fewest digits that its own precision needs.
        pairs = " ".join(
            f"{column}:{value}" for column, value in zip(columns, values.astype(str), strict=True)
        )
        comment = f" #docid = {data.doc_ids[row]}" if data.has_doc_ids else ""
        query = data.query_ids[data.row_groups[row]]
        yield f"{data.grades[row]:.17g} qid:{query} {pairs}{comment}\n"


def _qrels(queries: Any, documents: Any, grades: Any) -> Iterator[str]:
    _check_ids(queries)
    _check_ids(documents)
    for query, document, grade in zip(queries, documents, grades.tolist(), strict=True):
        yield f"{query} 0 {document} {grade:.17g}\n"


def _run(data: Run) -> Iterator[str]:
    _check_ids(data.query_ids)
    _check_ids(data.document_ids)
    for position, query in enumerate(data.query_ids):
        rows = np.arange(*data.group_ptr[position : position + 2])
        order = rows[np.lexsort((data.document_ids[rows], -data.scores[rows]))]
        for rank, row in enumerate(order, start=1):
            score = float(data.scores[row])
            yield f"{query} Q0 {data.document_ids[row]} {rank} {score!r} {data.tag}\n"


def _tsv(data: MatchingData) -> Iterator[str]:
    queries, documents = _pairs(data)
    _check_ids(queries, r"[\t\r\n]|^$|^\s|\s$")
    _check_ids(documents, r"[\t\r\n]|^$|^\s|\s$")
    timed = data.times is not None
    yield "user_id\titem_id\tvalue" + ("\ttimestamp" if timed else "") + "\n"
    times = data.times.tolist() if data.times is not None else data.relevance.data
    for user, item, value, time in zip(
        queries, documents, data.relevance.data.tolist(), times, strict=True
    ):
        yield f"{user}\t{item}\t{value:.17g}" + (f"\t{time:.17g}\n" if timed else "\n")


def _parquet(data: MatchingData) -> bytes:
    arrow = pyarrow_module("writing Parquet")
    import pyarrow.parquet

    users, items = _pairs(data)
    columns = {"user_id": users, "item_id": items, "value": data.relevance.data}
    if data.times is not None:
        columns["timestamp"] = data.times
    table = arrow.table({name: arrow.array(column.tolist()) for name, column in columns.items()})
    stream = io.BytesIO()
    pyarrow.parquet.write_table(table, stream)
    return stream.getvalue()


def _jsonl(ids: Any, texts: Sequence[str]) -> Iterator[str]:
    for one, text in zip(ids.tolist(), texts, strict=True):
        yield json.dumps({"_id": str(one), "text": text}, ensure_ascii=False) + "\n"


def _beir_qrels(data: TextCollection) -> Iterator[str]:
    queries, documents = _pairs(data)
    _check_ids(queries)
    _check_ids(documents)
    yield "query-id\tcorpus-id\tscore\n"
    for query, document, grade in zip(
        queries, documents, data.relevance.data.tolist(), strict=True
    ):
        yield f"{query}\t{document}\t{grade:.17g}\n"


def _clicks(data: TextCollection) -> Iterator[str]:
    rows = np.repeat(np.arange(data.n_queries), np.diff(data.relevance.indptr))
    for text in (*data.query_texts, *data.document_texts):
        if re.search(r"[\t\r\n]|^$|^\s|\s$", text):
            raise DataError(f"the text {text[:60]!r} cannot be written in a line of clicks.")
    for row, column, clicks in zip(rows, data.relevance.indices, data.relevance.data, strict=True):
        yield f"{data.query_texts[row]}\t{data.document_texts[column]}\t{clicks:.17g}\n"


TEXTS: dict[str, Callable[[TextCollection], Iterator[str]]] = {
    "clicks": _clicks,
    "beir-corpus": lambda data: _jsonl(data.document_ids, data.document_texts),
    "beir-queries": lambda data: _jsonl(data.query_ids, data.query_texts),
    "beir-qrels": _beir_qrels,
}


def _pairs(data: RelevanceData) -> tuple[Any, Any]:
    rows = np.repeat(np.arange(data.n_queries), np.diff(data.relevance.indptr))
    return data.query_ids[rows], data.document_ids[data.relevance.indices]


def _check_ids(ids: Any, pattern: str = r"[\s#]|^$") -> None:
    if ids.dtype.kind != "U":
        return
    for one in np.unique(ids).tolist():
        if re.search(pattern, one):
            raise DataError(f"the id {one!r} cannot be written in this format; rename it.")
