"""`check_reader`: a good file is recognised and read, a bad one refused by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from ranking.contracts.reader import Reader
from ranking.data.kinds import Data
from ranking.data.readers.read import HEAD, find_reader
from ranking.errors import DataError
from ranking.registry.manager import get_registry
from ranking.testing.common import check_part, ensure


def check_reader(reader: Reader, good: Path, bad: Sequence[Path] = ()) -> Data:
    """Check a reader with a good file and some damaged ones; return the data of the good file.

    The good file is recognised, by this reader only of all that are installed, and read as one of
    the kinds of data. A bad one raises `DataError`, which names the file.

    Parameters
    ----------
    reader : Reader
    good : Path
        A file or folder of its format.
    bad : sequence of Path
        Some with a defect each.
    """
    whose = check_part("reader", reader, Reader)
    head = b"" if good.is_dir() else good.read_bytes()[:HEAD]
    ensure(type(reader).recognises(good, head), whose, "recognises a good file", f"not {good.name}")
    if reader.name in get_registry().names("reader"):
        name = find_reader(good).name
        ensure(name == reader.name, whose, "is the only one that recognises it", f"{name} does")
    data = reader.read(good)
    ensure(
        isinstance(data, get_args(Data)),
        whose,
        "reads one of ranking.data.kinds",
        f"it is a {type(data).__name__}",
    )
    for path in bad:
        try:
            reader.read(path)
        except DataError as error:
            ensure(path.name in str(error), whose, "an error names the file", f"it is {error}")
        else:
            ensure(False, whose, "refuses a file with a defect", f"it read {path.name}")
    return data
