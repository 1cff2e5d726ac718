"""Readers: files in, :class:`ranking.data.judged.Judged` out. Built-ins come in by the hook."""

from __future__ import annotations

from ranking.registry import Lazy, hookimpl


@hookimpl
def ranking_readers() -> dict[str, Lazy]:
    """Name the readers without importing them."""
    return {
        "letor": Lazy(
            "ranking.data.readers.letor:Letor", help="LETOR, or SVMlight with qid; plain or gzip."
        )
    }
