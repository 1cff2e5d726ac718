"""A ranker of queries and documents keeps scikit-learn's conventions."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import ParameterGrid

from ranking import MatchingData, Ranker
from ranking.data.text.features import TextFeatures
from ranking.data.text_collection import TextCollection
from ranking.errors import DataError, PartError
from ranking.kernels.bilinear import BilinearWeights
from ranking.models.bilinear import Bilinear
from ranking_plugins.losses import WARP, Hinge
from ranking_plugins.regularizers import L1
from ranking_plugins.solvers import SGD


def texts():
    return TextCollection(
        ["q", "r"], ["wing flow", "heat"], ["a", "b", "c"], ["wing", "heat flow", "layer"],
        [[1, 0, 0], [0, 1, 0]],
    )  # fmt: skip


def bits(fitted):
    return fitted.model_.weights.toarray().tobytes()


def test_names_specs_and_objects_mean_the_same(matching_kernel, make_matching):
    data = make_matching(1)
    solver = "sgd:max_steps=40,learning_rate=0.5"
    rankers = [
        Ranker(loss="hinge", regularizer="l1:strength=0.01", solver=solver),
        Ranker("bilinear", Hinge(), L1(0.01), SGD(max_steps=40, learning_rate=0.5)),
        Ranker(
            Bilinear(),
            Hinge(),
            L1(np.float64(0.01)),
            SGD(max_steps=np.int64(40), learning_rate=0.5),
        ),
    ]
    fitted = [ranker.set_params(kernel=matching_kernel).fit(data) for ranker in rankers]
    assert len({bits(ranker) for ranker in fitted}) == 1
    assert isinstance(fitted[0].model_, Bilinear)
    assert isinstance(fitted[0].solver_, SGD)


def test_auto_goes_by_the_data(matching_kernel, make_matching, judged):
    fitted = Ranker(loss="hinge", kernel=matching_kernel, solver="sgd:max_steps=5").fit(
        make_matching(1)
    )
    assert (fitted.model_.name, fitted.solver_.name) == ("bilinear", "sgd")
    fitted = Ranker(loss="domination").fit(judged)
    assert (fitted.model_.name, fitted.solver_.name) == ("linear", "coordinate")
    fitted = Ranker(loss="hinge").fit(judged)
    assert (fitted.model_.name, fitted.solver_.name) == ("linear", "coordinate")
    fitted = Ranker(loss="warp").fit(judged)
    assert (fitted.model_.name, fitted.solver_.name) == ("linear", "sgd")
    with pytest.raises(PartError, match=r"no model and solver fit loss 'squared'.* Try loss"):
        Ranker(loss="squared").fit(judged)
    fitted = Ranker(loss="domination", kernel=matching_kernel, solver="sgd:max_steps=5").fit(
        make_matching(1)
    )
    assert (fitted.model_.name, fitted.solver_.name) == ("bilinear", "sgd")
    # Only embeddings can be orthonormal.
    plan = Ranker(loss="hinge", regularizer="orthonormal").plan()
    model, _, _, solver = plan.resolve(make_matching(1))
    assert (model.name, solver.name) == ("factored", "sgd")


def test_parameters_reach_inside(matching_kernel):
    ranker = Ranker(
        Bilinear(), WARP(), L1(), SGD(), kernel=matching_kernel, features=TextFeatures(words=5)
    )
    params = ranker.get_params()
    assert params["features__words"] == 5
    assert params["solver__learning_rate"] == "auto"
    assert params["model__dtype"] == "float32"
    assert params["loss__max_trials"] == 30
    copied = clone(ranker)
    assert copied.features == ranker.features
    assert copied.features is not ranker.features
    copied.set_params(features__words=2, solver__max_steps=7, regularizer__density=0.1)
    assert (copied.features.words, copied.solver.max_steps) == (2, 7)
    assert (ranker.features.words, ranker.solver.max_steps, ranker.regularizer.density) == (
        5,
        "auto",
        0,
    )
    with pytest.raises(PartError, match="density"):
        copied.set_params(regularizer__density=2.0)
    assert Ranker(features="text:words=3").get_params()["features"] == "text:words=3"


def test_clone_is_not_fitted(matching_kernel, make_matching):
    data = make_matching(1)
    ranker = Ranker(loss="hinge", solver="sgd:max_steps=20", kernel=matching_kernel).fit(data)
    copied = clone(ranker)
    for call in (copied.predict, copied.rank, copied.score):
        with pytest.raises(NotFittedError):
            call(data)
    with pytest.raises(NotFittedError):
        copied.search(["a"])
    with pytest.raises(NotFittedError):
        copied.save("nowhere")
    assert bits(copied.fit(data)) == bits(ranker)
    assert repr(copied).startswith("Ranker(")


def test_a_grid_of_parameters(matching_kernel, make_matching):
    data, valid = make_matching(1), make_matching(2)
    ranker = Ranker("bilinear", "hinge", L1(), SGD(max_steps=30), kernel=matching_kernel)
    grid = ParameterGrid(
        {"solver__learning_rate": [0.1, 1.0], "regularizer__strength": [0.0, 0.05]}
    )
    result = {}
    for params in grid:
        fitted = clone(ranker).set_params(**params).fit(data)
        assert fitted.solver_.learning_rate == params["solver__learning_rate"]
        result[str(params)] = fitted.score(valid, metric="map")
    assert len(result) == 4
    assert all(0.0 <= value <= 1.0 for value in result.values())


@pytest.mark.parametrize("how", ["fit", "partial_fit"])
def test_ranker_is_picklable(matching_kernel, make_matching, how):
    data = make_matching(1)
    ranker = Ranker(loss="hinge", solver="sgd:max_steps=20", kernel=matching_kernel)
    getattr(ranker, how)(data)
    for copied in (pickle.loads(pickle.dumps(ranker)), copy.deepcopy(ranker)):
        assert copied.predict(data).tobytes() == ranker.predict(data).tobytes()
        assert copied.history_ == ranker.history_
        assert copied.kernel_.name == matching_kernel.name
    # The original continues as before.
    assert ranker.partial_fit(data, steps=5).history_[-1]["steps"] == 25


def test_ranker_of_texts_is_picklable(matching_kernel):
    ranker = Ranker(loss="hinge", solver="sgd:max_steps=20", kernel=matching_kernel).fit(texts())
    copied = pickle.loads(pickle.dumps(ranker))
    assert copied.search(["wing"]) == ranker.search(["wing"])


def test_model_in_training_is_picklable(matching_kernel, make_matching):
    data = make_matching(1)
    model = Bilinear()
    model.initialize(data, 0, matching_kernel)
    model.follow(BilinearWeights(matching_kernel, model.weights * 2))
    copied = pickle.loads(pickle.dumps(model))
    assert np.array_equal(copied.weights.toarray(), 2 * np.eye(9))
    assert np.array_equal(model.weights.toarray(), 2 * np.eye(9))


def test_random_state_decides_the_model(matching_kernel, make_matching):
    data = make_matching(1)
    result = [
        Ranker(
            loss="hinge", solver="sgd:max_steps=20", kernel=matching_kernel, random_state=seed
        ).fit(data)
        for seed in (1, 1, 2)
    ]
    assert bits(result[0]) == bits(result[1]) != bits(result[2])


def test_dense_and_sparse_rows_mean_the_same(matching_kernel, make_matching):
    data = make_matching(1)
    dense = MatchingData(
        data.query_rows.toarray(), data.document_rows.toarray(), labels=data.labels
    )
    ranker = Ranker(loss="hinge", solver="sgd:max_steps=30,learning_rate=1", kernel=matching_kernel)
    assert bits(clone(ranker).fit(data)) == bits(clone(ranker).fit(dense))


def test_interactions_without_features_are_learned(matching_kernel):
    relevance = np.kron(np.eye(2), np.ones((3, 4)))
    relevance[0, 0] = 0.0
    data = MatchingData(None, None, relevance)
    ranker = Ranker(
        "bilinear:initial=zero",
        "bpr",
        solver="sgd:max_steps=400,learning_rate=1",
        kernel=matching_kernel,
    ).fit(data)
    assert ranker.score(data, metric="map") > 0.95


def test_validation_data_of_the_kind(matching_kernel):
    ranker = Ranker(
        loss="hinge",
        solver="sgd:max_steps=20,steps_per_epoch=5,learning_rate=1",
        kernel=matching_kernel,
        callbacks=["early-stopping:metric=map,patience=2"],
    )
    ranker.fit(texts(), valid=texts())
    assert any(key.startswith("map") for key in ranker.history_[0])
    with pytest.raises(DataError, match="kind of X"):
        ranker.fit(texts(), valid=[texts()])


def test_grades_beside_data_that_bring_their_own(matching_kernel, make_matching):
    with pytest.raises(DataError, match="a MatchingData brings its own"):
        Ranker(loss="hinge", kernel=matching_kernel).fit(make_matching(1), [1, 2])
    with pytest.raises(DataError, match="a TextCollection brings its own"):
        Ranker(loss="hinge", kernel=matching_kernel).fit(texts(), qid=[1, 2])


def test_judged_rows_for_validation_are_refused(matching_kernel, make_matching, judged):
    ranker = Ranker(
        loss="hinge",
        solver="sgd:max_steps=20,steps_per_epoch=5",
        kernel=matching_kernel,
        callbacks=["early-stopping"],
    )
    with pytest.raises(DataError, match="scores queries and documents"):
        ranker.fit(make_matching(1), valid=judged)


def test_a_failed_fit_leaves_what_was_fitted(matching_kernel, make_matching):
    ranker = Ranker(loss="hinge", solver="sgd:max_steps=20", kernel=matching_kernel).fit(texts())
    before = ranker.search(["wing"])
    hopeless = TextCollection(["q"], ["other words"], ["a"], ["other texts"], [[1]])
    with pytest.raises(DataError, match="nothing to learn from"):
        ranker.fit(hopeless)
    assert ranker.search(["wing"]) == before


def test_score_excludes_known_positives(matching_kernel, judged):
    known = MatchingData(None, None, [[1, 0, 0, 0], [0, 1, 0, 0]])
    data = MatchingData(None, None, [[0, 1, 0, 0], [0, 1, 0, 1]])
    ranker = Ranker(
        "bilinear",
        "hinge",
        solver="sgd:max_steps=200,learning_rate=0.5",
        kernel=matching_kernel.name,
    )
    ranker.fit(MatchingData(None, None, [[2, 1, 0, 0], [0, 2, 0, 0]]))
    ranker.model_.weights = sp.csr_array(
        np.array([[4.0, 3.0, 2.0, 1.0], [1.0, 4.0, 3.0, 2.0]], np.float32)
    )
    # By hand: the positive of query 0 is second, or first without document 0.
    assert ranker.score(data, metric="mrr") == (0.5 + 1.0) / 2
    assert ranker.score(data, metric="mrr", exclude=known) == 1.0
    assert ranker.score(data, metric="p@2", exclude=known) == (1 / 2 + 1 / 2) / 2
    linear = Ranker(loss="domination").fit(judged)
    with pytest.raises(DataError, match="exclude is for queries and documents"):
        linear.score(judged, exclude=known)
