"""Figures 6, 7 and 8 of the thesis on Domination Rank (Stevens, 2010): images ranked for labels.

Each label of Corel 5K is a query that ranks all images; those that have it come first. One weight
vector a label, for PAMIR and for Domination Rank, with all parameters chosen for each label.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ranking import MatchingData, Ranker
from ranking.kernels.select import get_kernel
from ranking.metrics.evaluation import evaluate_model, mean
from ranking.metrics.parse import parse_metric
from ranking.models.bilinear import Bilinear
from ranking.training.wrappers.per_query import PerQuery
from ranking_plugins.reproductions import Options, Row
from ranking_plugins.reproductions.annotation import COLLECTIONS, read
from ranking_plugins.reproductions.seeds import Values, gains, means

title = "Labels as queries: PAMIR and Domination Rank on Corel 5K"
notes = (
    "5,000 images in a random partition for each seed: 4,000 to train, 500 to validate, 500 to "
    "test, the sizes of the thesis. Labels that each part has are queries; those with three or "
    "more test images are easy. Features are Mulan's 499 of image regions, of unit length, with a "
    "constant; the thesis has other features and the partition of its source, so the order of the "
    "rows can be compared, and not the values. Aggressiveness, type and strength of the "
    "regularizer are chosen for each label by its average precision on the validation images. "
    "'sampled' has a tenth of the negatives. 'one choice' takes the values that are best on "
    "average over all labels. 'largest tenth' has only the largest of PAMIR's weights, for "
    "comparison with sparse models. 'Validation and test' are means of both parts, as in figure "
    "8; the validation part has chosen the parameters, so these are no estimates for new images. "
    "The thesis' large "
    "Corel set, with 35,379 images, is not public. Values are means over the seeds, ± Student's "
    "95 % interval; 'difference' is that to PAMIR with 1,000,000 steps, by seed. Seconds are "
    "processor time of all trainings of one seed, for all values of the parameters; density is "
    "that of the chosen rows."
)

MEASURES = {
    "map": "map(empty=skip)",
    "p@10": "p@10(empty=skip)",
    "domination error": "domination-error",
    "all-pairs error": "all-pairs-error",
}
PAPER: dict[str, dict[str, tuple[float | None, ...]]] = {
    "easy": {
        "pamir, 40,000 steps": (0.412,),
        "pamir, 1,000,000 steps": (0.4522, None, 0.7574, 0.0935, 0.6282),
        "domination, induction": (0.438, None, 0.7658, 0.1114, 0.4332),
        "domination, sampled": (0.411, None, 0.7954, 0.1176, 0.2303),
        "domination, sequential": (0.444, None, 0.7650, 0.1059, 0.7468),
    },
    "hard": {
        "pamir, 40,000 steps": (0.247,),
        "pamir, 1,000,000 steps": (0.2425,),
        "domination, induction": (0.230,),
        "domination, sampled": (0.230,),
        "domination, sequential": (0.234,),
    },
    "easy, validation and test": {
        "pamir, 1,000,000 steps": (None, None, 0.7580, 0.0995, 0.6282),
        "domination, induction": (None, None, 0.7352, 0.1096, 0.4332),
        "domination, sampled": (None, None, 0.7405, 0.1122, 0.2300),
        "domination, sequential": (None, None, 0.7332, 0.1020, 0.7472),
    },
}
"""Average precision, precision at 10, both errors and the density, in Corel-Small."""

BASE = "pamir, 1,000,000 steps"
SEEDS = 3
EASY = 3
"""The fewest test images of an easy label."""

AGGRESSIVENESS = (0.001, 0.01, 0.1, 1.0)
L1 = (0.03, 0.01)
L2 = (0.3, 0.1, 0.03)
INDUCED = "coordinate:sweeps=induced,top=10,max_epochs=10000,tolerance=0.0001"
"""The recipe's tolerance of 0.001 stops before most features of images, which are weak, come in."""

TENTH = 0.1
GROUPS = ("all", "easy", "hard", "easy, validation and test")

Floats = NDArray[np.float64]
Fit = Callable[[MatchingData, int], Bilinear]


class Parts(NamedTuple):
    """The same labels, other images."""

    train: MatchingData
    valid: MatchingData
    test: MatchingData


class Chosen(NamedTuple):
    """Chosen weights, and the seconds of all trainings."""

    model: Bilinear
    seconds: float


class Results(NamedTuple):
    """Weights with the values that are best for each label, and with those best for all."""

    by_label: Chosen
    by_mean: Chosen


def rows(options: Options) -> Iterator[Row]:
    """Train each method with each seed; measure easy, hard and all labels."""
    folder = options.data / "multilabel"
    images = read(folder, COLLECTIONS[0].files, 600 if options.quick else None)
    seeds = [options.seed + k for k in range(2 if options.quick else SEEDS)]
    parts = [split(images, seed) for seed in seeds]
    base: dict[str, list[Values]] = {}
    for name, fits in methods(options).items():
        results = []
        for seed, part in zip(seeds, parts, strict=True):
            options.tell(f"{name}, seed {seed}")
            results.append(train(fits, part, seed, options))
        selections = [one.by_label for one in results]
        values = values_of(selections, parts, options)
        base = base or (values if name == BASE else {})
        for group in GROUPS:
            yield _row(group, name, values[group], selections)
            if base and name != BASE:
                difference = gains(values[group], base[group])
                yield _row(group, f"{name}, difference", difference, selections)
        for variant, models in variants(name, results).items():
            yield _row("all", variant, values_of(models, parts, options)["all"], models)


def variants(name: str, results: Sequence[Results]) -> dict[str, list[Chosen]]:
    """Return the models with one choice for all labels, and of PAMIR one with few weights."""
    values_by_name = {f"{name}, one choice": [one.by_mean for one in results]}
    if name == BASE:
        values_by_name[f"{name}, largest tenth"] = [largest(one.by_label, TENTH) for one in results]
    return values_by_name


def values_of(
    selections: Sequence[Chosen], parts: Sequence[Parts], options: Options
) -> dict[str, list[Values]]:
    """Return the values of each seed, by group of labels."""
    of_seeds = [
        measured(one.model, part, options) for one, part in zip(selections, parts, strict=True)
    ]
    return {group: [one[group] for one in of_seeds] for group in GROUPS}


def split(images: MatchingData, seed: int) -> Parts:
    """Return labels as queries, over a random tenth of the images to test and one to validate."""
    order = np.random.default_rng(seed).permutation(images.n_queries)
    tenth = order.size // 10
    places = (order[2 * tenth :], order[:tenth], order[tenth : 2 * tenth])
    whole = images.relevance.T.tocsr()
    counts = np.array([np.diff(whole[:, np.sort(part)].indptr) for part in places])
    labels = np.flatnonzero((counts > 0).all(axis=0))

    def part(selection: NDArray[np.int64]) -> MatchingData:
        positions = np.sort(selection)
        return MatchingData(
            None,
            images.query_rows[positions],
            sp.csr_array(whole[labels][:, positions]),
            query_ids=images.document_ids[labels],
        )

    return Parts(*(part(selection) for selection in places))


def methods(options: Options) -> dict[str, list[Fit]]:
    """Return the trainings of each method, one for each value of its parameters."""
    quick = options.quick
    penalties = [f"l1:strength={value}" for value in L1] + [f"l2:strength={value}" for value in L2]
    penalties = penalties[1:2] if quick else penalties
    steps = {"40,000": 40_000, "1,000,000": 50_000 if quick else 1_000_000}
    result: dict[str, list[Fit]] = {
        f"pamir, {name} steps": [
            _pamir(count, value, options) for value in AGGRESSIVENESS[: 1 if quick else None]
        ]
        for name, count in steps.items()
    }
    for name, loss, solver in (
        ("induction", "domination", INDUCED),
        ("sampled", "domination:negatives=0.1", INDUCED),
        ("sequential", "domination", "coordinate:max_epochs=100,tolerance=0.0001"),
    ):
        result[f"domination, {name}"] = [
            _domination(loss, penalty, solver, options) for penalty in penalties
        ]
    return result


def _pamir(steps: int, aggressiveness: float, options: Options) -> Fit:
    def fit(data: MatchingData, seed: int) -> Bilinear:
        solver = f"passive-aggressive:max_steps={steps},aggressiveness={aggressiveness}"
        ranker = _ranker("bilinear:initial=zero", "hinge", "none", solver, seed, options)
        model = ranker.fit(data).model_
        assert isinstance(model, Bilinear)
        return model

    return fit


def _domination(loss: str, penalty: str, solver: str, options: Options) -> Fit:
    def fit(data: MatchingData, seed: int) -> Bilinear:
        ranker = _ranker("linear", loss, penalty, solver, seed, options)
        model = ranker.fit_with(PerQuery(ranker.plan(), jobs=options.threads), data).model_
        assert isinstance(model, Bilinear)
        return model

    return fit


def _ranker(
    model: str, loss: str, regularizer: str, solver: str, seed: int, options: Options
) -> Ranker:
    return Ranker(model, loss, regularizer, solver, kernel=options.kernel, random_state=seed)


def train(fits: Sequence[Fit], parts: Parts, seed: int, options: Options) -> Results:
    """Train all values; choose by the validation images, for each label and for all together."""
    began = time.process_time()
    models = [fit(parts.train, seed) for fit in fits]
    seconds = time.process_time() - began
    precisions = np.array([_values(model, parts.valid, options)["map"] for model in models])
    matrices = [sp.csr_array(model.weights) for model in models]
    rows_of = [
        matrices[at][[label]] for label, at in enumerate(np.argmax(precisions, axis=0).tolist())
    ]
    by_label = copy.copy(models[0])
    by_label.weights = sp.csr_array(sp.vstack(rows_of, format="csr"))
    by_mean = models[int(np.argmax(precisions.mean(axis=1)))]
    return Results(Chosen(by_label, seconds), Chosen(by_mean, seconds))


def largest(selected: Chosen, share: float) -> Chosen:
    """Return the model with this share of the weights of each label, the largest."""
    weights = selected.model.weights.toarray()
    count = int(share * weights.shape[1])
    order = np.argsort(-np.abs(weights), axis=1, kind="stable")
    np.put_along_axis(weights, order[:, count:], 0.0, axis=1)
    model = copy.copy(selected.model)
    model.weights = sp.csr_array(weights)
    return selected._replace(model=model)


def _values(model: Bilinear, data: MatchingData, options: Options) -> dict[str, Floats]:
    """Return the measures of each label."""
    metrics = {name: parse_metric(spelled) for name, spelled in MEASURES.items()}
    kernel = get_kernel(options.kernel)
    values = evaluate_model(model, list(metrics.values()), data, kernel, options.threads)
    return {name: values[metric.spelled()] for name, metric in metrics.items()}


def measured(model: Bilinear, parts: Parts, options: Options) -> dict[str, Values]:
    """Return the means over each group of labels, and the density there."""
    test, valid = _values(model, parts.test, options), _values(model, parts.valid, options)
    easy = np.diff(parts.test.relevance.indptr) >= EASY
    density = np.diff(model.weights.indptr) / model.weights.shape[1]
    both = {name: 0.5 * (test[name] + valid[name]) for name in test}
    labels = {"all": np.ones_like(easy), "easy": easy, "hard": ~easy}
    groups = {group: (test, mask) for group, mask in labels.items()}
    groups["easy, validation and test"] = (both, easy)
    return {
        group: {name: mean(column[mask]) for name, column in {**values, "density": density}.items()}
        for group, (values, mask) in groups.items()
    }


def _row(group: str, name: str, values: list[Values], selections: list[Chosen]) -> Row:
    published = PAPER.get(group, {}).get(name, ())
    named = zip((*MEASURES, "density"), published, strict=False)
    weights = selections[0].model.weights
    averages = means(values)
    density = averages.pop("density")
    averages.pop("density ±")
    return Row(
        f"Corel 5K, {group.replace(',', ' labels,') if ',' in group else f'{group} labels'}",
        name,
        averages,
        {key: value for key, value in named if value is not None},
        float(np.mean([one.seconds for one in selections])),
        weights.data.nbytes + weights.indices.nbytes + weights.indptr.nbytes,
        density,
        by_seed=values,
    )
