"""Parsing of LETOR text; see :mod:`ranking.kernels.contract.letor`.

Each byte is read once. Rare cases (a number that needs more than one rounding, features out of
order) are left to slower functions below the fast ones, and what is wrong with a line to the
reference. The text ends with a newline, at which every scan stops.
"""

from cython.parallel cimport prange
from libc.float cimport FLT_MAX, DBL_MAX
from libc.math cimport fabs, ldexp
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc, qsort
from libc.string cimport memchr, memcmp, memcpy

from ranking.kernels.cython.library cimport feature_t

import numpy as np

from ranking.kernels.reference.letor import defect_of_line

cdef extern from *:
    """
    #include <float.h>
    /* On x87 a quotient is rounded twice. */
    #define LETOR_ROUNDS_ONCE (FLT_EVAL_METHOD == 0)
    #ifdef __SIZEOF_INT128__
    #define LETOR_HAS_WIDE 1
    #define letor_zeros(x) __builtin_clzll(x)
    typedef unsigned __int128 letor_wide;
    #else
    #define LETOR_HAS_WIDE 0
    #define letor_zeros(x) 0
    typedef uint64_t letor_wide;
    #endif
    """
    int letor_zeros(uint64_t x) noexcept nogil
    bint LETOR_ROUNDS_ONCE
    bint LETOR_HAS_WIDE
    # Twice as wide as Cython thinks, and never converted to Python.
    ctypedef uint64_t letor_wide

ctypedef const uint8_t *text_t

cdef enum:
    # What a row has; the reference finds the defect.
    NO_DEFECT = 0
    DEFECT = 1
    NO_MEMORY = 15  # of the contract

cdef enum:
    PAIR_BYTES = 4
    ROW_INFO = 6
    LARGEST_INDEX = 0x7FFFFFFF
    MOST_DIGITS = 20

cdef double[23] POWERS
POWERS[:] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
]


cdef struct Row:
    double grade
    text_t qid
    Py_ssize_t qid_length
    text_t doc
    Py_ssize_t doc_length
    Py_ssize_t size
    int64_t low
    int64_t high
    bint consecutive
    text_t end  # of the line
    int defect


cdef struct Chunk:
    # What the rows of a chunk have in common.
    int64_t rows
    int64_t pairs
    int64_t lines
    int64_t first  # index of the first row
    int64_t width
    int64_t low
    int64_t high
    text_t qid
    Py_ssize_t qid_length


def parse_letor(source, out, int threads):
    """Parse chunks of whole lines; each writes to its own part of the arrays."""
    parse_chunks(source, out, out.values, threads)
    largest = float(np.finfo(out.values.dtype).max)
    for chunk in np.flatnonzero(out.chunk_info[:, 6] == DEFECT):
        start, stop = out.chunk_info[chunk, 7:].tolist()
        line = source.text[start:stop].tobytes()
        out.chunk_info[chunk, 6:] = defect_of_line(line, start, largest)


def parse_chunks(source, out, feature_t[::1] values, int threads):
    """Parse chunks on several threads."""
    cdef const uint8_t[::1] text = source.text
    cdef const int64_t[::1] chunk_ptr = source.chunk_ptr, row_ptr = source.row_ptr
    cdef double[::1] grades = out.grades
    cdef int64_t[:, ::1] row_info = out.row_info, chunk_info = out.chunk_info
    cdef int32_t[::1] indices = out.indices
    cdef Py_ssize_t c, chunks = chunk_info.shape[0]
    cdef int64_t row, pair
    for c in prange(chunks, nogil=True, schedule="dynamic", num_threads=threads):
        row = row_ptr[c]
        pair = chunk_ptr[c] // PAIR_BYTES
        parse_chunk(
            &text[0], &chunk_ptr[c], &grades[row], &row_info[row, 0], &indices[pair],
            &values[pair], &chunk_info[c, 0],
        )


cdef void parse_chunk(
    text_t text, const int64_t *chunk_ptr, double *grades, int64_t *row_info, int32_t *indices,
    feature_t *values, int64_t *chunk_info,
) noexcept nogil:
    cdef text_t at = text + chunk_ptr[0]
    cdef text_t end = text + chunk_ptr[1]
    cdef Chunk chunk = Chunk(0, 0, 0, 0, 0, <int64_t>LARGEST_INDEX + 1, -1, NULL, 0)
    cdef Row row
    row.defect = NO_DEFECT
    while at < end:
        chunk.lines += 1
        while is_blank(at[0]):
            at += 1
        if at[0] == b"\n":
            at += 1
            continue
        if at[0] == b"#":
            row.end = line_end(at, end)
            if memchr(at, 0, row.end - at):
                row.defect = DEFECT
                break
            at = row.end + 1
            continue
        row = parse_row(at, end, indices + chunk.pairs, values + chunk.pairs)
        if row.defect:
            break
        grades[chunk.rows] = row.grade
        add_row(&chunk, &row, text, row_info + chunk.rows * ROW_INFO)
        at = row.end + 1
    chunk_info[0], chunk_info[1], chunk_info[2] = chunk.rows, chunk.pairs, chunk.lines
    chunk_info[3], chunk_info[4], chunk_info[5] = chunk.width, chunk.low, chunk.high
    chunk_info[6], chunk_info[7], chunk_info[8] = row.defect, 0, 0
    if row.defect == DEFECT:  # the span of the line, until its defect is known
        chunk_info[7], chunk_info[8] = at - text, line_end(at, end) + 1 - text


cdef inline void add_row(Chunk *chunk, Row *row, text_t text, int64_t *row_info) noexcept nogil:
    if row.qid_length == chunk.qid_length and memcmp(row.qid, chunk.qid, row.qid_length) == 0:
        row.qid = chunk.qid
    chunk.qid, chunk.qid_length = row.qid, row.qid_length
    if not chunk.rows:
        chunk.first, chunk.width = row.low, row.size
    if not (row.consecutive and row.low == chunk.first and row.size == chunk.width):
        chunk.width = -1
    chunk.low, chunk.high = min(chunk.low, row.low), max(chunk.high, row.high)
    chunk.rows += 1
    chunk.pairs += row.size
    row_info[0], row_info[1] = chunk.lines, row.size
    row_info[2], row_info[3] = row.qid - text, row.qid_length
    row_info[4] = row.doc - text if row.doc_length else 0
    row_info[5] = row.doc_length


cdef inline Row parse_row(
    text_t at, text_t end, int32_t *indices, feature_t *values
) noexcept nogil:
    """Parse the line whose first word is at `at`."""
    cdef Row row
    row.defect, row.consecutive = NO_DEFECT, True
    row.low = <int64_t>LARGEST_INDEX + 1
    row.high = -1
    row.qid_length = row.doc_length = row.size = 0
    row.qid = row.doc = row.end = at
    at = parse_head(&row, at)
    if at != NULL:
        at = parse_pairs(&row, at, indices, values)
    if at == NULL:
        row.defect = row.defect or DEFECT
        return row
    row.end = at
    if at[0] == b"#":
        row.end = line_end(at, end)
        read_comment(&row, at + 1)
    return row


cdef inline text_t parse_head(Row *row, text_t at) noexcept nogil:
    """Parse grade and qid; return where the features begin, or NULL at a defect."""
    cdef uint8_t all_bits = 0
    at = read_number(at, &row.grade)
    if at == NULL or not is_end(at[0]) or not fabs(row.grade) <= DBL_MAX:
        return NULL
    while is_blank(at[0]):
        at += 1
    if not (at[0] == b"q" and at[1] == b"i" and at[2] == b"d" and at[3] == b":"):
        return NULL
    at += 4
    row.qid = at
    while not is_end(at[0]):
        all_bits |= at[0]
        if at[0] == 0:
            return NULL
        at += 1
    row.qid_length = at - row.qid
    if not row.qid_length or (all_bits > 127 and not is_utf8(row.qid, at)):
        return NULL
    return at


cdef inline text_t parse_pairs(
    Row *row, text_t at, int32_t *indices, feature_t *values
) noexcept nogil:
    """Parse the features; return where they end, or NULL at a defect."""
    cdef double largest = FLT_MAX if feature_t is float else DBL_MAX
    cdef double value = 0.0
    cdef text_t word
    cdef uint64_t index
    cdef int64_t last = -1
    cdef bint rising = True
    cdef Py_ssize_t n = 0
    while True:
        while is_blank(at[0]):
            at += 1
        word = at
        index = 0
        while is_digit(at[0]):
            index = index * 10 + (at[0] - 48)
            at += 1
        if at == word and (at[0] == b"\n" or at[0] == b"#"):
            break
        if at[0] != b":" or at == word:
            return NULL
        if at - word > 9 and is_large(word, at, index):
            return NULL
        at = read_number(at + 1, &value)
        if at == NULL or not is_end(at[0]) or not fabs(value) <= largest:
            return NULL
        indices[n], values[n] = <int32_t>index, <feature_t>value
        n += 1
        if <int64_t>index != last + 1:
            if n > 1:
                row.consecutive = False
                rising = rising and <int64_t>index > last
            row.low = min(row.low, <int64_t>index)
        last = <int64_t>index
        row.high = max(row.high, last)
    if row.high >= 0:
        row.low = min(row.low, <int64_t>indices[0])
    row.size = n
    if not rising:
        row.defect = find_repeat(indices, n)
    return NULL if row.defect else at


# --- characters ---------------------------------------------------------------------------------


cdef inline bint is_digit(uint8_t c) noexcept nogil:
    return <uint8_t>(c - 48) <= 9


cdef inline bint is_blank(uint8_t c) noexcept nogil:
    """Space, tab, carriage return, form feed, vertical tab: white space within a line."""
    return c <= 32 and (<uint64_t>0x100003A00 >> c) & 1


cdef inline bint is_end(uint8_t c) noexcept nogil:
    """White space, a newline or the sign of a comment: what ends a word."""
    return c <= 35 and (<uint64_t>0x900003E00 >> c) & 1


cdef inline text_t word_end(text_t at) noexcept nogil:
    while not is_end(at[0]):
        at += 1
    return at


cdef inline text_t line_end(text_t at, text_t end) noexcept nogil:
    return <text_t>memchr(at, b"\n", end - at)


cdef bint is_utf8(text_t at, text_t end) noexcept with gil:
    try:
        (<const char *>at)[:end - at].decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


cdef void read_comment(Row *row, text_t at) noexcept nogil:
    """Check a row's comment, which ends with the line, and look for a document's id in it."""
    cdef text_t p, start = at
    cdef uint8_t all_bits = 0
    cdef Py_ssize_t i
    for i in range(row.end - at):
        all_bits |= at[i]
    if memchr(at, 0, row.end - at) or (all_bits > 127 and not is_utf8(at, row.end)):
        row.defect = DEFECT
        return
    while row.end - at >= 7:
        at = <text_t>memchr(at, b"d", row.end - at)
        if at == NULL:
            return
        p = at
        at += 1
        if row.end - p < 7 or memcmp(p, b"docid", 5) != 0:
            continue
        if p > start and not is_blank(p[-1]):
            continue
        p += 5
        while is_blank(p[0]):
            p += 1
        if p[0] != b"=":
            continue
        p += 1
        while is_blank(p[0]):
            p += 1
        if p[0] == b"\n":
            return
        row.doc = p
        while not is_blank(p[0]) and p[0] != b"\n":
            p += 1
        row.doc_length = p - row.doc
        return


# --- numbers ------------------------------------------------------------------------------------


cdef inline text_t read_number(text_t at, double *out) noexcept nogil:
    """Read a decimal number, rounded correctly; return its end, or NULL if there is none."""
    cdef text_t start = at
    cdef text_t mark
    cdef uint64_t m = 0
    cdef Py_ssize_t digits, exponent = 0, power = 0
    cdef bint negative = at[0] == b"-", falls
    cdef double value
    if negative or at[0] == b"+":
        at += 1
    mark = at
    while is_digit(at[0]):
        m = m * 10 + (at[0] - 48)
        at += 1
    digits = at - mark
    if at[0] == b".":
        at += 1
        mark = at
        while is_digit(at[0]):
            m = m * 10 + (at[0] - 48)
            at += 1
        exponent = mark - at
        digits -= exponent
    if not digits:
        return NULL
    if at[0] | 32 == b"e":
        at += 1
        falls = at[0] == b"-"
        if falls or at[0] == b"+":
            at += 1
        if not is_digit(at[0]):
            return NULL
        while is_digit(at[0]):
            if power < 100000:
                power = power * 10 + (at[0] - 48)
            at += 1
        exponent += -power if falls else power
    # Up to 2**53 and up to 10**22 are exact doubles, so that one operation rounds once.
    if digits <= 19 and m <= <uint64_t>1 << 53 and -22 <= exponent <= 22 and LETOR_ROUNDS_ONCE:
        value = <double>m
        if exponent < 0:
            value /= POWERS[-exponent]
        else:
            value *= POWERS[exponent]
        out[0] = -value if negative else value
    elif digits <= 19 and m and -27 <= exponent <= 27 and LETOR_HAS_WIDE:
        value = wide_number(m, <int>exponent)
        out[0] = -value if negative else value
    else:
        out[0] = slow_number(start, at - start)
    return at


cdef double wide_number(uint64_t m, int exponent) noexcept nogil:
    """Return m * 10**exponent, for m > 0 and at most 27 digits of exponent: 5**27 < 2**63."""
    cdef letor_wide wide = m, rest, half
    cdef uint64_t five = 1
    cdef int _k, k, bits, cut, shift = exponent
    cdef bint sticky = False
    for _k in range(exponent if exponent > 0 else -exponent):
        five *= 5
    if exponent >= 0:
        wide *= five
    else:
        # As many bits as fit, so that 64 or more are left after the division.
        k = 64 + letor_zeros(m)
        wide <<= k
        shift -= k
        sticky = wide % five != 0
        wide //= five
    if wide >> 64:
        bits = 128 - letor_zeros(<uint64_t>(wide >> 64))
    else:
        bits = 64 - letor_zeros(<uint64_t>wide)
    if bits <= 53:
        return ldexp(<double><uint64_t>wide, shift)
    cut = bits - 53
    half = (<letor_wide>1) << (cut - 1)
    rest = wide & ((half << 1) - 1)
    wide >>= cut
    if rest > half or (rest == half and (sticky or wide & 1)):
        wide += 1
    return ldexp(<double><uint64_t>wide, shift + cut)


cdef double slow_number(text_t at, Py_ssize_t length) noexcept with gil:
    """Return any number as Python does."""
    return float((<const char *>at)[:length])


cdef bint is_large(text_t at, text_t end, uint64_t index) noexcept nogil:
    """Whether an index of ten digits or more is too large; twenty that begin with 0 fit."""
    if end - at > MOST_DIGITS or (end - at == MOST_DIGITS and at[0] != b"0"):
        return True
    return index > LARGEST_INDEX


cdef int find_repeat(const int32_t *indices, Py_ssize_t n) noexcept nogil:
    """Look for an index that is repeated."""
    cdef int32_t *sorted_ = <int32_t *>malloc(n * sizeof(int32_t))
    cdef int found = NO_DEFECT
    cdef Py_ssize_t i
    if sorted_ == NULL:
        return NO_MEMORY
    memcpy(sorted_, indices, n * sizeof(int32_t))
    qsort(sorted_, n, sizeof(int32_t), compare_indices)
    for i in range(1, n):
        if sorted_[i] == sorted_[i - 1]:
            found = DEFECT
    free(sorted_)
    return found


cdef int compare_indices(const void *a, const void *b) noexcept nogil:
    cdef int32_t one = (<const int32_t *>a)[0]
    cdef int32_t other = (<const int32_t *>b)[0]
    return (one > other) - (one < other)
