"""`ranking data get`: write a synthetic data set."""

from __future__ import annotations

from pathlib import Path

import click

from ranking import make_demo, write_data

DATASETS = {"demo": make_demo}


def get_data(name: str, folder: Path) -> list[Path]:
    """Write the parts of a data set into a folder and return the files; overwrite nothing."""
    if name not in DATASETS:
        raise click.UsageError(
            f"there is no data set {name!r}; available are {', '.join(DATASETS)}. Download others "
            "from their publishers, under their terms."
        )
    files = {folder / f"{part}.txt": data for part, data in DATASETS[name]().items()}
    for path in files:
        if path.exists():
            raise click.UsageError(f"{path} exists; name another folder with -o, or remove it.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.ClickException(
            f"the folder {folder} cannot be created ({error.strerror}); name another with -o."
        ) from error
    for path, data in files.items():
        write_data(data, "letor", path)
    return list(files)
