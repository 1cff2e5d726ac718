"""Measures of ranked lists, in C by Cython; see :mod:`ranking.kernels.reference_metrics`.

The door has checked every array. One thread measures one list at a time, in scratch of its own.
"""

from cython.parallel cimport prange, threadid
from libc.math cimport NAN
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

import numpy as np

cdef enum:
    # ranking.kernels.measures.Kind
    NDCG = 0
    MEAN_NDCG = 1
    AVERAGE_PRECISION = 2
    PRECISION = 3
    RECALL = 4
    RECIPROCAL_RANK = 5
    R_PRECISION = 6
    MEAN_RANK = 7
    AUC = 8
    PAIR_ERROR = 9
    DOMINATION_ERROR = 10
    ALL_PAIRS_ERROR = 11

cdef enum:
    FEW = 48  # so many are sorted faster by insertion than by counting digits
    DIGIT = 11
    LOWEST = -2  # the grades that are numbered directly, -2 to 5
    LEVELS = 8

cdef double RELEVANT = 1.0
cdef uint64_t SIGN = <uint64_t>1 << 63


ctypedef fused score_t:
    float
    double


cdef extern from *:
    """
    #if defined(__GNUC__)
    #define ranking_zeros_below(bits) __builtin_ctzll(bits)
    #define ranking_zeros_above(bits) __builtin_clzll(bits)
    #else
    static int ranking_zeros_below(unsigned long long bits)
    {
        int count = 0;
        while (!(bits >> count & 1)) count++;
        return count;
    }
    static int ranking_zeros_above(unsigned long long bits)
    {
        int count = 0;
        while (!(bits << count >> 63)) count++;
        return count;
    }
    #endif
    """
    int ranking_zeros_below(uint64_t bits) noexcept nogil
    int ranking_zeros_above(uint64_t bits) noexcept nogil


cdef struct Keyed:
    # What is sorted: by key, and where it was.
    uint64_t key
    int64_t row


cdef struct List:
    # One list, best first, and the scratch of the thread that measures it.
    Py_ssize_t n
    int64_t found  # relevant documents of the list
    int64_t relevant  # and with those that it lacks
    Py_ssize_t unfound  # where the documents begin that it lacks
    Py_ssize_t lacking
    const int64_t *rows  # by place
    Keyed *items
    Keyed *spare
    double *grades
    double *gains
    double *best
    int64_t *ends  # of the block of each place
    int64_t *levels
    int64_t *tree


cdef inline uint64_t descending(score_t value) noexcept nogil:
    # Keys rise as values fall. Adding 0.0 turns -0.0 into 0.0.
    cdef uint64_t bits = 0
    cdef uint32_t half
    cdef score_t positive = value + <score_t>0.0
    if score_t is float:
        memcpy(&half, &positive, sizeof(half))
        return half if half >> 31 else ~half & <uint32_t>0x7FFFFFFF
    else:
        memcpy(&bits, &positive, sizeof(bits))
        return bits if bits & SIGN else ~bits & ~SIGN


cdef inline double value_of(uint64_t key) noexcept nogil:
    # The inverse of `descending` of a double.
    cdef double value
    cdef uint64_t bits = key if key & SIGN else ~key & ~SIGN
    memcpy(&value, &bits, sizeof(value))
    return value


cdef void sort(Keyed *items, Keyed *spare, Py_ssize_t n) noexcept nogil:
    # Stable, by key: insertion for a few, else digit by digit from the lowest bit that differs.
    cdef Py_ssize_t i, j
    cdef uint64_t differs = 0
    cdef Keyed item
    cdef Keyed *source = items
    cdef Keyed *target = spare
    cdef Py_ssize_t starts[1 << DIGIT]
    cdef Py_ssize_t total, count
    cdef int shift, end, digit, buckets
    if n <= FEW:
        for i in range(1, n):
            item = items[i]
            j = i
            while j > 0 and items[j - 1].key > item.key:
                items[j] = items[j - 1]
                j -= 1
            items[j] = item
        return
    for i in range(1, n):
        differs |= items[i].key ^ items[0].key
    if differs == 0:
        return
    shift, end = ranking_zeros_below(differs), 64 - ranking_zeros_above(differs)
    digit = DIGIT if n >= 512 else 8
    count = (end - shift + digit - 1) // digit
    digit = <int>((end - shift + count - 1) // count)
    buckets = 1 << digit
    while shift < end:
        memset(starts, 0, buckets * sizeof(Py_ssize_t))
        for i in range(n):
            starts[(source[i].key >> shift) & (buckets - 1)] += 1
        total = 0
        for i in range(buckets):
            count = starts[i]
            starts[i] = total
            total += count
        for i in range(n):
            j = <Py_ssize_t>((source[i].key >> shift) & (buckets - 1))
            target[starts[j]] = source[i]
            starts[j] += 1
        source, target = target, source
        shift += digit
    if source != items:
        memcpy(items, source, n * sizeof(Keyed))


cdef Py_ssize_t best_first(List *one, const double *unfound, Py_ssize_t lacking) noexcept nogil:
    # Fill `best` with the positive gains, largest first; return how many there are.
    cdef Py_ssize_t i, count = 0
    for i in range(one.n):
        one.items[count].key = descending(one.gains[i])
        count += one.gains[i] > 0.0
    for i in range(lacking):
        one.items[count].key = descending(unfound[i])
        count += unfound[i] > 0.0
    sort(one.items, one.spare, count)
    for i in range(count):
        one.best[i] = value_of(one.items[i].key)
    return count


cdef void place_gains(List *one, const double *gains) noexcept nogil:
    # Fill `gains` by place: from a table, or the grades if there is none.
    cdef Py_ssize_t i
    for i in range(one.n):
        if gains == NULL:
            one.gains[i] = max(one.grades[i], 0.0)
        else:
            one.gains[i] = gains[one.rows[i]]


cdef void share_gains(List *one) noexcept nogil:
    # Give each of the tied places the mean of their gains.
    cdef Py_ssize_t i, start = 0, stop
    cdef double total
    while start < one.n:
        stop = one.ends[start]
        total = 0.0
        for i in range(start, stop):
            total += one.gains[i]
        total = total / <double>(stop - start)
        for i in range(start, stop):
            one.gains[i] = total
        start = stop


cdef double ndcg(
    const List *one, Py_ssize_t gainful, const double *discounts, int64_t cutoff, bint short_
) noexcept nogil:
    cdef double found = 0.0, ideal = 0.0
    cdef Py_ssize_t i
    cdef Py_ssize_t places = one.n if cutoff == 0 else min(<Py_ssize_t>cutoff, one.n)
    cdef Py_ssize_t ideals = gainful if cutoff == 0 else min(<Py_ssize_t>cutoff, gainful)
    if gainful == 0:
        return NAN
    if short_ and one.n < cutoff:
        return 0.0
    for i in range(places):
        found += one.gains[i] * discounts[i]
    for i in range(ideals):
        ideal += one.best[i] * discounts[i]
    return found / ideal


cdef double mean_ndcg(
    const List *one, Py_ssize_t gainful, const double *discounts
) noexcept nogil:
    cdef double found = 0.0, ideal = 0.0, total = 0.0
    cdef Py_ssize_t i
    if gainful == 0:
        return NAN
    for i in range(one.n):
        found += one.gains[i] * discounts[i]
        if i < gainful:
            ideal += one.best[i] * discounts[i]
        total += found / ideal
    return total / <double>one.n if one.n else 0.0


cdef double average_precision(const List *one) noexcept nogil:
    # What is not relevant adds 0.0: a division is cheaper than a branch that is guessed wrong.
    cdef double total = 0.0
    cdef int64_t count = 0, relevant
    cdef Py_ssize_t i
    for i in range(one.n):
        relevant = one.grades[i] >= RELEVANT
        count += relevant
        total += <double>(relevant * count) / <double>(i + 1)
    return total / <double>one.relevant


cdef double reciprocal_rank(const List *one, int64_t cutoff) noexcept nogil:
    cdef Py_ssize_t i, places = one.n if cutoff == 0 else min(<Py_ssize_t>cutoff, one.n)
    for i in range(places):
        if one.grades[i] >= RELEVANT:
            return 1.0 / <double>(i + 1)
    return 0.0


cdef inline int64_t relevant_of(const double *grades, Py_ssize_t n) noexcept nogil:
    cdef int64_t count = 0
    cdef Py_ssize_t i
    for i in range(n):
        count += grades[i] >= RELEVANT
    return count


cdef double hits(const List *one, int64_t cutoff, bint shared) noexcept nogil:
    cdef Py_ssize_t start = 0, stop, places = min(<Py_ssize_t>cutoff, one.n)
    cdef int64_t good, within
    cdef double total = 0.0
    if not shared:
        return <double>relevant_of(one.grades, places)
    while start < places:
        stop = one.ends[start]
        within = min(stop, places) - start
        good = relevant_of(one.grades + start, stop - start)
        total += <double>(good * within) / <double>(stop - start)
        start = stop
    return total


cdef double mean_rank(const List *one, bint shared) noexcept nogil:
    cdef int64_t twice = 0
    cdef Py_ssize_t i, start = 0
    for i in range(one.n):
        if one.ends[start] == i:
            start = i
        if one.grades[i] >= RELEVANT:
            twice += start + one.ends[i] + 1 if shared else 2 * (i + 1)
    return <double>twice / <double>(2 * one.found) if one.found else NAN


cdef double area(const List *one, int64_t kind) noexcept nogil:
    cdef int64_t right = 0, tied = 0, above = 0, good, bad
    cdef int64_t pairs = one.found * (<int64_t>one.n - one.found)
    cdef Py_ssize_t start = 0, stop
    if pairs == 0:
        return NAN
    while start < one.n:
        stop = one.ends[start]
        good = relevant_of(one.grades + start, stop - start)
        bad = stop - start - good
        right += above * bad
        tied += good * bad
        above += good
        start = stop
    if kind == AUC:
        return <double>(2 * right + tied) / <double>(2 * pairs)
    return <double>(pairs - right) / <double>pairs


cdef bint few_levels(List *one) noexcept nogil:
    # Number the levels directly if all grades are whole and few, which is the usual case.
    cdef bint fits = one.n <= INT32_MAX
    cdef double grade
    cdef Py_ssize_t i
    for i in range(one.n):
        grade = max(min(one.grades[i], <double>(LOWEST + LEVELS - 1)), <double>LOWEST)
        one.levels[i] = <int64_t>grade - LOWEST
        fits &= <double>(one.levels[i] + LOWEST) == one.grades[i]
    return fits


cdef double few_pair_error(const List *one) noexcept nogil:
    # lower[k] counts the documents below level k met so far, in loops without branches.
    cdef int32_t lower[LEVELS]
    cdef int64_t wrong = 0, pairs = <int64_t>one.n * one.n, count
    cdef Py_ssize_t i, start = 0, stop
    cdef int32_t k, level
    memset(lower, 0, sizeof(lower))
    while start < one.n:
        stop = one.ends[start]
        for i in range(start, stop):
            level = <int32_t>one.levels[i]
            for k in range(LEVELS):
                lower[k] += k > level
        for i in range(start, stop):
            wrong += lower[one.levels[i]]
        start = stop
    for k in range(LEVELS):
        count = (lower[k + 1] if k + 1 < LEVELS else one.n) - lower[k]
        pairs -= count * count
    return <double>wrong / <double>(pairs // 2) if pairs else NAN


cdef double pair_error(List *one) noexcept nogil:
    # A Fenwick tree over the levels of grades counts the lower ones met so far.
    cdef int64_t wrong = 0, pairs, same = 0, levels = 0
    cdef Py_ssize_t i, at, start = 0, stop, n = one.n
    if few_levels(one):
        return few_pair_error(one)
    for i in range(n):
        one.items[i].key = ~descending(one.grades[i])
        one.items[i].row = i
    sort(one.items, one.spare, n)
    pairs = (<int64_t>n * (n - 1)) // 2
    for i in range(n):
        if i > 0 and one.items[i].key != one.items[i - 1].key:
            levels += 1
            same = 0
        pairs -= same
        same += 1
        one.levels[one.items[i].row] = levels
    memset(one.tree, 0, (levels + 2) * sizeof(int64_t))
    while start < n:
        stop = one.ends[start]
        for i in range(start, stop):
            at = one.levels[i] + 1
            while at <= levels + 1:
                one.tree[at] += 1
                at += at & -at
        for i in range(start, stop):
            at = one.levels[i]
            while at > 0:
                wrong += one.tree[at]
                at -= at & -at
        start = stop
    return <double>wrong / <double>pairs


cdef double domination_error(const List *one) noexcept nogil:
    cdef int64_t wrong = 0, dominating = 0
    cdef Py_ssize_t i, start = 0, stop
    cdef double bottom, lowest
    if one.n == 0:
        return NAN
    bottom = lowest = one.grades[0]
    for i in range(1, one.n):
        bottom = min(bottom, one.grades[i])
    while start < one.n:
        stop = one.ends[start]
        for i in range(start, stop):
            lowest = min(lowest, one.grades[i])
        for i in range(start, stop):
            dominating += one.grades[i] > bottom
            wrong += one.grades[i] > lowest
        start = stop
    return <double>wrong / <double>dominating if dominating else NAN


cdef double measure(List *one, int64_t kind, int64_t cutoff, bint shared) noexcept nogil:
    # All measures without gains.
    if kind == PAIR_ERROR:
        return pair_error(one)
    if kind == DOMINATION_ERROR:
        return domination_error(one)
    if kind == AUC or kind == ALL_PAIRS_ERROR:
        return area(one, kind)
    if kind == MEAN_RANK:
        return mean_rank(one, shared)
    if one.relevant == 0:
        return NAN
    if kind == AVERAGE_PRECISION:
        return average_precision(one)
    if kind == RECIPROCAL_RANK:
        return reciprocal_rank(one, cutoff)
    if kind == R_PRECISION:
        return hits(one, one.relevant, shared) / <double>one.relevant
    return hits(one, cutoff, shared) / <double>(one.relevant if kind == RECALL else cutoff)


def rank_lists(
    const int64_t[::1] group_ptr, const score_t[::1] scores, int64_t[::1] order,
    uint8_t[::1] tied, int threads,
):
    """Sort the rows of each list by score, highest first; equal scores keep their order."""
    cdef Py_ssize_t q, lists = group_ptr.shape[0] - 1
    cdef int crew = crew_of(threads, lists)
    cdef Py_ssize_t most = longest(np.diff(group_ptr))
    cdef uint64_t[:, ::1] keyed = np.empty((crew, 4 * most), dtype=np.uint64)
    with nogil:
        for q in prange(lists, schedule="dynamic", chunksize=8, num_threads=crew):
            rank_list(
                group_ptr[q], group_ptr[q + 1], &scores[0], &order[0], &tied[0],
                <Keyed *>&keyed[threadid(), 0], <Keyed *>&keyed[threadid(), 2 * most],
            )


cdef void rank_list(
    Py_ssize_t start, Py_ssize_t stop, const score_t *scores, int64_t *order, uint8_t *tied,
    Keyed *items, Keyed *spare,
) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(start, stop):
        items[i - start].key = descending(scores[i])
        items[i - start].row = i
    sort(items, spare, stop - start)
    for i in range(start, stop):
        order[i] = items[i - start].row
        tied[i] = i > start and items[i - start].key == items[i - start - 1].key


def ranked_metrics(
    const int64_t[::1] group_ptr, const double[::1] grades, const int64_t[::1] order,
    const uint8_t[::1] tied, const int64_t[::1] unfound_ptr,
    const double[::1] unfound_grades, const double[:, ::1] gains,
    const double[:, ::1] unfound_gains, const double[:, ::1] discounts,
    const int64_t[:, ::1] measures, double[:, ::1] out, int threads,
):
    """Fill out[q, m] with measure m of list q, NaN where there is nothing to measure."""
    cdef Py_ssize_t q, lists = group_ptr.shape[0] - 1
    cdef int crew = crew_of(threads, lists)
    cdef Py_ssize_t most = longest(np.diff(group_ptr))
    cdef Py_ssize_t all_ = longest(np.diff(group_ptr) + np.diff(unfound_ptr))
    cdef uint64_t[:, ::1] keyed = np.empty((crew, 4 * all_), dtype=np.uint64)
    cdef double[:, ::1] reals = np.empty((crew, 2 * most + all_))
    cdef int64_t[:, ::1] integers = np.empty((crew, 3 * most + 2), dtype=np.int64)
    cdef List one
    with nogil:
        for q in prange(lists, schedule="dynamic", chunksize=8, num_threads=crew):
            one = list_of(
                &keyed[threadid(), 0], &reals[threadid(), 0], &integers[threadid(), 0], most, all_
            )
            gather(&one, group_ptr[q], group_ptr[q + 1], &grades[0], &order[0], &tied[0])
            one.unfound, one.lacking = unfound_ptr[q], unfound_ptr[q + 1] - unfound_ptr[q]
            one.relevant = one.found + relevant_of(&unfound_grades[one.unfound], one.lacking)
            measure_all(
                &one, unfound_grades, gains, unfound_gains, discounts, measures, &out[q, 0]
            )


cdef int crew_of(int threads, Py_ssize_t lists) noexcept:
    # Each thread has scratch, so there are no more of them than lists.
    return <int>max(1, min(<Py_ssize_t>threads, lists))


cdef Py_ssize_t longest(sizes):
    return max(1, sizes.max(initial=0))


cdef inline List list_of(
    uint64_t *keyed, double *reals, int64_t *integers, Py_ssize_t most, Py_ssize_t all_
) noexcept nogil:
    cdef List one
    one.items, one.spare = <Keyed *>keyed, <Keyed *>keyed + all_
    one.grades, one.gains, one.best = reals, reals + most, reals + 2 * most
    one.ends, one.levels, one.tree = integers, integers + most, integers + 2 * most
    return one


cdef void gather(
    List *one, Py_ssize_t start, Py_ssize_t stop, const double *grades, const int64_t *order,
    const uint8_t *tied,
) noexcept nogil:
    # Take the grades by place and find the blocks.
    cdef Py_ssize_t i, end
    one.n, one.rows, one.found = stop - start, order + start, 0
    end = one.n
    for i in range(one.n - 1, -1, -1):
        one.grades[i] = grades[one.rows[i]]
        one.found += one.grades[i] >= RELEVANT
        one.ends[i] = end
        if not tied[start + i]:
            end = i


cdef void measure_all(
    List *one, const double[::1] unfound_grades, const double[:, ::1] gains,
    const double[:, ::1] unfound_gains, const double[:, ::1] discounts,
    const int64_t[:, ::1] measures, double *out,
) noexcept nogil:
    # Gains are placed and sorted anew only where a measure needs others than the one before.
    cdef Py_ssize_t m, gainful = 0
    cdef int64_t kind, gain, table = -1
    cdef bint shared, were_shared = False
    cdef const double *discount
    for m in range(measures.shape[0]):
        kind, gain, shared = measures[m, 0], measures[m, 2], measures[m, 4] != 0
        if kind != NDCG and kind != MEAN_NDCG:
            out[m] = measure(one, kind, measures[m, 1], shared)
            continue
        if gain != table or shared != were_shared:
            place_gains(one, &gains[gain - 1, 0] if gain else NULL)
            if gain:
                gainful = best_first(one, &unfound_gains[gain - 1, one.unfound], one.lacking)
            else:
                gainful = best_first(one, &unfound_grades[one.unfound], one.lacking)
            if shared:
                share_gains(one)
        table, were_shared = gain, shared
        discount = &discounts[measures[m, 3], 0]
        if kind == NDCG:
            out[m] = ndcg(one, gainful, discount, measures[m, 1], measures[m, 5] != 0)
        else:
            out[m] = mean_ndcg(one, gainful, discount)
