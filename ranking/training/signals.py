"""Ctrl-C between epochs: what is in the middle of one is no state to keep."""

from __future__ import annotations

import logging
import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

logger = logging.getLogger(__name__)


class DeferredInterrupts:
    """Holds Ctrl-C back until `release` is called; a second one is not held.

    Only where signals arrive, in the main thread; elsewhere this does nothing.

    Attributes
    ----------
    asked : int
        How many have come.
    """

    def __init__(self) -> None:
        self.asked = 0
        self._before: Any = None

    def __enter__(self) -> Self:
        here = threading.current_thread() is threading.main_thread()
        if here and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._before = signal.signal(signal.SIGINT, self._hold)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _hold(self, number: int, frame: FrameType | None) -> None:
        self.asked += 1
        if self.asked > 1:
            raise KeyboardInterrupt
        logger.warning("stopping after this epoch; press Ctrl-C again to stop at once.")

    def release(self) -> None:
        """Raise what was held back."""
        if self.asked:
            raise KeyboardInterrupt
