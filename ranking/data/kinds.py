"""The types of data that a reader may return."""

from __future__ import annotations

from typing import TypeAlias

from ranking.data.judged_lists import JudgedLists
from ranking.data.matching_data import MatchingData
from ranking.data.text_collection import TextCollection
from ranking.data.trec import Judgements, Run

Data: TypeAlias = JudgedLists | MatchingData | TextCollection | Judgements | Run
