"""Defer Ctrl-C to the end of an epoch, because a state within an epoch cannot be kept."""

from __future__ import annotations

import logging
import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

logger = logging.getLogger(__name__)


class DeferredInterrupts:
    """Defer Ctrl-C until `release` is called; a second one is not deferred.

    This works in the main thread, where signals arrive; elsewhere it does nothing.

    Attributes
    ----------
    count : int
        Interrupts so far.
    """

    def __init__(self) -> None:
        self.count = 0
        self._before: Any = None

    def __enter__(self) -> Self:
        here = threading.current_thread() is threading.main_thread()
        if here and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._before = signal.signal(signal.SIGINT, self._defer)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _defer(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self.count > 1:
            raise KeyboardInterrupt
        logger.warning("stopping after this epoch; press Ctrl-C again to stop at once.")

    def release(self) -> None:
        """Raise a deferred interrupt."""
        if self.count:
            raise KeyboardInterrupt
