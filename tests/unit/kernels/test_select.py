"""Selection of a kernel, and families that it inherits."""

from __future__ import annotations

import dataclasses
import logging
import pickle
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ranking.contracts import hookimpl
from ranking.errors import KernelUnavailableError
from ranking.kernels import ranking_kernels
from ranking.kernels.builtin import reference_kernel
from ranking.kernels.contract import FAMILIES
from ranking.kernels.kernel import Kernel
from ranking.kernels.select import VARIABLE, get_kernel
from ranking.registry.manager import Registry, Source


def registry(**third_party: Any) -> Registry:
    """Return a registry of the built-in kernels and of a third party's."""
    builtin = SimpleNamespace(ranking_kernels=ranking_kernels)

    @hookimpl
    def kernels() -> dict[str, Any]:
        return third_party

    plugin = SimpleNamespace(ranking_kernels=kernels)
    return Registry(
        [
            Source("kernels", "ranking-kit", "1", lambda: builtin, "ranking.kernels"),
            Source("fast", "ranking-fast", "2", lambda: plugin),
        ],
        disabled=(),
    )


def broken() -> Kernel:
    raise ImportError("no such library")


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def test_by_name() -> None:
    assert get_kernel("reference", registry()).name == "reference"


def test_a_kernel_is_returned_unchanged() -> None:
    kernel = reference_kernel()
    assert get_kernel(kernel) is kernel


def test_argument_wins_over_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "missing")
    assert get_kernel("reference", registry()).name == "reference"


@pytest.mark.parametrize("name", ["auto", None])
def test_variable_wins_over_auto(monkeypatch: pytest.MonkeyPatch, name: str | None) -> None:
    monkeypatch.setenv(VARIABLE, "reference")
    assert get_kernel(name, registry()).name == "reference"


def test_auto_prefers_a_third_party_kernel() -> None:
    kernel = dataclasses.replace(reference_kernel(), name="fast", version="2")
    assert get_kernel("auto", registry(fast=lambda: kernel)) is kernel


def test_auto_falls_back_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert get_kernel("auto", registry(fast=broken)).name in {"cython", "reference"}
    assert "'fast' is skipped" in caplog.text
    assert "no such library" in caplog.text


def test_auto_takes_cython_before_the_reference() -> None:
    pytest.importorskip("ranking.kernels.cython._cpu", reason="the Cython kernel is not built")
    assert get_kernel("auto", registry()).name == "cython"


def test_a_named_kernel_that_is_missing_says_how_to_install_it() -> None:
    with pytest.raises(KernelUnavailableError, match=r"pip install ./fast"):
        get_kernel("fast", registry())


def test_a_named_kernel_that_is_broken_says_why() -> None:
    with pytest.raises(KernelUnavailableError, match=r"ranking-fast 2 does not work: no such"):
        get_kernel("fast", registry(fast=broken))


def test_a_factory_must_return_a_kernel() -> None:
    with pytest.raises(KernelUnavailableError, match="returned str"):
        get_kernel("fast", registry(fast=lambda: "fast"))


def outdated() -> Kernel:
    return dataclasses.replace(reference_kernel(), name="fast", description={"abi": 0})


def test_a_kernel_for_another_contract_is_refused() -> None:
    with pytest.raises(KernelUnavailableError, match=r"ranking-fast 2 was built for version 0"):
        get_kernel("fast", registry(fast=outdated))


def test_auto_skips_a_kernel_for_another_contract(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert get_kernel("auto", registry(fast=outdated)).name != "fast"
    assert "ranking-fast" in caplog.text


# --- families -----------------------------------------------------------------------------------


class Doubled:
    """A linear family whose scores differ from those of other kernels."""

    @staticmethod
    def linear_scores(features: Any, weights: Any, out: Any, threads: int) -> None:
        out[:] = 2.0


def partial(**more: Any) -> Kernel:
    reference = reference_kernel()
    return Kernel("partial", {"linear": Doubled}, "1", reference.description, **more)


def test_missing_families_are_inherited() -> None:
    kernel, reference = partial(fallback=reference_kernel()), reference_kernel()
    assert kernel.linear.scores(np.ones((1, 3)), np.ones(3)).tolist() == [2.0]
    assert kernel.random.uniform(1, 0, 5).tolist() == reference.random.uniform(1, 0, 5).tolist()
    families = kernel.families()
    assert set(families) == set(FAMILIES)
    assert {name for name, server in families.items() if server == "partial"} == {"linear"}
    assert set(families.values()) == {"partial", "reference"}
    assert kernel.describe()["families"] == families


def test_missing_families_need_a_fallback() -> None:
    with pytest.raises(KernelUnavailableError, match=r"does not implement \['random', .*fallback"):
        partial()


def test_unknown_families_are_refused() -> None:
    reference = reference_kernel()
    with pytest.raises(KernelUnavailableError, match=r"unknown families \['lineer'\]"):
        Kernel("x", {"lineer": Doubled}, "1", reference.description, reference)


def test_kernels_are_pickled_by_name() -> None:
    assert pickle.loads(pickle.dumps(get_kernel("reference"))).name == "reference"
