"""Third-party parts are checked during training; errors name the part."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np
import pytest

from ranking.contracts.callback import Callback
from ranking.contracts.regularizer import Regularizer
from ranking.errors import PluginError
from ranking.registry.guard import watched


@dataclasses.dataclass
class Raising(Callback):
    """A callback that raises at the end of an epoch."""

    name: ClassVar[str] = "raising"

    def on_epoch_end(self, run, result):
        raise ZeroDivisionError("no epoch")


@dataclasses.dataclass
class WrongShape(Regularizer):
    """A regularizer whose prox has another shape."""

    name: ClassVar[str] = "wrong-shape"

    def penalty(self, parameters):
        return 0.0

    def prox(self, parameters, step):
        return parameters[:1]


def test_an_exception_of_a_callback_names_it():
    callback = Raising()
    with watched([("callback", callback)]):
        with pytest.raises(
            PluginError, match=r"callback 'raising' .*on_epoch_end raised ZeroDivisionError"
        ):
            callback.on_epoch_end(None, None)
        callback.on_fit_begin(None)
    with pytest.raises(ZeroDivisionError):
        callback.on_epoch_end(None, None)


def test_a_wrong_shape_names_the_part():
    part = WrongShape()
    with (
        watched([("regularizer", part)]),
        pytest.raises(PluginError, match=r"'wrong-shape' .*returned shape \(1,\), expected \(3,\)"),
    ):
        part.prox(np.zeros(3), 1.0)
