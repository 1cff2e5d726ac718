"""The group of commands, and how errors become exit codes."""

from __future__ import annotations

import warnings
from importlib import import_module, metadata
from typing import Any

import click

COMMANDS = {
    "train": "ranking_cli.train:train",
    "eval": "ranking_cli.evaluate:evaluate",
    "rank": "ranking_cli.rank:rank",
    "explain": "ranking_cli.explain:explain",
    "path": "ranking_cli.path:path",
    "compare": "ranking_cli.compare:compare",
    "features": "ranking_cli.features:features",
    "bound": "ranking_cli.bound:bound",
    "report": "ranking_cli.report:report",
    "reproduce": "ranking_cli.reproduce:reproduce",
    "data": "ranking_cli.data:data",
    "plugins": "ranking_cli.plugins:plugins",
    "new-plugin": "ranking_cli.new_plugin:new_plugin",
}


class Commands(click.Group):
    """Imports a command when it is used, so that --help is quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order in which a user meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; what `ranking` refuses is one line and exit code 1, misuse is 2."""
        from ranking.errors import PartError, RankingError

        try:
            with warnings.catch_warnings():
                warnings.showwarning = _warn
                return super().invoke(ctx)
        except PartError as error:
            raise click.UsageError(str(error)) from error
        except RankingError as error:
            raise click.ClickException(str(error)) from error


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning as one line, without the line of code that it came from."""
    click.echo(f"Warning: {message}", err=True)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(metadata.version("ranking-kit"), prog_name="ranking")
def cli() -> None:
    """Learn to rank: train a model, evaluate it, rank with it.

    \b
    ranking train train.txt --valid valid.txt -o model.safetensors --recipe domination
    ranking eval model.safetensors test.txt --metrics ndcg@5,ndcg@10,map
    ranking rank model.safetensors test.txt -o test.run
    """
