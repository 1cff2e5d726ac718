"""Ranks and measures of ranked lists; see :mod:`ranking.kernels.contract.metrics`.

One thread measures one list at a time, in buffers of its own.
"""

from cython.parallel cimport prange, threadid
from libc.math cimport INFINITY, NAN
from libc.stdint cimport INT32_MAX, UINT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from ranking.kernels.cython.library cimport address, threads_for
from ranking.kernels.cython.library cimport feature_t as score_t

import numpy as np

cdef enum:
    # MeasureKind of the contract
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
    FEW = 48  # up to here insertion sort is faster than radix sort
    MANY = 4096  # from here on longer digits of the radix sort pay off
    DIGIT = 11
    SHORT_DIGIT = 8
    LEVELS = 8  # grades that are the lowest plus 0, 1, ..., 7 need no sort

cdef double RELEVANT = 1.0
cdef uint64_t SIGN = <uint64_t>1 << 63


cdef extern from *:
    int __builtin_ctzll(uint64_t bits) noexcept nogil
    int __builtin_clzll(uint64_t bits) noexcept nogil


cdef struct Keyed:
    # A row and the key by which it is sorted.
    uint64_t key
    int64_t row


ctypedef fused item_t:
    Keyed
    uint64_t


cdef struct List:
    # One list, best first, and the buffers of the thread that measures it.
    Py_ssize_t n
    Py_ssize_t blocks  # of ranks that have equal scores
    int64_t hits  # relevant documents of the list
    int64_t relevant  # and with the unretrieved ones
    Py_ssize_t unretrieved  # where its unretrieved documents begin
    Py_ssize_t n_unretrieved
    double bottom  # the lowest grade
    const int64_t *rows  # by rank
    const uint8_t *tied  # by rank
    Keyed *items
    Keyed *spare
    double *grades
    double *gains
    double *best
    int64_t *heads  # where each block begins, and then n
    int64_t *good  # the rank of each relevant document, from 0
    int64_t *good_blocks  # and its block
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


cdef inline uint64_t key_of(item_t item) noexcept nogil:
    if item_t is Keyed:
        return item.key
    else:
        return item


cdef void sort(item_t *items, item_t *spare, Py_ssize_t n, int shift) noexcept nogil:
    # Stable, by the bits of the key from `shift` on: insertion for a few, else digit by digit
    # from the lowest bit that differs.
    cdef Py_ssize_t i, j
    cdef uint64_t differs = 0, mask
    cdef item_t item
    cdef item_t *source = items
    cdef item_t *target = spare
    cdef Py_ssize_t starts[1 << DIGIT]
    cdef Py_ssize_t total, count
    cdef int end, digit
    if n <= FEW:
        for i in range(1, n):
            item = items[i]
            j = i
            while j > 0 and key_of(items[j - 1]) >> shift > key_of(item) >> shift:
                items[j] = items[j - 1]
                j -= 1
            items[j] = item
        return
    for i in range(1, n):
        differs |= key_of(items[i]) ^ key_of(items[0])
    differs = differs >> shift << shift
    if differs == 0:
        return
    shift, end = __builtin_ctzll(differs), 64 - __builtin_clzll(differs)
    digit = DIGIT if n >= MANY else SHORT_DIGIT
    count = (end - shift + digit - 1) // digit
    digit = <int>((end - shift + count - 1) // count)
    mask = (<uint64_t>1 << digit) - 1
    while shift < end:
        memset(starts, 0, (mask + 1) * sizeof(Py_ssize_t))
        for i in range(n):
            starts[(key_of(source[i]) >> shift) & mask] += 1
        total = 0
        for i in range(<Py_ssize_t>mask + 1):
            count = starts[i]
            starts[i] = total
            total += count
        for i in range(n):
            j = <Py_ssize_t>((key_of(source[i]) >> shift) & mask)
            target[starts[j]] = source[i]
            starts[j] += 1
        source, target = target, source
        shift += digit
    if source != items:
        memcpy(items, source, n * sizeof(item_t))


cdef Py_ssize_t rank_gains(
    List *one, const double *gains, const double *unretrieved, bint shared
) noexcept nogil:
    # Fill `gains` by rank, from a table or from the grades if there is none, and `best` with the
    # positive ones, largest first; return how many these are.
    cdef Py_ssize_t i, count = 0
    cdef uint64_t *keys = <uint64_t *>one.items
    for i in range(one.n):
        one.gains[i] = max(one.grades[i], 0.0) if gains == NULL else gains[one.rows[i]]
        keys[count] = descending(one.gains[i])
        count += one.gains[i] > 0.0
    for i in range(one.n_unretrieved):
        keys[count] = descending(unretrieved[i])
        count += unretrieved[i] > 0.0
    sort(keys, <uint64_t *>one.spare, count, 0)
    for i in range(count):
        one.best[i] = value_of(keys[i])
    if shared:
        share_gains(one)
    return count


cdef void share_gains(List *one) noexcept nogil:
    # Give each of the tied ranks the mean of their gains.
    cdef Py_ssize_t i, block, start, stop
    cdef double total
    for block in range(one.blocks):
        start, stop = one.heads[block], one.heads[block + 1]
        total = 0.0
        for i in range(start, stop):
            total += one.gains[i]
        total = total / <double>(stop - start)
        for i in range(start, stop):
            one.gains[i] = total


cdef double ndcg(
    const List *one, Py_ssize_t gainful, const double *discounts, int64_t cutoff, bint short_
) noexcept nogil:
    cdef double total_gain = 0.0, ideal = 0.0
    cdef Py_ssize_t i
    cdef Py_ssize_t ranks = one.n if cutoff == 0 else min(<Py_ssize_t>cutoff, one.n)
    cdef Py_ssize_t ideals = gainful if cutoff == 0 else min(<Py_ssize_t>cutoff, gainful)
    if gainful == 0:
        return NAN
    if short_ and one.n < cutoff:
        return 0.0
    for i in range(ranks):
        total_gain += one.gains[i] * discounts[i]
    for i in range(ideals):
        ideal += one.best[i] * discounts[i]
    return total_gain / ideal


cdef double mean_ndcg(
    const List *one, Py_ssize_t gainful, const double *discounts
) noexcept nogil:
    cdef double total_gain = 0.0, ideal = 0.0, total = 0.0
    cdef Py_ssize_t i
    if gainful == 0:
        return NAN
    for i in range(one.n):
        total_gain += one.gains[i] * discounts[i]
        if i < gainful:
            ideal += one.best[i] * discounts[i]
        total += total_gain / ideal
    return total / <double>one.n if one.n else 0.0


cdef double average_precision(const List *one) noexcept nogil:
    cdef double total = 0.0
    cdef Py_ssize_t j
    for j in range(one.hits):
        total += <double>(j + 1) / <double>(one.good[j] + 1)
    return total / <double>one.relevant


cdef double reciprocal_rank(const List *one, int64_t cutoff) noexcept nogil:
    if one.hits == 0 or (cutoff != 0 and one.good[0] >= cutoff):
        return 0.0
    return 1.0 / <double>(one.good[0] + 1)


cdef int64_t relevant_of(const double *grades, Py_ssize_t n) noexcept nogil:
    cdef int64_t count = 0
    cdef Py_ssize_t i
    for i in range(n):
        count += grades[i] >= RELEVANT
    return count


cdef double count_hits(const List *one, int64_t cutoff, bint shared) noexcept nogil:
    cdef Py_ssize_t block = 0, start, stop
    cdef int64_t good = 0, within
    cdef double total = 0.0
    if not shared:
        while good < one.hits and one.good[good] < cutoff:
            good += 1
        return <double>good
    while block < one.blocks and one.heads[block] < cutoff:
        start, stop = one.heads[block], one.heads[block + 1]
        within = min(<int64_t>stop, cutoff) - start
        good = relevant_of(one.grades + start, stop - start)
        total += <double>(good * within) / <double>(stop - start)
        block += 1
    return total


cdef void count_pairs(const List *one, int64_t *above, int64_t *beside) noexcept nogil:
    # Count the pairs of a relevant document and another that is above it, or beside it.
    #
    # The ranks of the relevant documents, each the mean of its block's, add up to those that they
    # have among themselves, hits * (hits + 1) / 2, and 1 for each other one above and 1/2 for
    # each beside. So no block needs to be counted.
    cdef int64_t twice = 0, first = 0, head
    cdef Py_ssize_t j, block, before = -1
    above[0] = 0
    for j in range(one.hits):
        block = one.good_blocks[j]
        head = one.heads[block]
        first = j if block != before else first
        above[0] += head - first
        twice += head + one.heads[block + 1] + 1
        before = block
    beside[0] = twice - one.hits * (one.hits + 1) - 2 * above[0]


cdef double mean_rank(const List *one, bint shared) noexcept nogil:
    cdef int64_t twice = 0, above, beside
    cdef Py_ssize_t j
    if shared:
        count_pairs(one, &above, &beside)
        twice = 2 * above + beside + one.hits * (one.hits + 1)
    else:
        for j in range(one.hits):
            twice += 2 * (one.good[j] + 1)
    return <double>twice / <double>(2 * one.hits) if one.hits else NAN


cdef double area(const List *one, int64_t kind) noexcept nogil:
    cdef int64_t above, beside
    cdef int64_t pairs = one.hits * (<int64_t>one.n - one.hits)
    if pairs == 0:
        return NAN
    count_pairs(one, &above, &beside)
    if kind == AUC:
        return <double>(2 * (pairs - above) - beside) / <double>(2 * pairs)
    return <double>(above + beside) / <double>pairs


cdef Py_ssize_t few_levels(List *one, int64_t *ends) noexcept nogil:
    # If the grades are few, which is the usual case, fill `levels` and the ends of the blocks for
    # the documents above the lowest level; return how many these are. Else return -1.
    cdef bint fits = one.n <= INT32_MAX
    cdef double level
    cdef Py_ssize_t i, block = -1, uppers = 0
    for i in range(one.n):
        block += begins_block(one.tied, i)
        level = min(one.grades[i] - one.bottom, <double>(LEVELS - 1))
        one.levels[uppers] = <int64_t>level
        ends[uppers] = one.heads[block + 1]
        fits &= one.bottom + <double>one.levels[uppers] == one.grades[i]
        uppers += one.levels[uppers] > 0
    return uppers if fits else -1


cdef double few_pair_error(
    const List *one, const int64_t *ends, Py_ssize_t uppers
) noexcept nogil:
    # All documents up to the end of a block that are not of its level or above are below it.
    # at_least[k] counts those of level k and above met so far, without branches.
    cdef int32_t at_least[LEVELS + 1]
    cdef int64_t wrong = 0, lowest = one.n - uppers, count
    cdef int64_t pairs = <int64_t>one.n * one.n - lowest * lowest
    cdef Py_ssize_t j = 0, stop = 0
    cdef int32_t k, level
    memset(at_least, 0, sizeof(at_least))
    while j < uppers:
        while stop < uppers and ends[stop] == ends[j]:
            level = <int32_t>one.levels[stop]
            for k in range(LEVELS):
                at_least[k] += k <= level
            stop += 1
        while j < stop:
            wrong += ends[j] - at_least[one.levels[j]]
            j += 1
    for k in range(1, LEVELS):
        count = at_least[k] - at_least[k + 1]
        pairs -= count * count
    return <double>wrong / <double>(pairs // 2) if pairs else NAN


cdef double pair_error(List *one) noexcept nogil:
    # A Fenwick tree over the levels of grades counts the lower ones met so far.
    cdef int64_t wrong = 0, pairs, same = 0, levels = 0
    cdef Py_ssize_t i, at, block, n = one.n
    cdef Py_ssize_t uppers = few_levels(one, one.tree)
    if uppers >= 0:
        return few_pair_error(one, one.tree, uppers)
    for i in range(n):
        one.items[i].key = ~descending(one.grades[i])
        one.items[i].row = i
    sort(one.items, one.spare, n, 0)
    pairs = (<int64_t>n * (n - 1)) // 2
    for i in range(n):
        if i > 0 and one.items[i].key != one.items[i - 1].key:
            levels += 1
            same = 0
        pairs -= same
        same += 1
        one.levels[one.items[i].row] = levels
    memset(one.tree, 0, (levels + 2) * sizeof(int64_t))
    for block in range(one.blocks):
        for i in range(one.heads[block], one.heads[block + 1]):
            at = one.levels[i] + 1
            while at <= levels + 1:
                one.tree[at] += 1
                at += at & -at
        for i in range(one.heads[block], one.heads[block + 1]):
            at = one.levels[i]
            while at > 0:
                wrong += one.tree[at]
                at -= at & -at
    return <double>wrong / <double>pairs


cdef double domination_error(const List *one) noexcept nogil:
    # Once a document of the lowest grade is met, all dominating ones from there on are wrong.
    cdef int64_t wrong = 0, dominating = 0
    cdef Py_ssize_t i, block, start, stop
    cdef double lowest = INFINITY
    for i in range(one.n):
        dominating += one.grades[i] > one.bottom
    for block in range(one.blocks):
        start, stop = one.heads[block], one.heads[block + 1]
        for i in range(start, stop):
            lowest = min(lowest, one.grades[i])
        if lowest == one.bottom:
            wrong += dominating - start
            break
        for i in range(start, stop):
            wrong += one.grades[i] > lowest
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
        return count_hits(one, one.relevant, shared) / <double>one.relevant
    return count_hits(one, cutoff, shared) / <double>(one.relevant if kind == RECALL else cutoff)


def rank_lists(
    const int64_t[::1] group_ptr, const score_t[::1] scores, int64_t[::1] order,
    uint8_t[::1] tied, int threads,
):
    """Sort the rows of each list by score, highest first; equal scores keep their order."""
    cdef Py_ssize_t q, lists = group_ptr.shape[0] - 1
    cdef int n_threads = threads_for(threads, lists)
    cdef Py_ssize_t most = longest(np.diff(group_ptr))
    cdef uint64_t[:, ::1] keyed = np.empty((n_threads, 4 * most), dtype=np.uint64)
    with nogil:
        for q in prange(lists, schedule="dynamic", chunksize=8, num_threads=n_threads):
            rank_list(
                group_ptr[q], group_ptr[q + 1], &scores[0], &order[0], &tied[0],
                <Keyed *>&keyed[threadid(), 0], <Keyed *>&keyed[threadid(), 2 * most],
            )


cdef void rank_list(
    Py_ssize_t start, Py_ssize_t stop, const score_t *scores, int64_t *order, uint8_t *tied,
    Keyed *items, Keyed *spare,
) noexcept nogil:
    # A key of 32 bits and the position fit into one word: half as much to move.
    cdef Py_ssize_t i, n = stop - start
    cdef uint64_t *words = <uint64_t *>items
    if score_t is float and n <= UINT32_MAX:
        for i in range(n):
            words[i] = descending(scores[start + i]) << 32 | <uint64_t>i
        sort(words, <uint64_t *>spare, n, 32)
        for i in range(n):
            order[start + i] = start + <int64_t>(words[i] & UINT32_MAX)
            tied[start + i] = i > 0 and words[i] >> 32 == words[i - 1] >> 32
    else:
        for i in range(n):
            items[i].key = descending(scores[start + i])
            items[i].row = start + i
        sort(items, spare, n, 0)
        for i in range(n):
            order[start + i] = items[i].row
            tied[start + i] = i > 0 and items[i].key == items[i - 1].key


cdef struct Tables:
    # The arrays of `RankedListArrays`, and the measures.
    const int64_t *group_ptr
    const double *grades
    const int64_t *order
    const uint8_t *tied
    const int64_t *unretrieved_ptr
    const double *unretrieved_grades
    const double *gains
    const double *unretrieved_gains
    const double *discounts
    Py_ssize_t n_rows
    Py_ssize_t n_unretrieved
    Py_ssize_t n_discounts
    const int64_t *measures
    Py_ssize_t n_measures


cdef Tables tables_of(lists, const int64_t[:, ::1] measures) except *:
    cdef Tables to
    to.group_ptr = <const int64_t *>address(lists.group_ptr)
    to.grades = <const double *>address(lists.grades)
    to.order = <const int64_t *>address(lists.order)
    to.tied = <const uint8_t *>address(lists.tied)
    to.unretrieved_ptr = <const int64_t *>address(lists.unretrieved_ptr)
    to.unretrieved_grades = <const double *>address(lists.unretrieved_grades)
    to.gains = <const double *>address(lists.gains)
    to.unretrieved_gains = <const double *>address(lists.unretrieved_gains)
    to.discounts = <const double *>address(lists.discounts)
    to.n_rows, to.n_unretrieved = lists.gains.shape[1], lists.unretrieved_gains.shape[1]
    to.n_discounts, to.n_measures = lists.discounts.shape[1], measures.shape[0]
    to.measures = <const int64_t *>address(measures)
    return to


def ranked_metrics(lists, const int64_t[:, ::1] measures, double[:, ::1] out, int threads):
    """Fill out[q, m] with measure m of list q, NaN where there is nothing to measure."""
    cdef Tables tables = tables_of(lists, measures)
    cdef Py_ssize_t q, n = out.shape[0]
    cdef int n_threads = threads_for(threads, n)
    lengths = np.diff(lists.group_ptr)
    cdef Py_ssize_t most = longest(lengths)
    cdef Py_ssize_t all_ = longest(lengths + np.diff(lists.unretrieved_ptr))
    cdef uint64_t[:, ::1] keyed = np.empty((n_threads, 4 * all_), dtype=np.uint64)
    cdef double[:, ::1] reals = np.empty((n_threads, 2 * most + all_))
    cdef int64_t[:, ::1] integers = np.empty((n_threads, 5 * most + 3), dtype=np.int64)
    cdef List one
    if measures.shape[0] == 0:
        return
    with nogil:
        for q in prange(n, schedule="dynamic", chunksize=8, num_threads=n_threads):
            one = list_of(
                &keyed[threadid(), 0], &reals[threadid(), 0], &integers[threadid(), 0], most, all_
            )
            load_list(&one, &tables, q)
            measure_all(&one, &tables, &out[q, 0])


cdef Py_ssize_t longest(sizes):
    return max(1, sizes.max(initial=0))


cdef inline List list_of(
    uint64_t *keyed, double *reals, int64_t *integers, Py_ssize_t most, Py_ssize_t all_
) noexcept nogil:
    cdef List one
    one.items, one.spare = <Keyed *>keyed, <Keyed *>keyed + all_
    one.grades, one.gains, one.best = reals, reals + most, reals + 2 * most
    one.good, one.good_blocks, one.levels = integers, integers + most, integers + 2 * most
    one.heads, one.tree = integers + 3 * most, integers + 4 * most + 1
    return one


cdef inline bint begins_block(const uint8_t *tied, Py_ssize_t rank) noexcept nogil:
    return (rank == 0) | (tied[rank] == 0)


cdef void load_list(List *one, const Tables *tables, Py_ssize_t q) noexcept nogil:
    # Read the grades by rank; find the blocks and the relevant documents. Each is written to the
    # next free entry, which is counted only if it is one: a branch could not be predicted.
    cdef Py_ssize_t i, start = tables.group_ptr[q]
    cdef double grade
    one.n = tables.group_ptr[q + 1] - start
    one.rows, one.tied = tables.order + start, tables.tied + start
    one.blocks, one.hits, one.bottom = 0, 0, INFINITY
    for i in range(one.n):
        grade = tables.grades[one.rows[i]]
        one.grades[i] = grade
        one.bottom = min(one.bottom, grade)
        one.heads[one.blocks] = i
        one.blocks += begins_block(one.tied, i)
        one.good[one.hits] = i
        one.good_blocks[one.hits] = one.blocks - 1
        one.hits += grade >= RELEVANT
    one.heads[one.blocks] = one.n
    one.unretrieved = tables.unretrieved_ptr[q]
    one.n_unretrieved = tables.unretrieved_ptr[q + 1] - one.unretrieved
    one.relevant = one.hits + relevant_of(
        tables.unretrieved_grades + one.unretrieved, one.n_unretrieved
    )


cdef void measure_all(List *one, const Tables *tables, double *out) noexcept nogil:
    # Gains are computed and sorted again only where a measure needs other ones than the last.
    cdef Py_ssize_t m, gainful = 0
    cdef int64_t gain, table = -1
    cdef bint shared, were_shared = False
    cdef const int64_t *row  # kind, cutoff, gain, discount, shared, short
    cdef const double *discounts
    for m in range(tables.n_measures):
        row = tables.measures + 6 * m
        gain, shared = row[2], row[4] != 0
        if row[0] != NDCG and row[0] != MEAN_NDCG:
            out[m] = measure(one, row[0], row[1], shared)
            continue
        if gain != table or shared != were_shared:
            gainful = rank_gains(
                one,
                tables.gains + (gain - 1) * tables.n_rows if gain else NULL,
                (
                    tables.unretrieved_gains + (gain - 1) * tables.n_unretrieved if gain
                    else tables.unretrieved_grades
                ) + one.unretrieved,
                shared,
            )
        table, were_shared = gain, shared
        discounts = tables.discounts + row[3] * tables.n_discounts
        if row[0] == NDCG:
            out[m] = ndcg(one, gainful, discounts, row[1], row[5] != 0)
        else:
            out[m] = mean_ndcg(one, gainful, discounts)
