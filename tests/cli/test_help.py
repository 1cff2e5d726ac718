"""`ranking --help`: quick, complete and in agreement with the commands."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from ranking_cli.main import COMMANDS, RENAMED_OPTIONS, cli

HEAVY = ("numpy", "scipy", "sklearn", "ranking", "ranking_plugins", "rich", "joblib")


def test_help_imports_neither_commands_nor_heavy_packages():
    code = (
        "import sys\n"
        "from ranking_cli.main import cli\n"
        "cli(['--help'], standalone_mode=False)\n"
        "print(*sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stderr.split()
    assert "ranking_cli.main" in loaded
    assert [name for name in loaded if name.startswith("ranking_cli.")] == ["ranking_cli.main"]
    assert not [name for name in HEAVY if name in loaded]
    for name, command in COMMANDS.items():
        assert f"  {name} " in done.stdout
        assert command.help in done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_help_line_is_the_beginning_of_the_command_help(name):
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert (command.help or "").startswith(COMMANDS[name].help.rstrip("."))


def test_help_fits_80_columns():
    lines = CliRunner().invoke(cli, ["--help"]).stdout.splitlines()
    assert max(len(line) for line in lines[lines.index("Train and choose:") :]) <= 80


@pytest.mark.parametrize(("old", "new"), RENAMED_OPTIONS.items())
def test_error_for_an_old_option_names_the_new_one(old, new):
    result = CliRunner().invoke(cli, ["train", ".", old, "x"])
    assert result.exit_code == 2
    assert old in result.output
    assert f"Did you mean {new}" in result.output.replace("'", "")
