"""Latent structured ranking: its protocol, and the order of its first table on one split."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse, stats

from ranking import MatchingData, get_kernel
from ranking.models.factored import Factored
from ranking_plugins.reproductions import Options, annotation, held_out
from ranking_plugins.reproductions.lasr import SUCCESSIONS, methods, rows
from ranking_plugins.reproductions.seeds import gains, half_width, means


def test_recall_counts_pairs_as_often_as_they_are():
    rng = np.random.default_rng(0)
    counts = sparse.csr_array(rng.integers(0, 4, (9, 70)))
    data = MatchingData(None, None, counts)
    model = Factored(dimensions=8, biases=False)
    model.initialize(data, 1, get_kernel())
    known = sparse.csr_array(rng.random((9, 70)) < 0.2)
    exclusions = known.indptr.astype(np.int64), known.indices.astype(np.int64)
    scores = model.scores(data, get_kernel("reference"))
    for without, pairs in ((np.zeros((9, 70), bool), None), (known.toarray(), exclusions)):
        ranks = stats.rankdata(-np.where(without, -np.inf, scores), axis=1)
        ranks[without] = np.inf
        result = held_out.recall(model, data, pairs, get_kernel("reference"), 1)
        assert list(result) == ["r@5", "r@10", "r@30", "r@50"]
        for cut in (5, 10, 30, 50):
            hits = (counts.toarray() * (ranks <= cut)).sum()
            assert result[f"r@{cut}"] == pytest.approx(hits / counts.sum())


def test_a_user_is_in_one_part_only():
    users = np.repeat(np.arange(50), 6)
    rng = np.random.default_rng(1)
    pairs = held_out.Successions(users, rng.integers(0, 20, 300), rng.integers(0, 20, 300), 20)
    split = held_out.split_users(pairs, 3)
    sizes = [int(part.relevance.sum()) for part in (split.train, split.valid, split.test)]
    assert sizes == [35 * 6, 5 * 6, 10 * 6]
    other = held_out.split_users(pairs, 4)
    assert (other.test.relevance != split.test.relevance).nnz


def test_half_width_is_students():
    values = np.array([0.1, 0.2, 0.4, 0.3, 0.25])
    low, high = stats.t.interval(0.95, 4, values.mean(), stats.sem(values))
    assert half_width(values) == pytest.approx((high - low) / 2)
    of_seeds = [{"map": value} for value in values]
    assert means(of_seeds) == {"map": values.mean(), "map ±": half_width(values)}
    assert [gain["map"] for gain in gains(of_seeds, of_seeds[::-1])] == pytest.approx(
        values - values[::-1]
    )


def test_examples_that_validate_never_test():
    data = MatchingData(np.arange(1.0, 41.0)[:, None], None, np.ones((40, 2)))
    selection, tested = set(), set()
    for seed in range(8):
        split = held_out.split_examples(data, seed)
        parts = [
            frozenset(part.query_rows.toarray().ravel().tolist())
            for part in (split.train, split.valid, split.test)
        ]
        assert [len(part) for part in parts] == [28, 4, 8]
        assert len(frozenset().union(*parts)) == 40
        selection.add(parts[1])
        tested.add(parts[2])
    assert len(selection) == 1
    assert len(tested) == 8


def test_successions_are_in_the_order_of_time(real_data: Path):
    pairs = held_out.read_successions(real_data / "interactions")
    assert (pairs.users.size, pairs.n_items) == (1_000_209 - 6_040, 3_706)
    mine = pairs.users == 0
    # What came next is what is asked with next.
    np.testing.assert_array_equal(pairs.items[mine][:-1], pairs.queries[mine][1:])


def test_the_order_is_the_papers(real_data: Path):
    split = held_out.split_users(held_out.read_successions(real_data / "interactions"), 0)
    options = Options(real_data, False, "auto", 2, 0, lambda text: None)
    trained = methods(50, SUCCESSIONS[50]._replace(epochs=3), 1, options)
    result = {
        fitted.name: held_out.recall(fitted.model, split.test, None, get_kernel(), 2)
        for name in ("svd", "lasr")
        for fitted in trained[name](split, 0)
    }
    for cut in ("r@5", "r@10", "r@30", "r@50"):
        assert result["svd"][cut] < result["lasr t=0"][cut] < result["lasr t=1"][cut]


@pytest.mark.filterwarnings("ignore:.*documents match no query")
def test_labels_are_in_the_papers_order(real_data: Path):
    """Of table 5, by what has the order on the first two splits of Corel 5K."""
    options = Options(real_data, False, "auto", 2, 0, lambda text: None)
    corel = annotation.COLLECTIONS[0]
    data = annotation.read(real_data / "multilabel", corel.files)
    columns = ("r@5", "r@10", "map", "mean rank")
    result: list[list[list[float]]] = []
    for seed in (0, 1):
        split = held_out.split_examples(data, seed)
        values, base = [], None
        for method in ("one-vs-rest", "rank-svm", "wsabie", "lasr t=1, folds, before"):
            model = annotation.make_model(method, base, options)
            fitted = annotation.fit(model, corel.parts[method], split.train, seed, options)
            base = fitted.ranker if method == "wsabie" else None
            measured = annotation.measured(fitted.ranker, split.test, 2)
            values.append([measured[column] for column in columns])
        result.append(values)
    steps = np.diff(np.mean(result, axis=0), axis=0)
    assert (steps[:, :3] > 0.0).all()
    assert (steps[:, 3] < 0.0).all()


@pytest.mark.filterwarnings("ignore:.*documents match no query")
def test_going_on_leaves_the_base_as_it_is(real_data: Path):
    options = Options(real_data, True, "auto", 1, 0, lambda text: None)
    corel = annotation.COLLECTIONS[0]
    data = annotation.read(real_data / "multilabel", corel.files, 300)
    model = annotation.make_model("wsabie", None, options)
    base = annotation.fit(model, corel.parts["wsabie"], data, 0, options).ranker
    before = {name: tensor.copy() for name, tensor in base.model_.tensors().items()}
    later = annotation.go_on(base, corel.parts[annotation.GOING_ON], data, options).ranker
    assert base.solver != later.solver
    after = base.model_.tensors()
    assert all(after[name].tobytes() == tensor.tobytes() for name, tensor in before.items())
    assert later.model_.tensors()["V"].tobytes() != before["V"].tobytes()


def test_the_quick_reproduction_has_every_row(real_data: Path):
    options = Options(real_data, True, "auto", 2, 0, lambda text: None)
    with pytest.warns(UserWarning, match="documents match no query"):
        result = list(rows(options))
    tables: dict[str, list[str]] = {}
    for row in result:
        tables.setdefault(row.dataset, []).append(row.method)
        assert all(np.isfinite(value) for value in row.metrics.values())
    stages = ["lasr t=0", "lasr t=1", "lasr t=1, gain", "lasr t=2", "lasr t=2, gain"]
    labels = ["one-vs-rest", "one-vs-rest, logistic", "rank-svm", "wsabie"]
    later = ["lasr t=1", "lasr t=1, gain", "lasr t=1, folds", "lasr t=1, folds, gain"]
    going_on = ["wsabie, going on", "wsabie, going on, gain"]
    before = ["lasr t=1, folds, before", "lasr t=1, folds, before, gain"]
    assert tables == {
        "MovieLens 1M, n = 50": ["nmf", "svd", "auc", *stages],
        "Last.fm, n = 50": ["nmf", "svd", "auc", *stages],
        "Corel 5K": [*labels, *going_on, *later, *before],
        "Delicious": [*labels, *later],
    }
