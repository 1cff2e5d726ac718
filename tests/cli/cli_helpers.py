"""Calls of the command line, in this process or in one that sends itself a signal."""

from __future__ import annotations

import signal
import subprocess
import sys

from click.testing import CliRunner, Result

from ranking_cli.main import cli

SELF_SIGNAL = """
import os, signal, sys
from ranking_cli.main import cli
from ranking_plugins.callbacks import Checkpoint

def on_epoch_end(self, run, result):
    self.write(run)
    if len(run.history) == int(sys.argv[2]):
        os.kill(os.getpid(), int(sys.argv[1]))
    return False

Checkpoint.on_epoch_end = on_epoch_end
signal.signal(signal.SIGINT, signal.default_int_handler)
cli(sys.argv[3:])
"""


def call(*words: object, code: int = 0) -> Result:
    """Call the command and expect an exit code."""
    result = CliRunner().invoke(cli, [str(word) for word in words])
    if result.exit_code != code:
        raise AssertionError(f"exit {result.exit_code}:\n{result.output}") from result.exception
    return result


def call_and_signal(
    *words: object, number: signal.Signals, epoch: int
) -> subprocess.CompletedProcess[str]:
    """Call the command in a process that sends itself a signal after an epoch's checkpoint."""
    script = [sys.executable, "-P", "-c", SELF_SIGNAL, str(int(number)), str(epoch)]
    return subprocess.run([*script, *map(str, words)], capture_output=True, text=True)
