"""Parsing of LETOR text.

A line is ``<grade> qid:<id> <index>:<value> ... # comment``. Words are separated by ASCII white
space; numbers are decimal, ``1``, ``-.5``, ``+1.``, ``1e-5``, and become the nearest double
(then, if values are float32, the float32 nearest to that).
"""

from __future__ import annotations

from typing import Protocol

from ranking.kernels.contract.arrays import LetorBuffers, LetorText


class LetorFamily(Protocol):
    """Parsing of LETOR text."""

    def parse_letor(self, source: LetorText, out: LetorBuffers, threads: int) -> None:
        """Parse chunks of whole lines.

        Chunk c writes its rows from row_ptr[c] on and its features from
        chunk_ptr[c] // `PAIR_BYTES` on, one after the other. It stops at its first defect.
        Elements that it does not write are undefined.
        """
