"""Training part by part: the same bits as at once, and features that come later."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from ranking import MatchingData, Ranker
from ranking.data.text_collection import TextCollection
from ranking.data.triplets import positive_lists
from ranking.errors import CombinationError, DataError, PartError
from ranking.models.bilinear import Bilinear

N = 120


def ranker(kernel, regularizer="l1:strength=0.01", loss="hinge", model="bilinear", **solver):
    params = {
        "max_steps": N,
        "learning_rate": 0.5,
        "prox_interval": 7,
        "steps_per_epoch": N,
        **solver,
    }
    spec = "sgd:" + ",".join(f"{key}={value}" for key, value in params.items())
    return Ranker(model, loss, regularizer, spec, kernel=kernel, random_state=3)


def bits(fitted):
    weights = fitted.model_.weights
    return (
        weights.shape,
        weights.indptr.tobytes(),
        weights.indices.tobytes(),
        weights.data.tobytes(),
    )


PARTS = [
    ("l1:strength=0.01", "hinge"),
    ("l2:strength=0.01", "logistic"),
    ("group-l1:strength=0.01,by=columns", "hinge"),
    ("none", "warp:max_trials=3"),
]


@pytest.mark.parametrize(("regularizer", "loss"), PARTS)
def test_ten_parts_are_the_whole(matching_kernel, make_matching, regularizer, loss):
    data = make_matching(1)
    whole = ranker(matching_kernel, regularizer, loss).fit(data)
    parts = ranker(matching_kernel, regularizer, loss)
    for _ in range(10):
        assert parts.partial_fit(data, steps=N // 10) is parts
        parts.predict(data)  # looking at it changes nothing
    assert bits(parts) == bits(whole)
    assert [row["steps"] for row in parts.history_] == [12.0 * n for n in range(1, 11)]
    assert [row["epoch"] for row in parts.history_] == list(range(1, 11))
    at_once = ranker(matching_kernel, regularizer, loss).partial_fit(data)  # the solver's draws
    assert bits(at_once) == bits(whole)
    assert at_once.stopped_ == "partial_fit"


@pytest.mark.parametrize(("regularizer", "loss"), PARTS)
def test_ten_calls_with_triplets_equal_one_call(matching_kernel, make_matching, regularizer, loss):
    data = make_matching(1)
    trials = 3 if loss.startswith("warp") else 1
    tuples = matching_kernel.sampling.sample_triplets(positive_lists(data), 99, 0, N, trials)
    once = ranker(matching_kernel, regularizer, loss).partial_fit(data, triplets=tuples)
    parts = ranker(matching_kernel, regularizer, loss)
    for part in np.array_split(tuples, 10):
        parts.partial_fit(data, triplets=part.tolist())
    assert bits(parts) == bits(once)
    assert bits(once) != bits(ranker(matching_kernel, regularizer, loss).fit(data))


def test_parts_of_other_sizes(matching_kernel, make_matching):
    data = make_matching(1)
    whole = ranker(matching_kernel).partial_fit(data, steps=50)
    parts = ranker(matching_kernel)
    for draws in (1, 0, 30, 19):
        parts.partial_fit(data, steps=draws)
    assert bits(parts) == bits(whole)


def with_features(names, seed, n_objects=8):
    rng = np.random.default_rng(seed)
    rows = sp.csr_array(rng.random((n_objects, len(names))).astype(np.float32))
    labels = np.arange(n_objects) % 2
    return MatchingData(
        rows,
        rows,
        labels=(labels, labels),
        query_feature_ids=names,
        document_feature_ids=names,
        queries_are_documents=True,
    )


@pytest.mark.parametrize("regularizer", ["l1:strength=0.01", "l2:strength=0.02", "none"])
def test_new_features_grow_the_model(matching_kernel, regularizer):
    old, new = with_features(["a", "b", "c"], 0), with_features(["c", "d", "b", "e"], 1)
    grown = ranker(matching_kernel, regularizer).partial_fit(old, steps=40)
    before, scores = grown.model_.weights.toarray(), grown.predict(old)
    grown.partial_fit(new, steps=0)
    after = grown.model_.weights.toarray()
    assert grown.model_.query_feature_ids.tolist() == ["a", "b", "c", "d", "e"]
    np.testing.assert_allclose(after[:3, :3], before, rtol=1e-6, atol=1e-7)
    expected = np.zeros((5, 5))
    expected[3, 3] = expected[4, 4] = 1.0
    expected[:3, :3] = after[:3, :3]
    np.testing.assert_allclose(after, expected, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(grown.predict(old), scores, rtol=1e-5, atol=1e-6)
    grown.partial_fit(new, steps=40)
    moved = grown.model_.weights.toarray()
    assert (moved[3:, 1:3] != 0).any()
    # A word that the new data lack keeps its weights, but for the penalty.
    if regularizer == "none":
        np.testing.assert_allclose(moved[0], after[0], rtol=1e-6)


def test_growing_is_as_if_the_features_had_always_been_there(matching_kernel):
    """All zero columns that the first data lack: the very same steps."""
    names = ["a", "b", "c", "d", "e"]
    old, new = with_features(["a", "b", "c"], 0), with_features(["c", "d", "b", "e"], 1)

    def widened(data):
        at = [names.index(name) for name in data.query_feature_ids.tolist()]
        rows = np.zeros((data.n_queries, 5), np.float32)
        rows[:, at] = data.query_rows.toarray()
        rows = sp.csr_array(rows)
        return MatchingData(
            rows,
            rows,
            labels=(data.labels[0],) * 2,
            query_feature_ids=names,
            document_feature_ids=names,
            queries_are_documents=True,
        )

    model = "bilinear:initial=zero,dtype=float64"
    grown = ranker(matching_kernel, model=model).partial_fit(old, steps=40)
    wide = ranker(matching_kernel, model=model).partial_fit(widened(old), steps=40)
    grown.partial_fit(new, steps=40)
    wide.partial_fit(widened(new), steps=40)
    np.testing.assert_allclose(
        grown.model_.weights.toarray(), wide.model_.weights.toarray(), rtol=1e-9, atol=1e-12
    )


def test_groups_cannot_grow(matching_kernel):
    old, new = with_features(["a", "b"], 0), with_features(["b", "c"], 1)
    for regularizer in ("group-l1", "group-l1:by=columns"):
        going = ranker(matching_kernel, regularizer).partial_fit(old, steps=20)
        twin = ranker(matching_kernel, regularizer).partial_fit(old, steps=20)
        scores = going.predict(old)
        with pytest.raises(CombinationError, match=r"group-l1.*features cannot be added"):
            going.partial_fit(new, steps=20)
        # A refusal changes nothing: it goes on with what it knows.
        assert np.array_equal(going.predict(old), scores)
        assert bits(going.partial_fit(old, steps=20)) == bits(twin.partial_fit(old, steps=20))


def test_other_data_with_the_same_features(matching_kernel, make_matching):
    one, other = make_matching(1), make_matching(2, n_queries=5, n_documents=9)
    going = ranker(matching_kernel).partial_fit(one, steps=30).partial_fit(other, steps=30)
    assert going.history_[-1]["steps"] == 60
    # By hand: the draws of a step are its own, whatever the data.
    by_hand = ranker(matching_kernel)
    for data, first in ((one, 0), (other, 30)):
        tuples = matching_kernel.sampling.sample_triplets(positive_lists(data), 3, first, 30)
        by_hand.partial_fit(data, triplets=tuples)
    assert bits(by_hand) == bits(going)


# --- after fit, load and pickle -----------------------------------------------------------------


def test_it_goes_on_after_a_fit(matching_kernel, make_matching):
    data = make_matching(1)
    fitted = ranker(matching_kernel, max_steps=60).fit(data)
    fitted.partial_fit(data, steps=60)
    whole = ranker(matching_kernel).fit(data)
    # Draws, rates and the penalty that is not yet due go on where they were.
    np.testing.assert_allclose(
        fitted.model_.weights.toarray(), whole.model_.weights.toarray(), rtol=1e-5, atol=1e-6
    )
    assert [row["steps"] for row in fitted.history_] == [60, 120]
    assert [row["epoch"] for row in fitted.history_] == [1, 2]


@pytest.mark.parametrize("how", ["load", "pickle"])
def test_it_goes_on_after_it_has_travelled(matching_kernel, make_matching, tmp_path, how):
    data = make_matching(1)
    going = ranker(matching_kernel).partial_fit(data, steps=60)
    if how == "load":
        going.save(tmp_path / "model")
        other = Ranker.load(tmp_path / "model", kernel=matching_kernel)
    else:
        other = pickle.loads(pickle.dumps(going))
    assert np.array_equal(other.predict(data), going.predict(data))
    other.partial_fit(data, steps=60)
    going.partial_fit(data, steps=60)
    np.testing.assert_allclose(
        other.model_.weights.toarray(), going.model_.weights.toarray(), rtol=1e-5, atol=1e-6
    )
    assert other.history_[-1]["steps"] == 120
    # What came of it can be kept again.
    other.save(tmp_path / "again")
    again = Ranker.load(tmp_path / "again", kernel=matching_kernel)
    assert np.array_equal(again.predict(data), other.predict(data))


def test_a_loaded_model_takes_new_features(matching_kernel, tmp_path):
    old, new = with_features(["a", "b"], 0), with_features(["b", "c"], 1)
    ranker(matching_kernel).fit(old).save(tmp_path / "model")
    loaded = Ranker.load(tmp_path / "model", kernel=matching_kernel)
    scores = loaded.predict(old)
    loaded.partial_fit(new, steps=0)
    np.testing.assert_allclose(loaded.predict(old), scores, rtol=1e-6)
    loaded.partial_fit(new, steps=30)
    assert loaded.model_.query_feature_ids.tolist() == ["a", "b", "c"]


def test_fit_starts_from_scratch(matching_kernel, make_matching):
    data = make_matching(1)
    going = ranker(matching_kernel).partial_fit(data, steps=60)
    assert bits(going.fit(data)) == bits(ranker(matching_kernel).fit(data))
    assert len(going.history_) == 1


def test_texts_go_on_with_their_words(matching_kernel):
    first = TextCollection(
        ["q", "r"], ["wing flow", "heat"], ["a", "b"], ["wing", "heat flow"], np.eye(2)
    )
    later = TextCollection(
        ["s", "t"], ["flow", "wing"], ["c", "d"], ["flow flow", "wing heat"], np.eye(2)
    )
    going = ranker(matching_kernel).partial_fit(first, steps=10)
    words = going.text_.feature_names
    going.partial_fit(later, steps=10)
    assert going.model_.query_feature_ids.tolist() == words
    assert going.history_[-1]["steps"] == 20


# --- refusals -----------------------------------------------------------------------------------


def test_what_needs_an_end_is_refused(matching_kernel, make_matching, judged):
    data = make_matching(1)
    with pytest.raises(CombinationError, match="refit=true needs a fixed number of steps"):
        ranker(matching_kernel, refit="true").partial_fit(data)
    with pytest.raises(CombinationError, match="target density needs a fixed number of steps"):
        ranker(matching_kernel, "l1:density=0.1").partial_fit(data)
    with pytest.raises(CombinationError, match="no partial_fit; use sgd"):
        Ranker(loss="domination").partial_fit(judged)


@pytest.mark.parametrize(
    "tuples",
    [
        [[0, 1]],
        [0, 1, 2],
        [[0, 1, 2, 3]],
        [[0.0, 1.0, 2.0]],
        [["a", "b", "c"]],
        [[8, 1, 2]],
        [[0, 14, 2]],
        [[0, 1, -1]],
    ],
)
def test_bad_triplets_are_refused(matching_kernel, make_matching, tuples):
    data = make_matching(1)
    going = ranker(matching_kernel).partial_fit(data, steps=20)
    twin = ranker(matching_kernel).partial_fit(data, steps=20)
    with pytest.raises(DataError, match="triplets"):
        going.partial_fit(data, triplets=tuples)
    assert bits(going.partial_fit(data, steps=20)) == bits(twin.partial_fit(data, steps=20))


def test_bad_calls_are_refused(matching_kernel, make_matching, judged):
    data = make_matching(1)
    going = ranker(matching_kernel).partial_fit(data, steps=5)
    with pytest.raises(DataError, match="scores queries and documents"):
        going.partial_fit(judged)
    with pytest.raises(DataError, match="these are texts"):
        going.partial_fit(TextCollection(["q"], ["a"], ["d"], ["a"], [[1]]))
    for draws in (-1, 2.5, "many"):
        with pytest.raises(PartError, match="steps"):
            going.partial_fit(data, steps=draws)
    with pytest.raises(PartError, match="triplets or steps"):
        going.partial_fit(data, triplets=[[0, 1, 2]], steps=3)
    with pytest.raises(PartError, match="called like"):
        going.partial_fit(with_features(["a", "b"], 0))
    assert going.partial_fit(data, steps=5).history_[-1]["steps"] == 10


def test_the_users_model_stays_as_it_is(matching_kernel, make_matching):
    model = Bilinear()
    ranker(matching_kernel, model=model).partial_fit(make_matching(1), steps=5)
    assert model.query_feature_ids.size == 0
