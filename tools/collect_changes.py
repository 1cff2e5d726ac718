"""Collect the fragments of changelog.d into a section for CHANGELOG.md.

Usage: ``python tools/collect_changes.py`` prints the section, by kind and issue. A person rewrites
it for users and puts it into CHANGELOG.md; ``python tools/collect_changes.py --remove`` then
deletes the fragments. Fails if the name of a fragment is not
``<issue>.<added|changed|fixed>[.<word>].md``.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "changelog.d"
NAME = re.compile(r"(?P<issue>\d+)\.(?P<kind>added|changed|fixed)(\.[\w-]+)?\.md")


def collect(folder: Path) -> str:
    """Return the section: one list per kind of change, by issue; empty without fragments."""
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
    return "".join(f"{section}\n\n" for section in sections)


def remove(folder: Path) -> None:
    """Delete the fragments, once their section is in CHANGELOG.md."""
    collect(folder)  # refuses names that are no fragments
    for path in folder.glob("*.md"):
        if path.name != "README.md":
            path.unlink()


if __name__ == "__main__":
    if sys.argv[1:] == ["--remove"]:
        remove(FOLDER)
    else:
        sys.stdout.write(collect(FOLDER))
