"""Ranks and measures of ranked lists.

A list is sorted once, by score, highest first (-0.0 equals 0.0); then every requested measure is
computed from that order. A *block* is the documents of one score. Relevant means a grade of
`RELEVANT` or more. Counts are integers; sums run over the ranks from 0.0, and a product of gain
and discount is rounded before it is added. Values are by list, so threads change nothing.

A measure is a row of six integers, `MEASURE_COLUMNS`: its `MeasureKind`; the cutoff (0: none);
the table of gains (0: the grade); the table of discounts; whether tied documents share gains or
ranks; whether a list that is shorter than the cutoff has the value 0. Discounts, and gains other
than the grade itself, come as tables, so a kernel adds, multiplies and divides only, and needs no
logarithm or power that a C library might round differently.
"""

from __future__ import annotations

from typing import Protocol

from ranking.kernels.contract.arrays import Bytes, Features, Floats, Ints, RankedListArrays


class MetricsFamily(Protocol):
    """Ranks and measures of ranked lists."""

    def rank_lists(
        self, group_ptr: Ints, scores: Features, order: Ints, tied: Bytes, threads: int
    ) -> None:
        """Sort the rows of each list by score, highest first; equal scores keep their order.

        group_ptr : int64 (lists + 1)
        scores : float32 or float64 (rows), no NaN
        order : int64 (rows), written
            The row at each rank.
        tied : uint8 (rows), written
            1 where a rank has the score of the rank before it in its list, else 0.
        """

    def ranked_metrics(
        self, lists: RankedListArrays, measures: Ints, out: Floats, threads: int
    ) -> None:
        """Fill out[q, m] with measure m of list q, NaN where there is nothing to measure.

        measures : int64 (measures, 6)
        out : float64 (lists, measures)
        """
