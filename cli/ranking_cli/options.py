"""Options that several commands share."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from ranking import JudgedLists, MatchingData, Ranker, TextCollection

Function = TypeVar("Function", bound=Callable[..., Any])

existing = click.Path(exists=True, readable=True, path_type=Path)

metrics_option = click.option(
    "--metrics",
    default="ndcg@5,ndcg@10,map",
    show_default=True,
    metavar="LIST",
    help="Comma-separated, such as ndcg@10,letor-ndcg@10,p@5,ndcg@10(gain=exp2).",
)
exclude_option = click.option(
    "--exclude",
    multiple=True,
    type=existing,
    help="Data whose positives are left out of the ranking of their query, such as the "
    "training data.",
)
kernel_option = click.option(
    "--kernel",
    default="auto",
    show_default=True,
    metavar="NAME",
    help="The kernel that computes: auto, cython, rust, reference.",
)
threads_option = click.option(
    "--threads",
    type=click.IntRange(1, 1024),
    default=1,
    show_default=True,
    help="Number of threads (results are identical for any value).",
)
reader_option = click.option(
    "--reader", default="auto", metavar="NAME", help="Format of the data; by default recognised."
)


@dataclasses.dataclass(frozen=True)
class Resources:
    """How data and models are read: the format, the kernel and the number of threads."""

    reader: str
    kernel: str
    threads: int

    def read(
        self, paths: Sequence[Path], reader: str | None = None
    ) -> JudgedLists | MatchingData | TextCollection:
        """Read data; several files of judged rows count as one."""
        from ranking import read_data

        return read_data(paths, reader or self.reader, kernel=self.kernel, threads=self.threads)

    def load(self, model: Path) -> Ranker:
        """Read a model file."""
        from ranking import Ranker

        return Ranker.load(model, kernel=self.kernel, threads=self.threads)


def resources_options(command: Function) -> Function:
    """Add --reader, --kernel and --threads, which the command gets as one `resources`."""

    @reader_option
    @kernel_option
    @threads_option
    @functools.wraps(command)
    def with_resources(*args: Any, reader: str, kernel: str, threads: int, **options: Any) -> Any:
        return command(*args, resources=Resources(reader, kernel, threads), **options)

    return with_resources  # type: ignore[return-value]
