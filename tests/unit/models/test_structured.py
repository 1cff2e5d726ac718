"""Latent structured ranking: stages, their lists and their sums, against dense products."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from ranking import MatchingData, Ranker
from ranking.contracts.callback import Callback
from ranking.contracts.solver import TrainingProblem
from ranking.errors import DataError, ModelFileError, PartError
from ranking.inference.retrieval import top_k
from ranking.kernels.select import get_kernel
from ranking.models.factored import Factored
from ranking.models.list_inference import choose_jointly, place_first
from ranking.models.structured import Structured
from ranking.registry import get_registry
from ranking_plugins.callbacks import EarlyStopping
from ranking_plugins.losses import WARP, Logistic
from ranking_plugins.regularizers import MaxNorm, NoPenalty
from ranking_plugins.solvers import SGD
from ranking_plugins.solvers.settings import sampling_lists

SEED = 3
SIDES = ["none", "queries", "documents", "both"]


def ranker(kernel, model=None, loss="warp:max_trials=3", regularizer="none", **options):
    callbacks = options.pop("callbacks", ())
    solver = {
        "max_steps": 40,
        "steps_per_epoch": 20,
        "learning_rate": 0.3,
        "batch_size": 8,
        **options,
    }
    model = Structured(5, stages=2, k=3) if model is None else model
    return Ranker(
        model,
        loss,
        regularizer,
        SGD(**solver),
        kernel=kernel,
        random_state=SEED,
        callbacks=callbacks,
    )


def bits(model):
    return b"".join(
        name.encode() + tensor.tobytes() for name, tensor in sorted(model.tensors().items())
    )


def staged(data, stages, kernel=None, **params):
    """A model with random vectors in all stages, untrained."""
    params = {"k": 3, "init_scale": 1.0, **params}
    model = Structured(5, stages=stages, **params)
    model.initialize(data, SEED, kernel or get_kernel())
    while model.stage < stages:
        assert model.next_stage(data, kernel or get_kernel("reference"))
    return model


def dense(matrix, dimensions):
    return matrix[:, :dimensions].astype(np.float64)


def lists_by_sorting(scores, data, k):
    result = []
    for query, row in enumerate(scores):
        itself = None if data.own_document is None else data.own_document[query]
        others = [d for d in range(data.n_documents) if d != itself]
        result.append(sorted(others, key=lambda d: (-row[d], data.document_ids[d]))[:k])
    return result


def by_formula(model, data):
    """q'U'V d + sum_j (1/j) d'S'S d_j, with d_j the list of the stage before; dense."""
    q = data.query_rows.toarray().astype(np.float64)
    d = data.document_rows.toarray().astype(np.float64)
    n = model.dimensions
    scores = (q @ dense(model.U, n)) @ (d @ dense(model.V, n)).T
    if model.document_biases.size:
        scores += d @ model.document_biases.astype(np.float64)
    if model.stage:
        before = by_formula(model.at_stage(model.stage - 1), data)
        fits = d @ dense(model.S, n)
        for query, result in enumerate(lists_by_sorting(before, data, model.k)):
            for j, document in enumerate(result, start=1):
                scores[query] += (1.0 / j) * (fits @ fits[document])
    return scores


# --- scores -------------------------------------------------------------------------------------


@pytest.mark.parametrize("features", SIDES)
@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("stages", [1, 2])
def test_a_stage_is_the_formula(factored_kernel, make_tastes, features, biases, stages):
    data = make_tastes(2, features=features)
    model = staged(data, stages, biases=biases)
    if biases:
        rng = np.random.default_rng(0)
        model.document_biases = rng.normal(size=data.n_document_features).astype(np.float32)
    for stage in range(stages + 1):
        at = model.at_stage(stage)
        scores = at.scores(data, factored_kernel)
        np.testing.assert_allclose(scores, by_formula(at, data), rtol=1e-4, atol=1e-5)
    assert model.at_stage(stages) is model
    embedding = model.embedding(data, factored_kernel)
    products = embedding.queries.astype(float) @ embedding.documents.T.astype(float)
    products += embedding.biases if biases else 0.0
    np.testing.assert_allclose(products, scores, rtol=1e-4, atol=1e-5)


def test_a_query_is_not_in_its_own_list(factored_kernel, make_matching):
    data = make_matching(3, queries_are_documents=True, kind="grades")
    model = staged(data, 2, k=4)
    np.testing.assert_allclose(
        model.scores(data, factored_kernel), by_formula(model, data), rtol=1e-4, atol=1e-5
    )


def test_fewer_documents_than_places(factored_kernel, make_tastes):
    data = make_tastes(2, 4, 3)
    model = staged(data, 1, k=50)
    np.testing.assert_allclose(
        model.scores(data, factored_kernel), by_formula(model, data), rtol=1e-4, atol=1e-5
    )


def test_lists_are_those_of_the_stage_before(factored_kernel, make_tastes):
    """A stage looks at the lists for the queries at hand, also for those that are new to it."""
    data, other = make_tastes(2, features="both"), make_tastes(9, 5, 15, features="both")
    model = staged(data, 1)
    names = [f"q{i}" for i in range(5)]
    new = MatchingData(
        other.queries,
        other.documents,
        other.relevance,
        query_ids=names,
        query_feature_ids=other.query_feature_ids,
        document_feature_ids=other.document_feature_ids,
    )
    matrix = MatchingData(
        sp.csr_array(np.pad(other.queries.toarray(), ((0, 0), (0, 7)))[:, : data.n_query_features]),
        other.documents,
        other.relevance,
    )
    scores = model.scores(new, factored_kernel)
    np.testing.assert_allclose(scores, by_formula(model, matrix), rtol=1e-4, atol=1e-5)


# --- stages -------------------------------------------------------------------------------------


def test_each_stage_has_its_own_embeddings(make_tastes):
    model = staged(make_tastes(2), 2)
    sample = [model.at_stage(0).U, model.at_stage(0).V]
    sample += [model.at_stage(1).U, model.at_stage(1).V, model.at_stage(1).S]
    sample += [model.U, model.V, model.S]
    every = np.concatenate([matrix[:, :5].ravel() for matrix in sample])
    assert np.unique(every).size == every.size
    assert model.at_stage(0).S.shape == (0, 8)
    assert abs(model.S[:, :5].std() * np.sqrt(5) - 1.0) < 0.3
    assert not model.S[:, 5:].any()
    # Stage 0 begins as the factored model does.
    plain = Factored(5, init_scale=1.0)
    plain.initialize(make_tastes(2), SEED, get_kernel())
    assert model.at_stage(0).U.tobytes() == plain.U.tobytes()


def test_all_stages_have_the_spread(make_tastes):
    data, wider = make_tastes(2, 6, 8), make_tastes(2, 12, 15)
    plain, small = staged(data, 2), staged(data, 2, init_scale=0.25)
    for model in (plain, small):
        model.add_features(wider, get_kernel())
    for stage in range(3):
        one, other = plain.at_stage(stage), small.at_stage(stage)
        assert np.array_equal(other.U, 0.25 * one.U)
        assert np.array_equal(other.S, 0.25 * one.S)
    assert small.S.shape == (15, 8)
    assert small.S.any()


def test_training_ends_after_the_last_stage(make_tastes):
    data = make_tastes(2)
    model = staged(data, 2)
    before = bits(model)
    assert not model.next_stage(data, get_kernel("reference"))
    assert bits(model) == before
    assert model.stage == 2
    for stage in (-1, 3):
        with pytest.raises(PartError, match=f"stage is {stage}; this model has 0 to 2"):
            model.at_stage(stage)
    model.initialize(data, 0, get_kernel())
    assert model.stage == 0
    assert model.S.shape == (0, 8)


def test_a_fit_goes_through_all_stages(factored_kernel, make_tastes):
    data = make_tastes(1)
    fitted = ranker(factored_kernel).fit(data)
    assert fitted.model_.stage == 2
    assert [row["epoch"] for row in fitted.history_] == [1, 2, 3, 4, 5, 6]
    assert [row["steps"] for row in fitted.history_] == [20, 40] * 3
    assert (fitted.n_iter_, fitted.stopped_) == (6, "max_epochs")
    np.testing.assert_allclose(
        fitted.predict(data), by_formula(fitted.model_, data), rtol=1e-4, atol=1e-5
    )
    # Stage 0 is the factored model, trained with the same tuples.
    plain = ranker(factored_kernel, Factored(5, biases=False)).fit(data)
    first = fitted.model_.at_stage(0)
    assert first.U.tobytes() == plain.model_.U.tobytes()
    assert first.scores(data, factored_kernel).tobytes() == plain.predict(data).tobytes()
    # And stage 1 what a shorter cascade comes to.
    shorter = ranker(factored_kernel, Structured(5, stages=1, k=3)).fit(data)
    second = fitted.model_.at_stage(1)
    assert second.scores(data, factored_kernel).tobytes() == shorter.predict(data).tobytes()


def test_a_stage_samples_other_triplets(factored_kernel, make_tastes):
    """By hand: a run of stage 1 from its start, with the tuples that follow those of stage 0."""
    data = make_tastes(1)
    fitted = ranker(factored_kernel, Structured(5, stages=1, k=3)).fit(data)
    begun = Structured(5, stages=1, k=3)
    begun.initialize(data, SEED, factored_kernel)
    begun.factors = (*(m.copy() for m in fitted.model_.at_stage(0).factors[:2]), *begun.factors[2:])
    begun.next_stage(data, factored_kernel)
    problem = TrainingProblem(begun, WARP(3), NoPenalty(), data, factored_kernel, seed=99)
    stream = SGD(max_steps=40, steps_per_epoch=20, learning_rate=0.3, batch_size=8).online_trainer(
        problem
    )
    tuples = factored_kernel.sampling.sample_triplets(
        sampling_lists(data, SGD(), "positives"), SEED, 40, 40, 3
    )
    for part in (tuples[:20], tuples[20:]):
        stream.step(part, None)
    assert bits(begun) == bits(fitted.model_)


@pytest.mark.parametrize("which", [0, 1, 2], ids=["U", "V", "S"])
@pytest.mark.parametrize("features", ["none", "both"])
def test_a_step_follows_the_gradient_of_the_stage(factored_kernel, make_tastes, which, features):
    """One step at rate 0.1 against central differences of the loss, the lists held fast."""
    data = make_tastes(4, 6, 7, features=features)
    q = data.query_rows.toarray().astype(np.float64)
    d = data.document_rows.toarray().astype(np.float64)
    for first in range(1, 5):
        model = staged(data, 1)
        parts = [dense(part, 5) for part in model.factors[:3]]
        before = by_formula(model.at_stage(0), data)
        lists = lists_by_sorting(before, data, 3)
        problem = TrainingProblem(model, Logistic(), NoPenalty(), data, factored_kernel, seed=SEED)
        stream = SGD(
            max_steps=40, learning_rate=0.1, schedule="constant", batch_size=8
        ).online_trainer(problem)
        tuples = factored_kernel.sampling.sample_triplets(
            sampling_lists(data, SGD(), "positives"), SEED, first, 1
        )
        ((query, better, worse),) = tuples.tolist()
        context = sum(d[document] / j for j, document in enumerate(lists[query], start=1))

        def loss(query=query, better=better, worse=worse, context=context, parts=parts):
            U, V, S = parts
            difference = d[better] - d[worse]
            margin = (q[query] @ U) @ (difference @ V) + (context @ S) @ (difference @ S)
            return np.log1p(np.exp(-margin))

        stream.step(tuples, None)
        changed = parts[which] - dense(model.factors[which], 5)
        gradient, h = np.zeros_like(parts[which]), 1e-5
        for at in np.ndindex(gradient.shape):
            own = parts[which][at]
            values = []
            for moved in (own + h, own - h):
                parts[which][at] = moved
                values.append(loss())
            parts[which][at] = own
            gradient[at] = (values[0] - values[1]) / (2 * h)
        assert np.abs(gradient).max() > 1e-3
        np.testing.assert_allclose(changed, 0.1 * gradient, rtol=1e-3, atol=2e-6)


def test_structure_is_learnt(fast_kernel):
    """Items come in pairs that are taken together: what is found already tells what else fits."""
    rng = np.random.default_rng(0)
    part = np.zeros((60, 20))
    for user in range(60):
        sample = rng.choice(10, 3, replace=False)
        part[user, np.concatenate((2 * sample, 2 * sample + 1))] = 1
    data = MatchingData(None, None, part)
    model = Structured(8, stages=1, k=5)
    fitted = ranker(
        fast_kernel, model, max_steps=6000, steps_per_epoch=2000, learning_rate=0.1
    ).fit(data)
    fits = fitted.model_.S[:, :8].astype(np.float64)
    similarity = fits @ fits.T
    pairs = np.array([similarity[2 * i, 2 * i + 1] for i in range(10)])
    others = similarity[np.triu_indices(20, 2)]
    assert pairs.mean() > others.mean() + others.std()
    assert fitted.score(data, metric="map") > 0.9


# --- the first stage given ----------------------------------------------------------------------


def by_svd(data, dimensions=3):
    """A factored model by singular values, without this library's training."""
    left, values, right = np.linalg.svd(data.relevance.toarray(), full_matrices=False)
    model = Factored(dimensions, biases=False)
    model.initialize(data, 0, get_kernel())
    tensors = model.tensors()
    tensors["U"] = (left[:, :dimensions] * values[:dimensions]).astype(np.float32)
    tensors["V"] = right[:dimensions].T.astype(np.float32)
    model.restore(tensors)
    return model


def trained_bilinear(data):
    solver = "sgd:max_steps=50,learning_rate=1"
    return Ranker("bilinear", "hinge", solver=solver, kernel="reference", random_state=1).fit(data)


@pytest.mark.parametrize("kind", ["svd", "bilinear", "structured"])
def test_any_trained_model_can_be_the_first_stage(factored_kernel, make_tastes, kind):
    data = make_tastes(1)
    base = {
        "svd": by_svd,
        "bilinear": lambda data: trained_bilinear(data).model_,
        "structured": lambda data: staged(data, 1),
    }[kind](data)
    selection = bits(base)
    value = Structured(5, stages=1, k=3, base=base)
    fitted = ranker(factored_kernel, value).fit(data)
    model = fitted.model_
    assert model.stage == 1
    assert [row["epoch"] for row in fitted.history_] == [1, 2]
    assert bits(base) == selection  # the user's stays as it is
    first = base.scores(data, factored_kernel)
    assert model.at_stage(0).scores(data, factored_kernel).tobytes() == first.tobytes()
    # The formula, with the base's lists.
    fits = dense(model.S, 5)
    expected = dense(model.U, 5) @ dense(model.V, 5).T
    for query, result in enumerate(lists_by_sorting(first, data, 3)):
        for j, document in enumerate(result, start=1):
            expected[query] += fits @ fits[document] / j
    np.testing.assert_allclose(fitted.predict(data), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["factored", "bilinear"])
def test_the_first_stage_from_a_file(factored_kernel, make_tastes, tmp_path, kind):
    data = make_tastes(1)
    path = tmp_path / "base.safetensors"
    base = (
        trained_bilinear(data)
        if kind == "bilinear"
        else ranker(factored_kernel, Factored(4)).fit(data)
    )
    base.save(path)
    spec = f"structured:dimensions=5,stages=2,k=3,base={path}"
    by_file = ranker(factored_kernel, spec).fit(data)
    by_object = ranker(
        factored_kernel, Structured(5, stages=2, k=3, base=Ranker.load(path).model_)
    ).fit(data)
    assert by_file.predict(data).tobytes() == by_object.predict(data).tobytes()
    by_file.save(tmp_path / "model")
    path.unlink()  # it is in the model now
    loaded = Ranker.load(tmp_path / "model", kernel=factored_kernel)
    assert loaded.predict(data).tobytes() == by_file.predict(data).tobytes()


def test_a_base_that_is_none_is_refused(make_tastes, judged, tmp_path):
    data = make_tastes(1)
    for base in (3, object(), Factored):
        with pytest.raises(PartError, match="structured has base="):
            Structured(base=base)
    Ranker(loss="domination").fit(judged).save(tmp_path / "linear")
    with pytest.raises(PartError, match=r"linear, a model of judged rows; give one that matches"):
        ranker("reference", Structured(base=str(tmp_path / "linear"))).fit(data)
    with pytest.raises((ModelFileError, OSError), match="nowhere"):
        ranker("reference", Structured(base=str(tmp_path / "nowhere"))).fit(data)


def test_a_clone_keeps_its_base(make_tastes):
    data = make_tastes(1)
    original = ranker("reference", Structured(5, stages=1, k=3, base=by_svd(data)))
    copied = clone(original)
    assert copied.fit(data).predict(data).tobytes() == original.fit(data).predict(data).tobytes()
    assert "base" not in original.model_.spec() or "base=None" in original.model_.spec()


# --- choosing jointly ---------------------------------------------------------------------------


def worth(alone, fits, documents):
    """Equation 6: sum_i w_i a(d_i) + sum_{i <= j} w_i w_j s(d_i) . s(d_j), with w_i = 1/i."""
    total = 0.0
    for j, second in enumerate(documents, start=1):
        total += alone[second] / j
        for i, first in enumerate(documents[:j], start=1):
            total += (fits[first] @ fits[second]) / (i * j)
    return total


def random_case(seed, n=6, width=8):
    rng = np.random.default_rng(seed)
    alone = rng.normal(size=(3, n)).astype(np.float32)
    return alone, rng.normal(scale=0.6, size=(n, width)).astype(np.float32)


@pytest.mark.parametrize("seed", range(5))
def test_greedy_is_the_best_next_document_each_time(seed):
    alone, fits = random_case(seed)
    result = choose_jointly(alone, fits, 4, 1)
    for row, scores in zip(result.tolist(), alone, strict=True):
        selection = []
        for _ in range(4):
            free = [d for d in range(6) if d not in selection]
            best = max(free, key=lambda d, c=selection, s=scores: worth(s, fits, [*c, d]))
            selection.append(best)
        assert row == selection


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("k", [1, 2, 3])
def test_a_beam_that_keeps_all_finds_the_best_list(seed, k):
    alone, fits = random_case(seed)
    result = choose_jointly(alone, fits, k, 6**3)
    for row, scores in zip(result.tolist(), alone, strict=True):
        best = max(
            itertools.permutations(range(6), k),
            key=lambda documents, s=scores: worth(s, fits, list(documents)),
        )
        assert row == list(best)


def test_a_beam_keeps_the_best_lists_of_each_length():
    alone, fits = random_case(11, n=7)
    for breadth in (2, 3, 5):
        result = choose_jointly(alone, fits, 4, breadth)
        for row, scores in zip(result.tolist(), alone, strict=True):
            selection = [[]]
            for _ in range(4):
                longer = [[*one, d] for one in selection for d in range(7) if d not in one]
                longer.sort(key=lambda one, s=scores: -worth(s, fits, one))
                selection = longer[:breadth]
            assert row == selection[0]


def test_more_lists_are_never_worse():
    better = 0
    for seed in range(20):
        alone, fits = random_case(seed, n=8)
        values = [
            [worth(s, fits, row) for row, s in zip(result.tolist(), alone, strict=True)]
            for result in (choose_jointly(alone, fits, 4, breadth) for breadth in (1, 8**4))
        ]
        assert (np.array(values[1]) >= np.array(values[0]) - 1e-9).all()
        better += (np.array(values[1]) > np.array(values[0]) + 1e-6).sum()
    assert better > 0


def test_all_documents_can_be_chosen():
    alone, fits = random_case(0)
    for breadth in (1, 4, 100):
        for k in (6, 50):
            result = choose_jointly(alone, fits, k, breadth)
            assert result.shape == (3, 6)
            assert np.array_equal(np.sort(result, axis=1), np.tile(np.arange(6), (3, 1)))


def test_joint_choices_come_first():
    scores = np.array([[5.0, 1.0, 3.0, 4.0]])
    placed = place_first(scores.copy(), np.array([[1, 3]]))
    assert np.argsort(-placed[0]).tolist() == [1, 3, 0, 2]
    assert placed[0, [0, 2]].tolist() == [5.0, 3.0]


@pytest.mark.parametrize("inference", ["greedy", "beam"])
def test_inference_ranks_the_joint_list_first(factored_kernel, make_tastes, inference):
    data = make_tastes(2, features="documents")
    plain = staged(data, 1, k=4)
    joint = Structured(5, stages=1, k=4, inference=inference, beam=3)
    joint.restore(plain.tensors())
    assert joint.embedding(data, factored_kernel) is None
    rows = data.document_rows.toarray().astype(float)
    alone = dense(joint.U, 5) @ (rows @ dense(joint.V, 5)).T
    fits = rows @ dense(joint.S, 5)
    selection = choose_jointly(
        alone.astype(np.float32), fits.astype(np.float32), 4, 3 if inference == "beam" else 1
    )
    iterative = by_formula(plain, data)
    scores = joint.scores(data, factored_kernel)
    for k in (2, None):
        for result in top_k(joint, data, k, factored_kernel):
            first = selection[result.query].tolist()
            rest = [d for d in range(15) if d not in first]
            rest.sort(key=lambda d, row=iterative[result.query]: -row[d])
            assert result.documents.tolist() == (first + rest)[:k]
            assert np.array_equal(result.scores, scores[result.query, result.documents])


@pytest.mark.parametrize("inference", ["greedy", "beam"])
@pytest.mark.parametrize("k", [3, 14])
def test_a_query_is_not_chosen_for_itself(factored_kernel, make_matching, inference, k):
    data = make_matching(3, queries_are_documents=True, kind="grades")
    model = staged(data, 1, k=k, inference=inference)
    rows = data.query_rows.toarray().astype(float)
    alone = (rows @ dense(model.U, 5)) @ (rows @ dense(model.V, 5)).T
    fits = rows @ dense(model.S, 5)
    breadth = model.beam if inference == "beam" else 1
    for result in top_k(model, data, 3, factored_kernel):
        others = np.delete(np.arange(14), result.query)
        expected = choose_jointly(
            alone[result.query][None, others].astype(np.float32),
            fits[others].astype(np.float32),
            min(k, 13),
            breadth,
        )
        assert result.documents.tolist() == others[expected[0, :3]].tolist()


# --- files and resuming -------------------------------------------------------------------------


@pytest.mark.parametrize("features", ["none", "both"])
def test_a_cascade_survives_its_file(factored_kernel, make_tastes, tmp_path, features):
    data = make_tastes(1, features=features)
    value = Structured(5, stages=2, k=3, inference="beam", beam=2, biases=True)
    fitted = ranker(factored_kernel, value).fit(data)
    fitted.save(tmp_path / "model")
    loaded = Ranker.load(tmp_path / "model", kernel=factored_kernel)
    assert loaded.model_ == value
    assert loaded.model_.stage == 2
    for stage in range(3):
        one, other = (one.model_.at_stage(stage) for one in (fitted, loaded))
        assert type(one) is type(other)
        assert (
            one.scores(data, factored_kernel).tobytes()
            == other.scores(data, factored_kernel).tobytes()
        )
    assert bits(loaded.model_) == bits(fitted.model_)
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()


def text(words):
    return np.frombuffer(words.encode(), np.uint8).copy()


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("before", np.zeros(3), "the bytes of a spec"),
        ("before", np.zeros((3, 1), np.uint8), "the bytes of a spec"),
        ("before", np.array([0xFF, 0xFE], np.uint8), "not a known model"),
        ("before", text("nobody:x=1"), "not a known model"),
        ("before", text("factored:dimensions=0"), "not a known model"),
        ("before", text("linear"), "does not match queries"),
        ("before", text("factored:dimensions=7,biases=False"), "of shape"),
        ("before", text("structured:dimensions=5,stages=2,k=3"), "`S`"),
        ("stage/U", np.zeros((1, 5), np.float32), "`U`"),
        ("stage/V", None, "`V`"),
        ("S", None, "`S`"),
        ("S", np.zeros((15, 8), np.float32), "`S`"),
        ("S", np.full((15, 5), np.nan, np.float32), "`S`.*finite"),
        ("U", None, "`U`"),
    ],
)
def test_damaged_stages_are_refused(make_tastes, name, value, problem):
    model = staged(make_tastes(2), 1)
    tensors = model.tensors()
    if name == "before" and value.tobytes().startswith(b"structured"):
        # A stage that says it has one before it, and lacks its S.
        tensors |= {"stage/before": text("factored:dimensions=5,biases=False")}
        tensors |= {f"stage/stage/{k[6:]}": v for k, v in tensors.items() if k[:6] == "stage/"}
        tensors.pop("stage/stage/before", None)
    if value is None:
        del tensors[name]
    else:
        tensors[name] = value
    with pytest.raises(ModelFileError, match=problem):
        Structured(5, stages=1, k=3).restore(tensors)


class Snapshots(Callback):
    """Keeps a snapshot of every epoch, and of the end of every stage."""

    name = "snapshots"

    def __init__(self):
        self.snapshots = []

    def on_epoch_end(self, run, result):
        self.snapshots.append(run.snapshot())
        return False

    def on_fit_end(self, run):
        self.snapshots.append(run.snapshot())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* sets all embeddings to 0")
@pytest.mark.parametrize("regularizer", ["none", MaxNorm(1.0), "l1:strength=0.1"], ids=str)
@pytest.mark.parametrize("base", [False, True])
def test_training_resumes_in_each_stage(factored_kernel, make_tastes, regularizer, base):
    data, valid = make_tastes(1), make_tastes(2)

    def cascade(*callbacks):
        model = Structured(5, stages=2, k=3, base=by_svd(data) if base else None)
        stopping = EarlyStopping(metric="map", patience=1)
        return (
            ranker(
                factored_kernel,
                model,
                regularizer=regularizer,
                callbacks=[stopping, *callbacks],
                max_steps=60,
            )
            .plan()
            .trainer(data, valid)
        )

    snapshots = Snapshots()
    whole = cascade(snapshots)
    whole.train()
    assert len(snapshots.snapshots) >= (4 if base else 6)
    stages = set()
    for snapshot in snapshots.snapshots:
        again = cascade()
        again.train(snapshot)
        stages.add("model/S" in snapshot.tensors)
        assert again.history == whole.history
        assert bits(again.model) == bits(whole.model)
        assert again.stopped == whole.stopped
    assert stages == ({True} if base else {False, True})


def test_new_users_and_items_in_all_stages(factored_kernel, make_tastes):
    every = make_tastes(1)
    old = MatchingData(
        None,
        None,
        every.relevance[:8, :10],
        query_ids=every.query_ids[:8],
        document_ids=every.document_ids[:10],
    )
    fitted = ranker(factored_kernel).fit(old)
    scores = fitted.predict(old)
    fitted.partial_fit(every, steps=0)
    model = fitted.model_
    for stage in range(3):
        assert model.at_stage(stage).U.shape[0] == 12
        assert model.at_stage(stage).V.shape[0] == 15
    assert model.S.shape[0] == 15
    begun = staged(every, 2, init_scale=0.1)
    assert model.S[10:].tobytes() == begun.S[10:].tobytes()
    assert model.at_stage(1).U[8:].tobytes() == begun.at_stage(1).U[8:].tobytes()
    np.testing.assert_allclose(fitted.predict(old), scores, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        fitted.predict(every), by_formula(model, every), rtol=1e-4, atol=1e-5
    )
    before = model.U.copy()
    fitted.partial_fit(every, steps=24)
    assert fitted.model_.stage == 2
    assert not np.array_equal(fitted.model_.U[8:], before[8:])


# --- parameters ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["stages", "k", "beam"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "many", None, 1001])
def test_bad_numbers_are_refused(name, value):
    with pytest.raises(PartError, match=rf"structured has {name}=.*\[1, 1000\]"):
        Structured(**{name: value})


def test_bad_words_are_refused():
    with pytest.raises(PartError, match=r"inference='best'.*iterative, greedy, beam"):
        Structured(inference="best")
    with pytest.raises(PartError, match="dimensions"):
        Structured(dimensions=0)


def test_it_is_registered():
    model = get_registry().create("model", "structured:dimensions=9,stages=3,inference=beam")
    assert model == Structured(9, stages=3, inference="beam")
    assert get_registry().create("model", model.spec()) == model
    assert (Structured().k, Structured().biases, Structured().stages) == (20, False, 1)


def test_density_is_that_of_the_last_stage(make_tastes):
    model = staged(make_tastes(2), 1)
    assert model.density == 1.0
    model.S[:] = 0.0
    assert model.density == (12 + 15) / (12 + 15 + 15)


# --- a stage that begins where the one before ended ---------------------------------------------


@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("has_base", [False, True])
def test_a_stage_can_begin_where_the_one_before_ended(
    factored_kernel, make_tastes, has_base, biases
):
    data = make_tastes(1)
    base = ranker(factored_kernel, Factored(5, biases)).fit(data) if has_base else None
    cascade = Structured(5, biases, stages=2, k=3, base=base, init="previous-stage")
    model = ranker(factored_kernel, cascade, max_steps=40).fit(data).model_
    for stage in (1, 2):
        before, after = model.at_stage(stage - 1), model.at_stage(stage)
        # One stage by hand: the vectors of the one before, and an S that any stage would sample.
        begun = Structured(5, biases, stages=2, k=3)
        begun.initialize(data, SEED, factored_kernel)
        begun._earlier = [model.at_stage(at) for at in range(stage)]
        begun._sample_stage(factored_kernel)
        begun.U, begun.V = before.U.copy(), before.V.copy()
        begun.document_biases = before.document_biases.copy()
        problem = TrainingProblem(begun, WARP(3), NoPenalty(), data, factored_kernel, seed=99)
        stream = SGD(
            max_steps=40, steps_per_epoch=20, learning_rate=0.3, batch_size=8
        ).online_trainer(problem)
        lists = sampling_lists(data, SGD(), "positives")
        tuples = factored_kernel.sampling.sample_triplets(lists, SEED, 40 * stage, 40, 3)
        for part in (tuples[:20], tuples[20:]):
            stream.step(part, None)
        for mine, expected in zip(after.factors, begun.factors, strict=True):
            assert mine.tobytes() == expected.tobytes()


def test_training_from_the_previous_stage_resumes(factored_kernel, make_tastes):
    data = make_tastes(1)

    def run(*callbacks):
        model = Structured(5, stages=2, k=3, init="previous-stage")
        return (
            ranker(factored_kernel, model, callbacks=callbacks, max_steps=60).plan().trainer(data)
        )

    snapshots = Snapshots()
    whole = run(snapshots)
    whole.train()
    for snapshot in snapshots.snapshots:
        again = run()
        again.train(snapshot)
        assert bits(again.model) == bits(whole.model)


def test_a_base_that_cannot_be_gone_on_with_is_refused(make_tastes):
    data = make_tastes(1)
    for base in (
        ranker("reference", Factored(4, biases=False)).fit(data),
        ranker("reference", Factored(5, biases=True)).fit(data),
        ranker("reference", Factored(5, biases=False)).fit(make_tastes(1, 9, 8)),
    ):
        with pytest.raises(PartError, match=r"cannot start from; give a factored one .* or use"):
            ranker("reference", Structured(5, k=3, base=base, init="previous-stage")).fit(data)
    with pytest.raises(PartError, match=r"init='soon'; it must be one of scratch, previous-stage"):
        Structured(init="soon")


# --- lists of queries that were left out --------------------------------------------------------


def folded(kernel, data, base=None, **options):
    model = Structured(5, stages=1, k=3, folds=3, base=base)
    return ranker(kernel, model, **options)


def by_hand(kernel, data, train, model):
    """Stage 1 from its start, with the lists of models that `train` makes without the query."""
    begun = Structured(5, stages=1, k=3)
    begun.initialize(data, SEED, kernel)
    begun._earlier, begun._lists = [model.at_stage(0)], None
    begun._sample_stage(kernel)
    result = np.zeros((data.n_queries, 3), np.int64)
    left_out = Structured(5, folds=3)
    left_out.initialize(data, SEED, kernel)
    parts = left_out._folds(data.n_queries, kernel)
    assert sorted(np.concatenate(parts)) == list(range(data.n_queries))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    for part in parts:
        others = [query for query in range(data.n_queries) if query not in part]
        scores = train(data.select(np.array(others))).model_.scores(data.select(part), kernel)
        result[part] = lists_by_sorting(scores, data.select(part), 3)
    in_sample = lists_by_sorting(model.at_stage(0).scores(data, kernel), data, 3)
    assert result.tolist() != in_sample
    begun._lists = result
    return begun


@pytest.mark.parametrize("base", ["none", "ranker", "file"])
def test_folds_are_lists_of_models_without_the_query(factored_kernel, make_tastes, tmp_path, base):
    data = make_tastes(1, features="queries")

    def first(rate=0.3):
        return ranker(factored_kernel, Factored(5, biases=False), learning_rate=rate)

    value, rate = None, 0.3
    if base != "none":  # which was trained otherwise than the stage after it
        rate = 0.1
        value = first(rate).fit(data)
        if base == "file":
            value.save(tmp_path / "base")
            value = str(tmp_path / "base")
    fitted = folded(factored_kernel, data, value).fit(data)
    model = fitted.model_
    begun = by_hand(factored_kernel, data, lambda part: first(rate).fit(part), model)
    problem = TrainingProblem(begun, WARP(3), NoPenalty(), data, factored_kernel, seed=99)
    stream = SGD(max_steps=40, steps_per_epoch=20, learning_rate=0.3, batch_size=8).online_trainer(
        problem
    )
    tuples = factored_kernel.sampling.sample_triplets(
        sampling_lists(data, SGD(), "positives"), SEED, 40, 40, 3
    )
    for part in (tuples[:20], tuples[20:]):
        stream.step(part, None)
    for mine, expected in zip(model.factors, begun.factors, strict=True):
        assert mine.tobytes() == expected.tobytes()
    # Ranking is by all of stage 0, and nothing of the folds is kept.
    assert "lists" not in model.tensors()
    np.testing.assert_allclose(fitted.predict(data), by_formula(model, data), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("base", [False, True])
def test_training_with_folds_resumes(factored_kernel, make_tastes, base):
    data, valid = (make_tastes(seed, features="queries") for seed in (1, 2))
    first = ranker(factored_kernel, Factored(5, biases=False)).fit(data) if base else None

    def run(*callbacks):
        stopping = EarlyStopping(metric="map", patience=1)
        watching = [stopping, *callbacks]
        return (
            folded(factored_kernel, data, first, callbacks=watching, max_steps=60)
            .plan()
            .trainer(data, valid)
        )

    snapshots = Snapshots()
    whole = run(snapshots)
    whole.train()
    assert any("model/lists" in snapshot.tensors for snapshot in snapshots.snapshots)
    for snapshot in snapshots.snapshots:
        again = run()
        again.train(snapshot)
        assert again.history == whole.history
        assert bits(again.model) == bits(whole.model)


def test_a_fold_is_trained_as_long_as_the_stage(factored_kernel, make_tastes):
    """Early stopping ends stage 0 after two epochs of four, and its folds as well."""
    data = make_tastes(1, features="queries")

    class AfterTwo(Callback):
        name = "after-two"

        def on_epoch_end(self, run, result):
            return result.epoch == 2

    stopped = folded(factored_kernel, data, max_steps=80, callbacks=[AfterTwo()]).fit(data)
    assert [row["epoch"] for row in stopped.history_] == [1, 2, 3, 4, 5, 6]
    short = ranker(factored_kernel, Factored(5, biases=False), max_steps=40)
    begun = by_hand(factored_kernel, data, lambda part: clone(short).fit(part), stopped.model_)
    problem = TrainingProblem(begun, WARP(3), NoPenalty(), data, factored_kernel, seed=SEED)
    for _ in SGD(max_steps=80, steps_per_epoch=20, learning_rate=0.3, batch_size=8).run_epochs(
        problem
    ):
        pass
    begun._lists = None
    assert bits(begun) == bits(stopped.model_)


def test_folds_that_cannot_be_are_refused(make_tastes):
    data = make_tastes(1)
    for params, reason in (
        ({"folds": 1}, "leaves nothing to train on"),
        ({"folds": -1}, "an integer in"),
        ({"folds": 2, "stages": 2}, r"nested folds. Use stages=1"),
        ({"folds": 2, "base": by_svd(data)}, "give its ranker, or its file"),
    ):
        with pytest.raises(PartError, match=reason):
            Structured(**params)
    with pytest.raises(DataError, match="left out needs features"):
        folded("reference", data).fit(data)
    model = Structured(5, folds=2)
    model.initialize(make_tastes(1, features="queries"), 0, get_kernel())
    with pytest.raises(ModelFileError, match="int64, one row per query"):
        model.restore({**model.tensors(), "lists": np.zeros(3)})
