"""`RankedResults`: what rank, recommend, similar, fold_in and search return, by id."""

from __future__ import annotations

import dataclasses
import functools
import io
import itertools
import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TextIO, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from ranking._utils.files import replace_text
from ranking._utils.text import IdWriter, encode_id
from ranking.data.validation import Ids
from ranking.errors import DataError

if TYPE_CHECKING:
    from ranking.inference.retrieval import TopK

Path: TypeAlias = str | os.PathLike[str]
Retrieve: TypeAlias = "Callable[[NDArray[np.int64] | None], Iterator[TopK]]"
"""From positions of queries, or None for all, to their lists."""

FRAMES = ("pandas", "polars", "pyarrow")
"""Data frame libraries, in the order in which `to_frame` looks for them."""

SHOWN_QUERIES, SHOWN_DOCUMENTS = 3, 3
"""How much of the results `repr` shows."""


class RankedList(Sequence[tuple[Any, float]]):
    """The ranked documents of one query: a sequence of (id, score), best first.

    Attributes
    ----------
    ids : int64 or str array
        The ids of the documents.
    scores : float64 array
        Their scores, or for similar items their cosines.
    """

    __slots__ = ("ids", "scores")

    def __init__(self, ids: Ids, scores: NDArray[np.float64]) -> None:
        self.ids, self.scores = ids, scores

    def __len__(self) -> int:
        return self.ids.size

    def __iter__(self) -> Iterator[tuple[Any, float]]:
        return iter(zip(self.ids.tolist(), self.scores.tolist(), strict=True))

    @overload
    def __getitem__(self, index: int) -> tuple[Any, float]: ...

    @overload
    def __getitem__(self, index: slice) -> list[tuple[Any, float]]: ...

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return list(self)[index]
        return self.ids[index].item(), float(self.scores[index])

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))


@dataclasses.dataclass(frozen=True)
class Subset:
    """Retrieve lists for some of the queries only, given by their positions among all."""

    retrieve: Retrieve
    positions: NDArray[np.int64]

    def __call__(self, queries: NDArray[np.int64] | None) -> Iterator[TopK]:
        """Yield the lists of some of these queries; by default of all."""
        return self.retrieve(self.positions if queries is None else self.positions[queries])


def retrieve_nothing(queries: NDArray[np.int64] | None) -> Iterator[TopK]:
    """Yield no lists, for results without queries."""
    return iter(())


class Columns(NamedTuple):
    """The names of the two id columns in a data frame or JSON."""

    query: str = "query"
    document: str = "document"


class RankedResults:
    """Ranked lists of documents by query id, computed when they are needed.

    Iterating yields ``(query id, list)`` one query after the other and holds one block of queries
    at a time; iterating again computes the lists again. ``results[query_id]`` computes one list.
    `collect` computes all lists once and keeps them.

    Parameters
    ----------
    query_ids : array
        One id per query, in the order of the results.
    document_ids : array
        The ids that positions of documents refer to.
    retrieve : callable
        From positions of queries, or None for all, to an iterator of `TopK`.
    columns : Columns
        What queries and documents are called: users and items for a recommender.

    Examples
    --------
    >>> from ranking import MatchingData, Ranker
    >>> seen = MatchingData.from_interactions(["ann", "ann", "bob"], ["alien", "brazil", "alien"])
    >>> ranker = Ranker("factored", "warp", solver="sgd:max_steps=50").fit(seen)
    >>> results = ranker.recommend(["bob"], k=1)
    >>> [item for item, score in results["bob"]]
    ['brazil']
    >>> for user, items in results:
    ...     print(user, len(items))
    bob 1
    """

    def __init__(
        self,
        query_ids: Ids,
        document_ids: Ids,
        retrieve: Retrieve,
        columns: Columns | None = None,
    ) -> None:
        self.query_ids = query_ids
        self._document_ids, self.retrieve = document_ids, retrieve
        self._columns = columns or Columns()
        self._lists: list[RankedList] | None = None

    def __len__(self) -> int:
        return self.query_ids.size

    def __iter__(self) -> Iterator[tuple[Any, RankedList]]:
        """Yield the id and the ranked list of each query."""
        return zip(self.query_ids.tolist(), self._rows(None), strict=True)

    def __getitem__(self, query_id: Any) -> RankedList:
        """Return the ranked list of one query."""
        try:
            position = self._positions[query_id]
        except (KeyError, TypeError):
            example = "" if not len(self) else f" such as {self.query_ids[0].item()!r}"
            raise KeyError(
                f"there is no {self._columns.query} {query_id!r} in these results; give an id"
                f"{example}, or iterate"
            ) from None
        return next(self._rows(np.array([position])))

    def __contains__(self, query_id: object) -> bool:
        return query_id in self._positions

    @functools.cached_property
    def _positions(self) -> dict[Any, int]:
        """The position of each query; of equal ids, the first."""
        ids = self.query_ids.tolist()
        return dict(zip(reversed(ids), range(len(ids) - 1, -1, -1), strict=True))

    def _rows(self, positions: NDArray[np.int64] | None) -> Iterator[RankedList]:
        if self._lists is not None:
            rows = range(len(self)) if positions is None else positions.tolist()
            yield from (self._lists[position] for position in rows)
        elif len(self):
            for best in self.retrieve(positions):
                yield RankedList(self._document_ids[best.documents], best.scores)

    def collect(self) -> Self:
        """Compute all lists, keep them and return the results themselves."""
        if self._lists is None:
            self._lists = list(self._rows(None))
        return self

    def to_dict(self) -> dict[Any, list[tuple[Any, float]]]:
        """Return the lists by query id, as lists of (id, score)."""
        return {query: list(ranked) for query, ranked in self}

    def to_frame(self, backend: str | None = None) -> Any:
        """Return a data frame with one row per query and document, and columns for rank and score.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, optional
            By default the first of them that is installed.
        """
        import narwhals as nw

        name = _installed_frames() if backend is None else backend
        if name not in FRAMES:
            raise DataError(f"backend is {backend!r}; it must be one of {', '.join(FRAMES)}.")
        lists = self.collect()._lists or []
        sizes = np.array([len(ranked) for ranked in lists], np.int64)
        columns = {
            self._columns.query: np.repeat(self.query_ids, sizes).tolist(),
            self._columns.document: [one for ranked in lists for one in ranked.ids.tolist()],
            "rank": [place for size in sizes.tolist() for place in range(1, size + 1)],
            "score": [one for ranked in lists for one in ranked.scores.tolist()],
        }
        try:
            return nw.from_dict(columns, backend=name).to_native()  # type: ignore[arg-type]
        except ModuleNotFoundError as error:
            raise DataError(f"{name} is not installed ({error}); pip install {name}.") from error

    @overload
    def to_trec(self, path: None = None, tag: str = "ranking") -> str: ...

    @overload
    def to_trec(self, path: Path, tag: str = "ranking") -> None: ...

    def to_trec(self, path: Path | None = None, tag: str = "ranking") -> str | None:
        """Write a TREC run: ``query Q0 document rank score tag``, one line per document.

        Ranks count from 1 and scores have full precision. A blank or a control character inside an
        id is written as a hyphen, because blanks separate the fields; two ids that would be the
        same are refused.

        Parameters
        ----------
        path : str or path, optional
            By default the text is returned.
        tag : str
            The name of the run.
        """
        return _write(path, self._trec_lines(encode_id(tag, "trec")))

    def _trec_lines(self, tag: str) -> Iterator[str]:
        queries = IdWriter("trec", self._columns.query)
        documents = IdWriter("trec", self._columns.document)
        for query, ranked in self:
            word = queries(query)
            for rank, (document, score) in enumerate(ranked, start=1):
                yield f"{word} Q0 {documents(document)} {rank} {score!r} {tag}\n"

    @overload
    def to_json(self, path: None = None, *, lines: bool = False) -> str: ...

    @overload
    def to_json(self, path: Path, *, lines: bool = False) -> None: ...

    def to_json(self, path: Path | None = None, *, lines: bool = False) -> str | None:
        """Write one JSON record per query and document: both ids, rank and score.

        Parameters
        ----------
        path : str or path, optional
            By default the text is returned.
        lines : bool
            Whether to write JSON Lines instead of one array.
        """
        return _write(path, self._json_lines(lines))

    def _json_lines(self, lines: bool) -> Iterator[str]:
        records = (json.dumps(record, ensure_ascii=False) for record in self._records())
        if lines:
            yield from (f"{record}\n" for record in records)
            return
        yield "["
        for number, record in enumerate(records):
            yield f"{',' if number else ''}\n{record}"
        yield "\n]\n"

    def _records(self) -> Iterator[dict[str, Any]]:
        for query, ranked in self:
            for rank, (document, score) in enumerate(ranked, start=1):
                yield {
                    self._columns.query: query,
                    self._columns.document: document,
                    "rank": rank,
                    "score": score,
                }

    def __eq__(self, other: object) -> bool:
        """Say whether both have the same queries, documents and scores, in the same order."""
        if not isinstance(other, RankedResults):
            return NotImplemented
        same_queries = np.array_equal(self.query_ids, other.query_ids)
        return same_queries and all(map(RankedList.__eq__, self._rows(None), other._rows(None)))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        what = "results" if len(self) != 1 else "result"
        head = f"RankedResults({len(self)} {what} by {self._columns.query} id)"
        positions = np.arange(min(SHOWN_QUERIES, len(self)))
        lists = zip(self.query_ids[positions].tolist(), self._rows(positions), strict=True)
        rows = [f"  {query!r}: {_short(ranked)}" for query, ranked in lists]
        more = ["  ..."] if len(self) > SHOWN_QUERIES else []
        return "\n".join([head, *rows, *more])


def _short(ranked: RankedList) -> str:
    items = [f"{one!r} ({score:.4g})" for one, score in itertools.islice(ranked, SHOWN_DOCUMENTS)]
    rest = len(ranked) - len(items)
    return ", ".join([*items, *([f"and {rest} more"] if rest > 0 else [])]) or "nothing"


def _write(path: Path | None, parts: Iterator[str]) -> str | None:
    if path is None:
        text = io.StringIO()
        text.writelines(parts)
        return text.getvalue()
    stream: TextIO
    with replace_text(path) as stream:
        stream.writelines(parts)
    return None


def _installed_frames() -> str:
    from importlib.util import find_spec

    for name in FRAMES:
        if find_spec(name) is not None:
            return name
    raise DataError(f"there is no data frame library; pip install one of {', '.join(FRAMES)}.")
