"""The largest memory of the process."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")


def reset_peak() -> None:
    """Begin to measure; where the system cannot (other than Linux), the peak is that so far."""
    gc.collect()
    try:
        _RESET.write_text("5")
    except OSError:
        return


def peak_bytes() -> int:
    """Return the largest resident memory since `reset_peak`, or 0 if the system has none."""
    try:
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
