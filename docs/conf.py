"""Build the documentation: ``make docs``, or ``sphinx-build -W docs site``."""

from __future__ import annotations

import os
import re
import sys
from importlib import import_module
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))
GALLERY = os.environ.get("RANKING_GALLERY", "run")
"""``off`` leaves the gallery out, for a quick look at the pages."""

project = "ranking"
author = "the ranking developers"
copyright = f"2026, {author}"
version = release = installed_version("ranking-kit")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
]
if GALLERY != "off":
    extensions.append("sphinx_gallery.gen_gallery")

source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["gallery/**"] if GALLERY == "off" else []
# Without the gallery, the links to it lead nowhere.
suppress_warnings = ["config.cache"] + (["toc", "myst"] if GALLERY == "off" else [])

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]

autodoc_typehints = "none"
autodoc_member_order = "groupwise"
autosummary_generate = True
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": [str(ROOT / "examples" / "gallery")],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "remove_config_comments": True,
    "show_memory": False,
    "write_computation_times": False,
    "min_reported_time": 1e9,
    "matplotlib_animations": False,
}

html_theme = "pydata_sphinx_theme"
html_title = f"ranking {version}"
html_static_path = ["_static"]
html_css_files = ["ranking.css"]
html_show_sourcelink = False
html_theme_options: dict[str, Any] = {
    "navbar_align": "left",
    "show_prev_next": False,
    "header_links_before_dropdown": 6,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}

COPY_PROMPT = r"\$ |>>> "
copybutton_prompt_text = COPY_PROMPT
copybutton_prompt_is_regexp = True

API = {
    "ranking": ("The names that `import ranking` brings", ("ranking",)),
    "parts": (
        "Parts as classes",
        tuple(
            f"ranking_plugins.{kind}" for kind in ("losses", "regularizers", "solvers", "callbacks")
        ),
    ),
    "contracts": ("What plugins implement", ("ranking.contracts",)),
    "other": (
        "Registry, files, errors, testing, native",
        ("ranking.registry", "ranking.io", "ranking.errors", "ranking.testing", "ranking.native"),
    ),
}
"""The pages of the API reference: a title and the modules, whose public names they list."""

TITLED = re.compile(r'^```(\w+) title="([^"]+)"$', flags=re.MULTILINE)


def caption_files(app: Any, page: str, source: list[str]) -> None:
    """Show the name of the file above a block that has a title."""
    source[0] = TITLED.sub(r"```{code-block} \1\n:caption: \2\n", source[0])


def write_api(folder: Path) -> None:
    """Write a page of the API reference for each group of modules, from their `__all__`."""
    folder.mkdir(exist_ok=True)
    for name, (title, modules) in API.items():
        lines = [title, "=" * len(title), ""]
        for module in modules:
            public = sorted(getattr(import_module(module), "__all__"))  # noqa: B009
            head = [module, "-" * len(module), "", f".. currentmodule:: {module}", ""]
            listing = [".. autosummary::", "   :toctree: generated", "   :nosignatures:", ""]
            lines += [*head, *listing, *(f"   {each}" for each in public), ""]
        text = "\n".join(lines)
        page = folder / f"{name}.rst"
        if not page.exists() or page.read_text() != text:
            page.write_text(text)


write_api(Path(__file__).parent / "api")  # before autosummary looks for its lists


def setup(app: Any) -> None:
    """Register what the configuration adds to Sphinx."""
    app.connect("source-read", caption_files)
