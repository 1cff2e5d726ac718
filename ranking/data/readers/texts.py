"""Readers of texts: BEIR folders, SMART folders and click logs; all return `TextCollection`."""

from __future__ import annotations

import dataclasses
import json
import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from ranking.contracts.reader import Reader
from ranking.data.matching_data import MatchingData
from ranking.data.readers.lines import (
    Columns,
    head_lines,
    is_number,
    read_lines,
    refuse,
)
from ranking.data.readers.trec import read_qrels
from ranking.data.text.features import TextFeatures
from ranking.data.text_collection import TextCollection
from ranking.errors import DataError, DataWarning, PartError

COMPRESSED = ("", ".gz", ".xz", ".zst")

WORDS = "text:words=100000,stop_words=english,sublinear=true"
"""Words of clicks that are described with clicks: those of recipe rmls."""


@dataclasses.dataclass
class Beir(Reader):
    """A BEIR folder: corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv.

    The title of a document, if it has one, is the first line of its text. Queries without a
    judgement in the split are left out, as they belong to other splits.

    Attributes
    ----------
    split : str
        Which judgements: train, dev, test. By default the only file in qrels.
    """

    name: ClassVar[str] = "beir"

    split: str = ""

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> bool:
        """Return whether both files and the folder of judgements exist."""
        return (
            _find_file(path, "corpus.jsonl") is not None
            and _find_file(path, "queries.jsonl") is not None
            and (path / "qrels").is_dir()
        )

    def read(self, path: Path) -> TextCollection:
        """Read the whole folder."""
        sources = [_find_file(path, f"{name}.jsonl") for name in ("corpus", "queries")]
        if sources[0] is None or sources[1] is None:
            raise DataError(f"{path} has no corpus.jsonl or no queries.jsonl; put it there.")
        documents, queries = _jsonl(sources[0]), _jsonl(sources[1])
        judgements = read_qrels(self._qrels(path))
        judged = set(judgements.query_ids.tolist())
        used = {query: text for query, text in queries.items() if query in judged}
        return _collection(
            path,
            used,
            documents,
            judgements.query_ids[judgements.row_groups].tolist(),
            judgements.document_ids.tolist(),
            judgements.grades,
        )

    def _qrels(self, path: Path) -> Path:
        files = {
            file.name.partition(".")[0]: file
            for file in sorted((path / "qrels").glob("*.tsv*"))
            if file.name.partition(".tsv")[2] in COMPRESSED
        }
        if self.split in files:
            return files[self.split]
        if len(files) == 1 and not self.split:
            return next(iter(files.values()))
        raise DataError(
            f"{path / 'qrels'} has {', '.join(files) or 'no judgements'}; choose one of the splits "
            "with --reader beir:split=NAME."
        )


@dataclasses.dataclass
class Smart(Reader):
    """A SMART folder: one file each of documents (.ALL), queries (.QRY) and judgements (.REL).

    The text is the title (.T), if there is one, and the body (.W). If the queries of the
    judgements are not all among the ids, as in Cranfield, they are numbers by order, and a
    `DataWarning` says so. Judgements are ``query document [...]``, relevant with grade 1;
    ``query document code`` as in Cranfield, whose codes 1 (best) to 4 become grades 4 to 1 and
    any other code grade 0; or qrels.
    """

    name: ClassVar[str] = "smart"

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> bool:
        """Return whether there are three files with such names."""
        return path.is_dir() and all(len(files) == 1 for files in _smart_files(path))

    def read(self, path: Path) -> TextCollection:
        """Read the whole folder."""
        if not path.is_dir():
            raise DataError(f"{path} is not a folder; name the one with the three files.")
        files = _smart_files(path)
        if any(len(paths) != 1 for paths in files):
            raise DataError(
                f"{path} needs one file each of documents (.ALL), queries (.QRY) and judgements "
                f"(.REL), and has {', '.join(str(len(paths)) for paths in files)}."
            )
        (all_file,), (query_file,), (relevance_file,) = files
        documents = _smart_texts(all_file)
        queries = _smart_texts(query_file)
        judged, judged_documents, grades = _smart_judgements(relevance_file)
        if not set(judged) <= set(queries):
            numbers = {str(number) for number in range(1, len(queries) + 1)}
            if not set(judged) <= numbers:
                unknown = next(query for query in judged if query not in queries)
                raise DataError(f"{relevance_file}: query {unknown} is not in {query_file}.")
            warnings.warn(
                f"{path}: the judgements number the queries by their order in {query_file.name}, "
                "and these numbers are now their ids.",
                DataWarning,
                stacklevel=3,
            )
            queries = dict(zip(map(str, range(1, len(queries) + 1)), queries.values(), strict=True))
        return _collection(path, queries, documents, judged, judged_documents, grades)


@dataclasses.dataclass
class Clicks(Reader):
    """A click log: query text, document text and clicks, separated by tabs.

    Attributes
    ----------
    duplicates : {"sum", "max", "last"}
        How to merge the clicks of rows with the same two texts.
    texts : bool
        False for the texts as ids only, without features of their words, such as for random walks.
    features : {"text", "words+clicks"}
        "words+clicks" describes queries and documents here, by tf-idf of their words and by their
        clicks (`MatchingData.with_clicks`), instead of leaving the words to the ranker. A model of
        such data scores queries and documents of files, not texts.
    log : str or None
        With "words+clicks", the click log that words and clicks are taken from; by default the file
        itself. Give the training log when other files are read.
    """

    name: ClassVar[str] = "clicks"

    duplicates: str = "sum"
    texts: bool = True
    features: str = "text"
    log: str | None = None

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> bool:
        """Return whether rows are two texts with letters and a whole number."""
        rows = [line.split("\t") for line in head_lines(head)]
        return bool(rows) and all(
            len(row) == 3
            and row[2].strip().isdecimal()
            and all(re.search(r"[^\W\d]", text) for text in row[:2])
            for row in rows
        )

    def read(self, path: Path) -> TextCollection | MatchingData:
        """Read the whole file; each text is its own id."""
        names = ("query", "document", "clicks")
        columns = Columns(path, read_lines(path), lambda line: line.split("\t"), names)
        clicks = columns.floats("clicks")
        if clicks.min() < 0:
            row = int(np.argmax(clicks < 0))
            refuse(path, columns.numbers[row], f"there are {clicks[row]:g} clicks; correct it")
        data = MatchingData.from_interactions(
            columns.texts("query"), columns.texts("document"), clicks, duplicates=self.duplicates
        )
        if not self.texts:
            return data
        queries, documents = data.query_ids.tolist(), data.document_ids.tolist()
        texts = TextCollection(queries, queries, documents, documents, data.relevance)
        return texts if self.features == "text" else self._with_clicks(texts)

    def _with_clicks(self, texts: TextCollection) -> MatchingData:
        """Return words and clicks as features, as they are in the log."""
        from ranking.data.inputs import describe_texts

        if self.features != "words+clicks":
            raise PartError(
                f"clicks has features={self.features!r}; it must be text or words+clicks."
            )
        log = texts
        if self.log is not None:
            read = Clicks(duplicates=self.duplicates).read(Path(self.log))
            assert isinstance(read, TextCollection)
            log = read
        words = TextFeatures.from_spec(WORDS).fit(log.document_texts)
        return describe_texts(texts, words).with_clicks(describe_texts(log, words))


def _collection(
    path: Path,
    queries: dict[str, str],
    documents: dict[str, str],
    judged_queries: Sequence[str],
    judged_documents: Sequence[str],
    grades: Any,
) -> TextCollection:
    """Return texts with judgements; raise `DataError` for a judgement without its texts."""
    for name, ids, known in (
        ("query", judged_queries, queries),
        ("document", judged_documents, documents),
    ):
        for one in ids:
            if one not in known:
                raise DataError(
                    f"{path}: the judgements have {name} {one!r}, which has no text; add it, or "
                    "remove its judgements."
                )
    row_of = {query: row for row, query in enumerate(queries)}
    column_of = {document: column for column, document in enumerate(documents)}
    entries = (
        np.asarray(grades, dtype=np.float64),
        (
            [row_of[query] for query in judged_queries],
            [column_of[document] for document in judged_documents],
        ),
    )
    return TextCollection(
        list(queries),
        list(queries.values()),
        list(documents),
        list(documents.values()),
        sparse.coo_array(entries, shape=(len(queries), len(documents))),
    )


def _find_file(folder: Path, name: str) -> Path | None:
    for ending in COMPRESSED:
        if (folder / (name + ending)).is_file():
            return folder / (name + ending)
    return None


def _jsonl(path: Path) -> dict[str, str]:
    """Return the texts of a file of JSON lines by id."""
    texts: dict[str, str] = {}
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            refuse(path, number, f"this is not JSON ({error}); write one object per line")
        if not isinstance(row, dict) or not all(
            isinstance(row.get(key), str) for key in ("_id", "text")
        ):
            refuse(path, number, 'there is no "_id" or no "text" that is a text; add both')
        if row["_id"] in texts:
            refuse(path, number, f"id {row['_id']!r} was there already; keep one of them")
        title = row.get("title") or ""
        texts[row["_id"]] = f"{title}\n{row['text']}" if title else row["text"]
    return texts


def _smart_files(path: Path) -> list[list[Path]]:
    names = (r".*\.all(\.\d+)?", r".*\.qry", r".*\.rel|.*qrel")
    ending = r"(\.gz|\.xz|\.zst)?"
    return [
        sorted(
            file
            for file in path.iterdir()
            if file.is_file() and re.fullmatch(f"({name}){ending}", file.name.lower())
        )
        for name in names
    ]


def _smart_texts(path: Path) -> dict[str, str]:
    """Return titles and bodies by id."""
    texts: dict[str, str] = {}
    for number, one, fields in _smart_records(path):
        if one in texts:
            refuse(path, number, f"id {one} was there already; keep one of them")
        texts[one] = "\n".join(fields)
    return texts


def _smart_records(path: Path) -> Iterator[tuple[int, str, list[str]]]:
    """Yield the line, the id and the lines of title and body of each record."""
    start, one = 0, ""
    content: list[str] = []
    field = ""
    for number, line in enumerate(read_lines(path), start=1):
        marked = re.match(r"\.([A-Z])(?:\s|$)", line)
        if marked and marked[1] == "I":
            if start:
                yield start, one, content
            words = line.split()
            if len(words) != 2 or not words[1].isdecimal():
                refuse(path, number, "a record must begin with `.I` and a number; correct it")
            start, one, content, field = number, str(int(words[1])), [], "I"
        elif marked:
            field = marked[1]
        elif not start and line.strip():
            refuse(path, number, "a record must begin with `.I` and a number; correct it")
        elif field in ("T", "W") and line.strip():
            content.append(line.strip())
    yield start, one, content


def _smart_judgements(path: Path) -> tuple[list[str], list[str], list[float]]:
    lines = read_lines(path)
    width = len(lines[0].split())
    if width not in (3, 4):
        refuse(path, 1, f"there are {width} columns; judgements have 3 or 4")
    names = [["query", "document", "code"], ["query", "document", "weight", "score"]][width - 3]
    columns = Columns(path, lines, str.split, names)
    if width == 4 and all(is_number(word) and "." not in word for word in columns.raw("score")):
        judgements = read_qrels(path)
        queries = judgements.query_ids[judgements.row_groups].tolist()
        return queries, judgements.document_ids.tolist(), judgements.grades.tolist()
    columns.refuse_repeats("query", "document")
    grades = [1.0] * len(columns.numbers)
    if width == 3:
        codes = columns.floats("code").tolist()
        grades = [5 - code if 1 <= code <= 4 else 0.0 for code in codes]
    return list(columns.texts("query")), list(columns.texts("document")), grades
