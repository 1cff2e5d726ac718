"""The factored model plus the identity: supervised semantic indexing (Bai et al., 2009)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ranking.contracts.model import Embedding
from ranking.contracts.parameters import boolean
from ranking.data.validation import take_columns
from ranking.kernels.contract import Floats, Ints
from ranking.models.factored import Factored

if TYPE_CHECKING:
    from ranking.data.matching_data import MatchingData
    from ranking.kernels.kernel import Kernel


@dataclasses.dataclass
class FactoredIdentity(Factored):
    """Score a query and a document by ``q' (U'V + I) d``.

    I pairs the features that queries and documents share by id, so an untrained model of small
    embeddings ranks about as the inner product of the features.

    Parameters
    ----------
    dimensions, init_scale, score
        As in `factored`; score must be "dot".
    biases : bool
        Whether a document feature has a bias.
    """

    name: ClassVar[str] = "factored-identity"
    form: ClassVar[Any] = "factors-identity"

    biases: bool = boolean(False)

    def embedding(self, data: MatchingData, kernel: Kernel, threads: int = 1) -> Embedding | None:
        """Return None: the identity has as many dimensions as there are features."""
        return None

    def raw_documents(self, data: MatchingData) -> Any:
        """Return the documents, one column per query feature of the data."""
        names = data.query_feature_ids
        rows = take_columns(data.document_rows, data.document_feature_ids, names)
        return rows.astype(np.float64)

    def scorer(
        self, data: MatchingData, kernel: Kernel, threads: int = 1
    ) -> Callable[[Ints], Floats]:
        """Return a function from positions of queries to their scores, one row per query."""
        factored = super().scorer(data, kernel, threads)
        queries = data.query_rows.astype(np.float64)
        columns = self.raw_documents(data).T.tocsr()

        def block(positions: Ints) -> Floats:
            raw: Floats = (queries[positions] @ columns).toarray()
            return factored(positions) + raw

        return block
