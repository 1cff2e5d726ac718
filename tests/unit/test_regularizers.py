"""Regularizers against brute force: prox is compared with the minimum on a grid."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from ranking import Ranker
from ranking.contracts.regularizer import EntryPenalty, FeatureIds, SupportsMaximize
from ranking.errors import CombinationError, PartError
from ranking_plugins.regularizers import L1, L2, Elastic, GroupL1, NoPenalty

REGULARIZERS = [NoPenalty(), L1(0.3), L2(0.7), L1(0.0), L2(0.0), Elastic(0.5, 0.4)]
numbers = st.floats(-5, 5)


@pytest.mark.slow
@pytest.mark.parametrize("regularizer", REGULARIZERS, ids=lambda r: r.spec())
@settings(deadline=None)  # 4,001 penalties per example
@given(value=numbers, step=st.floats(0.01, 3))
def test_prox_is_the_minimiser(regularizer, value, step):
    grid = np.linspace(-6, 6, 4001)
    cost = [0.5 * (v - value) ** 2 + step * regularizer.penalty(np.array([v])) for v in grid]
    result = regularizer.prox(np.array([value]), step)
    claimed = 0.5 * (result[0] - value) ** 2 + step * regularizer.penalty(result)
    assert claimed <= min(cost) + 1e-9


@pytest.mark.parametrize("regularizer", REGULARIZERS, ids=lambda r: r.spec())
@given(value=numbers)
@pytest.mark.parametrize("form", ["vector", "matrix"])
def test_kernel_form_is_the_penalty(regularizer, form, value):
    l1, l2 = regularizer.kernel_form(form)
    assert regularizer.penalty(np.array([value])) == pytest.approx(
        l1 * abs(value) + l2 / 2 * value**2
    )


@pytest.mark.parametrize("regularizer", [NoPenalty(), L1(0.1), L2(0.7), Elastic(), GroupL1()])
def test_an_unbounded_maximum_is_not_supported(regularizer):
    assert not isinstance(regularizer, SupportsMaximize)
    assert not issubclass(type(regularizer), SupportsMaximize)


@pytest.mark.parametrize("kind", [L1, L2, Elastic])
@pytest.mark.parametrize("strength", [-1.0, float("nan"), float("inf"), "much"])
def test_a_bad_strength_is_refused(kind, strength):
    with pytest.raises(PartError, match="strength"):
        kind(strength)
    with pytest.raises(PartError, match="strength"):
        kind().set_params(strength=strength)


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_outside_its_range_is_refused(share):
    with pytest.raises(PartError, match=r"elastic has share=.* finite number in \[0, 1\]"):
        Elastic(share=share)


def test_params():
    assert L2(0.5).get_params() == {"strength": 0.5, "frequency": 0.0, "scaling": "uniform"}
    assert L2().set_params(strength=2.0).spec() == "l2:strength=2.0"
    with pytest.raises(ValueError, match=r"no parameter 'weight'.*strength"):
        L2().set_params(weight=1)


# --- target density ---------------------------------------------------------------------------


def test_strength_for_a_target_density():
    regularizer = L1(density=0.05)
    assert regularizer.target_density == 0.05
    with pytest.raises(PartError, match=r"only solver sgd .* l1:density=0.05.*strength"):
        regularizer.kernel_form("vector")
    regularizer.set_strength(0.25)
    assert regularizer.target_density is None
    assert regularizer.kernel_form("vector") == EntryPenalty(l1=0.25)
    assert regularizer.spec() == "l1:strength=0.25,density=0.05"
    # Setting parameters asks for the density again.
    assert regularizer.set_params(strength=1.0).target_density == 0.05
    assert L1(0.1).target_density is None


def test_coordinate_descent_refuses_a_target_density(judged):
    with pytest.raises(PartError, match="only solver sgd can determine"):
        Ranker(loss="domination", regularizer="l1:density=0.1").fit(judged)


@pytest.mark.parametrize("density", [-0.1, 1.0, float("nan"), "half", None])
def test_a_bad_density_is_refused(density):
    with pytest.raises(PartError, match="density"):
        L1(density=density)


# --- group lasso --------------------------------------------------------------------------------

ROWS, COLUMNS = np.array(["a", "b", "c"]), np.array([1, 2, 3, 4])
GROUPS = {
    "rows": {"c": "x", "a": "x", "unknown": "y"},
    "columns": {2: "low", 1: "low", 3: "high"},
}


def group_l1(by, has_groups, strength=0.3):
    regularizer = GroupL1(strength, by, GROUPS[by] if has_groups else None)
    regularizer.kernel_form("matrix", FeatureIds(ROWS, COLUMNS))
    return regularizer


def members(by, has_groups):
    """The groups as masks of W, written down by hand."""
    masks = []
    sets = {
        ("rows", False): [[0], [1], [2]],
        ("rows", True): [[0, 2], [1]],
        ("columns", False): [[0], [1], [2], [3]],
        ("columns", True): [[0, 1], [2], [3]],
    }
    for selection in sets[by, has_groups]:
        mask = np.zeros((3, 4), bool)
        mask[(selection, slice(None)) if by == "rows" else (slice(None), selection)] = True
        masks.append(mask)
    return masks


def group_norms(w, by, has_groups, strength=0.3):
    return strength * sum(
        np.sqrt(mask.sum()) * np.linalg.norm(w[mask]) for mask in members(by, has_groups)
    )


CASES = [(by, has_groups) for by in ("rows", "columns") for has_groups in (False, True)]


@pytest.mark.parametrize(("by", "given_groups"), CASES)
def test_the_penalty_of_groups(by, given_groups):
    w = np.random.default_rng(0).normal(size=(3, 4))
    regularizer = group_l1(by, given_groups)
    assert regularizer.penalty(w) == pytest.approx(group_norms(w, by, given_groups), rel=1e-12)


@pytest.mark.parametrize(("by", "given_groups"), CASES)
@pytest.mark.parametrize("step", [0.3, 1.5])
def test_the_prox_of_groups_is_the_minimiser(by, given_groups, step):
    p = np.random.default_rng(3).normal(size=(3, 4))
    result = group_l1(by, given_groups).prox(p, step)

    def cost(flat):
        w = flat.reshape(3, 4)
        return 0.5 * ((w - p) ** 2).sum() + step * group_norms(w, by, given_groups)

    # Powell needs no derivative, which is missing where a group is zero.
    best = min(
        minimize(cost, start.ravel(), method="Powell", options={"xtol": 1e-9, "ftol": 1e-13}).fun
        for start in (p, result, np.zeros((3, 4)))
    )
    assert cost(result.ravel()) <= best + 1e-7
    zero = [not result[mask].any() for mask in members(by, given_groups)]
    norms = [np.linalg.norm(p[mask]) for mask in members(by, given_groups)]
    due = [step * 0.3 * np.sqrt(mask.sum()) for mask in members(by, given_groups)]
    assert zero == [norm <= loss for norm, loss in zip(norms, due, strict=True)]


def test_the_prox_of_zero_is_zero():
    assert not group_l1("rows", False).prox(np.zeros((3, 4)), 1.0).any()


@pytest.mark.parametrize(("by", "given_groups"), CASES)
def test_kernel_form_of_groups(by, given_groups):
    regularizer = GroupL1(0.3, by, GROUPS[by] if given_groups else None)
    strength, columns, groups, weights = regularizer.kernel_form(
        "matrix", FeatureIds(ROWS, COLUMNS)
    )
    assert (strength, columns) == (0.3, by == "columns")
    assert groups.dtype == np.int64
    for mask in members(by, given_groups):
        positions = np.flatnonzero(mask.any(axis=0 if columns else 1))
        (code,) = set(groups[positions].tolist())
        assert np.count_nonzero(groups == code) == positions.size
        assert weights[code] == pytest.approx(np.sqrt(mask.sum()))
    assert np.unique(groups).tolist() == list(range(weights.size))


def test_groups_from_a_file(tmp_path):
    path = tmp_path / "groups.tsv"
    path.write_text("1\tlow\n2\tlow\n3\thigh\n", encoding="utf-8")
    by_file = GroupL1(0.3, "columns", str(path)).kernel_form("matrix", FeatureIds(ROWS, COLUMNS))
    by_mapping = GroupL1(0.3, "columns", GROUPS["columns"]).kernel_form(
        "matrix", FeatureIds(ROWS, COLUMNS)
    )
    assert by_file.groups.tolist() == by_mapping.groups.tolist()
    assert by_file.weights.tolist() == by_mapping.weights.tolist()
    assert (
        GroupL1(0.3, "columns", path).kernel_form("matrix", FeatureIds(ROWS, COLUMNS)).groups.size
        == 4
    )


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"1\tlow\n2 low\n", "line 2.*feature<TAB>group.*2 low"),
        (b"1\tlow\n\n", "line 2"),
        (b"1\tlow\textra\n", "line 1"),
        (b"1\tlow\n\xff\xfe\t2\n", "cannot read"),
        (b"1\tlow\n2\tlow\n1\thigh\n", "line 3.*1.*twice"),
        (b"", "none of the 0 features"),
        (b"one\tlow\n", "none of the 1 features.*ids look like 1"),
    ],
)
def test_a_malformed_file_of_groups_is_refused(tmp_path, content, problem):
    path = tmp_path / "groups.tsv"
    path.write_bytes(content)
    with pytest.raises(PartError, match=problem):
        GroupL1(0.3, "columns", path).kernel_form("matrix", FeatureIds(ROWS, COLUMNS))


def test_a_missing_file_of_groups_is_refused(tmp_path):
    with pytest.raises(PartError, match=r"cannot read groups=.*nowhere"):
        GroupL1(groups=tmp_path / "nowhere").kernel_form("matrix", FeatureIds(ROWS, COLUMNS))


def test_bad_groups_are_refused():
    with pytest.raises(PartError, match="by='cells'; it must be one of rows, columns"):
        GroupL1(by="cells")
    with pytest.raises(PartError, match="strength"):
        GroupL1(-1.0)
    with pytest.raises(PartError, match="only after kernel_form"):
        GroupL1(groups={"a": 1}).penalty(np.ones((3, 4)))
    with pytest.raises(PartError, match=r"groups=3.*mapping"):
        GroupL1(groups=3)


def test_groups_are_refused_by_coordinate_descent(judged):
    with pytest.raises(CombinationError, match="not a sum over single weights"):
        Ranker(loss="domination", regularizer="group-l1", solver="coordinate").fit(judged)
