"""The C library of the Cython kernel has test programs of its own, in tests/c."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "ranking" / "kernels" / "cython" / "src"
PROGRAMS = sorted((ROOT / "tests" / "c").glob("test_*.c"))
COMPILER = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or ""
FLAGS = [
    "-std=c11",
    "-g",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-psabi",
    "-D_GNU_SOURCE",
    "-ffp-contract=off",
    "-fopenmp",
    f"-I{SOURCE}",
    f"-I{ROOT / 'tests' / 'c'}",
]
MODES = {
    "plain": ["-O2"],
    "sanitized": ["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
}

pytestmark = pytest.mark.skipif(not COMPILER, reason="there is no C compiler")


def compile_c(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [*COMPILER.split(), *FLAGS, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module", params=sorted(MODES))
def library(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[list[str], list[Path]]:
    """Return the flags of a mode, and the object files of the library."""
    flags = MODES[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    probe = folder / "probe.c"
    probe.write_text("int main(void) { return 0; }\n")
    done = compile_c(*flags, probe, "-o", folder / "probe")
    if done.returncode or subprocess.run([folder / "probe"], check=False).returncode:
        pytest.skip(f"the C compiler cannot build with {' '.join(flags)}: {done.stderr}")
    objects = []
    for source in sorted(SOURCE.glob("*.c")):
        objects.append(folder / f"{source.stem}.o")
        done = compile_c(*flags, "-c", source, "-o", objects[-1])
        assert done.returncode == 0, done.stderr
    return flags, objects


@pytest.mark.native_build
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_program(program: Path, library: tuple[list[str], list[Path]], tmp_path: Path) -> None:
    flags, objects = library
    executable = tmp_path / program.stem
    done = compile_c(*flags, program, *objects, "-lm", "-o", executable)
    assert done.returncode == 0, done.stderr
    run = subprocess.run([executable], capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_sanitizers_are_armed(tmp_path: Path) -> None:
    """A program that reads behind its memory, and one that overflows, end with a report."""
    flags = MODES["sanitized"]
    probe = tmp_path / "probe.c"
    probe.write_text("int main(void) { return 0; }\n")
    done = compile_c(*flags, probe, "-o", tmp_path / "probe")
    if done.returncode or subprocess.run([tmp_path / "probe"], check=False).returncode:
        pytest.skip("the C compiler has no sanitizers")
    bodies = {
        "AddressSanitizer": "char *volatile x = malloc(8); free(x); return x[argc];",
        "runtime error": "int x = 2147483647; return x + argc > 0;",
    }
    for report, body in bodies.items():
        probe.write_text(
            f"#include <stdlib.h>\nint main(int argc, char **v) {{ (void)v; {body} }}\n"
        )
        done = compile_c(*flags, "-Wno-use-after-free", probe, "-o", tmp_path / "probe")
        assert done.returncode == 0, done.stderr
        run = subprocess.run([tmp_path / "probe"], capture_output=True, text=True, check=False)
        assert run.returncode != 0
        assert report in run.stderr
