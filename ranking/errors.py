"""What can go wrong, by kind: each message names the thing, the value and the remedy."""


class RankingError(Exception):
    """Anything that `ranking` refuses to do; the command line prints it and exits with 1."""


class DataError(RankingError, ValueError):
    """The data cannot be used as they are."""


class ModelFileError(RankingError, ValueError):
    """A model file is damaged, or was made by something this installation does not have."""


class PartError(RankingError, ValueError):
    """A part (model, loss, regularizer, solver, ...) is unknown, misspelt or misused."""


class CombinationError(PartError):
    """Parts that exist, but do not work together."""


class KernelUnavailableError(RankingError, RuntimeError):
    """A kernel was asked for by name and is not installed."""


class EngineError(RankingError, RuntimeError):
    """An engine is not installed, cannot be reached safely, or lost its workers."""


class DivergenceError(RankingError, ArithmeticError):
    """Training left the finite numbers."""


class PluginError(RankingError):
    """A plugin's code raised, or answered what its contract forbids; says whose it is."""


class PluginWarning(UserWarning):
    """A plugin does not work as it should, and the program goes on; says whose it is."""


class DataWarning(UserWarning):
    """The data can be used, but not quite as they are; says what was done about it."""
