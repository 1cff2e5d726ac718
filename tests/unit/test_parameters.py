"""Declared ranges of hyper-parameters, and the suggestions for unknown names."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, ClassVar

import numpy as np
import pytest

import ranking
from ranking.contracts.parameters import boolean, choice, constraints, integer, number
from ranking.contracts.part import Part
from ranking.errors import PartError
from ranking.registry import get_registry
from ranking.registry.names import (
    PARAMETERS,
    PARTS,
    VALUES,
    suggest_parameter,
    suggest_part,
    unknown_parameters,
)


@dataclasses.dataclass
class Sample(Part):
    """A part with one parameter of each kind."""

    name: ClassVar[str] = "sample"

    count: int = integer(3, minimum=1, maximum=9)
    steps: int | str = integer("auto", minimum=0, words=("auto",))
    rate: float = number(0.5, above=0.0)
    share: float = number(0.5, minimum=0.0, below=1.0)
    shift: float = number(0.0)
    most: float = number(0.0, maximum=2.0)
    mode: str = choice("slow", "slow", "fast")
    flag: bool = boolean(False)
    free: Any = None


@pytest.mark.parametrize(
    ("name", "good", "bad", "words"),
    [
        ("count", [1, 9, np.int64(4)], [0, 10, 2.0, True, "3", None], r"an integer in \[1, 9\]"),
        ("steps", [0, 10**9, "auto"], [-1, "Auto", 1.5], "an integer >= 0 or auto"),
        ("rate", [1e-9, 7, np.float32(0.5)], [0.0, -1, np.inf, np.nan, "auto", True], "number > 0"),
        ("share", [0, 0.99], [1.0, -0.1, np.nan], r"a finite number in \[0, 1\)"),
        ("shift", [-1e300, 5], [np.inf, "x", None], "a finite number"),
        ("most", [-5, 2.0], [2.1], "a finite number <= 2"),
        ("mode", ["slow", "fast"], ["auto", 1, None], "one of slow, fast"),
        ("flag", [True, False], [0, 1, "true", None], "true or false"),
    ],
)
def test_values_outside_the_declared_range_are_refused(name, good, bad, words):
    for value in good:
        assert getattr(Sample(**{name: value}), name) == value
    for value in bad:
        with pytest.raises(PartError, match=rf"^sample has {name}=.*; it must be .*{words}\.$"):
            Sample(**{name: value})
        with pytest.raises(PartError, match=f"sample has {name}="):
            Sample().set_params(**{name: value})


def test_constraints_can_be_inspected():
    declared = constraints(Sample)
    assert "free" not in declared
    assert declared["count"].minimum == 1
    assert declared["share"].describe() == "a finite number in [0, 1)"
    assert declared == constraints(Sample())


def test_every_number_of_a_built_in_solver_loss_and_regularizer_has_a_range():
    registry = get_registry()
    for kind in ("loss", "regularizer"):
        for entry in registry.entries(kind):
            if entry.distribution == "ranking-kit":
                part = entry.load()
                ranged = constraints(part)
                for field in dataclasses.fields(part):
                    if isinstance(field.default, int | float):
                        assert field.name in ranged, (entry.name, field.name)


OLD_PARAMETERS = {
    "solver sgd": {
        "draws": "epochs",
        "rate": "learning_rate",
        "lr": "learning_rate",
        "eta": "learning_rate",
        "refit_rate": "refit_learning_rate",
        "draw": "sampling",
        "against": "n_negatives",
        "weights": "weighting",
        "every": "prox_interval",
        "batch": "batch_size",
        "epoch": "steps_per_epoch",
        "n_epochs": "epochs",
        "iterations": "epochs",
    },
    "model factored": {
        "spread": "init_scale",
        "no_components": "dimensions",
        "n_factors": "dimensions",
        "factors": "dimensions",
    },
    "model structured": {"begin": "init"},
    "regularizer l2": {"reg": "strength", "lambda": "strength", "alpha": "strength"},
}
"""Names of earlier versions and of other tools, and those of the glossary."""

OLD_WORDS = {
    "solver sgd": {
        "schedule=sqrt": "schedule=inverse-sqrt",
        "schedule=fixed": "schedule=constant",
        "sampling=pairs": "sampling=positives",
        "sampling=relevance": "sampling=weighted",
        "negatives=unmatched": "negatives=unobserved",
        "negatives=others": "negatives=any",
        "weighting=alike": "weighting=uniform",
    },
    "model structured": {"init=anew": "init=scratch", "init=before": "init=previous-stage"},
    "loss domination": {"queries=apart": "queries=separate"},
}


@pytest.mark.parametrize(
    ("part", "old", "new"),
    [(part, old, new) for part, names in OLD_PARAMETERS.items() for old, new in names.items()],
)
def test_every_renamed_parameter_names_the_new_one(part, old, new):
    kind, name = part.split()
    with pytest.raises(PartError, match=f"has no parameter {old!r} .use {new!r}"):
        get_registry().create(kind, f"{name}:{old}=1")


@pytest.mark.parametrize(
    ("part", "old", "new"),
    [(part, old, new) for part, words in OLD_WORDS.items() for old, new in words.items()],
)
def test_every_renamed_word_names_the_new_one(part, old, new):
    kind, name = part.split()
    with pytest.raises(PartError, match=f"use {new}"):
        get_registry().create(kind, f"{name}:{old}")


@pytest.mark.parametrize(("old", "new"), sorted(ranking._RENAMED.items()))
def test_renamed_public_names_name_the_new_one(old, new):
    with pytest.raises(AttributeError, match=re.escape(f"no attribute {old!r}; use {new}")):
        getattr(ranking, old)
    assert new.partition("(")[0] in ranking.__all__


@pytest.mark.parametrize(
    ("kind", "spec", "words"),
    [
        ("solver", "sgd:lr=0.1", "no parameter 'lr' (use 'learning_rate')"),
        ("solver", "sgd:rate=0.1,draws=9", "'rate' (use 'learning_rate'), 'draws' (use 'epochs')"),
        ("solver", "sgd:draw=pairs", "(use 'sampling')"),
        ("solver", "sgd:against=3", "(use 'n_negatives')"),
        ("solver", "sgd:every=3", "(use 'prox_interval')"),
        ("solver", "sgd:batch=3", "(use 'batch_size')"),
        ("solver", "sgd:epoch=3", "(use 'steps_per_epoch')"),
        ("solver", "sgd:refit_rate=3", "(use 'refit_learning_rate')"),
        ("solver", "nmf:n_iter=3", "(use 'max_epochs')"),
        ("solver", "passive-aggressive:draws=3", "(use 'max_steps')"),
        ("solver", "sgd:learning_rat=3", "(use 'learning_rate')"),
        ("regularizer", "l2:alpha=1", "(use 'strength')"),
        ("regularizer", "l2:reg_lambda=1", "(use 'strength')"),
        ("loss", "warp:max_sampled=5", "(use 'max_trials')"),
        ("model", "factored:no_components=5", "(use 'dimensions')"),
        ("model", "factored:spread=5", "(use 'init_scale')"),
        ("callback", "early-stopping:early_stopping_rounds=5", "(use 'patience')"),
        ("solver", "sgd:schedule=sqrt", "use schedule=inverse-sqrt"),
        ("solver", "sgd:sampling=pairs", "use sampling=positives"),
        ("solver", "sgd:negatives=others", "use negatives=any"),
        ("solver", "sgd:weighting=alike", "use weighting=uniform"),
        ("loss", "domination:queries=apart", "use queries=separate"),
        ("regularizer", "orthonormal:scale=auto", "use scale=unit-rows"),
    ],
)
def test_old_and_foreign_names_of_parameters_are_translated(kind, spec, words):
    with pytest.raises(PartError) as raised:
        get_registry().create(kind, spec)
    message = str(raised.value)
    assert words in message
    assert message.count("its parameters are") <= 1
    assert "signature" not in message


def test_a_parameter_without_a_suggestion_lists_the_valid_ones():
    said = unknown_parameters("regularizer", "l2", ["qqq"], ["strength"])
    assert said == "regularizer 'l2' has no parameter 'qqq'; its parameters are strength."


@pytest.mark.parametrize(
    ("kind", "name", "meant"),
    [
        ("loss", "WARP", "warp"),
        ("loss", "warp-kos", "kos-warp"),
        ("loss", "kos_warp", "kos-warp"),
        ("regularizer", "ridge", "l2"),
        ("solver", "als", "alternating"),
        ("solver", "adagrad", "sgd:schedule=adagrad"),
        ("model", "LightFM", "factored"),
        ("kernel", "numpy", "reference"),
    ],
)
def test_old_and_foreign_names_of_parts_are_translated(kind, name, meant):
    with pytest.raises(PartError, match=f"there is no {kind} {name!r}.*Did you mean {meant!r}"):
        get_registry().find(kind, name)


def test_suggestions_are_valid_names():
    """Every entry of the tables leads to a parameter or part that exists."""
    registry = get_registry()
    for kind, table in PARAMETERS.items():
        valid = set()
        for entry in registry.entries(kind):
            valid |= {field.name for field in dataclasses.fields(entry.load()) if field.init}
        for name, meant in table.items():
            assert set(meant) & valid, (kind, name, meant)
            assert suggest_parameter(kind, name, sorted(valid)) in valid
    for kind, names in PARTS.items():
        for name, part in names.items():
            assert suggest_part(kind, name, registry.names(kind)) == part
            registry.find(kind, part.partition(":")[0])
    declared = {
        (field, word)
        for kind in ("solver", "loss", "model", "regularizer")
        for entry in registry.entries(kind)
        for field, constraint in constraints(entry.load()).items()
        for word in constraint.words
    }
    for field, words in VALUES.items():
        if field != "init":  # of models, whose ranges are checked elsewhere
            for word in words.values():
                assert (field, word) in declared
