"""Ctrl-C: held until an epoch is whole; a second one is not."""

from __future__ import annotations

import signal
import threading

import pytest

from ranking.training.signals import DeferredInterrupts


def test_one_is_held_until_it_is_released():
    done, interrupts = [], DeferredInterrupts()
    before = signal.getsignal(signal.SIGINT)

    def work():
        with interrupts:
            interrupts.release()
            signal.raise_signal(signal.SIGINT)
            done.append("the epoch")
            interrupts.release()
            done.append("another")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["the epoch"]
    assert interrupts.count == 1
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_is_not_held():
    done, interrupts = [], DeferredInterrupts()

    def work():
        with interrupts:
            signal.raise_signal(signal.SIGINT)
            done.append("half")
            signal.raise_signal(signal.SIGINT)
            done.append("the other half")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["half"]
    assert interrupts.count == 2


def test_other_handlers_and_threads_are_left_alone():
    def handler(number, frame):
        """Belong to somebody else."""

    before = signal.signal(signal.SIGINT, handler)
    try:
        with DeferredInterrupts():
            assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)
    seen = []

    def elsewhere():
        with DeferredInterrupts() as interrupts:
            interrupts.release()
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [before]
