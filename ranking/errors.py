"""Exceptions and warnings: each message names the problem, the value and the remedy."""

__all__ = [
    "CombinationError",
    "ConvergenceWarning",
    "DataError",
    "DataWarning",
    "DivergenceError",
    "EngineError",
    "FileError",
    "KernelUnavailableError",
    "ModelFileError",
    "PartError",
    "PluginError",
    "PluginWarning",
    "RankingError",
    "TrainingWarning",
]


class RankingError(Exception):
    """Base of all errors of `ranking`; the command line prints it and exits with 1."""


class DataError(RankingError, ValueError):
    """The data are invalid."""


class ModelFileError(RankingError, ValueError):
    """A model file is damaged, or needs a plugin that is not installed."""


class FileError(RankingError, OSError):
    """A file cannot be read or written safely: a device, an input, a full disk, another owner."""


class PartError(RankingError, ValueError):
    """A part (model, loss, regularizer, solver, ...) is unknown, misspelt or misused."""


class CombinationError(PartError):
    """A combination of existing parts that is not supported."""


class KernelUnavailableError(RankingError, RuntimeError):
    """A kernel was requested by name and is not installed."""


class EngineError(RankingError, RuntimeError):
    """An engine is not installed, cannot be reached safely, or lost its workers."""


class DivergenceError(RankingError, ArithmeticError):
    """Training diverged: a value is not finite."""


class PluginError(RankingError):
    """A plugin raised an error or violated its contract; names the plugin."""


class PluginWarning(UserWarning):
    """A plugin does not work and is skipped; names the plugin."""


class DataWarning(UserWarning):
    """The data were corrected so that they can be used; the message says how."""


class TrainingWarning(UserWarning):
    """Training ended with a useless result; the message says why and what to change."""


class ConvergenceWarning(UserWarning):
    """Training reached its last epoch before it converged; the message says what to change."""
