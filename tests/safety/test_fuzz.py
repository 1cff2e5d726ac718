"""A short run of the fuzzer, with a fixed seed; `make fuzz` runs it for longer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"

ATTACK = "RANKING_ATTACK"
"""The environment variable with a folder of hostile files."""

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.mark.slow
def test_mutated_inputs_are_read_or_refused():
    command = [sys.executable, TOOLS / "fuzz.py", "--inputs", "460", "--seed", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("460 inputs")


@pytest.mark.slow
def test_killed_trainings_resume_to_the_same_bits():
    command = [sys.executable, TOOLS / "kill_training.py", "--kills", "3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr


def test_kernels_agree_on_mutated_judged_lists():
    """A differential target: whatever the reader accepts, all kernels score alike."""
    import random
    import warnings

    from ranking import RankingError, get_kernel
    from ranking.data.readers.letor import Letor
    from ranking.errors import KernelUnavailableError

    sys.path.insert(0, str(TOOLS))
    try:
        import fuzz
    finally:
        sys.path.pop(0)
    import tempfile

    kernels = []
    for name in ("reference", "cython", "rust"):
        try:
            kernels.append(get_kernel(name))
        except KernelUnavailableError:
            continue
    seed = b"2 qid:1 1:0.5 2:-1e3\n0 qid:1 1:1 3:2\n1 qid:q 2:7\n"
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "a.txt"
        for number in range(150):
            path.write_bytes(fuzz.mutate(seed, random.Random(number)))
            outcomes = []
            for kernel in kernels:
                try:
                    data = Letor(kernel=kernel).read(path)
                    outcomes.append((data.grades.tobytes(), data.query_ids.tolist(), data.features))
                except RankingError as error:
                    outcomes.append(str(error))
            for other in outcomes[1:]:
                if isinstance(outcomes[0], str):
                    assert other == outcomes[0]
                else:
                    assert other[:2] == outcomes[0][:2]
                    dense = [
                        getattr(one[2], "toarray", lambda one=one: one[2])()
                        for one in (other, outcomes[0])
                    ]
                    assert dense[0].tobytes() == dense[1].tobytes()


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get(ATTACK), reason=f"{ATTACK} names no folder of hostile files")
def test_hostile_files_are_refused():
    command = [sys.executable, TOOLS / "attack.py", os.environ[ATTACK]]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "NOT held" not in done.stdout


def test_a_file_that_is_read_has_not_held(tmp_path, monkeypatch):
    """The attack is armed: what is accepted is reported."""
    monkeypatch.syspath_prepend(str(TOOLS))
    import attack

    accepted = subprocess.CompletedProcess([], 0, "", "")
    several = subprocess.CompletedProcess([], 1, "", "Traceback\nKeyError: 1\n")
    defect = subprocess.CompletedProcess([], 1, "", "Error: a defect of ranking\n")
    refused = subprocess.CompletedProcess([], 1, "", "Error: a is damaged.\n")
    assert all(map(attack.refused, (accepted, several, defect)))
    assert not attack.refused(refused)
