"""The table of systems by metrics: letters of significance, LaTeX and Markdown."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import call
from scipy.stats import permutation_test

from ranking_cli.tables import render

N_QUERIES, N_DOCUMENTS = 40, 12
NOISE = {"good & new": 0.4, "same_as": 0.4, "bad": 2.0}
"""Systems whose names LaTeX must escape, and the noise on the grades by which they rank."""


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Runs of three systems, and the judgements."""
    rng = np.random.default_rng(5)
    grades = rng.integers(0, 2, (N_QUERIES, N_DOCUMENTS))
    names = [(f"q{q}", f"d{d}") for q in range(N_QUERIES) for d in range(N_DOCUMENTS)]
    paths = []
    for name, noise in NOISE.items():
        scores = (grades + noise * rng.normal(size=grades.shape)).ravel()
        lines = [
            f"{q} Q0 {d} 1 {score!r} x\n"
            for (q, d), score in zip(names, scores.tolist(), strict=True)
        ]
        paths.append(tmp_path / f"{name}.run")
        paths[-1].write_text("".join(lines))
    paths.append(tmp_path / "judged.qrels")
    paths[-1].write_text(
        "".join(f"{q} 0 {d} {g}\n" for (q, d), g in zip(names, grades.ravel(), strict=True))
    )
    return paths


def per_query(run: Path, qrels: Path) -> np.ndarray:
    words = ("eval", "--run", run, "--qrels", qrels, "--metrics", "map", "-q", "--format", "jsonl")
    rows = [json.loads(line) for line in call(*words).stdout.splitlines()]
    values = {row["query"]: row["metrics"]["map"] for row in rows}
    return np.array([values[f"q{at}"] for at in range(N_QUERIES)])


def test_letters_say_which_systems_are_surely_worse(files: list[Path]):
    *runs, qrels = files
    values = [per_query(run, qrels) for run in runs]
    pairs = [(0, 1), (0, 2), (1, 2)]
    p = [
        permutation_test(
            (values[a] - values[b],),
            np.mean,
            permutation_type="samples",
            n_resamples=9999,
            rng=np.random.default_rng(0),
        ).pvalue
        for a, b in pairs
    ]
    holm = np.minimum(1.0, np.maximum.accumulate(np.sort(p) * [3, 2, 1]))
    below = {pairs[at] for at, value in zip(np.argsort(p), holm, strict=True) if value < 0.05}
    assert below == {(0, 2), (1, 2)}  # far from the level on both sides
    table = call("compare", *files, "--metrics", "map").stdout.splitlines()
    means = [re.search(r"\.run +([01]\.\d{4}) ?(\w*)", line) for line in table[2:5]]
    assert [float(match[1]) for match in means] == pytest.approx(
        [value.mean() for value in values], abs=6e-5
    )
    assert [match[2] for match in means] == ["c", "c", ""]


def test_latex_has_the_cells_of_the_table(files: list[Path]):
    text = call("compare", *files, "--metrics", "map,p@5", "--format", "latex").stdout
    environments = re.findall(r"\\begin{tabular}{([lr]+)}\n(.*?)\\end{tabular}", text, re.DOTALL)
    assert len(environments) == 2
    for columns, body in environments:
        lines = [line for line in body.splitlines() if line != r"\hline"]
        for line in lines:
            assert line.endswith(r" \\")
            assert len(re.split(r"(?<!\\)&", line)) == len(columns)
    assert r"good \& new.run" in text
    assert r"same\_as.run" in text
    outside = re.sub(r"\\begin{tabular}.*?\\end{tabular}", "", text, flags=re.DOTALL)
    assert all(not line or line.startswith("% ") for line in outside.splitlines())


def test_what_means_something_in_a_format_is_escaped():
    rows = [{"a|b": "x|y", "n_1": 0.5, "p%": "\\{}~^$#"}]
    assert render(rows, "markdown").splitlines() == [
        "| a\\|b | n_1 | p% |",
        "| --- | --- | --- |",
        "| x\\|y | 0.5000 | \\\\{}~^$# |",
    ]
    latex = render(rows, "latex").splitlines()
    assert latex[2] == r"a|b & n\_1 & p\% \\"
    assert latex[4] == (
        r"x|y & 0.5000 & \textbackslash{}\{\}\textasciitilde{}\textasciicircum{}\$\# \\"
    )
