"""`Ranker`: scikit-learn's conventions, names or objects, saving, and errors that help."""

from __future__ import annotations

import pickle
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold

from ranking import JudgedLists, Ranker
from ranking.errors import CombinationError, DataError, DataWarning, ModelFileError, PartError
from ranking.models.linear import Linear
from ranking_plugins.callbacks import EarlyStopping
from ranking_plugins.losses import Domination
from ranking_plugins.regularizers import L1, L2
from ranking_plugins.solvers import Coordinate


def arrays(data: JudgedLists) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.array(data.features), np.array(data.grades), data.query_ids[data.row_groups]


def test_names_specs_and_objects_mean_the_same(judged):
    fitted = [
        Ranker(loss="domination", regularizer="l2:strength=0.1").fit(judged),
        Ranker(loss=Domination(), regularizer=L2(0.1)).fit(judged),
        Ranker("linear", "domination", L2(0.1), Coordinate()).fit(judged),
    ]
    for ranker in fitted[1:]:
        assert ranker.model_.weights.tobytes() == fitted[0].model_.weights.tobytes()


def test_judged_lists_and_arrays_give_the_same_model(judged):
    X, y, qid = arrays(judged)
    order = np.random.default_rng(0).permutation(len(y))
    one = Ranker(loss="domination", regularizer=L2(0.1)).fit(judged)
    other = Ranker(loss="domination", regularizer=L2(0.1)).fit(X[order], y[order], qid=qid[order])
    np.testing.assert_allclose(one.model_.weights, other.model_.weights, atol=1e-3)
    np.testing.assert_allclose(other.predict(X), X @ other.model_.weights)


def test_sparse_and_dense_features_mean_the_same(judged):
    X, y, qid = arrays(judged)
    X[X < 0] = 0.0
    ranker = Ranker(loss="domination", regularizer=L2(0.1), solver=Coordinate(tolerance=1e-12))
    dense = clone(ranker).fit(X, y, qid=qid)
    sparse = clone(ranker).fit(sp.csr_array(X), y, qid=qid)
    np.testing.assert_allclose(dense.model_.weights, sparse.model_.weights, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(sparse.predict(sp.csr_array(X)), sparse.predict(X))


def test_scikit_learn_conventions(judged):
    ranker = Ranker(loss="domination", regularizer=L2(0.1), random_state=3)
    assert ranker.get_params()["regularizer__strength"] == 0.1
    copy = clone(ranker)
    assert copy is not ranker
    assert copy.regularizer == L2(0.1)
    assert copy.random_state == 3
    copy.set_params(regularizer__strength=0.5)
    assert copy.regularizer.strength == 0.5
    assert ranker.regularizer.strength == 0.1
    with pytest.raises(NotFittedError):
        ranker.predict(judged)
    assert ranker.fit(judged) is ranker
    assert ranker.n_features_in_ == judged.n_features
    assert "Ranker" in repr(ranker)


def test_grid_search_by_query(judged):
    X, y, qid = arrays(judged)
    grid = GridSearchCV(
        Ranker(loss="domination", regularizer=L2()),
        {"regularizer__strength": [0.01, 1.0]},
        scoring=lambda ranker, X, y: float(np.corrcoef(ranker.predict(X), y)[0, 1]),
        cv=GroupKFold(3),
    )
    grid.fit(X, y, groups=qid, qid=qid)
    assert grid.best_params_["regularizer__strength"] in (0.01, 1.0)


def test_score_is_a_metric(judged):
    ranker = Ranker(loss="domination", regularizer=L2(0.01)).fit(judged)
    assert ranker.score(judged) > 0.7
    assert ranker.score(judged, metric="map") != ranker.score(judged)


def test_the_objective_falls_in_every_epoch(judged):
    ranker = Ranker(loss="domination", regularizer=L1(0.01)).fit(judged)
    objectives = [row["objective"] for row in ranker.history_]
    assert ranker.stopped_ == "converged"
    assert all(b <= a for a, b in pairwise(objectives))


def test_l1_gives_sparse_weights(judged):
    weights = Ranker(loss="domination", regularizer=L1(0.1)).fit(judged).model_.weights
    assert 0 < np.count_nonzero(weights) < weights.size


@pytest.mark.parametrize("features", ["dense", "sparse"])
def test_a_saved_ranker_scores_as_before(judged, valid, tmp_path, features):
    X, y, qid = arrays(judged)
    X = sp.csr_array(X) if features == "sparse" else X
    ranker = Ranker(loss="domination", regularizer=L2(0.1), random_state=5).fit(X, y, qid=qid)
    ranker.save(tmp_path / "model")
    loaded = Ranker.load(tmp_path / "model")
    assert loaded.predict(valid).tobytes() == ranker.predict(valid).tobytes()
    assert loaded.get_params()["regularizer"] == "l2:strength=0.1"
    assert (loaded.random_state, loaded.n_iter_, loaded.stopped_) == (
        5,
        ranker.n_iter_,
        ranker.stopped_,
    )
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()
    assert clone(loaded).fit(judged).regularizer_ == L2(0.1)


def test_a_file_that_needs_another_package_names_it(judged, tmp_path):
    ranker = Ranker(loss="domination").fit(judged)
    ranker.description_["parts"]["model"].update(spec="forest", distribution="ranking-forest")
    ranker.save(tmp_path / "model")
    with pytest.raises(ModelFileError, match="ranking-forest"):
        Ranker.load(tmp_path / "model")


@pytest.mark.parametrize("what", ["schema_version", "parts", "training"])
def test_a_file_without_its_description_is_refused(judged, tmp_path, what):
    ranker = Ranker(loss="domination").fit(judged)
    del ranker.description_[what]
    ranker.save(tmp_path / "model")
    with pytest.raises(ModelFileError, match=what):
        Ranker.load(tmp_path / "model")


def test_a_newer_format_is_refused(judged, tmp_path):
    ranker = Ranker(loss="domination").fit(judged)
    ranker.description_["schema_version"] = 99
    ranker.save(tmp_path / "model")
    with pytest.raises(ModelFileError, match="update ranking"):
        Ranker.load(tmp_path / "model")


def test_tensors_that_do_not_fit_the_model_are_refused(judged, tmp_path):
    ranker = Ranker(loss="domination").fit(judged)
    ranker.model_.weights = ranker.model_.weights[:-1]
    ranker.save(tmp_path / "model")
    with pytest.raises(ModelFileError, match="one length"):
        Ranker.load(tmp_path / "model")


def test_a_long_history_is_kept(judged, tmp_path):
    ranker = Ranker(loss="domination").fit(judged)
    row = {"objective": 1.0, "ndcg@10": 0.5}
    ranker.history_ = [{"epoch": epoch, **row} for epoch in range(1, 100_001)]
    ranker.save(tmp_path / "model")
    assert Ranker.load(tmp_path / "model").history_ == ranker.history_


def test_ranker_is_picklable(judged):
    ranker = Ranker(loss="domination", regularizer=L2(0.1)).fit(judged)
    copied = pickle.loads(pickle.dumps(ranker))
    assert copied.predict(judged).tobytes() == ranker.predict(judged).tobytes()


def test_parts_given_as_objects_do_not_change(judged, valid):
    model, regularizer = Linear(), L2(0.1)
    one = Ranker(model, "domination", regularizer, "coordinate").fit(judged)
    before = one.predict(judged)
    Ranker(model, "domination", regularizer, "coordinate").fit(valid)
    assert one.predict(judged).tobytes() == before.tobytes()
    assert model.weights.size == 0


def test_numbers_of_numpy_are_numbers(judged):
    solver = Coordinate(max_epochs=np.int64(3), tolerance=np.float64(0.0))
    fitted = Ranker(loss="domination", regularizer=L2(np.float32(0.5)), solver=solver).fit(judged)
    assert fitted.n_iter_ <= 3


def test_callbacks_of_one_name_are_refused(judged, valid):
    twice = [EarlyStopping(), EarlyStopping()]
    with pytest.raises(PartError, match="same name"):
        Ranker(loss="domination", callbacks=twice).fit(judged, valid=valid)


def test_a_missing_folder_is_named(judged, tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere does not exist"):
        Ranker(loss="domination").fit(judged).save(tmp_path / "nowhere" / "model")


def test_errors_that_help(judged):
    X, y, qid = arrays(judged)
    with pytest.raises(PartError, match="loss is missing; available losses: domination"):
        Ranker().fit(judged)
    with pytest.raises(PartError, match="Did you mean 'l2'"):
        Ranker(loss="domination", regularizer="l22").fit(judged)
    with pytest.raises(PartError, match="which is not a Regularizer"):
        Ranker(loss="domination", regularizer=3.0).fit(judged)
    with pytest.warns(DataWarning, match="qid .* is missing, so all .* one query"):
        Ranker(loss="domination").fit(X, y)
    with pytest.raises(DataError, match="grades"):
        Ranker(loss="domination").fit(X)
    with pytest.raises(DataError, match="leave y and qid out"):
        Ranker(loss="domination").fit(judged, y, qid=qid)
    with pytest.raises(DataError, match="two different grades"):
        Ranker(loss="domination").fit(X, np.ones_like(y), qid=qid)
    with pytest.raises(DataError, match="expecting 6"):
        Ranker(loss="domination").fit(judged).predict(X[:, :-1])
    with pytest.raises(DataError, match="tuple"):
        Ranker(loss="domination").fit(judged, valid=[1, 2])


def test_parts_that_do_not_fit_are_refused_with_the_reason(judged):
    class RowPenalty(L2):
        granularity = "row"
        name = "rows"

    with pytest.raises(CombinationError, match=r"not a sum over single weights.* Try solver sgd"):
        Ranker(loss="domination", regularizer=RowPenalty(), solver="coordinate").fit(judged)


def test_early_stopping_keeps_the_best_epoch(judged, valid):
    stopping = EarlyStopping(metric="ndcg@5", patience=2)
    ranker = Ranker(
        loss="domination", solver=Coordinate(max_epochs=30, tolerance=0.0), callbacks=[stopping]
    ).fit(judged, valid=valid)
    (name,) = {key for row in ranker.history_ for key in row} - {"epoch", "objective", "decrease"}
    values = [row[name] for row in ranker.history_]
    assert stopping.best_value == max(values)
    assert stopping.best_epoch == 1 + int(np.argmax(values))
    assert ranker.score(valid, metric="ndcg@5") == max(values)
    if ranker.stopped_ == "early-stopping":
        assert len(values) - stopping.best_epoch == 2
    # The same objects serve a second fit.
    again = clone(ranker).fit(judged, valid=valid)
    assert again.history_ == ranker.history_


def test_early_stopping_without_validation_data(judged):
    with pytest.raises(PartError, match="--valid"):
        Ranker(loss="domination", callbacks=["early-stopping"]).fit(judged)


def test_parameters_of_parts_are_checked():
    with pytest.raises(PartError, match="max_epochs"):
        Coordinate(max_epochs=0)
    with pytest.raises(PartError, match="tolerance"):
        Coordinate(tolerance=-1)
    with pytest.raises(PartError, match="one of separate, pooled"):
        Domination(queries="together")
    with pytest.raises(PartError, match="patience"):
        EarlyStopping(patience=0)


def test_an_unknown_curvature_is_refused(judged):
    with pytest.raises(PartError, match="one of newton, popoviciu, paper"):
        Ranker(loss="domination", solver="coordinate:curvature=none").fit(judged)
