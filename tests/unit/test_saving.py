"""Fitted matching rankers in files: back as they were, and never anything else."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ranking import Ranker
from ranking.data.text_collection import TextCollection
from ranking.errors import ModelFileError
from ranking.io.tensors import read_tensors, write_tensors
from ranking.kernels.builtin import reference_kernel
from ranking_plugins.regularizers import GroupL1

DOCUMENTS = ["the flow over a wing", "heat transfer", "wing wing", "boundary layer of heat"]
QUERIES = ["wing flow", "heat", "layer of heat"]
RELEVANCE = [[1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 1]]

SPECS = [
    None,
    "text:words=6,sublinear=true",
    "text:weighting=singhal",
    "text:hashing=32,weighting=counts",
    "text:words=none,ngrams=1-2,stop_words=english",
]


def texts():
    return TextCollection(
        ["q1", "q2", "é"], QUERIES, ["d4", "d1", "d2", "d3"], DOCUMENTS, RELEVANCE
    )


def fitted(kernel, features=None, model="bilinear", **parts):
    return Ranker(
        model,
        "hinge",
        solver="sgd:max_steps=30,learning_rate=1,steps_per_epoch=15",
        features=features,
        kernel=kernel,
        random_state=4,
        **parts,
    ).fit(texts())


# --- there and back -----------------------------------------------------------------------------


@pytest.mark.parametrize("features", SPECS)
@pytest.mark.parametrize("model", ["bilinear", "bilinear:dtype=float64", "diagonal"])
def test_texts_and_documents_come_back(matching_kernel, tmp_path, features, model):
    ranker = fitted(matching_kernel, features, model)
    ranker.save(tmp_path / "model")
    loaded = Ranker.load(tmp_path / "model", kernel=matching_kernel)
    queries = ["flow of heat", "wing"]
    assert loaded.search(queries) == ranker.search(queries)
    assert np.array_equal(loaded.predict(texts()), ranker.predict(texts()))
    resolved = dataclasses.replace(ranker.text_, **ranker.text_.auto_values())
    assert loaded.text_ == resolved
    assert loaded.text_.feature_names == ranker.text_.feature_names
    assert loaded.documents_.ids.tolist() == ["d4", "d1", "d2", "d3"]
    assert loaded.history_ == ranker.history_
    assert (loaded.n_iter_, loaded.random_state, loaded.stopped_) == (2, 4, "max_epochs")
    assert loaded.n_features_in_ == ranker.n_features_in_
    assert loaded.get_params()["features"] == resolved.spec()
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()
    # Its parts, as they are spelled, make the same training.
    assert np.array_equal(loaded.fit(texts()).predict(texts()), ranker.predict(texts()))


def test_data_without_texts_have_no_documents(matching_kernel, make_matching, tmp_path):
    data = make_matching(1)
    ranker = Ranker(loss="hinge", solver="sgd:max_steps=20", kernel=matching_kernel).fit(data)
    ranker.save(tmp_path / "model")
    tensors, description = read_tensors(tmp_path / "model")
    assert not [name for name in tensors if name.startswith(("text/", "documents/"))]
    assert "text" not in description
    loaded = Ranker.load(tmp_path / "model", kernel=matching_kernel)
    assert loaded.text_ is loaded.documents_ is None
    assert np.array_equal(loaded.predict(data), ranker.predict(data))
    assert description["training"] == {
        "queries": 8,
        "documents": 14,
        "query features": 9,
        "features": 9,
        "seed": 0,
        "stopped": "max_epochs",
    }


def test_groups_that_cannot_be_spelled_do_not_stop_a_load(matching_kernel, tmp_path):
    ranker = fitted(matching_kernel, regularizer=GroupL1(groups={"wing": "a", "flow": "a"}))
    ranker.save(tmp_path / "model")
    loaded = Ranker.load(tmp_path / "model", kernel=matching_kernel)
    assert loaded.search(["wing"]) == ranker.search(["wing"])


# --- damage -------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["text", "text:hashing=16,weighting=singhal"])
def content(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "model"
    fitted(reference_kernel(), request.param).save(path)
    return read_tensors(path)


def load_damaged(path, tensors, description):
    write_tensors(path, tensors, description)
    return Ranker.load(path, kernel="reference")


DTYPES = ["uint8", "int8", "int32", "int64", "float32", "float64", "bool", "uint64", "float16"]


@st.composite
def damages(draw):
    """A change of one array: of its type, shape, length or of some numbers."""
    kind = draw(st.sampled_from(["drop", "type", "shape", "cut", "double", "number", "order"]))
    return (
        kind,
        draw(st.integers(0, 2**32)),
        draw(st.sampled_from(DTYPES)),
        draw(
            st.sampled_from(
                [-1, 0, 1, 2, 3, 17, 255, 2**31, 2**40, -(2**63), 2**62, np.nan, np.inf, 1e308]
            )
        ),
    )


def damage(array, change):
    kind, place, dtype, number = change
    with np.errstate(all="ignore"):
        if kind == "drop":
            return None
        if kind == "type":
            return array.astype(dtype)
        if kind == "shape":
            return array.reshape(1, -1) if place % 2 else array.reshape(-1, 1)
        if kind == "cut":
            return array[: place % (array.size + 1)]
        if kind == "double":
            return np.concatenate((array, array))
        if kind == "order":
            return array[::-1].copy()
        changed = array.copy()
        if array.size:
            at = place % array.size
            if array.dtype.kind == "f" or not np.isfinite(number) or number > 2**62:
                changed[at] = number if array.dtype.kind == "f" else 0
            else:
                changed[at] = np.array(int(number) % 2**64, np.uint64).astype(array.dtype)
        return changed


@settings(
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(choice=st.integers(0, 100), change=damages())
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_damaged_arrays_are_refused_or_harmless(content, tmp_path, choice, change):
    """Whatever a file holds: a ranker that works, or ModelFileError, never anything else."""
    tensors, description = dict(content[0]), content[1]
    name = sorted(tensors)[choice % len(tensors)]
    changed = damage(tensors.pop(name), change)
    if changed is not None:
        tensors[name] = changed
    try:
        loaded = load_damaged(tmp_path / "model", tensors, description)
    except ModelFileError:
        return
    for _, result in loaded.search(["wing flow"]):
        assert len(result) <= 8
    assert loaded.predict(texts()).shape == (3, 4)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("documents/values", lambda a: np.full_like(a, np.nan)),
        ("documents/values", lambda a: a.astype(np.int64)),
        ("documents/values", lambda a: a[:-1]),
        ("documents/indices", lambda a: a + 10_000),
        ("documents/indices", lambda a: a - 10_000),
        ("documents/indices", lambda a: a.astype(np.float32)),
        ("documents/indices", lambda a: np.zeros_like(a)),
        ("documents/indptr", lambda a: a[::-1].copy()),
        ("documents/indptr", lambda a: a[:-1]),
        ("documents/indptr", lambda a: a.astype(np.float64)),
        ("documents/indptr", lambda a: a[:, None]),
        ("documents/ids.offsets", lambda a: a + 1),
        ("documents/ids.text", lambda a: np.full_like(a, 255)),
        ("text/words", lambda a: np.full_like(a, 255)),
        ("text/word_offsets", lambda a: a[:-1]),
        ("text/idf", lambda a: a * np.nan),
        ("model/weights", lambda a: a * np.nan),
        ("history/epoch", lambda a: a * np.inf),
        ("history/epoch", lambda a: a * np.nan),
        ("history/objective", lambda a: a[:, None]),
        ("history/loss", lambda a: a[:, None]),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_each_damage_is_refused(tmp_path, name, change):
    path = tmp_path / "model"
    fitted(reference_kernel()).save(path)
    tensors, description = read_tensors(path)
    tensors[name] = change(np.array(tensors[name]))
    with pytest.raises(ModelFileError):
        load_damaged(path, tensors, description)


@pytest.mark.parametrize(
    "name",
    ["documents/ids.text", "documents/ids.offsets", "documents/indptr", "documents/indices",
     "documents/values", "text/words", "text/word_offsets", "text/idf", "history/epoch"],
)  # fmt: skip
def test_what_is_missing_is_refused(tmp_path, name):
    path = tmp_path / "model"
    fitted(reference_kernel()).save(path)
    tensors, description = read_tensors(path)
    del tensors[name]
    with pytest.raises(ModelFileError):
        load_damaged(path, tensors, description)


@pytest.mark.parametrize(
    "text", ["words", "text:words=-3", "text:", "text:colour=3", 7, [], {"a": 1}, True, "", "l1"]
)
def test_a_damaged_spec_of_features_is_refused(content, tmp_path, text):
    tensors, description = content
    with pytest.raises(ModelFileError):
        load_damaged(tmp_path / "model", tensors, {**description, "text": text})


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["parts", "model", "spec"], "bilinear:initial=odd"),
        (["parts", "model", "spec"], "bilinear:dtype=float64"),
        (["parts", "model", "spec"], "bilinear:width=3"),
        (["parts", "model", "spec"], "linear"),
        (["parts", "model"], "bilinear"),
        (["parts", "loss"], None),
        (["training", "features"], "many"),
        (["training", "seed"], None),
        (["training", "seed"], "inf"),
        (["training"], []),
        (["parts"], 3),
        (["schema_version"], "2"),
    ],
)
def test_a_damaged_description_is_refused(content, tmp_path, path, value):
    tensors, description = content
    changed = json.loads(json.dumps(description))
    at = changed
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    with pytest.raises(ModelFileError):
        load_damaged(tmp_path / "model", tensors, changed)


@pytest.mark.parametrize("spec", ["nobody", "l1:strength=-1", "l1:colour=3", ":", "l1:strength"])
def test_parts_that_scoring_does_without(content, tmp_path, spec):
    tensors, description = content
    changed = json.loads(json.dumps(description))
    changed["parts"]["regularizer"]["spec"] = spec
    loaded = load_damaged(tmp_path / "model", tensors, changed)
    assert len(loaded.search(["wing"])["wing"]) == 4
    assert not hasattr(loaded, "regularizer_")
