"""Every allocation of the Cython kernel fails in turn: an error, no leak, the bits afterwards."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
COMPILER = os.environ.get("CC", "cc")

# Of families whose buffers come from NumPy there is nothing to fail.
ALLOCATING = (
    *("pairwise lists", "bilinear", "bilinear, passive-aggressive", "factored", "listwise"),
    *("alternating", "row blocks", "shared lists", "item columns", "squared half steps"),
    *("sparse half steps", "listwise, bilinear", "factored, two threads", "letor"),
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.native_build,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs LD_PRELOAD and glibc"),
]


@pytest.fixture(scope="module")
def allocator(tmp_path_factory):
    """The allocator that fails, compiled."""
    library = tmp_path_factory.mktemp("faults") / "failing_malloc.so"
    source = FOLDER.parent / "c" / "failing_malloc.c"
    words = [*COMPILER.split(), "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"the allocator cannot be compiled here: {done.stderr}")
    return library


@pytest.mark.parametrize("case", ALLOCATING)
def test_every_allocation_fails_in_turn(allocator, case):
    done = subprocess.run(
        [sys.executable, "-P", FOLDER / "allocation_faults.py", case],
        env={**os.environ, "LD_PRELOAD": str(allocator), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(re.search(r"(\d+) allocations", done.stdout)[1]) > 0
