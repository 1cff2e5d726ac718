"""Position bias: how likely a position is looked at, estimated from clicks.

The position-based model (Richardson, Dominowska and Ragno, 2007; Craswell et al., 2008) says that a
document d, shown to a query q at position k, is clicked with the probability ``theta_k gamma_qd``:
the position is examined, and the document is found relevant. The clicks of one document at several
positions separate the two factors, up to a common scale. Here the largest theta is 1.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ranking.data.validation import Ids, Ints
from ranking.errors import DataError

Floats = NDArray[np.float64]

START = 0.5
"""Both probabilities before the first epoch."""

LEAST = 1e-12
"""Probabilities are at least this, and at most 1 less it."""


class PositionBias(NamedTuple):
    """A position-based model of clicks.

    Attributes
    ----------
    positions : int64 array
        The positions of the log, rising.
    propensities : float64 array
        The probability that each position is examined, over the largest.
    query_ids, document_ids : arrays
        The pairs of the log, one row each.
    relevance : float64 array
        The probability of a click on each pair where positions are examined as often as at the best
        one.
    log_likelihoods : list of float
        After each epoch; it never decreases.
    """

    positions: Ints
    propensities: Floats
    query_ids: Ids
    document_ids: Ids
    relevance: Floats
    log_likelihoods: list[float]

    def at(self, positions: ArrayLike) -> Floats:
        """Return the propensity of each of these positions."""
        wanted = _positions(positions)
        places = np.searchsorted(self.positions, wanted).clip(max=self.positions.size - 1)
        unknown = self.positions[places] != wanted
        if unknown.any():
            raise DataError(
                f"position {wanted[unknown][0]} is not in the log of the model, which has "
                f"{self.positions[0]} to {self.positions[-1]}; leave it out."
            )
        result: Floats = self.propensities[places]
        return result


def estimate_position_bias(
    queries: ArrayLike,
    documents: ArrayLike,
    positions: ArrayLike,
    clicks: ArrayLike,
    *,
    max_epochs: int = 1000,
    tolerance: float = 1e-8,
) -> PositionBias:
    """Estimate how likely each position is examined, from a log of clicks, by EM.

    An epoch computes, for each impression without a click, the probabilities that its position was
    examined and that its document is relevant, and takes their means by position and by pair. No
    epoch decreases the likelihood.

    Parameters
    ----------
    queries, documents : sequence of int or str
        One per impression: a document that was shown to a query (an item to a user).
    positions : sequence of int
        Where it was shown, from 1.
    clicks : sequence of 0 and 1
    max_epochs : int
    tolerance : float
        Stop when an epoch increases the log-likelihood by less than this share of it.

    Raises
    ------
    DataError
        If no document connects two groups of positions, so that they cannot be compared.

    Examples
    --------
    >>> bias = estimate_position_bias(
    ...     ["a"] * 8, ["x", "x", "x", "x", "y", "y", "y", "y"], [1, 1, 2, 2] * 2,
    ...     [1, 1, 1, 0, 1, 1, 0, 1],
    ... )
    >>> bias.propensities.round(2).tolist()
    [1.0, 0.5]
    """
    log = _Log.of(queries, documents, positions, clicks)
    log.refuse_separate_groups()
    theta = np.full(log.position_ids.size, START)
    gamma = np.full(log.query_ids.size, START)
    likelihoods = [log.likelihood(theta, gamma)]
    for _ in range(max_epochs):
        theta, gamma = log.improved(theta, gamma)
        likelihoods.append(log.likelihood(theta, gamma))
        if likelihoods[-1] - likelihoods[-2] <= tolerance * abs(likelihoods[-1]):
            break
    top = theta.max()
    return PositionBias(
        log.position_ids,
        theta / top,
        log.query_ids,
        log.document_ids,
        np.minimum(gamma * top, 1.0),
        likelihoods[1:],
    )


class _Log(NamedTuple):
    """Impressions and clicks by pair and position.

    Attributes
    ----------
    pairs, places : int64 arrays
        The pair and the position of each cell, as indices.
    shown, clicked : float64 arrays
        Numbers of impressions and of clicks in each cell.
    """

    query_ids: Ids
    document_ids: Ids
    position_ids: Ints
    pairs: Ints
    places: Ints
    shown: Floats
    clicked: Floats

    @classmethod
    def of(
        cls, queries: ArrayLike, documents: ArrayLike, positions: ArrayLike, clicks: ArrayLike
    ) -> _Log:
        """Count the impressions; refuse columns of different lengths, and other clicks."""
        wide = [np.asarray(column) for column in (queries, documents)]
        numbers, hits = _positions(positions), np.asarray(clicks, dtype=np.float64)
        sizes = [column.size for column in (*wide, numbers, hits)]
        if len(set(sizes)) > 1 or not sizes[0]:
            raise DataError(
                "queries, documents, positions and clicks need one entry per impression; there are "
                f"{', '.join(map(str, sizes))}."
            )
        if not np.isin(hits, (0.0, 1.0)).all():
            wrong = hits[~np.isin(hits, (0.0, 1.0))][0]
            raise DataError(
                f"a click is 0 or 1, and one is {wrong:g}; give one row per impression."
            )
        (query_ids, rows), (document_ids, columns) = (
            np.unique(column, return_inverse=True) for column in wide
        )
        position_ids, places = np.unique(numbers, return_inverse=True)
        keys, pairs = np.unique(rows * document_ids.size + columns, return_inverse=True)
        cells, cell = np.unique(pairs * position_ids.size + places, return_inverse=True)
        return cls(
            query_ids[keys // document_ids.size],
            document_ids[keys % document_ids.size],
            position_ids,
            cells // position_ids.size,
            cells % position_ids.size,
            np.bincount(cell).astype(np.float64),
            np.bincount(cell, weights=hits).astype(np.float64),
        )

    def refuse_separate_groups(self) -> None:
        """Refuse groups of positions that no pair connects."""
        n_positions, n_pairs = self.position_ids.size, self.query_ids.size
        size = n_positions + n_pairs
        links = (np.ones(self.pairs.size), (self.places, n_positions + self.pairs))
        count, group = connected_components(coo_array(links, shape=(size, size)), directed=False)
        if count > 1:
            other = int(np.argmax(group[:n_positions] != group[0]))
            raise DataError(
                f"positions {self.position_ids[0]} and {self.position_ids[other]} cannot be "
                "compared: no document was shown to the same query in both, nor through others in "
                "between; log results in different orders."
            )

    def improved(self, theta: Floats, gamma: Floats) -> tuple[Floats, Floats]:
        """Return the probabilities after an epoch of EM."""
        t, g = theta[self.places], gamma[self.pairs]
        rest = (self.shown - self.clicked) / (1.0 - t * g)
        examined = self.clicked + rest * t * (1.0 - g)
        relevant = self.clicked + rest * g * (1.0 - t)
        means = [
            np.bincount(at, weights=mass, minlength=size)
            / np.bincount(at, weights=self.shown, minlength=size)
            for at, mass, size in (
                (self.places, examined, theta.size),
                (self.pairs, relevant, gamma.size),
            )
        ]
        return means[0].clip(LEAST, 1.0 - LEAST), means[1].clip(LEAST, 1.0 - LEAST)

    def likelihood(self, theta: Floats, gamma: Floats) -> float:
        """Return the log-likelihood of the clicks."""
        p = theta[self.places] * gamma[self.pairs]
        skipped = self.shown - self.clicked
        return float(self.clicked @ np.log(p) + skipped @ np.log1p(-p))


def _positions(positions: ArrayLike) -> Ints:
    """Return positions as integers; refuse others, and those below 1."""
    numbers = np.asarray(positions)
    if numbers.size and (numbers.dtype.kind not in "iu" or numbers.min() < 1):
        whole = numbers.dtype.kind == "f" and (numbers == np.rint(numbers)).all()
        if not whole or numbers.min() < 1:
            raise DataError("positions must be whole numbers from 1 on.")
    return numbers.astype(np.int64).ravel()


def inverse_propensities(propensities: ArrayLike, size: int, least: float) -> Any:
    """Return 1 over each propensity, of which those below `least` count as `least`."""
    numbers = np.asarray(propensities, dtype=np.float64)
    if numbers.shape != (size,):
        raise DataError(
            f"expected {size} propensities, one per interaction; got shape {numbers.shape}."
        )
    if not 0.0 < least <= 1.0:
        raise DataError(f"min_propensity is {least:g}; it must be above 0, and at most 1.")
    wrong = ~((numbers > 0.0) & (numbers <= 1.0))
    if wrong.any():
        raise DataError(
            f"a propensity is a probability above 0, and one is {numbers[wrong][0]:g}; leave out "
            "what could not be seen."
        )
    return 1.0 / np.maximum(numbers, least)
