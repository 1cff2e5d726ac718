"""Write rust/LICENSES-CRATES.txt: the licences of the crates that the Rust wheel contains.

Usage: ``python tools/crate_licenses.py [--check]``. Needs cargo and the sources of the crates that
Cargo.lock names (``cargo fetch``). ``--check`` writes nothing, and exits with 1 if the file is old.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

RUST = Path(__file__).resolve().parents[1] / "rust"
FILE = RUST / "LICENSES-CRATES.txt"
RULE = "=" * 80
HEAD = """The wheel of ranking-kit-rust contains the Rust standard library (MIT OR Apache-2.0,
https://www.rust-lang.org) and these crates. Where a crate may be used under several licences, it is
used under the first whose text is below.
"""


def linked(metadata: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the packages that are linked into the extension, without what runs at compile time."""
    packages = {package["id"]: package for package in metadata["packages"]}
    edges = {
        node["id"]: [
            dep["pkg"]
            for dep in node["deps"]
            if any(kind["kind"] is None for kind in dep["dep_kinds"])
        ]
        for node in metadata["resolve"]["nodes"]
    }
    [start] = [key for key, package in packages.items() if package["name"] == "ranking-py"]
    crates, waiting = set(), [start]
    while waiting:
        key = waiting.pop()
        kinds = {kind for target in packages[key]["targets"] for kind in target["kind"]}
        if key not in crates and "proc-macro" not in kinds:
            crates.add(key)
            waiting += edges[key]
    external = [packages[key] for key in crates if packages[key]["source"]]
    return sorted(external, key=lambda package: (package["name"], package["version"]))


def text_of(package: dict[str, Any]) -> str:
    """Return the text of one licence of a crate: MIT where there is a choice."""
    folder = Path(package["manifest_path"]).parent
    files = sorted(
        path
        for path in folder.iterdir()
        if path.is_file() and path.name.upper().startswith(("LICEN", "COPYING"))
    )
    files.sort(key=lambda path: ("MIT" not in path.name.upper(), path.name))
    if not files:
        return "The crate holds no text of its licence."
    return files[0].read_text(encoding="utf-8", errors="replace").strip()


def write() -> str:
    """Return the file."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--offline"]
    command += ["--filter-platform", "x86_64-unknown-linux-gnu"]
    done = subprocess.run(
        [*command, "--manifest-path", RUST / "Cargo.toml"], capture_output=True, check=True
    )
    sections = [HEAD]
    for package in linked(json.loads(done.stdout)):
        title = f"{package['name']} {package['version']}: {package['license']}"
        sections.append(f"{RULE}\n{title}\n{RULE}\n\n{text_of(package)}\n")
    text = "\n".join(sections)
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def main() -> int:
    """Write the file, or compare it."""
    text = write()
    if "--check" in sys.argv[1:]:
        return int(not FILE.exists() or FILE.read_text(encoding="utf-8") != text)
    FILE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
