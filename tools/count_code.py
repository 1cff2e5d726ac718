"""Count the code: lines by package, public names, long functions, functions of many parameters.

Usage: ``python tools/count_code.py [--root FOLDER] [--check] [--longest N]``. The tables are those
of ARCHITECTURE.md. ``--check`` prints only the functions that are too long or take too many
parameters, and exits with 1 if there are any. The length of a function is the number of its lines
from ``def`` or the return type to its end, without its docstring; ``self``, ``cls`` and the token
of the interpreter lock (``py: Python`` in Rust), which no caller passes, are not parameters. Needs
Python only, and git if the folder is a clone.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

MAX_LINES = 60
MAX_PARAMETERS = 8

CYTHON = (".pyx", ".pxd", ".pxi")
C = (".c", ".h")
LANGUAGES = {
    ".py": "Python",
    ".pyi": "Python",
    **dict.fromkeys(CYTHON, "Cython"),
    **dict.fromkeys(C, "C"),
    ".rs": "Rust",
}
KERNEL_TESTS = ("tests/parity/", "tests/unit/kernels/", "tests/c/")
LATER_FAMILIES = (
    "ranking/kernels/cython/item_item.",
    "ranking/kernels/cython/shared_lists.",
    "ranking/kernels/cython/src/item_item.",
    "ranking/kernels/cython/src/shared_lists.",
    "rust/crates/ranking-core/src/alternating/squared.",
    "rust/crates/ranking-core/src/item_item.",
    "rust/crates/ranking-core/src/shared_lists.",
    "rust/crates/ranking-py/src/item_item.",
    "rust/crates/ranking-py/src/shared_lists.",
    "tests/parity/test_item_item.",
    "tests/parity/test_shared_lists.",
    "ranking/kernels/cython/listwise.",
    "ranking/kernels/cython/pairwise_lists.",
    "ranking/kernels/cython/src/listwise.",
    "ranking/kernels/cython/src/pairwise_lists.",
    "rust/crates/ranking-core/src/factored/sample/lists.",
    "rust/crates/ranking-core/src/listwise.",
    "rust/crates/ranking-core/src/pairwise_lists/",
    "rust/crates/ranking-py/src/listwise.",
    "rust/crates/ranking-py/src/pairwise_lists.",
    "tests/c/test_pairwise_lists.",
    "tests/parity/test_listwise.",
    "tests/parity/test_pairwise_lists.",
)
"""How the paths of the families begin that came after the renovation: `listwise`, `pairwise_lists`,
`item_item`, `shared_lists` and the half-steps of iALS."""
PUBLIC_PACKAGES = ("ranking", "ranking.contracts", "ranking.testing", "ranking.native")
PLUGIN_PACKAGES = tuple(
    f"ranking_plugins.{name}" for name in ("losses", "regularizers", "solvers", "callbacks")
)


class Function(NamedTuple):
    """A function of any language."""

    path: str
    line: int
    name: str
    lines: int
    parameters: int


# --- files -------------------------------------------------------------------------------------


def source_files(root: Path) -> list[str]:
    """Return the paths of the source files, relative to the root and sorted."""
    try:
        command = ["git", "-C", str(root), "ls-files", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        paths = names.splitlines()
    except (OSError, subprocess.CalledProcessError):
        paths = [str(path.relative_to(root)) for path in root.rglob("*")]
    skipped = re.compile(r"(^|/)(\.venv[^/]*|build|target|site|node_modules|\.git)/")
    return sorted(
        path
        for path in paths
        if Path(path).suffix in LANGUAGES and not skipped.search(path) and (root / path).is_file()
    )


def package_of(path: str) -> str:
    """Return the row of the table in which a file is counted."""
    parts = path.split("/")
    if parts[0] == "rust":
        return "rust"
    if parts[0] == "ranking":
        if Path(path).suffix in (*CYTHON, *C):
            return "cython + C"
        return f"ranking/{parts[1]}" if len(parts) > 2 else "ranking (modules)"
    if parts[0] in ("plugins", "cli", "tests", "examples", "docs", "asv_benchmarks", "tools"):
        return parts[0]
    return "other"


def is_compiled(path: str) -> bool:
    """Say whether a file belongs to the compiled kernels, or is one of their tests."""
    compiled = path.startswith("ranking/") and Path(path).suffix in (*CYTHON, *C)
    cython = path.startswith("ranking/kernels/cython/")
    return compiled or cython or path.startswith(("rust/", *KERNEL_TESTS))


# --- Python ------------------------------------------------------------------------------------


def python_functions(path: str, text: str) -> Iterator[Function]:
    """Yield the functions of a Python module, also nested ones and methods."""
    tree = ast.parse(text)
    methods = {
        id(node) for one in ast.walk(tree) if isinstance(one, ast.ClassDef) for node in one.body
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        first = node.body[0]
        if ast.get_docstring(node, clean=False) is not None:
            lines -= (first.end_lineno or first.lineno) - first.lineno + 1
        arguments = node.args
        names = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
        count = len(names) + len(arguments.kwonlyargs)
        count += (arguments.vararg is not None) + (arguments.kwarg is not None)
        if id(node) in methods and names[:1] in (["self"], ["cls"]):
            count -= 1
        yield Function(path, node.lineno, node.name, lines, count)


# --- Cython ------------------------------------------------------------------------------------

CYTHON_DEF = re.compile(r"^(\s*)(?:def|cdef|cpdef)\b(?!\s+(?:class|extern|struct|enum|union)\b)")


def cython_functions(path: str, text: str) -> Iterator[Function]:
    """Yield the functions of a Cython module; a header ends at the colon after its brackets."""
    lines = text.splitlines()
    for at, line in enumerate(lines):
        indent = CYTHON_DEF.match(line)
        if not indent:
            continue
        header, last = _bracketed(lines, at)
        if header is None or not re.search(r":\s*(#.*)?$", lines[last]):
            continue
        named = re.search(r"(\w+)\s*\($", header[: header.index("(") + 1])
        if not named:
            continue
        arguments = split_arguments(header[header.index("(") + 1 : header.rindex(")")])
        end = last
        for below in range(last + 1, len(lines)):
            if lines[below].strip():
                if len(lines[below]) - len(lines[below].lstrip()) <= len(indent[1]):
                    break
                end = below
        length = end - at + 1 - _docstring_lines(lines, last + 1)
        count = sum(not re.fullmatch(r"self|cls", one) for one in arguments)
        yield Function(path, at + 1, named[1], length, count)


def _bracketed(lines: list[str], at: int) -> tuple[str | None, int]:
    """Return a header from its first line to the closing bracket, and the line it ends on."""
    header = ""
    for last in range(at, min(at + 60, len(lines))):
        header += lines[last].split("#")[0] + "\n"
        if "(" not in header:
            return None, at
        if header.count("(") == header.count(")"):
            return header, last
    return None, at


def _docstring_lines(lines: list[str], at: int) -> int:
    if at >= len(lines) or not lines[at].strip().startswith('"""'):
        return 0
    for last in range(at, len(lines)):
        stripped = lines[last].strip()
        if stripped.endswith('"""') and (last > at or len(stripped) > 5):
            return last - at + 1
    return 0


# --- C and Rust --------------------------------------------------------------------------------


def without_comments(text: str, *, rust: bool = False) -> str:
    """Return the text with comments, strings and characters blanked, line by line the same."""
    quoted = r'r#".*?"#|"(?:\\.|[^"\\])*"'
    character = r"'(?:\\[^']+|[^'\\])'" if rust else r"'(?:\\.|[^'\\])*'"
    pattern = re.compile(rf"//[^\n]*|/\*.*?\*/|{quoted}|{character}", re.DOTALL)
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def closing(text: str, at: int, brackets: str) -> int:
    """Return the place of the bracket that closes the one at `at`, or -1."""
    depth = 0
    for place in range(at, len(text)):
        depth += (text[place] == brackets[0]) - (text[place] == brackets[1])
        if depth == 0:
            return place
    return -1


def split_arguments(text: str) -> list[str]:
    """Return the arguments between brackets; commas within brackets do not separate."""
    arguments, depth, current = [], 0, ""
    for place, character in enumerate(text):
        arrow = character == ">" and text[place - 1 : place] == "-"
        depth += (character in "([{<") - (character in ")]}>" and not arrow)
        if character == "," and depth == 0:
            arguments.append(current.strip())
            current = ""
        else:
            current += character
    arguments.append(current.strip())
    return [one for one in arguments if one not in ("", "void", "*", "/")]


C_DEF = re.compile(r"^(?!#)(?:[A-Za-z_][\w\s*]*?[\s*])?([A-Za-z_]\w*)\s*\(", re.MULTILINE)
RUST_DEF = re.compile(r"^[ \t]*(?:[\w()]+\s+|extern\s+)*?fn\s+(\w+)", re.MULTILINE)


def c_functions(path: str, text: str) -> Iterator[Function]:
    """Yield the functions that begin in the first column and have a body in braces."""
    clean = without_comments(text)
    # A macro's lines are blanked, so that they are no functions.
    macro = re.compile(r"^#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
    clean = macro.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), clean)
    for match in C_DEF.finditer(clean):
        if match[1] in ("if", "for", "while", "switch", "return", "sizeof", "__attribute__"):
            continue
        yield from _braced(path, clean, match.start(), match[1], match.end() - 1)


def rust_functions(path: str, text: str) -> Iterator[Function]:
    """Yield the functions of a Rust module that have a body."""
    clean = without_comments(text, rust=True)
    for match in RUST_DEF.finditer(clean):
        bracket = clean.find("(", match.end())
        generic = clean.find("<", match.end())
        if 0 <= generic < bracket:
            # A bound such as Fn(u8) -> u8 has brackets and an arrow of its own.
            arrows = clean.replace("->", "  ")
            bracket = clean.find("(", closing(arrows, generic, "<>"))
        if bracket >= 0:
            start = match.start() + len(match[0]) - len(match[0].lstrip())
            yield from _braced(path, clean, start, match[1], bracket)


def _braced(path: str, clean: str, start: int, name: str, bracket: int) -> Iterator[Function]:
    end = closing(clean, bracket, "()")
    if end < 0:
        return
    body = re.compile(r"[^;{}]*\{").match(clean, end + 1)
    if not body:
        return
    last = closing(clean, body.end() - 1, "{}")
    arguments = split_arguments(clean[bracket + 1 : end])
    implicit = re.compile(r"\[?&?\s*('\w+\s+)?(mut\s+)?self(:.*)?\]?|_?py: Python<.*>")
    count = sum(not implicit.fullmatch(one) for one in arguments)
    line = clean.count("\n", 0, start) + 1
    yield Function(path, line, name, clean.count("\n", start, last) + 1, count)


READERS = {
    ".py": python_functions,
    ".pyi": python_functions,
    **dict.fromkeys(CYTHON, cython_functions),
    **dict.fromkeys(C, c_functions),
    ".rs": rust_functions,
}


# --- the report --------------------------------------------------------------------------------


def functions_of(root: Path, paths: list[str]) -> list[Function]:
    """Return all functions, the longest first."""
    functions = [
        function
        for path in paths
        for function in READERS[Path(path).suffix](path, (root / path).read_text())
    ]
    return sorted(functions, key=lambda one: (-one.lines, one.path, one.line))


def public_names(root: Path, package: str) -> int | None:
    """Return how many names a package declares in ``__all__``; None if it does not exist."""
    top, *rest = package.split(".")
    folder = root / "plugins" if top == "ranking_plugins" else root
    base = folder.joinpath(top, *rest)
    file = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
    if not file.is_file():
        return None
    for node in ast.parse(file.read_text()).body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AnnAssign):
            targets = [node.target]
        if any(isinstance(one, ast.Name) and one.id == "__all__" for one in targets):
            value = node.value  # type: ignore[attr-defined]
            if isinstance(value, ast.List | ast.Tuple):
                return len(value.elts)
            return len(ast.literal_eval(value))
    return 0


def documented_modules(root: Path) -> int:
    """Return how many modules of ours the documentation and the examples import from."""
    imported = re.compile(r"^\s*(?:>>> )?(?:from|import) (ranking[\w.]*)", re.MULTILINE)
    files = [root / "README.md", *(root / "docs").rglob("*.md"), *(root / "examples").rglob("*.py")]
    return len(
        {name for file in files if file.is_file() for name in imported.findall(file.read_text())}
    )


def report(root: Path, longest: int) -> str:
    """Return the tables in Markdown."""
    paths = source_files(root)
    lines: Counter[str] = Counter()
    languages: Counter[str] = Counter()
    compiled = tests = later = 0
    for path in paths:
        n_lines = len((root / path).read_text().splitlines())
        lines[package_of(path)] += n_lines
        languages[LANGUAGES[Path(path).suffix]] += n_lines
        is_test = path.startswith("tests/") or "/tests/" in path
        compiled += n_lines * (is_compiled(path) and not is_test)
        tests += n_lines * (is_compiled(path) and is_test)
        later += n_lines * path.startswith(LATER_FAMILIES)
    functions = functions_of(root, paths)
    long = [one for one in functions if one.lines > MAX_LINES]
    wide = [one for one in functions if one.parameters > MAX_PARAMETERS]
    rows = [("**package**", "**lines**"), *sorted(lines.items())]
    rows += [("**all**", sum(lines.values()))]
    rows += [(f"in {name}", count) for name, count in sorted(languages.items())]
    rows += [
        ("compiled code (Cython, C, Rust)", compiled),
        ("its tests (parity, kernels, C, Rust)", tests),
        ("compiled code and its tests", compiled + tests),
        ("the same without the later families", compiled + tests - later),
        (f"functions over {MAX_LINES} lines", len(long)),
        (f"functions with over {MAX_PARAMETERS} parameters", len(wide)),
        ("modules that the documentation imports from", documented_modules(root)),
    ]
    for package in (*PUBLIC_PACKAGES, *PLUGIN_PACKAGES):
        names = public_names(root, package)
        if names is not None:
            rows.append((f"names in `{package}.__all__`", names))
    table = ["| count | value |", "|---|---:|"]
    table += [
        f"| {name} | {f'{count:,}' if isinstance(count, int) else count} |" for name, count in rows
    ]
    table += ["", f"The {longest} longest functions:", ""]
    table += ["| function | lines | parameters |", "|---|---:|---:|"]
    table += [
        f"| `{one.name}` ({one.path}:{one.line}) | {one.lines} | {one.parameters} |"
        for one in functions[:longest]
    ]
    return "\n".join(table)


def check(root: Path) -> list[str]:
    """Return what is over the limits, one line each."""
    wrong = []
    for one in functions_of(root, source_files(root)):
        if one.lines > MAX_LINES:
            wrong.append(
                f"{one.path}:{one.line}: {one.name} has {one.lines} lines, over {MAX_LINES}"
            )
        if one.parameters > MAX_PARAMETERS:
            wrong.append(
                f"{one.path}:{one.line}: {one.name} has {one.parameters} parameters, "
                f"over {MAX_PARAMETERS}"
            )
    return sorted(wrong)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Count the code of this repository.")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--check", action="store_true", help="fail if a function is too large")
    parser.add_argument("--longest", type=int, default=10, help="how many functions to list")
    options = parser.parse_args()
    if not options.check:
        print(report(options.root, options.longest))  # noqa: T201
        return 0
    wrong = check(options.root)
    print("\n".join(wrong) or "no function is too long or takes too many parameters")  # noqa: T201
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
