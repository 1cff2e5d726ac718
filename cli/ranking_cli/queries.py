"""Queries as texts on the command line."""

from __future__ import annotations

import warnings
from typing import Any

import click

from ranking import Ranker
from ranking.errors import DataWarning


def text_features(ranker: Ranker, text: str) -> Any:
    """Return the features of a text as a sparse row, and report the number of unknown words.

    The row is empty if the model knows none of the words.
    """
    assert ranker.text_ is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        row = ranker.text_.transform_queries([text])
    unknown = ranker.text_.unknown_words_
    if row.nnz and unknown:
        count = "1 word" if unknown == 1 else f"{unknown} words"
        click.echo(f"the model does not know {count} of {text!r}", err=True)
    return row
