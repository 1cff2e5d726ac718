"""Suggestions for unknown names: the nearest valid one, or the one for an old or foreign name.

Users of LightFM, implicit, LensKit, LightGBM, PyTerrier and scikit-learn bring the names of those
libraries along. The tables below map them, and the names of earlier versions, to the parameters
and parts of this project.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

STRENGTH_NAMES: Final = (
    "alpha",
    "beta",
    "item_alpha",
    "l1_reg",
    "l2_reg",
    "lambda",
    "lambda_",
    "lambda_l1",
    "lambda_l2",
    "reg",
    "reg_alpha",
    "reg_lambda",
    "regularization",
    "user_alpha",
    "weight",
    "weight_decay",
)
EPOCHS_NAMES: Final = (
    "draws",
    "iterations",
    "max_iter",
    "max_iterations",
    "n_epochs",
    "n_estimators",
    "n_iter",
    "num_epochs",
    "num_iterations",
)
LEARNING_RATE_NAMES: Final = ("eta", "eta0", "lr", "rate", "step_size")
DIMENSIONS_NAMES: Final = (
    "dim",
    "embedding_dim",
    "factors",
    "features",
    "k",
    "n_components",
    "n_factors",
    "no_components",
    "num_factors",
    "rank",
    "size",
)

PARAMETERS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "solver": {
        **dict.fromkeys(EPOCHS_NAMES, ("epochs", "max_epochs", "max_steps")),
        **dict.fromkeys(LEARNING_RATE_NAMES, ("learning_rate",)),
        "C": ("aggressiveness",),
        "against": ("n_negatives",),
        "batch": ("batch_size",),
        "draw": ("sampling",),
        "eps": ("tolerance",),
        "epoch": ("steps_per_epoch",),
        "every": ("prox_interval",),
        "learning_schedule": ("schedule",),
        "max_draws": ("max_steps",),
        "negative_samples": ("n_negatives",),
        "num_negatives": ("n_negatives",),
        "refit_rate": ("refit_learning_rate",),
        "shuffle": ("shuffled",),
        "steps": ("max_steps", "epochs"),
        "tol": ("tolerance",),
        "turns": ("epochs", "max_epochs"),
        "weights": ("weighting",),
    },
    "regularizer": {
        **dict.fromkeys(STRENGTH_NAMES, ("strength",)),
        "C": ("limit", "strength"),
        "l1_ratio": ("share",),
        "max_norm": ("limit",),
        "norm": ("limit",),
        "theta": ("limit",),
    },
    "loss": {
        "max_sampled": ("max_trials",),
        "max_sampled_negatives": ("max_trials",),
        "trials": ("max_trials",),
        "margin_slope": ("slope",),
    },
    "model": {
        **dict.fromkeys(DIMENSIONS_NAMES, ("dimensions",)),
        "begin": ("init",),
        "init_std": ("init_scale",),
        "init_stdev": ("init_scale",),
        "spread": ("init_scale",),
        "start": ("initial", "init"),
    },
    "callback": {
        "early_stopping_rounds": ("patience",),
        "eval_metric": ("metric",),
        "n_iter_no_change": ("patience",),
        "filename": ("path",),
        "interval": ("every",),
    },
    "engine": {"n_jobs": ("workers",), "num_workers": ("workers",), "processes": ("workers",)},
}
"""By kind of part: old and foreign names of parameters, and the names here, best first."""

VALUES: Final[Mapping[str, Mapping[str, str]]] = {
    "schedule": {"sqrt": "inverse-sqrt", "fixed": "constant", "adadelta": "adagrad"},
    "sampling": {"pairs": "positives", "relevance": "weighted"},
    "negatives": {"unmatched": "unobserved", "others": "any"},
    "weighting": {"alike": "uniform"},
    "init": {"anew": "scratch", "before": "previous-stage"},
    "queries": {"apart": "separate"},
    "scale": {"auto": "unit-rows"},
}
"""Old words of parameters that choose between words, and the words here."""

PARTS: Final[Mapping[str, Mapping[str, str]]] = {
    "model": {
        "als": "factored",
        "embedding": "factored",
        "lightfm": "factored",
        "matrix-factorization": "factored",
        "mf": "factored",
    },
    "loss": {
        "log": "logistic",
        "rankboost": "exponential-pairs",
        "ranknet": "logistic",
        "warp-kos": "kos-warp",
        "cross-entropy": "logistic",
    },
    "regularizer": {
        "elasticnet": "elastic",
        "elastic-net": "elastic",
        "group-lasso": "group-l1",
        "laplacian": "graph",
        "lasso": "l1",
        "ridge": "l2",
        "sparse-group-lasso": "hierarchical-group-l1",
        "tikhonov": "l2",
        "tree-group-lasso": "hierarchical-group-l1",
        "null": "none",
    },
    "solver": {
        "adagrad": "sgd:schedule=adagrad",
        "als": "alternating",
        "cd": "coordinate",
        "coordinate-descent": "coordinate",
        "hals": "nmf",
        "ovr": "one-vs-rest",
        "pa": "passive-aggressive",
        "pamir": "passive-aggressive",
        "truncated-svd": "svd",
    },
    "callback": {"earlystopping": "early-stopping", "tqdm": "progress", "observer": "progress"},
    "kernel": {"c": "cython", "numpy": "reference", "python": "reference"},
}
"""By kind: old and foreign names of parts, and the names here."""


def suggest_parameter(kind: str, name: str, valid: Sequence[str]) -> str:
    """Return the valid parameter that is meant by another name, or an empty string.

    Parameters
    ----------
    kind : str
        Such as "solver".
    name : str
        What was written.
    valid : sequence of str
        The parameters of the part.
    """
    table = PARAMETERS.get(kind, {})
    for candidate in table.get(name, table.get(name.lower(), ())):
        if candidate in valid:
            return candidate
    return nearest(name, valid)


def suggest_part(kind: str, name: str, valid: Sequence[str]) -> str:
    """Return the part that is meant by another name, or an empty string."""
    word = name.lower().replace("_", "-")
    if word in valid:
        return word
    other = PARTS.get(kind, {}).get(word, "")
    if other.partition(":")[0] in valid:
        return other
    return nearest(word, valid)


def suggest_value(parameter: str, value: object) -> str:
    """Return the word for an old one of this parameter, or an empty string."""
    return VALUES.get(parameter, {}).get(value, "") if isinstance(value, str) else ""


def nearest(name: str, valid: Iterable[str]) -> str:
    """Return the valid name that is spelled most like this one, or an empty string."""
    close = difflib.get_close_matches(name.lower(), list(valid), n=1)
    return close[0] if close else ""


def unknown_parameters(kind: str, part: str, unknown: Sequence[str], valid: Sequence[str]) -> str:
    """Return the message for parameters that a part does not have.

    Examples
    --------
    >>> unknown_parameters("regularizer", "l2", ["reg_lambda"], ["strength"])
    "regularizer 'l2' has no parameter 'reg_lambda' (use 'strength'); its parameters are strength."
    """
    words = []
    for name in unknown:
        meant = suggest_parameter(kind, name, valid)
        words.append(f"{name!r} (use {meant!r})" if meant else repr(name))
    return (
        f"{kind} {part!r} has no parameter {', '.join(words)}; its parameters are "
        f"{', '.join(valid) or 'none'}."
    )
