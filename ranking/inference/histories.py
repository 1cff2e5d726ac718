"""Lists, explanations and files of models whose users are histories, and of sums of models."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from ranking.contracts.model import Embedding
from ranking.data.matching_data import MatchingData
from ranking.data.validation import take_columns
from ranking.errors import CombinationError, DataError
from ranking.inference.explain import Contribution
from ranking.inference.fold_in import fold_in, fold_in_history, positives_of_new_queries
from ranking.inference.retrieval import Retriever
from ranking.kernels.contract import Ints
from ranking.kernels.kernel import Kernel
from ranking.kernels.sampling import PositiveLists
from ranking.models.combination import Combination, Component, Scorer
from ranking.models.factored import Factored
from ranking.models.item_item import ItemItem

if TYPE_CHECKING:
    from ranking.data.seen import SeenItems


def new_users(
    model: ItemItem | Combination,
    data: MatchingData,
    lists: Sequence[Sequence[Any]],
    k: int,
    run: tuple[Kernel, int],
    seed: int = 0,
) -> Retriever:
    """Return the lists of new users, from the items that they have.

    In an item-item model nothing is trained; the models of a combination are folded in one by one.
    """
    samples, exclusions = positives_of_new_queries(data, lists)
    users = _users(data, len(lists))
    if isinstance(model, ItemItem):
        folded: Any = model.fold_in(lists, users.query_ids)
    else:
        folded = _FoldedSum(model, lists, samples, seed)
    return Retriever(folded, users, k, *run, exclusions=exclusions)


@dataclasses.dataclass
class _FoldedSum:
    """A combination for new users; it has what a `Retriever` asks of a model."""

    model: Combination
    lists: Sequence[Sequence[Any]]
    samples: PositiveLists
    seed: int

    def embedding(self, data: MatchingData, kernel: Kernel, threads: int = 1) -> None:
        """Return None: a sum of models has scores, and no embeddings."""

    def scorer(self, data: MatchingData, kernel: Kernel, threads: int = 1) -> Scorer:
        """Return a function from positions of new users to their scores."""
        scorers = [self._scorer(one, data, kernel, threads) for one in self.model.components]
        return self.model.weighted_sum(scorers, data.n_documents)

    def _scorer(
        self, component: Component, data: MatchingData, kernel: Kernel, threads: int
    ) -> Scorer:
        if isinstance(component.model, ItemItem):
            folded = component.model.fold_in(self.lists, data.query_ids)
            return folded.scorer(data, kernel, threads)
        model = component.model
        embedding = model.embedding(data, kernel, threads)
        if embedding is not None and isinstance(model, Factored) and model.history != "ignored":
            means = fold_in_history(model, data, self.samples, kernel, threads)
            return _scores_of(embedding._replace(queries=means), kernel, threads)
        if embedding is None or component.loss is None:
            raise CombinationError(
                f"the combination has a model {component.model.name!r} without embeddings or "
                "without the loss it was trained with, so it cannot fold in new users; train the "
                "combination again."
            )
        queries = fold_in(
            embedding,
            self.samples,
            component.loss,
            kernel,
            regularizer=component.regularizer,
            seed=self.seed,
            threads=threads,
        )
        return _scores_of(embedding._replace(queries=queries), kernel, threads)


def _scores_of(embedding: Embedding, kernel: Kernel, threads: int) -> Scorer:
    """Return a function from positions of queries to their scores."""

    def scores(positions: Ints) -> Any:
        rows = np.ascontiguousarray(embedding.queries[positions])
        return kernel.factored.scores(rows, embedding.documents, embedding.biases, threads)

    return scores


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


def explain_sum(
    model: Combination, seen: SeenItems, user: Any, item: Any, run: tuple[Kernel, int]
) -> list[Contribution]:
    """Return the contributions to the score of a sum of models, the largest first.

    They are those of the items of the history in each item-item model, and the whole score of each
    other model, which stands at the name of the model instead of an item of the history.
    """
    position, column = (
        _known(what, ids, name)
        for what, ids, name in (("user", seen.user_ids, user), ("item", seen.item_ids, item))
    )
    data = seen.data(np.array([position]))
    reasons = []
    scorers = model.component_scorers(data, *run)
    for weight, one, scorer in zip(model.weights.tolist(), model.components, scorers, strict=True):
        scores = scorer(np.zeros(1, np.int64)).astype(np.float64)
        scale = weight / float(model.scales(scores)[0])
        if isinstance(one.model, ItemItem):
            parts = explain_item(one.model, seen.user_ids[position], seen.item_ids[column])
        else:
            score = float(scores[0, column])
            name = seen.item_ids[column].item()
            parts = [Contribution(one.model.spec(), name, score, 1.0, 1.0, score)]
        reasons += [
            part._replace(weight=part.weight * scale, contribution=part.contribution * scale)
            for part in parts
        ]
    return sorted(reasons, key=lambda part: -abs(part.contribution))


def without_histories(model: Any) -> Any:
    """Return a model that does not tell who has what; other models know no histories."""
    if isinstance(model, Combination):
        other = dataclasses.replace(model)
        other.weights = model.weights
        other.components = [
            one._replace(model=without_histories(one.model)) for one in model.components
        ]
        return other
    if not isinstance(model, ItemItem):
        return model
    no_histories = sparse.csr_array(model.histories.shape, dtype=np.float32)
    return model.with_histories(no_histories, model.query_feature_ids)


def _known(what: str, ids: Any, wanted: Any) -> int:
    """Return the position of an id; a number may be given as text."""
    matches = np.flatnonzero(ids.astype(np.str_) == str(wanted))
    if not matches.size:
        raise DataError(f"the model does not know {what} {wanted!r}, only such as {ids[0]!r}.")
    return int(matches[0])


def _users(data: MatchingData, count: int) -> MatchingData:
    """Return users without positives, numbered from 0, and the items of the data."""
    return MatchingData(
        None,
        data.documents,
        sparse.csr_array((count, data.n_documents)),
        document_ids=data.document_ids,
        document_feature_ids=data.document_feature_ids,
    )
