"""Plans and their wrappers: one interface, one trainer, and what "auto" stands for."""

from __future__ import annotations

import numpy as np
import pytest

from ranking import MatchingData, Ranker
from ranking.contracts.recipe import Search
from ranking.errors import CombinationError, DataError, PartError
from ranking.models.factored import Factored
from ranking.training.fitter import Fitter
from ranking.training.plan import TrainingPlan
from ranking.training.trainer import TrainingResult
from ranking.training.wrappers.cascade import Cascade
from ranking.training.wrappers.one_vs_rest import OneVsRest
from ranking.training.wrappers.path import RegularizationPath
from ranking.training.wrappers.per_query import PerQuery
from ranking.training.wrappers.search import ParameterSearch

LINEAR = TrainingPlan(loss="domination", regularizer="l2")
FACTORED = TrainingPlan("factored:dimensions=4", "warp", solver="sgd:epochs=1")


def bits(result: TrainingResult) -> dict[str, bytes]:
    return {name: tensor.tobytes() for name, tensor in result.model.tensors().items()}


def interactions() -> MatchingData:
    return MatchingData(None, None, np.random.default_rng(0).random((20, 15)) < 0.3)


def test_a_plan_fits_as_a_ranker_does(judged, valid):
    ranker = Ranker(loss="domination", regularizer="l2").fit(judged, valid=valid)
    result = LINEAR.fit(judged, valid)
    assert result.model.weights.tobytes() == ranker.model_.weights.tobytes()
    assert result.history == ranker.history_
    assert result.description == ranker.description_
    assert (result.objective, result.n_epochs) == (ranker.objective_, ranker.n_iter_)


def test_every_wrapper_has_the_interface_of_a_plan(judged, valid, make_tastes):
    search = Search("regularizer", "strength", (0.1, 0.01), "map")
    documents = MatchingData(None, np.random.default_rng(0).random((12, 3)), np.eye(4, 12) > 0)
    queries = MatchingData(np.random.default_rng(1).random((9, 4)), None, np.eye(9, 5) > 0)
    fits: list[tuple[Fitter, object, object]] = [
        (LINEAR, judged, valid),
        (ParameterSearch(LINEAR, search), judged, valid),
        (RegularizationPath(LINEAR, (0.1, 0.01), ["map"]), judged, valid),
        (PerQuery(LINEAR), documents, None),
        (Cascade(FACTORED, k=3), make_tastes(0), None),
    ]
    fits.append((OneVsRest(TrainingPlan(loss="hinge", regularizer="l2:strength=1")), queries, None))
    for fitter, data, held_out in fits:
        training = fitter.trainer(data, held_out)
        assert not training.finished
        training.train()
        assert training.finished
        result = training.result()
        assert isinstance(result, TrainingResult)
        assert bits(fitter.fit(data, held_out)) == bits(result)


def test_a_cascade_is_the_structured_model_of_its_base(make_tastes):
    data = make_tastes(0)
    wrapped = Cascade(FACTORED, stages=2, k=3, init="previous-stage").fit(data)
    model = "structured:dimensions=4,biases=true,stages=2,k=3,init=previous-stage"
    plain = TrainingPlan(model, "warp", solver="sgd:epochs=1").fit(data)
    assert bits(wrapped) == bits(plain)
    with pytest.raises(CombinationError, match="a cascade already"):
        Cascade(TrainingPlan(model, "warp")).fit(data)


def test_one_vs_rest_is_the_solver_of_its_name():
    data = MatchingData(np.random.default_rng(1).random((9, 4)), None, np.eye(9, 5) > 0)
    plan = TrainingPlan(loss="hinge", regularizer="l2:strength=1")
    wrapped = OneVsRest(plan, max_iterations=7).fit(data)
    solver = "one-vs-rest:max_iterations=7"
    plain = TrainingPlan("bilinear", "hinge", "l2:strength=1", solver).fit(data)
    assert bits(wrapped) == bits(plain)


def test_a_search_without_validation_data_is_refused(judged):
    search = Search("regularizer", "strength", (0.1,), "map")
    with pytest.raises(DataError, match="validation data"):
        ParameterSearch(LINEAR, search).fit(judged)
    with pytest.raises(DataError, match="judged rows"):
        PerQuery(LINEAR).fit(judged)


@pytest.mark.parametrize("loss", ["warp", "bpr", "hinge", "logistic"])
def test_auto_takes_embeddings_for_interactions(loss):
    """A matrix would have one free weight per pair, which no other pair informs."""
    model, _, _, solver = TrainingPlan(loss=loss).resolve(interactions())
    assert isinstance(model, Factored)
    assert solver.name == "sgd"


def test_auto_takes_a_matrix_for_features_of_both_sides(make_matching):
    assert TrainingPlan(loss="hinge").resolve(make_matching(0))[0].name == "bilinear"


def test_a_misspelt_parameter_is_reported_once():
    for parts in ({"solver": "sgd:epoch=3"}, {"model": "factored:dimension=3"}):
        with pytest.raises(PartError) as error:
            TrainingPlan(loss="warp", **parts).resolve(interactions())
        assert str(error.value).count("has no parameter") == 1


@pytest.mark.parametrize("threads", [-1, 0, 1.5, None, True, "2"])
def test_threads_are_checked(threads):
    with pytest.raises(PartError, match="threads is"):
        TrainingPlan(loss="hinge", threads=threads)


@pytest.mark.parametrize("seed", [-1, 2.5, None, True, "2", 2**64])
def test_the_seed_is_checked(seed):
    with pytest.raises(PartError, match="random_state is"):
        TrainingPlan(loss="hinge", random_state=seed)


def test_the_callers_parts_stay_as_they_are(judged):
    model, *_ = LINEAR.resolve(judged)
    plan = TrainingPlan(model, "domination", "l2")
    result = plan.fit(judged)
    assert result.model is not model
    assert not model.weights.size


@pytest.mark.slow
def test_lower_layers_do_not_import_the_facade():
    """Models, training, inference and files work without the module of `Ranker`."""
    import subprocess
    import sys

    code = (
        "import sys, ranking.training.plan, ranking.io.model_file, ranking.models.structured;"
        "assert 'ranking.ranker' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
