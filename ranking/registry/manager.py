"""The registry: loads plugins through pluggy, one by one, and records which failed and why."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from importlib import metadata
from typing import Any, Final, NamedTuple

import pluggy

from ranking._utils.text import first_line
from ranking.contracts.engine import Engine
from ranking.contracts.hooks import KINDS, PROJECT, Lazy
from ranking.contracts.parameters import constraints
from ranking.errors import PartError, PluginWarning, RankingError
from ranking.registry import hookspecs, names
from ranking.registry.isolation import PluginTimeoutError, call_isolated
from ranking.registry.security import PluginSecurity, is_ours
from ranking.registry.spec import parse_spec

SLOW_IMPORT = 1.0
"""Seconds after which the import of a plugin is reported as slow: every start waits for it."""

TRACE: Final = "RANKING_TRACE_PLUGINS"
"""The environment variable that makes pluggy print every hook call on standard error."""


class Entry(NamedTuple):
    """One registered factory and where it came from."""

    kind: str
    name: str
    factory: Callable[..., Any]
    distribution: str
    version: str
    help: str

    def load(self) -> Any:
        """Return the class or function behind the factory, imported if necessary."""
        try:
            return self.factory.load() if isinstance(self.factory, Lazy) else self.factory
        except (Exception, SystemExit) as error:
            raise PartError(
                f"{self.kind} {self.name!r} of {self.distribution} {self.version} cannot be "
                f"imported ({type(error).__name__}: {error}); repair or uninstall that package."
            ) from error


class Problem(NamedTuple):
    """A plugin that was left out, completely or in part, or that is slow, and why.

    `intended` is True if the user blocked it.
    """

    distribution: str
    plugin: str
    message: str
    intended: bool = False

    def __str__(self) -> str:
        return f"{self.distribution}, plugin {self.plugin}: {self.message}"


class Source(NamedTuple):
    """An entry point: the name of a plugin, its distribution, and how to load it."""

    name: str
    distribution: str
    version: str
    load: Callable[[], Any]
    module: str = ""

    @property
    def ours(self) -> bool:
        """Whether it is a plugin of this project."""
        return is_ours(self.distribution, self.module)

    @property
    def plugin(self) -> str:
        """The name under which pluggy knows it."""
        return f"{self.distribution}:{self.name}"


def installed_sources() -> list[Source]:
    """Return the entry points of the group ``ranking``, those of this project first."""
    sources = []
    for point in metadata.entry_points(group=PROJECT):
        distribution = point.dist.name if point.dist else "unknown"
        version = point.dist.version if point.dist else "unknown"
        sources.append(Source(point.name, distribution, version, point.load, point.value))
    sources.sort(key=lambda each: (not each.ours, each.distribution, each.name))
    # An editable install may be seen twice, or beside an older install under another name.
    unique: dict[str, Source] = {}
    for source in sources:
        unique.setdefault(source.module, source)
    return list(unique.values())


class Registry:
    """All installed plugins, by kind and name.

    A plugin that cannot be imported, whose hook fails, or that claims a name in use is left out and
    recorded in `problems`; it never stops the program.

    Parameters
    ----------
    sources : iterable of Source, optional
        Where plugins come from; by default the installed entry points.
    disabled : iterable of str, optional
        Distributions, or ``distribution:plugin``, to leave out; by default the comma-separated
        environment variable RANKING_DISABLED_PLUGINS.
    allowed : iterable of str, optional
        Plugins that may be loaded besides those of this project; see
        `ranking.registry.security.PluginSecurity`.
    """

    def __init__(
        self,
        sources: Iterable[Source] | None = None,
        disabled: Iterable[str] | None = None,
        allowed: Iterable[str] | None = None,
    ) -> None:
        self.problems: list[Problem] = []
        self._entries: dict[str, dict[str, Entry]] = {kind: {} for kind in KINDS}
        self._manager = pluggy.PluginManager(PROJECT)
        self._manager.add_hookspecs(hookspecs)
        if os.environ.get(TRACE):
            self._manager.trace.root.setwriter(sys.stderr.write)
            self._manager.enable_tracing()
        security = PluginSecurity(allowed, disabled)
        for source in installed_sources() if sources is None else sources:
            reason = security.blocked_reason(source.distribution, source.name, source.module)
            if reason:
                self._manager.set_blocked(source.plugin)
                self._report(source, reason, intended=True)
            else:
                self._load(source)

    def _report(self, source: Source, message: str, intended: bool = False) -> None:
        self.problems.append(
            Problem(f"{source.distribution} {source.version}", source.name, message, intended)
        )

    def _load(self, source: Source) -> None:
        """Import a plugin, register it and call its hooks; report what its code raises."""
        begin = time.perf_counter()
        plugin, failure = self._call(source, source.load)
        if failure is not None:
            self._report(source, f"cannot be loaded: {_described(failure)}")
            return
        seconds = time.perf_counter() - begin
        if seconds > SLOW_IMPORT and not source.ours:
            self._report(
                source,
                f"is slow: importing {source.module or 'it'} took {seconds:.1f} s; its hooks "
                "should return Lazy addresses and import nothing heavy",
            )
        try:
            self._manager.register(plugin, name=source.plugin)
        except Exception as error:
            self._report(source, f"cannot be registered: {type(error).__name__}: {error}")
        else:
            for kind, hook in KINDS.items():
                self._collect(kind, hook, source)
            # Each plugin is called alone, so that one that fails does not affect the others.
            self._manager.unregister(name=source.plugin)
        for name, _ in inspect.getmembers(plugin, inspect.isfunction):
            if name.startswith("ranking_") and name not in KINDS.values():
                near = names.nearest(name, KINDS.values())
                hint = f"; did you mean {near}?" if near else ""
                self._report(source, f"has an unknown hook {name}{hint}")

    def _collect(self, kind: str, hook: str, source: Source) -> None:
        """Call a hook of the registered plugin and add the factories that it returns."""
        call = getattr(self._manager.hook, hook)
        if not call.get_hookimpls():
            return

        def collect() -> dict[Any, Any]:
            results = call()
            if not results:  # pluggy drops None
                raise TypeError("it returned None, not factories by name")
            return dict(results[0])

        factories, failure = self._call(source, collect)
        if failure is not None:
            self._report(source, f"{hook}() failed: {_described(failure)}")
            return
        for name, factory in factories.items():
            self._add(kind, name, factory, source)

    @staticmethod
    def _call(source: Source, function: Callable[[], Any]) -> tuple[Any, BaseException | None]:
        """Return what a plugin returned, or what it raised; our own are called directly."""
        if not source.ours:
            return call_isolated(function, source.module)
        try:
            return function(), None
        except Exception as error:
            return None, error

    def _add(self, kind: str, name: str, factory: Any, source: Source) -> None:
        if not isinstance(name, str) or not callable(factory):
            self._report(source, f"{kind} {name!r} is not a name with a factory: {factory!r}")
            return
        other = self._entries[kind].get(name)
        if other is not None:
            self._report(
                source,
                f"{kind} {name!r} is left out: {other.distribution} {other.version} has that name",
            )
            return
        self._entries[kind][name] = Entry(
            kind, name, factory, source.distribution, source.version, _one_line(factory)
        )

    def entries(self, kind: str | None = None) -> list[Entry]:
        """Return the registered factories of one kind or of all."""
        kinds = KINDS if kind is None else [kind]
        return [entry for kind in kinds for entry in self._entries[kind].values()]

    def names(self, kind: str) -> list[str]:
        """Return the names of one kind."""
        return list(self._entries[kind])

    def find(self, kind: str, name: str) -> Entry:
        """Return the entry of that name; the error for an unknown one suggests the nearest."""
        try:
            return self._entries[kind][name]
        except KeyError:
            meant = names.suggest_part(kind, name, self.names(kind))
            hint = f" Did you mean {meant!r}?" if meant else ""
            absent = [str(problem) for problem in self.problems]
            hint += f" Left out: {'; '.join(absent)}." if absent else ""
            raise PartError(
                f"there is no {kind} {name!r}; there are {', '.join(self.names(kind)) or 'none'}."
                f"{hint} `ranking plugins` lists them with their origin."
            ) from None

    def create(self, kind: str, part: Any, **defaults: Any) -> Any:
        """Create a part from its name or spec; return an object as it is.

        Parameters
        ----------
        kind : str
            Such as "loss".
        part : str or object
            ``"name"``, ``"name:key=value"``, or an object.
        **defaults
            Parameters that the spec may override.
        """
        if not isinstance(part, str):
            return part
        name, params = parse_spec(part)
        factory = self.find(kind, name).load()
        _check_parameters(kind, name, factory, params)
        try:
            return factory(**{**defaults, **params})
        except RankingError:
            raise
        except TypeError as error:
            raise PartError(f"{kind} {name!r} cannot be created from {params}: {error}.") from error


def _check_parameters(kind: str, name: str, factory: Any, params: dict[str, Any]) -> None:
    """Refuse parameters that a factory does not take, and old words; name the right ones."""
    accepted = inspect.signature(factory).parameters.values()
    if not any(each.kind is each.VAR_KEYWORD for each in accepted):
        valid = [each.name for each in accepted]
        unknown = [key for key in params if key not in valid]
        if unknown:
            raise PartError(names.unknown_parameters(kind, name, unknown, valid))
    rules = constraints(factory) if hasattr(factory, "__dataclass_fields__") else {}
    for key, value in params.items():
        word = names.suggest_value(key, value)
        if word and key in rules and not rules[key].allows(value):
            raise PartError(
                f"{kind} {name!r} has {key}={value}; use {key}={word}. It must be "
                f"{rules[key].describe()}."
            )


def _described(error: BaseException) -> str:
    if isinstance(error, PluginTimeoutError):
        return first_line(error)
    return f"{type(error).__name__}: {first_line(error)}"


def _one_line(factory: Any) -> str:
    text = factory.help if isinstance(factory, Lazy) else inspect.getdoc(factory)
    return (text or "").strip().partition("\n")[0]


@functools.cache
def get_registry() -> Registry:
    """Return the registry of the installed plugins, built at the first call.

    A plugin that does not work is reported once by a `PluginWarning`.
    """
    registry = Registry()
    for problem in registry.problems:
        if not problem.intended:
            warnings.warn(str(problem), PluginWarning, stacklevel=2)
    return registry


def default_engine() -> Engine:
    """Return the engine that runs in this process."""
    engine: Engine = get_registry().create("engine", "local")
    return engine
