"""C functions in the kernels: what they compute, how long they live, what is refused."""

from __future__ import annotations

import copy
import ctypes
import dataclasses
import gc
import itertools
import pickle
import shutil
import subprocess
import sys
import weakref
from collections.abc import Callable
from ctypes import c_double, c_uint32, c_void_p
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from ranking import Ranker
from ranking.contracts.loss import Loss
from ranking.contracts.regularizer import SupportsMaximize, native_rows
from ranking.errors import DivergenceError
from ranking.kernels.contract import PairwiseForm
from ranking.kernels.kernel import Kernel
from ranking.kernels.pairwise import TrainingLoss
from ranking.native import (
    NATIVE_ABI,
    ListwiseFunctions,
    NativeBoundedRowRegularizer,
    NativeListwiseLoss,
    NativePairwiseLoss,
    NativeRowRegularizer,
    PairwiseFunctions,
    RowFunctions,
    include_dir,
)
from ranking_plugins.losses import WARP, Domination
from ranking_plugins.regularizers import L1L2Row
from ranking_plugins.regularizers.soft import soft

SOURCE = r"""
#include <math.h>
#include "ranking/native.h"

double hinge_value(double z, const void *context) { return z < 1.0 ? 1.0 - z : 0.0; }
double hinge_slope(double z, const void *context) { return z < 1.0 ? -1.0 : 0.0; }
double scaled_value(double z, const void *context) { return *(const double *)context * z; }
double scaled_slope(double z, const void *context) { return *(const double *)context; }
double nan_slope(double z, const void *context) { return NAN; }

/* One document of grade 1 against all others, as the domination loss has it. */
double domination_value(
    const double *scores, const double *grades, int64_t n, const void *context)
{
    double sum = 0.0;
    for (int64_t i = 1; i < n; i++)
        sum += exp(scores[i] - scores[0]);
    return log1p(sum);
}

void domination_slopes(
    const double *scores, const double *grades, int64_t n, double *out, const void *context)
{
    double sum = 1.0;
    out[0] = 0.0;
    for (int64_t i = 1; i < n; i++)
        sum += exp(scores[i] - scores[0]);
    for (int64_t i = 1; i < n; i++) {
        out[i] = exp(scores[i] - scores[0]) / sum;
        out[0] -= out[i];
    }
}

void nan_slopes(
    const double *scores, const double *grades, int64_t n, double *out, const void *context)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = NAN;
}

/* strength * sum |row| within a norm of limit; context: strength, limit */
static double norm(const double *row, int64_t n)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++)
        sum += row[i] * row[i];
    return sqrt(sum);
}

static void threshold(double *row, int64_t n, double by)
{
    for (int64_t i = 0; i < n; i++) {
        double left = fabs(row[i]) - by;
        row[i] = left > 0.0 ? copysign(left, row[i]) : 0.0;
    }
}

double row_penalty(const double *row, int64_t n, const void *context)
{
    const double *given = context;
    double sum = 0.0;
    if (norm(row, n) > given[1] * (1.0 + 1e-5))
        return INFINITY;
    for (int64_t i = 0; i < n; i++)
        sum += fabs(row[i]);
    return given[0] * sum;
}

void row_prox(double *row, int64_t n, double step, const void *context)
{
    const double *given = context;
    threshold(row, n, step * given[0]);
    double size = norm(row, n);
    for (int64_t i = 0; size > given[1] && i < n; i++)
        row[i] *= given[1] / size;
}

void row_soft(double *row, int64_t n, double step, const void *context)
{
    threshold(row, n, step * *(const double *)context);
}

void row_maximize(double *row, int64_t n, const void *context)
{
    const double *given = context;
    threshold(row, n, given[0]);
    double size = norm(row, n);
    for (int64_t i = 0; size > 0.0 && i < n; i++)
        row[i] *= given[1] / size;
}
"""


@pytest.fixture(scope="session")
def compiler() -> str:
    path = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if path is None:
        pytest.skip("there is no C compiler")
    return path


@pytest.fixture(scope="session")
def library(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], int]:
    """The addresses of the functions above, by name."""
    folder = tmp_path_factory.mktemp("native")
    (folder / "native.c").write_text(SOURCE)
    flags = ["-std=c11", "-O2", "-ffp-contract=off", "-shared", "-fPIC", f"-I{include_dir()}"]
    command = [compiler, *flags, str(folder / "native.c"), "-o", str(folder / "native.so"), "-lm"]
    subprocess.run(command, check=True)
    loaded = ctypes.CDLL(str(folder / "native.so"))

    def address(name: str) -> int:
        result = ctypes.cast(getattr(loaded, name), c_void_p).value
        assert result is not None
        return result

    return address


@dataclasses.dataclass
class Pair(NativePairwiseLoss):
    """A loss of functions that a test gives it."""

    name: ClassVar[str] = "mine"
    address: ClassVar[Any]
    slope: ClassVar[str] = "hinge_slope"

    def functions(self):
        return PairwiseFunctions.from_addresses(
            value=self.address("hinge_value"), slope=self.address(self.slope)
        )


@pytest.fixture
def mine(library: Callable[[str], int], monkeypatch: pytest.MonkeyPatch) -> type[Pair]:
    monkeypatch.setattr(Pair, "address", staticmethod(library), raising=False)
    return Pair


def weights(kernel: Kernel, data: Any, model: str, loss: Any, **parts: Any) -> list[np.ndarray]:
    steps = 150 if kernel.name == "reference" else 3000
    value: dict[str, Any] = {
        "solver": f"sgd:max_steps={steps},batch_size=30,steps_per_epoch={steps // 3}",
        **parts,
    }
    ranker = Ranker(model=model, loss=loss, kernel=kernel, **value).fit(data)
    return [np.asarray(tensor) for tensor in ranker.model_.tensors().values()]


def same(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    return all(a.tobytes() == b.tobytes() for a, b in zip(one, other, strict=True))


MODELS = ("bilinear", "diagonal", "factored:dimensions=5")

# --- the same as what is built in ---------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
def test_a_native_hinge_is_the_hinge(factored_kernel, mine, make_tastes, model):
    data = make_tastes(features="both")
    if model == "diagonal":
        data = make_tastes(n_queries=12, n_documents=12, features="both")
    built_in = weights(factored_kernel, data, model, "hinge")
    for threads in (1,) if factored_kernel.name == "reference" else (1, 2, 5):
        assert same(weights(factored_kernel, data, model, mine(), threads=threads), built_in)


@pytest.mark.parametrize("model", ["bilinear", "factored:dimensions=5"])
def test_it_can_be_weighted_as_warp_does(factored_kernel, mine, make_tastes, model):
    class Weighted(mine):
        trials = 10
        rank_weight = WARP.rank_weight

    data = make_tastes(features="documents")
    solver = "sgd:max_steps=200,steps_per_epoch=50"
    result = weights(factored_kernel, data, model, Weighted(), solver=solver)
    assert same(result, weights(factored_kernel, data, model, "warp:max_trials=10", solver=solver))


def test_it_is_the_hinge_in_every_mode(mine, make_tastes, load_kernel):
    data = make_tastes()
    for name in ("cython", "rust"):
        kernel = load_kernel(name)
        for solver in ("sgd:max_steps=500,batch_size=1", "sgd:max_steps=500,mode=hogwild"):
            result = weights(kernel, data, "bilinear", mine(), solver=solver)
            assert same(result, weights(kernel, data, "bilinear", "hinge", solver=solver))


class Rows(NativeBoundedRowRegularizer):
    """l1l2-row, in C."""

    name: ClassVar[str] = "mine-row"
    address: ClassVar[Any]
    strength, limit = 0.05, 0.7

    def functions(self):
        context = np.array([self.strength, self.limit])
        return RowFunctions.from_addresses(
            penalty=self.address("row_penalty"),
            prox=self.address("row_prox"),
            maximize=self.address("row_maximize"),
            context=context.ctypes.data,
            keep=(context,),
        )


@pytest.fixture
def rows(library: Callable[[str], int], monkeypatch: pytest.MonkeyPatch) -> Rows:
    monkeypatch.setattr(Rows, "address", staticmethod(library), raising=False)
    return Rows()


def test_a_native_row_regularizer_is_l1l2_row(rows, seed):
    p = np.random.default_rng(seed).normal(size=(40, 7))
    p[3] = 0.0
    built_in = L1L2Row(strength=rows.strength, limit=rows.limit)
    for step in (0.0, 0.3, 5.0):
        near = rows.prox(p, step)
        np.testing.assert_allclose(near, built_in.prox(p, step), rtol=1e-14)
        np.testing.assert_allclose(rows.penalty(near), built_in.penalty(near), rtol=1e-14)
    np.testing.assert_allclose(rows.maximize(p), built_in.maximize(p), rtol=1e-14)
    assert rows.penalty(10.0 * p) == np.inf
    np.testing.assert_array_equal(rows.prox(p[0], 0.3), rows.prox(p[:1], 0.3)[0])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* sets all embeddings to 0")
@pytest.mark.parametrize(
    ("loss", "solver"), [("hinge", "sgd"), ("alignment", "alternating"), ("hinge", "alternating")]
)
def test_it_trains_as_l1l2_row_does(load_kernel, rows, make_tastes, loss, solver):
    data, model = make_tastes(), "factored:dimensions=5"
    built_in = L1L2Row(strength=rows.strength, limit=rows.limit)
    result = {
        (name, threads): weights(
            load_kernel(name), data, model, loss, regularizer=rows, solver=solver, threads=threads
        )
        for name, threads in (
            ("reference", 1),
            ("cython", 1),
            ("cython", 3),
            ("rust", 1),
            ("rust", 3),
        )
    }
    expected = weights(
        load_kernel("cython"), data, model, loss, regularizer=built_in, solver=solver
    )
    for tensors in result.values():
        assert same(tensors, result["reference", 1])
        for tensor, target in zip(tensors, expected, strict=True):
            np.testing.assert_allclose(tensor, target, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("threads", [1, 3])
def test_rows_are_widened_and_rounded(factored_kernel, library, dtype, threads):
    matrix = np.random.default_rng(3).normal(size=(150, 8)).astype(dtype)
    by = np.array([0.31])
    functions = RowFunctions.from_addresses(
        penalty=library("row_penalty"), prox=library("row_soft"), context=by.ctypes.data, keep=(by,)
    )
    expected = matrix.copy()
    expected[:, :5] = soft(matrix[:, :5].astype(np.float64), 0.7 * 0.31).astype(dtype)
    factored_kernel.native.prox_rows(functions, matrix, 0.7, 5, threads)
    np.testing.assert_array_equal(matrix, expected)
    with pytest.raises(TypeError, match="a native regularizer has no function maximize"):
        factored_kernel.native.maximize_rows(functions, matrix)


class Lists(NativeListwiseLoss):
    """The domination loss of one match, in C."""

    name: ClassVar[str] = "mine-list"
    address: ClassVar[Any]
    slopes: ClassVar[str] = "domination_slopes"

    def functions(self):
        return ListwiseFunctions.from_addresses(
            value=self.address("domination_value"), slopes=self.address(self.slopes)
        )


@pytest.fixture
def lists(library: Callable[[str], int], monkeypatch: pytest.MonkeyPatch) -> type[Lists]:
    monkeypatch.setattr(Lists, "address", staticmethod(library), raising=False)
    return Lists


@pytest.mark.parametrize("model", ["bilinear", "factored:dimensions=5"])
def test_a_native_list_loss_is_domination(load_kernel, lists, make_tastes, model):
    data, solver = make_tastes(), "sgd:max_steps=300,steps_per_epoch=100,n_negatives=4"
    scores, grades = np.array([0.4, -0.2, 1.1]), np.array([1.0, 0.0, 0.0])
    assert lists().listwise_value(scores, grades) == pytest.approx(
        Domination().listwise_value(scores, grades), rel=1e-14
    )
    result = {
        (name, threads): weights(
            load_kernel(name), data, model, lists(), solver=solver, threads=threads
        )
        for name, threads in (
            ("reference", 1),
            ("cython", 1),
            ("cython", 3),
            ("rust", 1),
            ("rust", 3),
        )
    }
    expected = weights(load_kernel("cython"), data, model, "domination", solver=solver)
    for tensors in result.values():
        assert same(tensors, result["reference", 1])
        for tensor, target in zip(tensors, expected, strict=True):
            np.testing.assert_allclose(tensor, target, rtol=1e-3, atol=1e-5)


# --- what it is given, and how long it lives ----------------------------------------------------


@dataclasses.dataclass
class Scaled(NativePairwiseLoss):
    """A multiple of the margin; what is asked for is counted."""

    name: ClassVar[str] = "scaled"
    address: ClassVar[Any]
    n_calls: ClassVar[int] = 0

    by: float = 2.0

    def functions(self):
        type(self).n_calls += 1
        context = np.array([self.by])
        return PairwiseFunctions.from_addresses(
            value=self.address("scaled_value"),
            slope=self.address("scaled_slope"),
            context=context.ctypes.data,
            keep=(context,),
        )


@pytest.fixture
def scaled(library: Callable[[str], int], monkeypatch: pytest.MonkeyPatch) -> Scaled:
    monkeypatch.setattr(Scaled, "address", staticmethod(library), raising=False)
    monkeypatch.setattr(Scaled, "n_calls", 0)
    return Scaled()


def test_functions_are_requested_when_a_parameter_is_set(scaled):
    z = np.array([[1.0, -0.5], [0.25, 3.0]])
    np.testing.assert_array_equal(scaled.pairwise_value(z), 2.0 * z)
    np.testing.assert_array_equal(scaled.pairwise_slope(z), np.full(z.shape, 2.0))
    assert Scaled.n_calls == 1
    scaled.set_params(by=7.0)
    np.testing.assert_array_equal(scaled.pairwise_value(z), 7.0 * z)
    scaled.by = -1.0
    np.testing.assert_array_equal(scaled.pairwise_value(z), -z)
    assert Scaled.n_calls == 3


def test_copies_have_functions_of_their_own(scaled):
    native = scaled.native
    for other in (copy.copy(scaled), copy.deepcopy(scaled), pickle.loads(pickle.dumps(scaled))):
        assert other == scaled
        assert other.native is not native
        assert other.pairwise_value(np.array([1.5]))[0] == 3.0


PAIR = ctypes.CFUNCTYPE(c_double, c_double, c_void_p)


class Held(ctypes.Structure):
    """ranking_pair_loss, and then its context."""

    _fields_ = (
        ("abi", c_uint32),
        ("size", c_uint32),
        ("value", c_void_p),
        ("slope", c_void_p),
        ("context", c_void_p),
        ("scale", c_double),
    )


FREED: list[float] = []
DESTRUCTOR = ctypes.PYFUNCTYPE(None, c_void_p)


def capsule(struct: ctypes.Structure, name: bytes | None = b"ranking.pair_loss") -> Any:
    """Make a capsule that owns a struct, as an extension would, and tells when it has died."""
    struct_of[ctypes.addressof(struct)] = struct
    return NEW(ctypes.addressof(struct), name, ctypes.cast(free, c_void_p))


@DESTRUCTOR
def free(pointer: int) -> None:
    get = ctypes.PYFUNCTYPE(c_void_p, c_void_p, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    struct = struct_of.pop(get(pointer, b"ranking.pair_loss"))
    FREED.append(struct.scale)
    struct.value = struct.slope = struct.context = None


struct_of: dict[int, Any] = {}
NEW = ctypes.PYFUNCTYPE(ctypes.py_object, c_void_p, ctypes.c_char_p, c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)


def struct_for(library: Callable[[str], int], scale: float = 3.0, **fields: Any) -> Held:
    result = Held(
        NATIVE_ABI, ctypes.sizeof(Held), library("scaled_value"), library("scaled_slope"), 0, scale
    )
    result.context = ctypes.addressof(result) + Held.scale.offset
    for name, value in fields.items():
        setattr(result, name, value)
    return result


class Capsuled(NativePairwiseLoss):
    """A loss from a capsule that nothing else holds."""

    name: ClassVar[str] = "capsuled"
    instance: ClassVar[Any]

    def functions(self):
        return type(self).instance()


def test_the_capsule_lives_as_long_as_the_part(library, monkeypatch, make_tastes, fast_kernel):
    scales = itertools.count(1.0)
    monkeypatch.setattr(
        Capsuled, "instance", lambda: capsule(struct_for(library, next(scales))), raising=False
    )
    FREED.clear()
    loss = Capsuled()
    assert loss.pairwise_slope(np.array([0.1]))[0] == 1.0
    gc.collect()
    assert FREED == []
    selection = loss.native
    ranker = Ranker(model="bilinear", loss=loss, solver="sgd:max_steps=200", kernel=fast_kernel)
    del loss
    gc.collect()
    ranker.fit(make_tastes())  # with a copy of the loss, and a capsule of its own
    assert FREED == []
    del ranker
    gc.collect()
    assert FREED == [2.0]
    watched = weakref.ref(selection)
    del selection
    gc.collect()
    assert watched() is None
    assert FREED == [2.0, 1.0]


def test_keep_is_kept(library):
    class Watched:
        pass

    thing = Watched()
    watched = weakref.ref(thing)
    functions = PairwiseFunctions.from_addresses(
        value=library("hinge_value"), slope=library("hinge_slope"), keep=(thing,)
    )
    del thing
    gc.collect()
    assert watched() is not None
    del functions
    gc.collect()
    assert watched() is None


def test_a_callback_of_python_is_called_from_threads(make_tastes, load_kernel):
    value, slope = PAIR(lambda z, _: max(0.0, 1.0 - z)), PAIR(lambda z, _: -1.0 if z < 1.0 else 0.0)

    class Called(NativePairwiseLoss):
        name: ClassVar[str] = "called"

        def functions(self):
            value_at, slope_at = (ctypes.cast(f, c_void_p).value for f in (value, slope))
            return PairwiseFunctions.from_addresses(
                value=value_at, slope=slope_at, keep=(value, slope)
            )

    data = make_tastes()
    for name in ("cython", "rust"):
        result = weights(load_kernel(name), data, "factored:dimensions=5", Called(), threads=2)
        assert same(result, weights(load_kernel(name), data, "factored:dimensions=5", "hinge"))


# --- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda library: 7, "returned a int; expected a capsule named 'ranking.pair_loss'"),
        (lambda library: None, "returned a NoneType"),
        (
            lambda library: NEW(ctypes.addressof(KEPT), b"ranking.list_loss", None),
            "capsule with the name 'ranking.list_loss'; expected 'ranking.pair_loss'",
        ),
        (lambda library: NEW(ctypes.addressof(KEPT), None, None), "a capsule with no name"),
        (
            lambda library: capsule(struct_for(library, abi=2)),
            "built for version 2 of ranking's native interface, and this is version 1",
        ),
        (lambda library: capsule(struct_for(library, size=24)), "a struct of 24 bytes"),
        (lambda library: capsule(struct_for(library, slope=0)), "has no function slope"),
        (lambda library: capsule(struct_for(library, value=0)), "has no function value"),
        (
            lambda library: PairwiseFunctions.from_addresses(value=library("hinge_value"), slope=0),
            "a native loss has no function slope",
        ),
        (
            lambda library: PairwiseFunctions.from_addresses(value=abs, slope=1),
            "has value=<built-in function abs>; give the function's address",
        ),
        (
            lambda library: PairwiseFunctions.from_addresses(value=1, slope=1, context="x"),
            "has context='x'; give an address",
        ),
    ],
)
def test_violations_are_reported_by_name(library, monkeypatch, make_tastes, make, message):
    monkeypatch.setattr(Capsuled, "instance", lambda: make(library), raising=False)
    with pytest.raises(TypeError) as caught:
        Ranker(model="bilinear", loss=Capsuled(), solver="sgd:max_steps=5").fit(make_tastes())
    assert str(caught.value).startswith("loss 'capsuled' of module ")
    assert message in str(caught.value)


KEPT = Held()


def test_functions_of_another_kind_are_refused(library, monkeypatch):
    functions = ListwiseFunctions.from_addresses(value=1, slopes=1)
    monkeypatch.setattr(Capsuled, "instance", lambda: functions, raising=False)
    with pytest.raises(TypeError, match=r"'capsuled' .* returned a ListwiseFunctions"):
        Capsuled().pairwise_value(np.zeros(1))


def test_a_bounded_regularizer_without_a_maximum_is_refused(library):
    class WithoutMaximum:
        name: ClassVar[str] = "without-maximum"

        def functions(self):
            return RowFunctions.from_addresses(
                penalty=library("row_penalty"), prox=library("row_prox")
            )

    class Unbounded(WithoutMaximum, NativeRowRegularizer):
        pass

    class Incomplete(WithoutMaximum, NativeBoundedRowRegularizer):
        pass

    assert not Unbounded().native.maximize
    assert not issubclass(Unbounded, SupportsMaximize)
    assert issubclass(Incomplete, SupportsMaximize)
    with pytest.raises(TypeError, match=r"'without-maximum' .* has no function maximize"):
        Incomplete().penalty(np.zeros((1, 1)))


def test_only_the_native_form_needs_functions():
    functions = PairwiseFunctions.from_addresses(value=1, slope=2, context=3)
    assert TrainingLoss(PairwiseForm.NATIVE, functions).slope == (2, 3)
    assert TrainingLoss(PairwiseForm.LOGISTIC).slope == (0, 0)
    with pytest.raises(TypeError, match="form NATIVE needs PairwiseFunctions, not NoneType"):
        TrainingLoss(PairwiseForm.NATIVE)
    with pytest.raises(ValueError, match="form HINGE is built in; leave the functions out"):
        TrainingLoss(PairwiseForm.HINGE, functions)


@pytest.mark.parametrize("model", ["bilinear", "factored:dimensions=5"])
def test_nonsense_is_a_divergence_that_names_the_loss(factored_kernel, mine, make_tastes, model):
    class Bad(mine):
        name: ClassVar[str] = "bad"
        slope: ClassVar[str] = "nan_slope"

    output = r"and its loss \S+ at step \d+,.* unless loss 'bad' is wrong: its slope is nan\.$"
    with pytest.raises(DivergenceError, match=output):
        weights(factored_kernel, make_tastes(), model, Bad())


def test_nonsense_of_a_list_names_the_loss(lists, make_tastes, fast_kernel):
    class Bad(lists):
        name: ClassVar[str] = "bad-list"
        slopes: ClassVar[str] = "nan_slopes"

    with pytest.raises(DivergenceError, match="loss 'bad-list' has slopes"):
        weights(fast_kernel, make_tastes(), "bilinear", Bad())


def test_a_loss_of_python_has_no_functions(rows):
    class Plain(Loss):
        pass

    assert Plain().native is None
    assert native_rows(L1L2Row()) is None
    assert native_rows(rows) is rows.native
    assert rows.native.plugin.startswith("regularizer 'mine-row' of module ")


# --- the header ---------------------------------------------------------------------------------


def test_the_command_prints_where_the_header_is():
    done = subprocess.run(
        [sys.executable, "-P", "-m", "ranking", "--include"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    folder = Path(done.stdout.strip())
    assert folder == include_dir()
    text = (folder / "ranking" / "native.h").read_text()
    assert f"#define RANKING_NATIVE_ABI {NATIVE_ABI}\n" in text
    for functions in (PairwiseFunctions, ListwiseFunctions, RowFunctions):
        assert f'"{functions.capsule_name}"' in text


@pytest.mark.parametrize(("language", "standard"), [("c", "c11"), ("c++", "c++11")])
def test_the_header_is_as_python_reads_it(compiler, tmp_path, language, standard):
    names = {
        "ranking_pair_loss": ("value", "slope", "context"),
        "ranking_list_loss": ("value", "slopes", "context"),
        "ranking_row_regularizer": ("penalty", "prox", "maximize", "context"),
    }
    lines = ['#include <stddef.h>\n#include "ranking/native.h"']
    check = "_Static_assert" if language == "c" else "static_assert"
    for struct, fields in names.items():
        pointer = ctypes.sizeof(c_void_p)
        size = 8 + len(fields) * pointer
        lines.append(f'{check}(sizeof({struct}) == {size}, "size");')
        lines += [
            f'{check}(offsetof({struct}, {field}) == {8 + at * pointer}, "{field}");'
            for at, field in enumerate(fields)
        ]
    source = tmp_path / "check.c"
    source.write_text("\n".join(lines) + "\n")
    flags = ["-x", language, f"-std={standard}", "-Wall", "-Wextra", "-pedantic", "-Werror"]
    command = [compiler, *flags, "-fsyntax-only", f"-I{include_dir()}", str(source)]
    subprocess.run(command, check=True)
