"""Lists, explanations and files of item-item models, whose users are histories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from ranking.data.exclusions import Pairs
from ranking.data.matching_data import MatchingData
from ranking.data.validation import take_columns
from ranking.errors import CombinationError
from ranking.inference.explain import Contribution
from ranking.inference.retrieval import Retriever
from ranking.kernels.kernel import Kernel
from ranking.models.item_item import ItemItem


def new_users(
    model: ItemItem,
    data: MatchingData,
    lists: Sequence[Sequence[Any]],
    exclusions: Pairs,
    k: int,
    run: tuple[Kernel, int],
) -> Retriever:
    """Return the lists of new users, from the items that they have; nothing is trained."""
    users = _users(data, len(lists))
    return Retriever(model.fold_in(lists, users.query_ids), users, k, *run, exclusions=exclusions)


def similar_items(
    model: ItemItem, data: MatchingData, k: int, side: str, run: tuple[Kernel, int]
) -> Retriever:
    """Return for each item those that a history of it alone speaks for most, itself excluded."""
    if side != "documents":
        raise CombinationError(
            f"similar with side={side!r} needs embeddings of users, and model {model.name!r} has "
            "weights between items only; ask for documents, or train model factored."
        )
    items = _users(data, data.n_documents)
    histories = take_columns(
        data.document_rows, data.document_feature_ids, model.document_feature_ids
    )
    itself = np.arange(data.n_documents + 1)
    return Retriever(
        model.with_histories(histories, items.query_ids),
        items,
        k,
        *run,
        exclusions=(itself, itself[:-1]),
    )


def explain_item(model: ItemItem, user: Any, item: Any) -> list[Contribution]:
    """Return the contribution of each item of a user's history to the score of an item."""
    return [
        Contribution(one.item, item, one.weight, one.value, 1.0, one.weight * one.value)
        for one in model.explain(user, item)
    ]


def without_histories(model: Any) -> Any:
    """Return a model that does not tell who has what; other models know no histories."""
    if not isinstance(model, ItemItem):
        return model
    no_histories = sparse.csr_array(model.histories.shape, dtype=np.float32)
    return model.with_histories(no_histories, model.query_feature_ids)


def _users(data: MatchingData, count: int) -> MatchingData:
    """Return users without positives, numbered from 0, and the items of the data."""
    return MatchingData(
        None,
        data.documents,
        sparse.csr_array((count, data.n_documents)),
        document_ids=data.document_ids,
        document_feature_ids=data.document_feature_ids,
    )
