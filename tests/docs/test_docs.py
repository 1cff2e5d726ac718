"""The documents say what is so: their examples run, and nothing that exists is missing.

What a fenced block means here:

- ``python``: runs; all blocks of a page share one namespace, from top to bottom.
- any language with ``title="path"``: is written to that file, and does not run.
- ``console``: lines that begin with ``$ ranking``, ``$ pytest`` and, of a folder of the page,
  ``$ pip install`` or ``$ pip wheel`` run, in a shell or, of ``ranking``, in this process; pip
  installs into the page's folder, with nothing from elsewhere. The lines below a command are what
  it prints: each must occur, in this order, numbers and widths aside; ``...`` stands for lines
  left out, or at its end for the rest of a line. A command below which an ``Error:`` stands must
  fail.

A page runs in a folder of its own, in which train.txt, valid.txt and test.txt lie.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest
from click.testing import CliRunner
from conftest import make_judged, write_letor

from ranking.contracts.callback import Callback
from ranking.contracts.hooks import KINDS
from ranking.contracts.loss import (
    CoordinateLoss,
    CoordinateProblem,
    LinearLoss,
    ListwiseLoss,
    Loss,
    PairwiseLoss,
)
from ranking.contracts.metric import Metric
from ranking.contracts.model import MatchingModel, Model
from ranking.contracts.reader import Reader
from ranking.contracts.recipe import Axis, Recipe, Search
from ranking.contracts.regularizer import Regularizer
from ranking.contracts.solver import Compatibility, EpochResult, OnlineTrainer, Solver
from ranking.registry import get_registry, hookspecs
from ranking.registry.manager import Entry
from ranking_cli.main import COMMANDS, cli

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(page for page in DOCS.rglob("*.md") if page.parent.name != "gallery")
ROOT_PAGES = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")]
LISTS = (DOCS / "parameters.md", DOCS / "parts.md")
"""Pages that only list names; a name must be explained on another one."""
ALL_PAGES = ROOT_PAGES + PAGES
OURS = ("ranking-kit", "ranking-kit-rust")

FENCE = re.compile(
    r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```[ \t]*$", flags=re.MULTILINE | re.DOTALL
)
COMMAND = re.compile(
    r"\$ (?P<words>(?:RANKING_\w+=\S* )*ranking\b.*|pip (?:install|wheel) \./.*|pytest .*)"
)

SHELL = re.compile(r"[|<>&;*$]")
"""What only a shell understands."""


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    title: str
    body: str
    line: int


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    result = []
    for match in FENCE.finditer(text):
        language, _, rest = match["info"].strip().partition(" ")
        title = re.search(r'title="([^"]+)"', rest)
        line = text.count("\n", 0, match.start("body")) + 1
        result.append(Block(language, title[1] if title else "", match["body"], line))
    return result


def prose(page: Path) -> str:
    """The text of a page without its blocks."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


class Call(NamedTuple):
    """A command of a console block and the lines that stand below it."""

    command: str
    output: list[str]


def calls(block: Block) -> Iterator[Call]:
    call: Call | None = None
    for line in re.sub(r"\\\n\s*", "", block.body).splitlines():
        if line.startswith("$ "):
            if call:
                yield call
            match = COMMAND.fullmatch(line)
            call = Call(match["words"], []) if match else None
        elif call and line.strip():
            call.output.append(line)
    if call:
        yield call


def shape(line: str) -> str:
    """A line of output without what may differ from one machine to another."""
    line = re.sub(r"(?<![\w.@-])-?\d+(\.\d+)?(e[-+]?\d+)?", "#", line)
    line = re.sub(r"\bkernel (rust|cython|reference)\b", "kernel #", line)
    return " ".join(re.sub(r"-{3,}", "---", line).split())


def check_output(call: Call, printed: str) -> None:
    lines = iter([shape(line) for line in printed.splitlines()])
    for expected in call.output:
        start, rest, _ = shape(expected).partition("...")
        if not start:
            continue
        assert any(line.startswith(start) if rest else line == start for line in lines), (
            f"$ {call.command}\ndoes not print, or not in this place:\n{expected}\nbut:\n{printed}"
        )


def install(folder: Path) -> None:
    """Make the package that a page has written visible, as pip would: by its metadata."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    groups = [
        f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in points.items())
        for group, points in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("".join(groups))


def run_page(page: Path, folder: Path) -> None:
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("RANKING_")},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "PYTHONPATH": str(folder),
        "PYTHONWARNINGS": "error",
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # as pip spells a no
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    # Starting the command costs more than most examples. The README's run as users run them, and
    # so do those of a page that installs a plugin.
    titles = {Path(block.title).name for block in blocks(page)}
    commands = [
        call.command
        for block in blocks(page)
        if block.language == "console" and not block.title
        for call in calls(block)
    ]
    installs = "pyproject.toml" in titles or any(each.startswith("pip ") for each in commands)
    in_process = page.name != "README.md" and not installs
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page):
        if block.title:
            path = folder / block.title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.body)
            if path.name == "pyproject.toml":
                install(folder)
        elif block.language == "python":
            code = "\n" * (block.line - 1) + block.body  # tracebacks then show the page's lines
            exec(compile(code, str(page), "exec", dont_inherit=True), namespace)
        elif block.language == "console":
            for call in calls(block):
                if (
                    in_process
                    and call.command.startswith("ranking ")
                    and not SHELL.search(call.command)
                ):
                    done = CliRunner().invoke(
                        cli, shlex.split(call.command)[1:], prog_name="ranking"
                    )
                    code, printed = done.exit_code, done.stdout + done.stderr
                else:
                    code, printed = run_in_shell(call.command, folder, environment)
                fails = any(line.startswith("Error:") for line in call.output)
                assert (code != 0) == fails, (
                    f"{page_id(page)}: $ {call.command}\nexit code {code}\n{printed}"
                )
                check_output(call, printed)


def run_in_shell(command: str, folder: Path, environment: dict[str, str]) -> tuple[int, str]:
    """Run a command; return its exit code and what it prints."""
    if command.startswith("pip "):
        target = f" --target {shlex.quote(str(folder))}" * ("pip install" in command)
        command = f"{shlex.quote(sys.executable)} -m {command} --quiet{target}"
        environment = {**environment, "PYTHONWARNINGS": "", "PIP_NO_DEPS": "1"}
    done = subprocess.run(
        ["sh", "-c", command], cwd=folder, env=environment, capture_output=True, text=True
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with data, in which a page runs; what it imports from there is forgotten."""
    for seed, name in enumerate(("train", "valid", "test")):
        write_letor(tmp_path / f"{name}.txt", make_judged(seed, n_queries=20))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in list(os.environ):
        if name.startswith("RANKING_"):
            monkeypatch.delenv(name)
    yield tmp_path
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.mark.slow
@pytest.mark.parametrize("page", ALL_PAGES, ids=page_id)
def test_the_examples_of_a_page_run(page: Path, folder: Path):
    run_page(page, folder)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("```python\nassert 1 == 2\n```\n", AssertionError),
        ("```python\nimport warnings\nwarnings.warn('x')\n```\n", UserWarning),
        ("```console\n$ ranking eval nothing.safetensors test.txt\n```\n", AssertionError),
        ("```console\n$ ranking --version\nError: no\n```\n", AssertionError),
        ("```console\n$ ranking --version\nranking, release 0.1.0\n```\n", AssertionError),
    ],
)
def test_an_example_that_is_not_true_fails(text: str, wrong: type, folder: Path):
    page = folder / "page.md"
    page.write_text(text)
    with pytest.raises(wrong):
        run_page_of(page, folder)


def run_page_of(page: Path, folder: Path) -> None:
    """Run a page that is not one of the project's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules[__name__], "ROOT", folder)
        run_page(page, folder)


def code_of(pages: list[Path]) -> str:
    """All code of these pages: what stands between backticks, and the blocks."""
    text = []
    for page in pages:
        text += [block.body for block in blocks(page)]
        text += re.findall(r"`+([^`]+)`+", prose(page))
    return "\n".join(text)


def mentions(text: str, name: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) is not None


@pytest.mark.parametrize("hook", KINDS.values())
def test_every_hook_is_in_the_reference(hook: str):
    parameters = ", ".join(inspect.signature(getattr(hookspecs, hook)).parameters)
    heading = f"## `{hook}({parameters})`"
    assert heading in (DOCS / "plugins" / "hooks.md").read_text().splitlines()


def test_the_reference_has_no_hook_that_is_not():
    text = (DOCS / "plugins" / "hooks.md").read_text()
    assert set(re.findall(r"^## `(\w+)\(", text, flags=re.MULTILINE)) == set(KINDS.values())


CONTRACTS: dict[str, tuple[type, ...]] = {
    "model": (Model, MatchingModel),
    "loss": (Loss, PairwiseLoss, ListwiseLoss, CoordinateLoss, LinearLoss, CoordinateProblem),
    "regularizer": (Regularizer,),
    "solver": (Solver, EpochResult, OnlineTrainer, Compatibility),
    "metric": (Metric,),
    "reader": (Reader,),
    "recipe": (Recipe, Search, Axis),
    "callback": (Callback,),
}
"""What the plugins of a kind fulfil, or return."""


def words_of(contract: type) -> set[str]:
    """The public members of a contract, and the arguments of its methods."""
    words = set()
    for name in {*vars(contract), *inspect.get_annotations(contract)}:
        if name.startswith("_") or name == "name" or hasattr(tuple, name):
            continue
        words.add(name)
        member = inspect.unwrap(
            getattr(vars(contract).get(name), "__func__", vars(contract).get(name))
        )
        if inspect.isfunction(member):
            words |= set(inspect.signature(member).parameters) - {"self", "cls"}
    return words


@pytest.mark.parametrize("kind", CONTRACTS)
def test_every_member_and_argument_of_a_contract_is_in_the_reference(kind: str):
    text = (DOCS / "plugins" / "hooks.md").read_text()
    words = "\n".join(re.findall(r"`+([^`]+)`+", section(text, f"`{KINDS[kind]}()`")))
    missing = {
        f"{contract.__name__}.{word}"
        for contract in CONTRACTS[kind]
        for word in words_of(contract)
        if not mentions(words, word)
    }
    assert not missing


def test_everything_built_in_is_in_the_documents():
    text = code_of([page for page in PAGES if page not in LISTS])
    assert built_in()
    assert not [f"{e.kind} {e.name}" for e in built_in() if not mentions(text, e.name)]


def built_in() -> list[Entry]:
    return [entry for entry in get_registry().entries() if entry.distribution in OURS]


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_of_parts_has_every_name_and_no_other(kind: str):
    text = (DOCS / "parts.md").read_text()
    [row] = re.findall(rf"^\| {kind} \| (`.*) \|$", text, flags=re.MULTILINE)
    assert set(re.findall(r"`([^`]+)`", row)) == {e.name for e in built_in() if e.kind == kind}


def test_pages_written_from_the_code_are_those_of_today():
    tool = runpy.run_path(str(ROOT / "tools" / "write_parameters.py"))
    names = (DOCS / "parts.md").read_text()
    advice = "run `python tools/write_parameters.py`"
    assert (DOCS / "parameters.md").read_text() == tool["write"](), advice
    assert names == tool["write_names"](names), advice
    combinations = (DOCS / "combinations.md").read_text()
    assert combinations == tool["write_combinations"](combinations), advice


def test_the_fragments_of_the_changelog_can_be_collected(tmp_path: Path):
    tool = runpy.run_path(str(ROOT / "tools" / "collect_changes.py"))
    tool["collect"](ROOT / "changelog.d")  # all names are those of fragments
    assert tool["collect"](tmp_path) == ""
    for name in ("7.fixed.md", "3.added.word.md", "12.added.md", "README.md"):
        (tmp_path / name).write_text(f"About\n{name}.\n")
    section = tool["collect"](tmp_path)
    lines = [line for line in section.splitlines() if line]
    assert lines == [
        "### Added",
        "- About 3.added.word.md. (#3)",
        "- About 12.added.md. (#12)",
        "### Fixed",
        "- About 7.fixed.md. (#7)",
    ]
    tool["remove"](tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]
    (tmp_path / "unknown.md").touch()
    with pytest.raises(ValueError, match="must be named"):
        tool["remove"](tmp_path)


@pytest.mark.parametrize("page", [p for p in PAGES if p.name != "index.md"], ids=page_id)
def test_a_page_begins_with_who_it_is_for(page: Path):
    lines = page.read_text().splitlines()
    first = next(line for line in lines[1:] if line and not line.startswith("<!--"))
    assert lines[0].startswith("# ")
    assert first.startswith("For ")


REPLACED = re.compile(
    r"\b(nobody else's|every no has|anew|whence|whom|strangers?|crews?|barred|lens(es)?"
    r"|mathematics against it|a (row|trial|machine|range) each|a (row|trial) a query"
    r"|knows? \w+ only|takes? it when|no whole number|left the finite|wanted is|give one a row"
    r"|knows no word|who comes from|tuples in all|C of the schedule|the first values"
    r"|steps from one boundary|draws from one"
    r"|(weights=alike|queries=apart|begin=|spread=|sgd:(draws|rate|every|against|draw)=)\S*)\b",
    flags=re.IGNORECASE,
)
"""Wording that was replaced by plain English and the terms of docs/glossary.md."""


@pytest.mark.parametrize("page", ALL_PAGES, ids=page_id)
def test_a_page_uses_the_terms_of_the_glossary(page: Path):
    assert not [match[0] for match in REPLACED.finditer(prose(page))]


@pytest.mark.parametrize(
    "text",
    ["Every no has its reason.", "found and whence", "weights=alike", "a row a query", "a lens."],
)
def test_replaced_wording_is_recognised(text: str):
    assert REPLACED.search(text)


def recipes_of(page: Path) -> list[tuple[str, dict[str, str]]]:
    """The rows of a page's tables of recipes: a name, and what is said of its parts."""
    rows = []
    for table in re.findall(r"^\| recipe \|.*\n(?:\|.*\n)+", page.read_text(), flags=re.MULTILINE):
        head, _, *lines = ([cell.strip() for cell in row.split("|")] for row in table.splitlines())
        for line in lines:
            cells = zip(head, line, strict=True)
            words = {kind: re.findall(r"`([^`]+)`", cell) for kind, cell in cells}
            parts = {kind: result[0] for kind, result in words.items() if result and kind in KINDS}
            rows += [(name, parts) for name in words["recipe"]]
    return rows


def test_recipes_are_what_the_pages_say():
    output = [row for page in PAGES for row in recipes_of(page)]
    assert {"warp", "rmls", "sparse-sgd", "svd"} <= {name for name, _ in output}
    for name, parts in output:
        recipe = get_registry().create("recipe", name).parts
        for kind, spec in parts.items():
            if kind != "recipe":
                # A page may leave the parameters out, but not some of them.
                assert spec in (recipe[kind], recipe[kind].partition(":")[0]), (name, kind)


def section(text: str, heading: str) -> str:
    """What stands between a heading and the next of the same depth."""
    _, result, rest = text.partition(f"\n## {heading}\n")
    assert result, f"there is no section {heading!r}"
    return re.split(r"^## ", rest, flags=re.MULTILINE)[0]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_in_the_page_of_the_command_line(name: str):
    text = section((DOCS / "command-line.md").read_text(), f"ranking {name}")
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    options = [o for p in command.params if isinstance(p, click.Option) for o in p.opts]
    assert options
    assert not [option for option in options if not mentions(text, option)]


def test_the_page_of_the_command_line_has_no_option_that_is_not():
    for name in COMMANDS:
        text = section((DOCS / "command-line.md").read_text(), f"ranking {name}")
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        known = {o for p in command.params if isinstance(p, click.Option) for o in p.opts}
        described = set(re.findall(r"^\| `(?:-\w`, `)?(--[\w-]+)", text, flags=re.MULTILINE))
        assert described <= known


def navigation() -> list[str]:
    """The pages in the toctrees, which are in the page of each section."""
    pages = []
    for page in PAGES:
        for tree in re.findall(r"^```{toctree}\n(.*?)^```", page.read_text(), flags=re.M | re.S):
            pages += [line for line in tree.splitlines() if line and not line.startswith(":")]
    return [f"{name}.md" for name in pages if not name.startswith(("api/", "gallery/"))]


def test_the_navigation_has_every_page_once():
    assert sorted([*navigation(), "index.md"]) == [str(page.relative_to(DOCS)) for page in PAGES]


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", prose(page), flags=re.MULTILINE)
    plain = [re.sub(r"[^\w\s-]", "", heading.lower()).strip() for heading in headings]
    return {re.sub(r"\s+", "-", heading) for heading in plain}


def broken_links(page: Path) -> list[str]:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"\w+:", link):
            continue
        target, _, anchor = link.partition("#")
        path = (page.parent / target).resolve() if target else page
        if not path.exists() or (anchor and anchor not in anchors(path)):
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", ALL_PAGES, ids=page_id)
def test_links_lead_somewhere(page: Path):
    assert not broken_links(page)


def test_a_broken_link_is_seen(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("# One thing\n[a](#one-thing) [b](#other) [c](page.md) [d](no.md)\n")
    assert broken_links(page) == ["#other", "no.md"]


def test_the_documents_name_no_machine():
    words = re.compile(r"/(?:home|root|work|tmp|Users)/|localhost|[\w-]+\.(?:internal|local)\b")
    for page in ALL_PAGES:
        assert not words.search(page.read_text()), page_id(page)


@pytest.mark.slow
def test_the_site_builds(tmp_path: Path):
    beside = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    sphinx = shutil.which("sphinx-build", path=beside)
    if sphinx is None:
        pytest.skip("Sphinx is not installed; `make docs` builds the site")
    trees = ["-d", str(tmp_path / "trees"), str(DOCS), str(tmp_path / "site")]
    done = subprocess.run(
        [sphinx, "-W", "--keep-going", "-q", *trees],
        cwd=ROOT,
        env={**os.environ, "RANKING_GALLERY": "off"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


PUBLIC = (
    "ranking",
    "ranking.contracts",
    "ranking.errors",
    "ranking.io",
    "ranking.native",
    "ranking.registry",
    "ranking.testing",
    "ranking_plugins.callbacks",
    "ranking_plugins.losses",
    "ranking_plugins.regularizers",
    "ranking_plugins.solvers",
)
PACKAGES = ("ranking", "ranking_plugins", "ranking_rust")
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))


def imports(source: str) -> Iterator[tuple[str, str]]:
    """Yield the module and the name of each import, wherever it stands."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)


def private_imports(source: str) -> list[str]:
    """Return the imports of our packages that are not public."""
    result = []
    for module, name in imports(source):
        if module.partition(".")[0] not in PACKAGES:
            continue
        public = module in PUBLIC and (
            not name
            or f"{module}.{name}" in PUBLIC
            or name in importlib.import_module(module).__all__
        )
        if not public:
            result.append(f"{module}.{name}")
    return result


def sources(path: Path) -> list[str]:
    if path.suffix == ".py":
        return [path.read_text(encoding="utf-8")]
    return [block.body for block in blocks(path) if block.language == "python"]


@pytest.mark.parametrize("path", ALL_PAGES + EXAMPLES, ids=page_id)
def test_examples_import_public_names_only(path):
    result = [each for source in sources(path) for each in private_imports(source)]
    assert not result, f"{page_id(path)} imports {', '.join(result)}"


def test_a_private_import_is_found():
    assert private_imports("from ranking.data.split import METHODS") == [
        "ranking.data.split.METHODS"
    ]
    assert private_imports("def f():\n    from ranking import nothing") == ["ranking.nothing"]
    assert private_imports("import ranking.kernels") == ["ranking.kernels."]
    assert private_imports("from ranking import Ranker, contracts\nimport numpy") == []
