"""The registry itself: loads plugins one by one, and keeps what went wrong to tell of it."""

from __future__ import annotations

import difflib
import functools
import inspect
import time
import warnings
from collections.abc import Callable, Iterable
from importlib import metadata
from typing import Any, NamedTuple

import pluggy

from ranking.errors import PartError, PluginWarning, RankingError
from ranking.registry import hookspecs
from ranking.registry.hookspecs import KINDS, PROJECT
from ranking.registry.lazy import Lazy
from ranking.registry.security import OURS, Trust, canonical
from ranking.registry.spec import parse_spec

SLOW_IMPORT = 1.0
"""Seconds after which a plugin's import is called slow: everybody waits for it, every time."""


class Entry(NamedTuple):
    """One registered factory and where it came from."""

    kind: str
    name: str
    factory: Callable[..., Any]
    distribution: str
    version: str
    help: str

    def load(self) -> Any:
        """Return the class or function behind the factory, importing it if need be."""
        try:
            return self.factory.load() if isinstance(self.factory, Lazy) else self.factory
        except Exception as error:
            raise PartError(
                f"{self.kind} {self.name!r} of {self.distribution} {self.version} cannot be "
                f"imported ({type(error).__name__}: {error}); repair or uninstall that package."
            ) from error


class Problem(NamedTuple):
    """A plugin that was left out, in part or whole, or is slow, and why.

    `asked` tells that somebody wanted it so: it was switched off or is not allowed.
    """

    distribution: str
    plugin: str
    message: str
    asked: bool = False

    def __str__(self) -> str:
        return f"{self.distribution}, plugin {self.plugin}: {self.message}"


class Source(NamedTuple):
    """An entry point: a plugin's name, the distribution it comes from, and how to load it."""

    name: str
    distribution: str
    version: str
    load: Callable[[], Any]
    module: str = ""

    @property
    def ours(self) -> bool:
        """Whether it comes from a distribution of this project."""
        return canonical(self.distribution) in OURS


def installed_sources() -> list[Source]:
    """Return the entry points of the group ``ranking``, this distribution's first."""
    found = []
    for point in metadata.entry_points(group=PROJECT):
        distribution = point.dist.name if point.dist else "unknown"
        version = point.dist.version if point.dist else "unknown"
        found.append(Source(point.name, distribution, version, point.load, point.value))
    # An editable install may be seen twice; the same entry point counts once.
    unique = {(source.distribution, source.name): source for source in reversed(found)}
    return sorted(
        unique.values(), key=lambda s: (s.distribution != PROJECT, s.distribution, s.name)
    )


class Registry:
    """Everything that is installed, by kind and name.

    A plugin that cannot be imported, answers nonsense or takes a name that is taken is left out
    and kept in `problems`; it never stops the program.

    Parameters
    ----------
    sources : iterable of Source, optional
        Where plugins come from; by default the installed entry points.
    disabled : iterable of str, optional
        Distributions, or ``distribution:plugin``, to leave out; by default the comma-separated
        environment variable RANKING_DISABLED_PLUGINS.
    allowed : iterable of str, optional
        Those that may be loaded beside this project's own; see `ranking.registry.security.Trust`.
    """

    def __init__(
        self,
        sources: Iterable[Source] | None = None,
        disabled: Iterable[str] | None = None,
        allowed: Iterable[str] | None = None,
    ) -> None:
        self.problems: list[Problem] = []
        self._trust = Trust(allowed, disabled)
        self._sources: dict[str, Source] = {}
        self._entries: dict[str, dict[str, Entry]] = {kind: {} for kind in KINDS}
        self._manager = pluggy.PluginManager(PROJECT)
        self._manager.add_hookspecs(hookspecs)
        for source in installed_sources() if sources is None else sources:
            self._register(source)
        for kind, hook in KINDS.items():
            self._collect(kind, hook)

    def _complain(self, source: Source, message: str, asked: bool = False) -> None:
        self.problems.append(
            Problem(f"{source.distribution} {source.version}", source.name, message, asked)
        )

    def _register(self, source: Source) -> None:
        plugin_name = f"{source.distribution}:{source.name}"
        refusal = self._trust.refusal(source.distribution, source.name)
        if refusal:
            self._manager.set_blocked(plugin_name)
            self._complain(source, refusal, asked=True)
            return
        started = time.perf_counter()
        try:
            plugin = source.load()
            self._manager.register(plugin, name=plugin_name)
        except Exception as error:  # a stranger's code: whatever it raises is its own affair
            self._complain(source, f"cannot be loaded: {type(error).__name__}: {error}")
            return
        seconds = time.perf_counter() - started
        if seconds > SLOW_IMPORT and not source.ours:
            self._complain(
                source,
                f"is slow: importing {source.module or 'it'} took {seconds:.1f} s; its hooks "
                "should return Lazy addresses, and import nothing heavy",
            )
        self._sources[plugin_name] = source
        for name, _ in inspect.getmembers(plugin, inspect.isfunction):
            if name.startswith("ranking_") and name not in KINDS.values():
                near = difflib.get_close_matches(name, KINDS.values(), n=1)
                hint = f"; did you mean {near[0]}?" if near else ""
                self._complain(source, f"has an unknown hook {name}{hint}")

    def _collect(self, kind: str, hook: str) -> None:
        implementations = getattr(self._manager.hook, hook).get_hookimpls()
        called = {implementation.plugin_name: implementation for implementation in implementations}
        for plugin_name, source in self._sources.items():
            if plugin_name not in called:
                continue
            try:
                factories = dict(called[plugin_name].function())
            except Exception as error:
                self._complain(source, f"{hook}() failed: {type(error).__name__}: {error}")
                continue
            for name, factory in factories.items():
                self._add(kind, name, factory, source)

    def _add(self, kind: str, name: str, factory: Any, source: Source) -> None:
        if not isinstance(name, str) or not callable(factory):
            self._complain(source, f"{kind} {name!r} is not a name with a factory: {factory!r}")
            return
        taken = self._entries[kind].get(name)
        if taken is not None:
            self._complain(
                source,
                f"{kind} {name!r} is left out: {taken.distribution} {taken.version} has that name",
            )
            return
        self._entries[kind][name] = Entry(
            kind, name, factory, source.distribution, source.version, _one_line(factory)
        )

    def entries(self, kind: str | None = None) -> list[Entry]:
        """Return what is registered, of one kind or of all."""
        kinds = KINDS if kind is None else [kind]
        return [entry for kind in kinds for entry in self._entries[kind].values()]

    def names(self, kind: str) -> list[str]:
        """Return the names of one kind."""
        return list(self._entries[kind])

    def find(self, kind: str, name: str) -> Entry:
        """Return the entry of that name, or say what there is."""
        try:
            return self._entries[kind][name]
        except KeyError:
            near = difflib.get_close_matches(name, self.names(kind), n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            absent = [str(problem) for problem in self.problems]
            hint += f" Left out: {'; '.join(absent)}." if absent else ""
            raise PartError(
                f"there is no {kind} {name!r}; there are {', '.join(self.names(kind)) or 'none'}."
                f"{hint} `ranking plugins` lists them with their origin."
            ) from None

    def create(self, kind: str, part: Any, **defaults: Any) -> Any:
        """Make a part from its name or spec; hand an object through.

        Parameters
        ----------
        kind : str
            Such as "loss".
        part : str or object
            ``"name"``, ``"name:key=value"``, or an object, which is returned as it is.
        **defaults
            Parameters that the spec may override.
        """
        if not isinstance(part, str):
            return part
        name, params = parse_spec(part)
        factory = self.find(kind, name).load()
        try:
            return factory(**{**defaults, **params})
        except RankingError:
            raise
        except TypeError as error:
            raise PartError(
                f"{kind} {name!r} cannot be made from {params}: {error}. "
                f"Its parameters are {inspect.signature(factory)}."
            ) from error


def _one_line(factory: Any) -> str:
    text = factory.help if isinstance(factory, Lazy) else inspect.getdoc(factory)
    return (text or "").strip().partition("\n")[0]


@functools.cache
def get_registry() -> Registry:
    """Return the registry of what is installed, built when it is first asked for.

    A plugin that does not work is told of once, by a `PluginWarning`, and the rest goes on.
    """
    registry = Registry()
    for problem in registry.problems:
        if not problem.asked:
            warnings.warn(str(problem), PluginWarning, stacklevel=2)
    return registry
