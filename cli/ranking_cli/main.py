"""The group of commands, and how errors become exit codes."""

from __future__ import annotations

import os
import warnings
from importlib import import_module
from typing import Any, NamedTuple

import click


class Command(NamedTuple):
    """Where a command is implemented, its line in `ranking --help`, and under which heading."""

    target: str
    help: str
    group: str = "Train and choose"


MEASURE, USE, INSPECT = "Measure and compare", "Use a model", "Data, papers and plugins"
COMMANDS = {
    "train": Command("train:train", "Train a model on DATA and write it to one file."),
    "tune": Command("tune:tune", "Search recipes and parameters on DATA within a budget."),
    "path": Command("path:path", "Train a model for each strength of a regularizer."),
    "eval": Command(
        "evaluate:evaluate", "Evaluate MODEL on DATA, or a TREC run against judgements.", MEASURE
    ),
    "compare": Command(
        "compare:compare", "Compare models on DATA, or TREC runs against judgements.", MEASURE
    ),
    "benchmark": Command("benchmark:benchmark", "Compare all rankers that support DATA.", MEASURE),
    "explore": Command(
        "explore:explore", "Show the lists of one or two models in an HTML page.", MEASURE
    ),
    "report": Command("report:report", "Show the training history of models.", MEASURE),
    "bound": Command(
        "bound:bound", "Bound the generalization error of an alignment model.", MEASURE
    ),
    "rank": Command("rank:rank", "Rank the documents of each query in DATA by MODEL.", USE),
    "explain": Command("explain:explain", "Show what MODEL has learnt.", USE),
    "features": Command("features:features", "Write the scores of MODEL as features.", USE),
    "export": Command("export:export", "Export MODEL to a format of another program.", USE),
    "serve": Command("serve:serve", "Serve models over HTTP.", USE),
    "data": Command(
        "data:data", "Inspect, convert or split PATH, or write a demo data set.", INSPECT
    ),
    "reproduce": Command(
        "reproduce:reproduce", "Repeat the tables of a paper on your data.", INSPECT
    ),
    "plugins": Command(
        "plugins:plugins", "List the installed parts and plugins, or describe one.", INSPECT
    ),
    "new-plugin": Command("new_plugin:new_plugin", "Write a package with a plugin.", INSPECT),
}
"""The commands, in groups by purpose and in the order in which a user meets them."""


TRACEBACK = "RANKING_TRACEBACK"
"""The environment variable that prints the traceback of an unexpected error."""

RENAMED_OPTIONS = {
    "--observer": "--callback",
    "--exclude-known": "--exclude-seen",
    "--random-state": "--seed",
}
"""Old and foreign names of options, and the names to use instead."""


class Commands(click.Group):
    """A group that imports a command when it is used, so that --help is quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order in which a user meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].target.partition(":")
        command: click.Command = getattr(import_module(f"ranking_cli.{module}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing any of them."""
        widest = max(map(len, COMMANDS))
        for group in dict.fromkeys(command.group for command in COMMANDS.values()):
            with formatter.section(group):
                rows = [(n, c.help) for n, c in COMMANDS.items() if c.group == group]
                formatter.write_dl([(f"{name:<{widest}}", line) for name, line in rows])

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; map errors of `ranking` to exit code 1, and misuse to 2."""
        from ranking import RankingError
        from ranking.errors import PartError

        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show_warning
                return super().invoke(ctx)
        except click.NoSuchOption as error:
            name = error.option_name
            if name not in RENAMED_OPTIONS:
                raise
            hint = f"No such option {name!r}. Did you mean {RENAMED_OPTIONS[name]!r}?"
            raise click.UsageError(hint, error.ctx) from None
        except PartError as error:
            raise click.UsageError(_one_line(error)) from error
        except RankingError as error:
            raise click.ClickException(_one_line(error)) from error
        except (OSError, MemoryError, RecursionError) as error:
            if isinstance(error, BrokenPipeError) or os.environ.get(TRACEBACK):
                raise
            raise click.ClickException(_of_system(error)) from error
        except Exception as error:
            ours = isinstance(error, click.ClickException | click.exceptions.Exit | click.Abort)
            if ours or os.environ.get(TRACEBACK):
                raise
            raise click.ClickException(
                f"a defect of ranking or of a plugin: {type(error).__name__}: {_one_line(error)}; "
                f"set {TRACEBACK}=1 and report what it prints."
            ) from error


def _one_line(error: BaseException) -> str:
    """Return a message on one line, with escape sequences made visible."""
    from ranking_cli.terminal import printable

    return printable(" ".join(str(error).split("\n")))


def _of_system(error: BaseException) -> str:
    """Return what the operating system or the interpreter refuses."""
    if isinstance(error, MemoryError):
        return "there is not enough memory; use less data, or a sparse format."
    if isinstance(error, RecursionError):
        return "the input is nested too deeply."
    name = getattr(error, "filename", None)
    file = f"{name}: " if name else ""
    return _one_line(OSError(f"{file}{getattr(error, 'strerror', None) or error}."))


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning as one line, without the line of code that it came from."""
    from ranking_cli.terminal import echo

    echo(f"Warning: {message}", err=True)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="ranking-kit", prog_name="ranking")
def cli() -> None:
    """Learn to rank and recommend: train a model, evaluate it, use it.

    \b
    ranking train train.txt --valid valid.txt -o model.safetensors --recipe domination
    ranking eval model.safetensors test.txt --metrics ndcg@5,ndcg@10,map
    ranking rank model.safetensors test.txt -o test.run
    """
