"""Collect the fragments of changelog.d into a section for CHANGELOG.md.

Usage: ``python tools/collect_changes.py``. Prints the section, by kind and issue; a person then
rewrites it for users, puts it into CHANGELOG.md and deletes the fragments. Fails if the name of a
fragment is not ``<issue>.<added|changed|fixed>[.<word>].md``.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "changelog.d"
NAME = re.compile(r"(?P<issue>\d+)\.(?P<kind>added|changed|fixed)(\.[\w-]+)?\.md")


def collect(folder: Path) -> str:
    """Return the section: one list per kind of change, in the order of the issues."""
    lists: dict[str, list[tuple[int, str]]] = {"added": [], "changed": [], "fixed": []}
    for path in sorted(folder.glob("*.md")):
        match = NAME.fullmatch(path.name)
        if match:
            text = " ".join(path.read_text(encoding="utf-8").split())
            lists[match["kind"]].append((int(match["issue"]), text))
        elif path.name != "README.md":
            raise ValueError(f"{path} must be named <issue>.<added|changed|fixed>[.<word>].md")
    sections = [
        f"### {kind.capitalize()}\n\n" + "\n".join(f"- {text} (#{issue})" for issue, text in rows)
        for kind, rows in ((kind, sorted(rows)) for kind, rows in lists.items())
        if rows
    ]
    return "\n\n".join(sections) + "\n"


if __name__ == "__main__":
    sys.stdout.write(collect(FOLDER))
