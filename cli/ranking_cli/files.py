"""Files that commands write: never over an input, whole or not at all."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from ranking.errors import FileError
from ranking.io import Output
from ranking.registry import parse_spec


def output_of(path: Path, inputs: Iterable[Path | str | None], *specs: str | None) -> Output:
    """Return an output that is none of the inputs, nor a file that a spec names.

    Parameters
    ----------
    path : Path
    inputs : iterable of paths
        None is left out.
    *specs : str or None
        Specs of readers and models, whose parameters may be paths.
    """
    sources = [one for one in inputs if one is not None]
    for spec in specs:
        params = parse_spec(spec).params if spec else {}
        sources += [value for value in params.values() if isinstance(value, str) and value]
    try:
        return Output(path, sources)
    except FileError as error:
        raise click.UsageError(str(error)) from error
