"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path

import click

existing = click.Path(exists=True, readable=True, path_type=Path)

metrics_option = click.option(
    "--metrics",
    default="ndcg@5,ndcg@10,map",
    show_default=True,
    metavar="LIST",
    help="Comma-separated, such as ndcg@10,letor-ndcg@10,p@5,ndcg@10(gain=exp2).",
)
reader_option = click.option(
    "--reader", default="auto", metavar="NAME", help="Format of the data; by default recognised."
)
kernel_option = click.option(
    "--kernel",
    default="auto",
    show_default=True,
    metavar="NAME",
    help="Who computes: auto, cython, rust, reference.",
)
threads_option = click.option(
    "--threads",
    type=click.IntRange(1, 1024),
    default=1,
    show_default=True,
    help="The result does not depend on it.",
)

exclude_option = click.option(
    "--exclude",
    multiple=True,
    type=existing,
    help="Data whose matches a query is not to have again, such as those it was trained on.",
)
