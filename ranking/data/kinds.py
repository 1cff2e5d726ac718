"""The kinds of data that a reader may make."""

from __future__ import annotations

from typing import TypeAlias

from ranking.data.judged import Judged
from ranking.data.matching import Matching
from ranking.data.texts import TextCollection
from ranking.data.trec import Judgements, Ranking

Data: TypeAlias = Judged | Matching | TextCollection | Judgements | Ranking
