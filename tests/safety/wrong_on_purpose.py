"""Make the Cython kernel write behind an array, which `make sanitize` must report.

The arrays skip the checks that every caller goes through.
"""

from types import SimpleNamespace

import numpy as np

from ranking.kernels.cython import _letor

ROWS = 64
TEXT = np.frombuffer(b"0 qid:1 1:1\n" * ROWS, np.uint8)
SOURCE = SimpleNamespace(text=TEXT, chunk_ptr=np.array([0, TEXT.size]), row_ptr=np.array([0, ROWS]))
OUT = SimpleNamespace(
    grades=np.zeros(1),  # one row
    row_info=np.zeros((ROWS, 6), np.int64),
    indices=np.zeros(TEXT.size // 4, np.int32),
    values=np.zeros(TEXT.size // 4),
    chunk_info=np.zeros((1, 9), np.int64),
)

_letor.parse_letor(SOURCE, OUT, 1)
