"""Texts that a user gives as words on the command line."""

from __future__ import annotations

import warnings
from typing import Any

import click

from ranking import Ranker
from ranking.errors import DataWarning


def described(ranker: Ranker, text: str) -> Any:
    """Return the features of a text, and say how many of its words the model does not know.

    None of them is known if the row has no entry; whoever asks says what that means.
    """
    assert ranker.text_ is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        row = ranker.text_.transform([text])
    unknown = ranker.text_.unknown_words_
    if row.nnz and unknown:
        what = "1 word" if unknown == 1 else f"{unknown} words"
        click.echo(f"the model does not know {what} of {text!r}", err=True)
    return row
