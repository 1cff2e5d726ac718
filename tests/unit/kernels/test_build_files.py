"""The flags that bitwise parity stands on."""

from __future__ import annotations

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
