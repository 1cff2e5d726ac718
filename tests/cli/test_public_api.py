"""The command line uses the public API of the packages below it, and nothing else of them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import ranking
import ranking_cli
from ranking import contracts, errors, io, registry

FOLDER = Path(ranking_cli.__file__).parent
MODULES = {
    "ranking": ranking.__all__,
    "ranking.contracts": contracts.__all__,
    "ranking.errors": errors.__all__,
    "ranking.io": io.__all__,
    "ranking.registry": registry.__all__,
    "ranking.testing": None,
    "ranking.native": None,
    "ranking_plugins.losses": None,
    "ranking_plugins.regularizers": None,
    "ranking_plugins.solvers": None,
    "ranking_plugins.callbacks": None,
    # Research tools of the plugins, which have commands of their own.
    "ranking_plugins.bound": None,
    "ranking_plugins.reproductions": None,
}
"""Public modules, and their public names (None: all)."""


def imports(path: Path) -> list[tuple[str, str]]:
    """The modules and names that a file imports, wherever in the file."""
    result = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            result += [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            result += [(node.module or "", alias.name) for alias in node.names]
    return result


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.name)
def test_only_public_names_are_imported(path):
    for module, name in imports(path):
        if module.partition(".")[0] not in ("ranking", "ranking_plugins", "ranking_rust"):
            continue
        assert module in MODULES, f"{path.name} imports {module}, which is private"
        public = MODULES[module]
        assert public is None or name in public, f"{path.name} imports {module}.{name}"


def test_no_private_attribute_is_used():
    for path in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
                owner = node.value
                own = isinstance(owner, ast.Name) and owner.id in ("self", "cls")
                allowed = node.attr.startswith("__") or node.attr in ("_asdict", "_replace")
                assert own or allowed, f"{path.name}:{node.lineno} {node.attr}"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.name)
def test_functions_are_short_and_have_few_parameters(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            count = len([each for each in parameters if each.arg not in ("self", "cls")])
            assert lines <= 60, f"{path.name}: {node.name} has {lines} lines"
            assert count <= 8, f"{path.name}: {node.name} has {count} parameters"
