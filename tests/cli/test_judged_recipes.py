"""Recipes for judged lists from the command line: train, evaluate, rank."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from cli_helpers import call

from ranking.data.synthetic import demo
from ranking.data.writers import write

RECIPES = ["listnet", "adarank-map", "rankboost", "lambdamart"]


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_trains_evaluates_and_ranks(recipe: str, tmp_path: Path):
    if recipe == "lambdamart" and importlib.util.find_spec("lightgbm") is None:
        pytest.skip("needs LightGBM")
    parts = {name: tmp_path / f"{name}.txt" for name in ("train", "valid", "test")}
    for name, path in parts.items():
        write(demo()[name], "letor", path)
    model = tmp_path / "model.safetensors"

    train = ("train", parts["train"], "--valid", parts["valid"], "--recipe", recipe, "-o", model)
    call(*train, "--quiet")
    table = call("eval", model, parts["test"], "--metrics", "ndcg@10", "--format", "tsv").stdout
    assert float(table.split()[-1]) > 0.5
    ranked = call("rank", model, parts["test"], "-k", 1).stdout.splitlines()
    assert ranked
    assert all(row.split()[3] == "1" for row in ranked)
