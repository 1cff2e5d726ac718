"""HTTP whose headers must arrive in time, so that slow clients hold no connections."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class TimedProtocol(H11Protocol):  # type: ignore[misc]
    """Close a connection whose request line and headers are not complete after some seconds."""

    seconds = 10.0
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Wait for the first request."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        super().connection_lost(exc)
        self._stop()

    def _watch(self) -> None:
        """Set the timer while headers are awaited; more of them do not move it."""
        if self.conn.their_state is not h11.IDLE:
            self._stop()
        elif self._late is None:
            self._late = self.loop.call_later(self.seconds, self.transport.close)

    def _stop(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


def timed_protocol(seconds: float) -> type[asyncio.Protocol]:
    """Return the protocol with a limit of seconds."""
    return type("TimedProtocol", (TimedProtocol,), {"seconds": seconds})
