"""Text for the terminal: escape sequences from files become visible, and do not act."""

from __future__ import annotations

import click

from ranking.io import encode_id


def printable(text: str) -> str:
    """Return a text whose control characters are escaped, except newlines and tabs."""
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    lines = (line.split("\t") for line in text.split("\n"))
    return "\n".join("\t".join(encode_id(cell, "terminal") for cell in line) for line in lines)


def echo(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print a text whose control characters are escaped."""
    click.echo(printable(text), err=err, nl=nl)
