"""Texts for people and for files: one line of an error, ids that cannot break a format."""

from __future__ import annotations

import html
import unicodedata

from ranking.errors import DataError


def first_line(error: BaseException | str, limit: int = 200) -> str:
    """Return the first line of a message, shortened, for a message of one line."""
    text = str(error).strip().partition("\n")[0] or type(error).__name__
    return text if len(text) <= limit else text[:limit] + "..."


ID_FORMATS = ("trec", "csv", "tsv", "terminal", "html")


def encode_id(value: object, form: str) -> str:
    """Encode an id or another untrusted text so that it cannot break the output format.

    Parameters
    ----------
    value : int or str
    form : {"trec", "csv", "tsv", "terminal", "html"}
        trec: one word, with a hyphen for blanks and control characters. csv and tsv: one cell of
        one line, likewise; csv is quoted if necessary. terminal: control characters and escape
        sequences in Python's notation. html: escaped, without control characters.

    Examples
    --------
    >>> encode_id("a b", "trec"), encode_id("a, b", "csv"), encode_id("<b>", "html")
    ('a-b', '"a, b"', '&lt;b&gt;')
    """
    text = str(value)
    if form == "trec":
        return "-".join(_without_controls(text, " ").split()) or "-"
    if form == "terminal":
        return text if text.isprintable() else "".join(map(_visible, text))
    plain = _without_controls(text, "-")
    if form == "csv":
        quoted = any(character in plain for character in ',"') or plain != plain.strip()
        return '"' + plain.replace('"', '""') + '"' if quoted else plain
    if form == "tsv":
        return plain
    if form == "html":
        return html.escape(plain)
    raise ValueError(f"form is {form!r}; it must be one of {', '.join(ID_FORMATS)}.")


def _without_controls(text: str, replacement: str) -> str:
    if text.isprintable():
        return text
    return "".join(replacement if _is_control(one) else one for one in text)


def _is_control(character: str) -> bool:
    """Return whether a character acts instead of being seen: controls, breaks, surrogates."""
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")


def _visible(character: str) -> str:
    if not _is_control(character):
        return character
    return character.encode("unicode_escape", errors="backslashreplace").decode()


class IdWriter:
    """Encode ids for an output format, and refuse two ids that would become equal.

    Parameters
    ----------
    form : str
        As in `encode_id`.
    what : str
        What the ids are of, for messages.
    """

    def __init__(self, form: str, what: str) -> None:
        self.form, self.what = form, what
        self._texts: dict[object, str] = {}
        self._owners: dict[str, object] = {}

    def __call__(self, value: object) -> str:
        """Return the encoded id."""
        text = self._texts.get(value)
        if text is None:
            text = encode_id(value, self.form)
            other = self._owners.setdefault(text, value)
            if other != value:
                raise DataError(
                    f"the {self.what} ids {other!r} and {value!r} are both written as {text!r} in "
                    f"this format; rename one, or write JSON."
                )
            self._texts[value] = text
        return text
