"""Reference of the pairwise lists family.

Sums that are not "in lanes" run in the order of the rows, from 0.0. Margins of a list are taken
less that of its first row. Rows are sorted by margin, then by number.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ranking.kernels.contract import (
    BLOCK,
    CHUNK,
    LANES,
    PARTS,
    PRODUCTS,
    SECANT,
    Columns,
    Csc,
    EntryPenalty,
    Floats,
    Ints,
    ListLayout,
    PairCurve,
    PairwiseForm,
)
from ranking.kernels.reference.pairwise import call_native
from ranking.kernels.reference.random import dot, exp_full, lane_sum

HINGES = (PairwiseForm.HINGE, PairwiseForm.SQUARED_HINGE)


class List(NamedTuple):
    """One list: its first row, its margins, weights and the first position of each layer."""

    first: int
    m: Floats
    w: Floats
    layers: list[int]

    def groups(self) -> Iterator[tuple[range, range]]:
        """Yield the rows of each layer but the lowest, and all rows below them."""
        for k in range(1, len(self.layers) - 1):
            yield range(self.layers[k], self.layers[k + 1]), range(self.layers[k])

    def sorted_groups(self) -> Iterator[tuple[list[int], list[int]]]:
        """Yield the same, sorted by margin."""
        order = np.argsort(self.m, kind="stable").tolist()
        for tops, below in self.groups():
            yield [r for r in order if r in tops], [r for r in order if r in below]


def _list(layout: ListLayout, margins: Floats, q: int) -> List:
    ptr = layout.layer_ptr[layout.list_ptr[q] : layout.list_ptr[q + 1] + 1]
    rows = slice(int(ptr[0]), int(ptr[-1]))
    m = margins[rows] - margins[rows.start]
    return List(rows.start, m, layout.omega[rows], [int(start - ptr[0]) for start in ptr])


# --- value and slopes ---------------------------------------------------------------------------


def _window_slopes(one: List, curve: PairCurve, out: Floats) -> float:
    """Fill `out` with the slopes of a list by windows, and return its loss."""
    value, half, bend = 0.0, 0.5 * curve.bend, curve.bend
    for tops, below in one.sorted_groups():
        p = f = len(below) - 1
        n = s1 = s2 = far = f1 = f2 = group = 0.0
        for i in reversed(tops):
            u, w = 1.0 - float(one.m[i]), float(one.w[i])
            while p >= 0 and u + (m := float(one.m[below[p]])) > curve.lower:
                n, s1, s2, p = n + 1.0, s1 + m, s2 + m * m, p - 1
            while f >= 0 and u + (m := float(one.m[below[f]])) > curve.upper:
                far, f1, f2, f = far + 1.0, f1 + m, f2 + m * m, f - 1
            c, t1, t2 = n - far, s1 - f1, s2 - f2
            v = half * (((c * u) * u + (2.0 * u) * t1) + t2)
            if far > 0.0:
                v = v + (far * (u - 0.5 * curve.upper) + f1)
            group += w * v
            out[i] -= w * (bend * (c * u + t1) + far)
        value += group
        p = f = 0
        n = s1 = far = f1 = 0.0
        for j in below:
            m = float(one.m[j])
            while p < len(tops) and (u := 1.0 - float(one.m[tops[p]])) + m > curve.lower:
                w = float(one.w[tops[p]])
                n, s1, p = n + w, s1 + w * u, p + 1
            while f < len(tops) and (u := 1.0 - float(one.m[tops[f]])) + m > curve.upper:
                w = float(one.w[tops[f]])
                far, f1, f = far + w, f1 + w * u, f + 1
            out[j] += bend * ((n - far) * m + (s1 - f1)) + far
    return value


def _sigmoids(z: Floats) -> tuple[Floats, Floats]:
    """Return exp(-abs(z)), and 1 plus it."""
    e = exp_full(np.where(z < 0.0, z, -z))
    return e, 1.0 + e


def _logistic_slopes(one: List, out: Floats) -> float:
    """Fill `out` with the slopes of a list by all pairs, in lanes, and return its loss."""
    value = 0.0
    for tops, below in one.groups():
        low = np.full(-(-len(below) // LANES) * LANES, -np.inf)
        low[: len(below)] = one.m[: len(below)]
        pull = np.zeros(low.size)
        for i in tops:
            w = float(one.w[i])
            z = one.m[i] - low
            e, plus = _sigmoids(z)
            s = np.where(z < 0.0, 1.0, e) / plus
            v = 0.0
            for start in range(0, low.size, PRODUCTS):
                part = slice(start, start + PRODUCTS)
                factors = np.multiply.reduce(plus[part].reshape(-1, LANES), axis=0)
                product = float((factors[0] * factors[2]) * (factors[1] * factors[3]))
                v += lane_sum(np.where(z[part] < 0.0, -z[part], 0.0)) + math.log(product)
            value += w * v
            pull += w * s
            out[i] -= w * lane_sum(s)
        out[: len(below)] += pull[: len(below)]
    return value


def _native_slopes(one: List, curve: PairCurve, out: Floats) -> float:
    """Fill `out` with the slopes of a list by all pairs, one after the other."""
    value = 0.0
    for tops, below in one.groups():
        pull = np.zeros(len(below))
        for i in tops:
            w, v, total = float(one.w[i]), 0.0, 0.0
            for j in below:
                z = float(one.m[i] - one.m[j])
                v += call_native(curve.value, z)
                s = call_native(curve.slope, z)
                total += s
                pull[j] -= w * s
            value += w * v
            out[i] += w * total
        out[: len(below)] += pull
    return value


def pairwise_slopes(
    layout: ListLayout, margins: Floats, curve: PairCurve, out: Floats, threads: int
) -> float:
    """Sum the lists' losses within each block, then the blocks."""
    out[:] = 0.0
    total = 0.0
    for b in range(layout.block_ptr.size - 1):
        block = 0.0
        for q in range(layout.block_ptr[b], layout.block_ptr[b + 1]):
            one = _list(layout, margins, q)
            slopes = out[one.first : one.first + one.m.size]
            if curve.form in HINGES:
                block += _window_slopes(one, curve, slopes)
            elif curve.form == PairwiseForm.LOGISTIC:
                block += _logistic_slopes(one, slopes)
            else:
                block += _native_slopes(one, curve, slopes)
        total += block
    return total


# --- the Gram matrix ----------------------------------------------------------------------------


def _window_products(one: List, curve: PairCurve, x: Floats) -> Floats:
    """Return HX of a list by windows."""
    y = np.zeros(x.shape)
    for tops, below in one.sorted_groups():
        p = f = len(below) - 1
        n, s = 0.0, np.zeros(x.shape[1])
        for i in reversed(tops):
            u = 1.0 - float(one.m[i])
            while p >= 0 and u + float(one.m[below[p]]) > curve.lower:
                n, s, p = n + 1.0, s + x[below[p]], p - 1
            while f >= 0 and u + float(one.m[below[f]]) > curve.upper:
                n, s, f = n - 1.0, s - x[below[f]], f - 1
            y[i] += (float(one.w[i]) * curve.bend) * (n * x[i] - s)
        p = f = 0
        n, s = 0.0, np.zeros(x.shape[1])
        for j in below:
            m = float(one.m[j])
            while p < len(tops) and (1.0 - float(one.m[tops[p]])) + m > curve.lower:
                w = float(one.w[tops[p]])
                n, s, p = n + w, s + w * x[tops[p]], p + 1
            while f < len(tops) and (1.0 - float(one.m[tops[f]])) + m > curve.upper:
                w = float(one.w[tops[f]])
                n, s, f = n - w, s - w * x[tops[f]], f + 1
            y[j] += curve.bend * (n * x[j] - s)
    return y


def _curvatures(one: List, curve: PairCurve, i: int, below: range) -> Floats:
    """Return the curvature of the pairs of row i, without its weight."""
    z = one.m[i] - one.m[: len(below)]
    if curve.form == PairwiseForm.LOGISTIC:
        e, plus = _sigmoids(z)
        return (e / plus) / plus
    after = np.array([call_native(curve.slope, float(each)) for each in z + SECANT])
    before = np.array([call_native(curve.slope, float(each)) for each in z - SECANT])
    k = (after - before) * (0.5 / SECANT)
    k = np.where(k > 0.0, k, 0.0)
    return np.where(k < curve.bend, k, curve.bend)


def _pair_products(one: List, curve: PairCurve, x: Floats) -> Floats:
    """Return HX of a list by all pairs."""
    y, diagonal = np.zeros(x.shape), np.zeros(one.m.size)
    for tops, below in one.groups():
        for i in tops:
            w, total = float(one.w[i]), 0.0
            for j, each in enumerate(_curvatures(one, curve, i, below).tolist()):
                k = w * each
                if k != 0.0:
                    total += k
                    diagonal[j] += k
                    y[i] -= k * x[j]
                    y[j] -= k * x[i]
            diagonal[i] += total
    return y + diagonal[:, None] * x


def _local(features: Columns, columns: Ints, rows: slice) -> tuple[Ints, Floats]:
    """Return which columns have entries in these rows, and their values less the first row."""
    if isinstance(features, np.ndarray):
        x = features[rows][:, columns].astype(np.float64)
        return np.arange(columns.size), x - x[0]
    active, values = [], []
    for position, column in enumerate(columns.tolist()):
        entries = slice(int(features.indptr[column]), int(features.indptr[column + 1]))
        indices = features.indices[entries]
        start, stop = np.searchsorted(indices, (rows.start, rows.stop))
        if start < stop:
            x = np.zeros(rows.stop - rows.start)
            x[indices[start:stop] - rows.start] = features.data[entries][start:stop]
            active.append(position)
            values.append(x - x[0])
    matrix = np.array(values).T if values else np.zeros((rows.stop - rows.start, 0))
    return np.array(active, dtype=np.int64), matrix


def pairwise_gram(
    features: Columns,
    layout: ListLayout,
    margins: Floats,
    curve: PairCurve,
    columns: Ints,
    lists: Ints,
    out: Floats,
    threads: int,
) -> None:
    """Add the lists of each part, then the parts; the lower triangle is a copy of the upper."""
    out[:] = 0.0
    products = _window_products if curve.form in HINGES else _pair_products
    for part in range(PARTS):
        total = np.zeros(out.shape)
        for q in lists[part * lists.size // PARTS : (part + 1) * lists.size // PARTS]:
            one = _list(layout, margins, int(q))
            rows = slice(one.first, one.first + one.m.size)
            active, x = _local(features, columns, rows)
            y = products(one, curve, x)
            for start in range(0, one.m.size, CHUNK):
                added = np.zeros((active.size, active.size))
                for r in range(start, min(start + CHUNK, one.m.size)):
                    added += x[r][:, None] * y[r]
                total[np.ix_(active, active)] += added
        out += total
    below = np.tril_indices(columns.size, -1)
    out[below] = out.T[below]


# --- columns ------------------------------------------------------------------------------------


def _entries(features: Csc, column: int) -> tuple[Ints, Floats]:
    entries = slice(int(features.indptr[column]), int(features.indptr[column + 1]))
    return features.indices[entries].astype(np.int64), features.data[entries].astype(np.float64)


def column_products(
    features: Columns, columns: Ints, values: Floats, out: Floats, threads: int
) -> None:
    """Add dense blocks of rows, each in lanes; the entries of a sparse column in order."""
    for c, column in enumerate(columns.tolist()):
        total = 0.0
        if isinstance(features, np.ndarray):
            x = features[:, column].astype(np.float64)
            for start in range(0, x.size, BLOCK):
                total += dot(x[start : start + BLOCK], values[start : start + BLOCK])
        else:
            for row, each in zip(*_entries(features, column), strict=True):
                total += float(each * values[row])
        out[c] = total


def column_combination(
    features: Columns, columns: Ints, weights: Floats, out: Floats, threads: int
) -> None:
    """Add one column after the other; those of weight 0 are left out."""
    for column, weight in zip(columns.tolist(), weights.tolist(), strict=True):
        if weight == 0.0:
            continue
        if isinstance(features, np.ndarray):
            out += weight * features[:, column].astype(np.float64)
        else:
            rows, x = _entries(features, column)
            out[rows] += weight * x


def quadratic_descent(
    gram: Floats,
    gradient: Floats,
    weights: Floats,
    penalty: EntryPenalty,
    sweeps: int,
    tolerance: float,
) -> int:
    """Take the exact minimum along one weight after the other."""
    total = 0.0
    for sweep in range(sweeps):
        change = 0.0
        for r in range(weights.size):
            h, w = float(gram[r, r]), float(weights[r])
            c = h + penalty.l2
            if not c > 0.0:
                continue
            pull = h * w - float(gradient[r])
            if pull > penalty.l1:
                target = (pull - penalty.l1) / c
            elif pull < -penalty.l1:
                target = (pull + penalty.l1) / c
            else:
                target = 0.0
            step = target - w
            if step != 0.0:
                weights[r] = target
                with np.errstate(invalid="ignore", over="ignore"):
                    gradient += step * gram[r]
                change += 0.5 * c * (step * step)
        total += change
        if not change > tolerance * total:
            return sweep + 1
    return sweeps
