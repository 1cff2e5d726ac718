"""Texts for people and for files: one line of an error, ids that cannot break a format."""

from __future__ import annotations


def first_line(error: BaseException | str, limit: int = 200) -> str:
    """Return the first line of a message, shortened, for a message of one line."""
    text = str(error).strip().partition("\n")[0] or type(error).__name__
    return text if len(text) <= limit else text[:limit] + "..."
