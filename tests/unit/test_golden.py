"""Model files of every release are read, and answer what they answered then."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import numpy as np
import pytest

from ranking import Ranker
from ranking.registry import get_registry

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "tests" / "golden").glob("*/*.safetensors"))
ANSWER = runpy.run_path(str(ROOT / "tools" / "write_golden.py"))["answer"]


def test_there_is_a_golden_file_of_each_built_in_model():
    entries = get_registry().entries("model")
    models = {entry.name for entry in entries if entry.distribution == "ranking-kit"}
    assert len(models) >= 13
    assert not models - {path.stem for path in FILES if path.parent.name == "0.1.0"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_model_of_a_release_answers_as_it_did(path: Path):
    case = json.loads((path.parent / "expected.json").read_text())[path.stem]
    result = ANSWER(Ranker.load(path), case["method"], case["argument"])
    if case["method"] == "predict":
        np.testing.assert_allclose(result, case["result"], rtol=1e-5)
        return
    for answer, expected in zip(result, case["result"], strict=True):
        assert [key for key, _ in answer] == [key for key, _ in expected]
        np.testing.assert_allclose(
            [score for _, score in answer], [score for _, score in expected], rtol=1e-5
        )
