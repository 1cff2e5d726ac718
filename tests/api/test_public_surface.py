"""The public API: its names and signatures change only together with the snapshot."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import ranking

_SPEC = importlib.util.spec_from_file_location("surface", Path(__file__).with_name("surface.py"))
assert _SPEC is not None
assert _SPEC.loader is not None
surface = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(surface)


def test_surface_equals_the_snapshot():
    expected = surface.SNAPSHOT.read_text(encoding="utf-8").splitlines()
    result = surface.surface().splitlines()
    changed = [f"- {line}" for line in expected if line not in result]
    changed += [f"+ {line}" for line in result if line not in expected]
    assert not changed, "\n".join(
        ["the public API differs; if intended, run python tests/api/surface.py:", *changed]
    )
    assert result == expected


@pytest.mark.parametrize("name", surface.MODULES)
def test_public_names_are_documented(name):
    module = import_module(name)
    assert module.__doc__
    assert sorted(set(module.__all__)) == sorted(module.__all__)
    for each in module.__all__:
        value = getattr(module, each)
        if callable(value):
            assert value.__doc__, f"{name}.{each} has no docstring"


def test_names_are_imported_when_they_are_used():
    code = (
        "import sys, ranking; dir(ranking); "
        "heavy = {'sklearn', 'scipy', 'numpy', 'ranking.ranker'} & set(sys.modules); "
        "assert not heavy, heavy; ranking.RankingError; assert 'sklearn' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = ranking.nonsense
    assert dir(ranking) == sorted(ranking.__all__)
