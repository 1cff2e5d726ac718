"""The names of the code are nouns for things and verbs for actions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("ranking", "plugins", "cli", "rust", "tests", "tools", "asv_benchmarks", "examples")
PARTICIPLES = {"asked", "chosen", "found", "given", "kept", "made", "told"}


def names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each variable, argument, function and class."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.lineno, node.name


def test_the_names_of_a_tree_are_listed():
    tree = ast.parse("def kept(asked):\n    chosen = 1\nclass Made: ...\n")
    assert sorted(names(tree)) == [(1, "asked"), (1, "kept"), (2, "chosen"), (3, "Made")]


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_name_is_a_participle(folder):
    wrong = [
        f"{path.relative_to(ROOT)}:{line} {name}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "target" not in path.parts
        for line, name in names(ast.parse(path.read_text(encoding="utf-8")))
        if name in PARTICIPLES
    ]
    assert wrong == []
