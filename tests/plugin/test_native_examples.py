"""The native examples, built as their authors would build them, against what they should be."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ranking import Ranker
from ranking.kernels.kernel import Kernel
from ranking.registry.manager import Registry, Source

EXAMPLES = Path(__file__).parents[2] / "examples" / "native"
WAYS = ("cython", "cffi", "rust", "numba")


@pytest.fixture(scope="session")
def install(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Install an example into a folder of its own, once."""
    root, done = tmp_path_factory.mktemp("examples"), set()

    def build(way: str) -> Path:
        if way == "numba":
            pytest.importorskip("numba", reason="numba is not there for this Python yet")
        required = "rust" in os.environ.get("RANKING_REQUIRE_KERNELS", "").split(",")
        if way == "rust" and not required and shutil.which("cargo") is None:
            pytest.skip("cargo is missing; install Rust (rustup)")
        target = root / way
        if way not in done:
            source = root / "source" / way
            shutil.copytree(EXAMPLES / way, source)
            words = ("--quiet", "--no-build-isolation", "--no-deps", "--target", target)
            subprocess.run(
                [sys.executable, "-m", "pip", "install", *map(str, words), str(source)],
                env={
                    **os.environ,
                    # Build tools of this environment, also if it is not activated.
                    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
                    "CARGO_TARGET_DIR": str(root / "target"),
                },
                check=True,
            )
            sys.path.insert(0, str(target))
            done.add(way)
        return target

    return build


@pytest.fixture(scope="session", params=WAYS)
def example(request: pytest.FixtureRequest, install: Callable[[str], Path]) -> tuple[str, Path]:
    return request.param, install(request.param)


def part(way: str, name: str, **params: Any) -> Any:
    return getattr(importlib.import_module(f"ranking_example_{way}.parts"), name)(**params)


@pytest.fixture(params=["cython", "rust"])
def kernel(request: pytest.FixtureRequest, load_kernel: Callable[[str], Kernel]) -> Kernel:
    return load_kernel(request.param)


def smooth(z: np.ndarray, width: float) -> tuple[np.ndarray, np.ndarray]:
    """The smooth hinge and its slope, from the table of the README."""
    with np.errstate(divide="ignore", invalid="ignore"):
        between = (1.0 - z) * (1.0 - z) / (2.0 * width), (z - 1.0) / width
    low = z <= 1.0 - width
    value = np.where(z >= 1.0, 0.0, np.where(low, 1.0 - z - 0.5 * width, between[0]))
    slope = np.where(z >= 1.0, 0.0, np.where(low, -1.0, between[1]))
    return value, slope


@pytest.mark.parametrize("width", [0.0, 0.3, 2.0])
def test_the_function_is_called_at_its_address(example, width):
    z = np.concatenate((np.linspace(-3.0, 3.0, 121), [1.0, 1.0 - width]))
    loss = part(example[0], "SmoothHinge", width=width)
    value, slope = smooth(z, width)
    np.testing.assert_array_equal(loss.pairwise_value(z), value)
    np.testing.assert_array_equal(loss.pairwise_slope(z), slope)
    loss.set_params(width=0.5)  # the context follows
    np.testing.assert_array_equal(loss.pairwise_slope(z), smooth(z, 0.5)[1])


def weights(
    kernel: Kernel, data: Any, loss: Any, model: str, threads: int = 1, **parts: str
) -> list[np.ndarray]:
    parts = {"solver": "sgd:max_steps=4000,batch_size=50,steps_per_epoch=1000", **parts}
    ranker = Ranker(model=model, loss=loss, kernel=kernel, threads=threads, **parts).fit(data)
    return [np.asarray(tensor) for tensor in ranker.model_.tensors().values()]


def same(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    return all(a.tobytes() == b.tobytes() for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("model", ["bilinear", "factored:dimensions=8"])
def test_without_width_it_is_the_hinge_to_the_bit(example, kernel, make_tastes, model):
    data = make_tastes(features="both")
    mine = weights(kernel, data, part(example[0], "SmoothHinge", width=0.0), model)
    assert same(mine, weights(kernel, data, "hinge", model))
    rounded = part(example[0], "SmoothHinge", width=0.5)
    one, two = (weights(kernel, data, rounded, model, threads) for threads in (1, 3))
    assert same(one, two)
    assert not same(one, mine)


def test_it_is_discovered_by_its_entry_point(example):
    way, folder = example
    (result,) = metadata.distributions(path=[str(folder)])
    (point,) = result.entry_points
    registry = Registry([Source(point.name, result.name, result.version, point.load)], disabled=[])
    assert registry.problems == []
    loss = registry.create("loss", f"{way}-smooth-hinge:width=0.25")
    assert loss == part(way, "SmoothHinge", width=0.25)
    assert loss.native.plugin == f"loss '{way}-smooth-hinge' of ranking-example-{way} 0.1"


def test_the_box_bounds_every_entry(install, kernel, make_tastes):
    install("cython")
    box, rows = part("cython", "Box", limit=0.25), np.array([[0.5, -0.1, 0.0], [-3.0, 0.2, 0.25]])
    np.testing.assert_array_equal(box.prox(rows, 0.1), np.clip(rows, -0.25, 0.25))
    np.testing.assert_array_equal(box.maximize(rows), 0.25 * np.sign(rows))
    assert box.penalty(rows) == np.inf
    assert box.penalty(box.prox(rows, 1.0)) == 0.0
    data = make_tastes(features="both")
    for loss, solver in (("warp", "sgd"), ("alignment", "alternating"), ("hinge", "alternating")):
        model = "factored:dimensions=8"
        once, again = (
            weights(kernel, data, loss, model, threads, regularizer=box, solver=solver)
            for threads in (1, 3)
        )
        assert same(once, again)
        assert max(np.abs(tensor).max() for tensor in once[:2]) == 0.25


def test_the_softmax_is_the_one_of_numpy(install, kernel, make_tastes):
    install("numba")
    loss = part("numba", "Softmax")
    scores, grades = np.array([0.3, -1.0, 2.0, 0.0]), np.array([2.0, 0.0, 1.0, 0.0])
    share = np.exp(scores) / np.exp(scores).sum()
    assert loss.listwise_value(scores, grades) == pytest.approx(
        -(grades / 3.0 * np.log(share)).sum(), rel=1e-12
    )
    np.testing.assert_allclose(
        loss.listwise_slopes(scores, grades), share - grades / 3.0, rtol=1e-12
    )
    data = make_tastes()
    for model in ("bilinear", "factored:dimensions=8"):
        one, two = (weights(kernel, data, loss, model, threads) for threads in (1, 3))
        assert same(one, two)
