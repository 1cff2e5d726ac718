"""Validation data: read by a reader of their own, and not the training data again."""

from __future__ import annotations

import click
import numpy as np

from ranking import JudgedLists, MatchingData


def refuse_equal(
    data: JudgedLists | MatchingData, valid: JudgedLists | MatchingData | None
) -> None:
    """Refuse validation data that are the training data: their metrics would mean nothing."""
    if valid is None or type(valid) is not type(data):
        return
    same = valid.fingerprint() == data.fingerprint()
    if same and np.array_equal(valid.query_ids, data.query_ids):
        raise click.UsageError(
            "--valid holds the same data as DATA, so the model would be chosen on what it was "
            "trained on; give held-out data. If both are splits of one path, name them: --reader "
            "NAME:split=train --valid-reader NAME:split=dev."
        )
