"""The flags that bitwise parity stands on."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BUILD_FILES = [
    ROOT / "meson.build",
    ROOT / "pyproject.toml",
    *sorted((ROOT / "ranking").rglob("meson.build")),
    *sorted((ROOT / "rust").glob("*.toml")),
    *sorted((ROOT / "rust" / "crates").glob("*/Cargo.toml")),
]


def test_no_contraction() -> None:
    assert "'-ffp-contract=off'" in (ROOT / "meson.build").read_text()


def test_avx2_has_no_fused_multiply_add() -> None:
    text = (ROOT / "ranking" / "kernels" / "cython" / "meson.build").read_text()
    assert "['-mavx2', '-mno-fma'," in text


@pytest.mark.parametrize("path", BUILD_FILES, ids=lambda path: str(path.relative_to(ROOT)))
@pytest.mark.parametrize(
    "flag",
    [
        "-ffast-math",
        "-Ofast",
        "-funsafe-math",
        "-fassociative-math",
        "-march=native",
        "-mfma",
        "target-cpu=native",
    ],
)
def test_no_flag_that_changes_bits(path: Path, flag: str) -> None:
    assert flag not in path.read_text()


@pytest.mark.native_build
@pytest.mark.skipif(shutil.which("meson") is None, reason="meson is not installed")
def test_wheel_ships_no_sources_but_the_public_header(tmp_path: Path) -> None:
    setup = ["meson", "setup", str(tmp_path / "build"), str(ROOT)]
    install = ["meson", "install", "-C", str(tmp_path / "build"), "--no-rebuild", "--dry-run"]
    subprocess.run(setup, check=True, capture_output=True)
    # It ends with an error, as there are no extension modules; the packages come before these.
    done = subprocess.run(install, check=False, capture_output=True, text=True)
    files = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("Installing")]
    sources = {
        Path(file).name
        for file in files
        if Path(file).suffix in {".c", ".h", ".pxd", ".pxi", ".pyx", ".build"}
    }
    assert sources == {"native.h"}
    assert any(file.endswith("ranking/kernels/cython/__init__.py") for file in files)
