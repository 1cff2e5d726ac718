"""How a kernel is chosen."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from ranking.errors import KernelUnavailableError
from ranking.kernels import ranking_kernels
from ranking.kernels.builtin import reference_kernel
from ranking.kernels.kernel import Kernel
from ranking.kernels.select import VARIABLE, get_kernel
from ranking.registry import Registry, hookimpl
from ranking.registry.manager import Source


def registry(**strangers: Any) -> Registry:
    """A registry of the built-in kernels and of a stranger's."""
    builtin = SimpleNamespace(ranking_kernels=ranking_kernels)

    @hookimpl
    def kernels() -> dict[str, Any]:
        return strangers

    stranger = SimpleNamespace(ranking_kernels=kernels)
    return Registry(
        [
            Source("kernels", "ranking-kit", "1", lambda: builtin),
            Source("fast", "ranking-fast", "2", lambda: stranger),
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


def test_a_kernel_is_handed_through() -> None:
    kernel = reference_kernel()
    assert get_kernel(kernel) is kernel


def test_argument_wins_over_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "missing")
    assert get_kernel("reference", registry()).name == "reference"


@pytest.mark.parametrize("asked", ["auto", None])
def test_variable_wins_over_auto(monkeypatch: pytest.MonkeyPatch, asked: str | None) -> None:
    monkeypatch.setenv(VARIABLE, "reference")
    assert get_kernel(asked, registry()).name == "reference"


def test_auto_prefers_a_strangers_kernel() -> None:
    kernel = Kernel("fast", reference_kernel().loops, "2")
    assert get_kernel("auto", registry(fast=lambda: kernel)) is kernel


def test_auto_falls_back_aloud(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert get_kernel("auto", registry(fast=broken)).name in {"cython", "reference"}
    assert "'fast' is passed over" in caplog.text
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


def test_what_is_not_a_kernel_is_refused() -> None:
    with pytest.raises(KernelUnavailableError, match="returned str"):
        get_kernel("fast", registry(fast=lambda: "fast"))


def outdated() -> Kernel:
    loops = SimpleNamespace(**vars(reference_kernel().loops))
    loops.contract = lambda: {"abi": 0}
    return Kernel("fast", loops, "2")


def test_a_kernel_for_another_contract_is_refused() -> None:
    with pytest.raises(KernelUnavailableError, match=r"ranking-fast 2 was built for version 0"):
        get_kernel("fast", registry(fast=outdated))


def test_auto_passes_over_a_kernel_for_another_contract(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert get_kernel("auto", registry(fast=outdated)).name != "fast"
    assert "ranking-fast" in caplog.text
