"""Reference of the family of lists that share their negatives. All arithmetic is float32."""

from __future__ import annotations

import numpy as np

from ranking.kernels.contract import (
    EXP_LOWEST_32,
    EXP_Q_32,
    LN2_HIGH_32,
    LN2_LOW_32,
    LOG2E_32,
    MAGIC_32,
    WIDE,
    Exclusions,
    SharedForm,
    SharedGradients,
    SharedLists,
    SharedLoss,
    Singles,
)

ZERO, ONE = np.float32(0.0), np.float32(1.0)


def exp32(x: Singles) -> Singles:
    """Return the exponential of numbers that are not positive; 0 below -87."""
    low = x < np.float32(EXP_LOWEST_32)
    x = np.where(low, np.float32(EXP_LOWEST_32), x)
    t = x * np.float32(LOG2E_32) + np.float32(MAGIC_32)
    k = t - np.float32(MAGIC_32)
    r = (x - k * np.float32(LN2_HIGH_32)) - k * np.float32(LN2_LOW_32)
    q = np.full_like(r, EXP_Q_32[0])
    for coefficient in EXP_Q_32[1:]:
        q = q * r + np.float32(coefficient)
    p = (q * (r * r) + r) + ONE
    bits = p.view(np.uint32) + (t.view(np.uint32) << np.uint32(23))
    return np.where(low, ZERO, bits.view(np.float32))


def logistic32(x: Singles) -> Singles:
    """Return 1 / (1 + exp(-x))."""
    e = exp32(-np.abs(x))
    probabilities: Singles = np.where(x >= ZERO, ONE, e) / (ONE + e)
    return probabilities


def dots(a: Singles, b: Singles) -> Singles:
    """Return the dot product of each row of a with that of b, in eight partial sums."""
    sums = np.zeros((a.shape[0], WIDE), np.float32)
    products = (a * b).reshape(a.shape[0], a.shape[1] // WIDE, WIDE)
    for at in range(products.shape[1]):
        sums += products[:, at]
    return fold(sums)


def fold(sums: Singles) -> Singles:
    """Add the eight partial sums of each row."""
    low = (sums[:, 0] + sums[:, 4]) + (sums[:, 2] + sums[:, 6])
    folded: Singles = low + ((sums[:, 1] + sums[:, 5]) + (sums[:, 3] + sums[:, 7]))
    return folded


def row_sums(values: Singles) -> Singles:
    """Return the sum of each row in eight partial sums."""
    rows, columns = values.shape
    padded = np.zeros((rows, -(-columns // WIDE) * WIDE), np.float32)
    padded[:, :columns] = values
    return dots(padded, np.ones_like(padded))


def product(a: Singles, b: Singles) -> Singles:
    """Return the matrix product a b, added up term by term."""
    out = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        out += a[:, k, None] * b[k]
    return out


def exclude(a: Singles, excluded: Exclusions) -> None:
    """Write -inf where a negative does not belong to a list."""
    rows = np.repeat(np.arange(a.shape[0]), np.diff(excluded.indptr))
    a[rows, excluded.documents] = -np.inf


def softmax(
    positive: Singles, a: Singles, lists: SharedLists, loss: SharedLoss
) -> tuple[Singles, Singles, Singles, Singles]:
    """Return g_+, all g_j, t and e_+ + S."""
    top = positive
    for column in a.T:
        top = np.where(column > top, column, top)
    e, own = exp32(a - top[:, None]), exp32(positive - top)
    below = row_sums(e)
    total = own + below
    top = top + ZERO  # not -0
    r = (lists.weights * np.float32(loss.scale)) / total
    return -(r * below), r[:, None] * e, top, total


def cosine_contrastive(
    positive: Singles, a: Singles, lists: SharedLists, loss: SharedLoss
) -> tuple[Singles, Singles, Singles, Singles]:
    """Return g_+, all g_j, 0 and the sum of what exceeds the threshold."""
    excess = a - np.float32(loss.threshold)
    above = excess > ZERO
    scaled = lists.weights * np.float32(loss.scale)
    slopes = np.where(above, (scaled * np.float32(loss.weight))[:, None], ZERO)
    return -scaled, slopes, np.zeros_like(positive), row_sums(np.where(above, excess, ZERO))


def logistic(
    positive: Singles, a: Singles, lists: SharedLists, loss: SharedLoss
) -> tuple[Singles, Singles, Singles, Singles]:
    """Return g_+, all g_j, 0 and the sum of the probabilities."""
    scaled, probabilities = lists.weights * np.float32(loss.scale), logistic32(a)
    slopes = (scaled * np.float32(loss.weight))[:, None] * probabilities
    own = -(scaled * logistic32(-positive))
    return own, slopes, np.zeros_like(positive), row_sums(probabilities)


FORMS = {
    SharedForm.SOFTMAX: softmax,
    SharedForm.COSINE_CONTRASTIVE: cosine_contrastive,
    SharedForm.LOGISTIC: logistic,
}


def shared_lists(lists: SharedLists, loss: SharedLoss, out: SharedGradients, threads: int) -> None:
    """Fill the gradients of all embeddings."""
    scale = np.float32(loss.scale)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        positive = scale * dots(lists.queries, lists.positives) + lists.positive_offsets
        a = scale * product(lists.queries, lists.negatives.T) + lists.negative_offsets
        exclude(a, lists.excluded)
        own, slopes, top, total = FORMS[SharedForm(loss.form)](positive, a, lists, loss)
        sums = product(slopes, lists.negatives)
        out.queries[:] = sums + own[:, None] * lists.positives
        out.positives[:] = own[:, None] * lists.queries
        out.negatives[:] = product(np.ascontiguousarray(slopes.T), lists.queries)
        columns = np.zeros(slopes.shape[1], np.float32)
        for row in slopes:
            columns += row
    out.positive_slopes[:], out.negative_slopes[:] = own, columns
    out.scores[:], out.tops[:], out.totals[:] = positive, top, total
