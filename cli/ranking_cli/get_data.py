"""`ranking data get`: write a data set that this project makes."""

from __future__ import annotations

from pathlib import Path

import click

from ranking.data.synthetic import SYNTHETIC_DATA
from ranking.data.writers import write


def get_data(name: str, folder: Path) -> list[Path]:
    """Write the parts of a data set into a folder, over no file, and return the files."""
    if name not in SYNTHETIC_DATA:
        raise click.UsageError(
            f"there is no data set {name!r}; there are {', '.join(SYNTHETIC_DATA)}. Others have terms of "
            "their own: download them where their makers offer them."
        )
    files = {folder / f"{part}.txt": data for part, data in SYNTHETIC_DATA[name]().items()}
    for path in files:
        if path.exists():
            raise click.UsageError(f"{path} exists; name another folder with -o, or remove it.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.ClickException(
            f"the folder {folder} cannot be made ({error.strerror}); name another with -o."
        ) from error
    for path, data in files.items():
        write(data, "letor", path)
    return list(files)
