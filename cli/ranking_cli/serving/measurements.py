"""Counts and times of requests, in the text format of Prometheus."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter

BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
"""Upper ends of the histogram, in seconds."""


class Measurements:
    """Counts requests by path and status, and their times by path."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, int]] = Counter()
        self._buckets: dict[str, list[int]] = {}
        self._seconds: dict[str, float] = {}

    def record(self, path: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests[path, status] += 1
        self._seconds[path] = self._seconds.get(path, 0.0) + seconds
        counts = self._buckets.setdefault(path, [0] * (len(BUCKETS) + 1))
        counts[bisect_left(BUCKETS, seconds)] += 1

    def text(self) -> str:
        """Return all counts."""
        lines = ["# TYPE ranking_requests_total counter"]
        lines += [
            f'ranking_requests_total{{path="{path}",status="{status}"}} {count}'
            for (path, status), count in sorted(self._requests.items())
        ]
        lines.append("# TYPE ranking_request_seconds histogram")
        for path, counts in sorted(self._buckets.items()):
            total = 0
            for end, count in zip((*BUCKETS, "+Inf"), counts, strict=True):
                total += count
                lines.append(f'ranking_request_seconds_bucket{{path="{path}",le="{end}"}} {total}')
            lines.append(f'ranking_request_seconds_sum{{path="{path}"}} {self._seconds[path]:.6f}')
            lines.append(f'ranking_request_seconds_count{{path="{path}"}} {total}')
        return "\n".join(lines) + "\n"
