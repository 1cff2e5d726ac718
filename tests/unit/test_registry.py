"""The registry: loading of plugins, isolation of broken ones, and specs."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from ranking.contracts.hooks import KINDS, Lazy, hookimpl
from ranking.errors import PartError
from ranking.registry import get_registry, parse_spec
from ranking.registry.manager import Registry, Source, installed_sources


def plugin(**hooks: Any) -> SimpleNamespace:
    """Make a plugin whose hooks return or raise these values."""
    return SimpleNamespace(**{name: hookimpl(_hook(result)) for name, result in hooks.items()})


def _hook(result: Any) -> Any:
    def hook() -> Any:
        if isinstance(result, Exception):
            raise result
        return result

    return hook


def source(name: str, distribution: str, plugin: Any, module: str = "") -> Source:
    def load() -> Any:
        if isinstance(plugin, Exception):
            raise plugin
        return plugin

    return Source(name, distribution, "1.0", load, module or f"{name}_module")


class Huber:
    """Huber's loss.

    More lines.
    """


def test_all_built_in_parts_can_be_loaded():
    registry = get_registry()
    for entry in registry.entries():
        if entry.distribution == "ranking-kit":
            assert entry.load() is not None
            assert entry.help
            assert "\n" not in entry.help


def test_this_distribution_comes_first():
    assert installed_sources()[0].distribution == "ranking-kit"


def test_listing_imports_nothing_heavy():
    code = (
        "import sys; from ranking.registry import get_registry; get_registry().entries();"
        "heavy = {'sklearn', 'scipy', 'rich', 'safetensors', 'numpy', 'click'} & set(sys.modules);"
        "print(sorted(heavy))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_a_third_party_plugin_is_registered():
    registry = Registry([source("huber", "ranking-huber", plugin(ranking_losses={"huber": Huber}))])
    entry = registry.find("loss", "huber")
    assert entry.distribution == "ranking-huber"
    assert entry.version == "1.0"
    assert entry.help == "Huber's loss."
    assert isinstance(registry.create("loss", "huber"), Huber)


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (ImportError("no module named torch"), "ImportError: no module named torch"),
        (plugin(ranking_losses=RuntimeError("boom")), "RuntimeError: boom"),
        (plugin(ranking_losses=None), "failed"),
        (plugin(ranking_losses={"huber": 3}), "is not a name with a factory"),
        (plugin(ranking_losses={3: Huber}), "is not a name with a factory"),
    ],
)
def test_a_broken_plugin_is_reported_and_isolated(broken, words):
    good = source("good", "ranking-good", plugin(ranking_losses={"good": Huber}))
    registry = Registry([source("bad", "ranking-bad", broken), good])
    assert registry.names("loss") == ["good"]
    (problem,) = registry.problems
    assert problem.distribution == "ranking-bad 1.0"
    assert words in problem.message


def test_a_misspelt_hook_is_reported():
    misspelt = SimpleNamespace(ranking_loses=lambda: {})
    registry = Registry([source("huber", "ranking-huber", misspelt)])
    (problem,) = registry.problems
    assert "did you mean ranking_losses?" in problem.message


def test_a_duplicate_name_is_left_out_and_both_distributions_are_named():
    registry = Registry(
        [
            source("one", "ranking-one", plugin(ranking_losses={"huber": Huber})),
            source("two", "ranking-two", plugin(ranking_losses={"huber": Huber, "other": Huber})),
        ]
    )
    assert registry.find("loss", "huber").distribution == "ranking-one"
    assert registry.names("loss") == ["huber", "other"]
    (problem,) = registry.problems
    assert problem.distribution == "ranking-two 1.0"
    assert "ranking-one 1.0 has that name" in problem.message


def test_an_empty_hook_is_no_problem():
    registry = Registry([source("none", "ranking-none", plugin(ranking_losses={}))])
    assert registry.problems == []


def test_a_failing_hook_is_named():
    hooks = plugin(ranking_losses=RuntimeError("boom"), ranking_solvers={"good": Huber})
    registry = Registry([source("half", "ranking-half", hooks)])
    (problem,) = registry.problems
    assert problem.message == "ranking_losses() failed: RuntimeError: boom"
    assert registry.names("solver") == ["good"], "other hooks of the plugin work"


def test_the_same_module_is_loaded_once(monkeypatch):
    from importlib import metadata

    points = metadata.entry_points(group="ranking")
    monkeypatch.setattr(metadata, "entry_points", lambda group: [*points, *points])
    modules = [each.module for each in installed_sources()]
    assert len(modules) == len(set(modules)) == len({point.value for point in points})


def test_hook_calls_can_be_traced(monkeypatch, capsys):
    monkeypatch.setenv("RANKING_TRACE_PLUGINS", "1")
    Registry([source("huber", "ranking-huber", plugin(ranking_losses={"huber": Huber}))])
    assert "ranking_losses" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("distribution", "module", "loaded"),
    [
        ("ranking-kit", "ranking_plugins.losses", True),
        ("ranking_kit.rust", "ranking_rust.plugin", True),
        ("ranking-kit", "elsewhere.plugin", False),
        ("ranking", "ranking_plugins.losses", False),
        ("ranking-rust", "ranking_rust.plugin", False),
        ("ranking-huber", "ranking_huber", False),
    ],
)
def test_only_our_packages_of_our_distributions_are_trusted(
    distribution, module, loaded, monkeypatch
):
    monkeypatch.setenv("RANKING_PLUGINS", "off")
    hooks = plugin(ranking_losses={"huber": Huber})
    registry = Registry([source("huber", distribution, hooks, module)])
    assert registry.names("loss") == (["huber"] if loaded else [])
    assert [problem.intended for problem in registry.problems] == ([] if loaded else [True])


@pytest.mark.parametrize("switch", ["ranking-huber", "ranking-huber:huber"])
def test_plugins_can_be_switched_off(switch, monkeypatch):
    sources = [source("huber", "ranking-huber", plugin(ranking_losses={"huber": Huber}))]
    monkeypatch.setenv("RANKING_DISABLED_PLUGINS", f" {switch}, something-else")
    registry = Registry(sources)
    assert registry.names("loss") == []
    assert registry.problems[0].message == "switched off"


def test_an_unknown_name_lists_the_valid_ones():
    with pytest.raises(PartError, match=r"no loss 'dominaton'.*domination.*Did you mean"):
        get_registry().find("loss", "dominaton")


def test_an_unknown_parameter_suggests_the_nearest():
    with pytest.raises(PartError, match=r"strengh.*strength"):
        get_registry().create("regularizer", "l2:strengh=1")


def test_a_part_that_cannot_be_imported_names_its_distribution():
    lazy = Lazy("no_such_module:Thing", help="")
    registry = Registry([source("bad", "ranking-bad", plugin(ranking_losses={"bad": lazy}))])
    with pytest.raises(PartError, match=r"'bad' of ranking-bad 1.0 cannot be imported"):
        registry.create("loss", "bad")


def test_create_returns_an_object_unchanged():
    part = Huber()
    assert get_registry().create("loss", part) is part


def test_every_kind_has_its_hook():
    from ranking.registry import hookspecs

    for hook in KINDS.values():
        assert getattr(hookspecs, hook).__doc__


@pytest.mark.parametrize(
    ("text", "params"),
    [
        ("l2", {}),
        ("l2:strength=0.1", {"strength": 0.1}),
        (
            "x:a=1,b=true,c=none,d=word,e=-2e3",
            {"a": 1, "b": True, "c": None, "d": "word", "e": -2e3},
        ),
    ],
)
def test_specs(text, params):
    assert parse_spec(text).params == params


@pytest.mark.parametrize("text", ["", ":", "l2:", "l2:strength", "l2:=3", "l2:strength="])
def test_specs_that_cannot_be_read(text):
    with pytest.raises(PartError, match="name:key=value"):
        parse_spec(text)
