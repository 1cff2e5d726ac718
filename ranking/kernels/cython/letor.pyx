"""Parsing of LETOR text; see :mod:`ranking.kernels.contract.letor`.

Each byte is read once. Rare cases (a defect, a number that needs more than one rounding, features
out of order) are left to slower functions below the fast ones. The text ends with a newline, at
which every scan stops.
"""

from cython.parallel cimport prange
from libc.float cimport FLT_MAX, DBL_MAX
from libc.math cimport fabs, ldexp
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc, qsort
from libc.string cimport memchr, memcmp

from ranking.kernels.cython.library cimport feature_t

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
    # Defect of the contract
    NONE = 0
    NUL_BYTE = 1
    NO_QID = 2
    NOT_UTF8 = 3
    EMPTY_QID = 4
    BAD_GRADE = 5
    QID_ELSEWHERE = 6
    NOT_A_PAIR = 7
    NEGATIVE_INDEX = 8
    BAD_INDEX = 9
    LARGE_INDEX = 10
    MISSING_VALUE = 11
    BAD_VALUE = 12
    LARGE_VALUE = 13
    REPEATED = 14
    NO_MEMORY = 15

cdef enum:
    PAIR_BYTES = 4
    ROW_INFO = 6
    LARGEST_INDEX = 0x7FFFFFFF

cdef double[23] POWERS
POWERS[:] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
]


cdef struct Fault:
    int code
    text_t word
    text_t end


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
    Fault fault


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
    row.fault.code = NONE
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
                row.fault = Fault(NUL_BYTE, text, text)
                break
            at = row.end + 1
            continue
        row = parse_row(at, end, indices + chunk.pairs, values + chunk.pairs)
        if row.fault.code:
            row.fault = first_fault(row.fault, text, at, end)
            break
        grades[chunk.rows] = row.grade
        add_row(&chunk, &row, text, row_info + chunk.rows * ROW_INFO)
        at = row.end + 1
    chunk_info[0], chunk_info[1], chunk_info[2] = chunk.rows, chunk.pairs, chunk.lines
    chunk_info[3], chunk_info[4], chunk_info[5] = chunk.width, chunk.low, chunk.high
    chunk_info[6] = row.fault.code
    chunk_info[7] = row.fault.word - text if row.fault.code else 0
    chunk_info[8] = row.fault.end - row.fault.word if row.fault.code else 0


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
    row.fault = Fault(NONE, at, at)
    row.consecutive = True
    row.low = <int64_t>LARGEST_INDEX + 1
    row.high = -1
    row.qid_length = row.doc_length = row.size = 0
    row.qid = row.doc = row.end = at
    at = parse_head(&row, at)
    if row.fault.code:
        return row
    at = parse_pairs(&row, at, indices, values)
    if row.fault.code:
        return row
    row.end = at
    if at[0] == b"#":
        row.end = line_end(at, end)
        read_comment(&row, at + 1)
    return row


cdef inline text_t parse_head(Row *row, text_t at) noexcept nogil:
    """Parse grade and qid; return where the features begin."""
    cdef text_t word = at
    cdef uint8_t all_bits = 0
    cdef bint good_grade
    at = read_number(at, &row.grade)
    good_grade = at != NULL and is_end(at[0]) and fabs(row.grade) <= DBL_MAX
    at = word_end(word)
    if not good_grade:
        row.fault = Fault(BAD_GRADE, word, at)
    while is_blank(at[0]):
        at += 1
    if not (at[0] == b"q" and at[1] == b"i" and at[2] == b"d" and at[3] == b":"):
        row.fault.code = NO_QID
        return at
    at += 4
    row.qid = at
    while not is_end(at[0]):
        all_bits |= at[0]
        if at[0] == 0:
            row.fault.code = NUL_BYTE
            return at
        at += 1
    row.qid_length = at - row.qid
    if all_bits > 127 and not is_utf8(row.qid, at):
        row.fault.code = NOT_UTF8
    elif not row.qid_length:
        row.fault.code = EMPTY_QID
    return at


cdef inline text_t parse_pairs(
    Row *row, text_t at, int32_t *indices, feature_t *values
) noexcept nogil:
    """Parse the features; return where they end."""
    cdef double largest = FLT_MAX if feature_t is float else DBL_MAX
    cdef double value = 0.0
    cdef text_t word, tail, pairs = at
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
            row.fault = Fault(word_fault(word, largest), word, word)
            break
        if at - word > 9:
            index = long_index(word, at)
            if index > LARGEST_INDEX:
                row.fault = Fault(LARGE_INDEX, word, word)
                break
        tail = read_number(at + 1, &value)
        if tail == NULL or not is_end(tail[0]) or not fabs(value) <= largest:
            row.fault = Fault(word_fault(word, largest), word, word)
            break
        at = tail
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
    if row.fault.code:
        row.fault.end = word_end(row.fault.word)
    if not rising:
        find_repeat(&row.fault, pairs, indices, n)
    return at


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


cdef bint is_utf8(text_t at, text_t end) noexcept nogil:
    """Well-formed as Unicode defines it: no surrogates, nothing longer than need be."""
    cdef uint8_t c, low, high
    cdef Py_ssize_t more, i
    while at < end:
        c = at[0]
        if c < 0x80:
            at += 1
            continue
        low = 0x80
        high = 0xBF
        if 0xC2 <= c <= 0xDF:
            more = 1
        elif 0xE0 <= c <= 0xEF:
            more = 2
            if c == 0xE0:
                low = 0xA0
            elif c == 0xED:
                high = 0x9F
        elif 0xF0 <= c <= 0xF4:
            more = 3
            if c == 0xF0:
                low = 0x90
            elif c == 0xF4:
                high = 0x8F
        else:
            return False
        if end - at <= more or not low <= at[1] <= high:
            return False
        for i in range(2, more + 1):
            if at[i] & 0xC0 != 0x80:
                return False
        at += more + 1
    return True


cdef void read_comment(Row *row, text_t at) noexcept nogil:
    """Check a row's comment, which ends with the line, and look for a document's id in it."""
    cdef text_t p, start = at
    cdef uint8_t all_bits = 0
    cdef Py_ssize_t i
    for i in range(row.end - at):
        all_bits |= at[i]
    if memchr(at, 0, row.end - at):
        row.fault.code = NUL_BYTE
        return
    if all_bits > 127 and not is_utf8(at, row.end):
        row.fault.code = NOT_UTF8
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


cdef uint64_t long_index(text_t at, text_t end) noexcept nogil:
    """Return an index of ten digits or more, or one that is too large for it."""
    cdef uint64_t index = 0
    if end - at > 20:
        return <uint64_t>LARGEST_INDEX + 1
    while at < end and index <= LARGEST_INDEX:
        index = index * 10 + (at[0] - 48)
        at += 1
    return index


# --- defects ------------------------------------------------------------------------------------


cdef Fault first_fault(Fault fault, text_t text, text_t at, text_t end) noexcept nogil:
    """Return the defect of a line, given the first one that was met while reading it."""
    cdef text_t stop = line_end(at, end)
    cdef text_t comment
    if memchr(at, 0, stop - at):
        return Fault(NUL_BYTE, text, text)
    if fault.code >= EMPTY_QID and fault.code != NO_MEMORY:
        comment = <text_t>memchr(at, b"#", stop - at)
        if comment != NULL and not is_utf8(comment, stop):
            return Fault(NOT_UTF8, text, text)
    if fault.code < BAD_GRADE or fault.code == NO_MEMORY:
        return Fault(fault.code, text, text)
    return fault


cdef int word_fault(text_t word, double largest) noexcept nogil:
    """Return what is wrong with a word that is not a good <index>:<value>."""
    cdef text_t end = word_end(word)
    cdef text_t colon = <text_t>memchr(word, b":", end - word)
    cdef text_t at = word
    cdef text_t tail
    cdef double value = 0.0
    if (end if colon == NULL else colon) - word == 3 and memcmp(word, b"qid", 3) == 0:
        return QID_ELSEWHERE
    if colon == NULL or colon == word or colon + 1 == end:
        return NOT_A_PAIR
    if at[0] == b"-" and colon - at > 1:
        at += 1
    while is_digit(at[0]):
        at += 1
    if at != colon:
        return BAD_INDEX
    if word[0] == b"-":
        return NEGATIVE_INDEX
    if long_index(word, colon) > LARGEST_INDEX:
        return LARGE_INDEX
    if is_missing(colon + 1, end - colon - 1):
        return MISSING_VALUE
    tail = read_number(colon + 1, &value)
    if tail != end or not fabs(value) <= DBL_MAX:
        return BAD_VALUE
    return LARGE_VALUE


cdef bint is_missing(text_t at, Py_ssize_t length) noexcept nogil:
    cdef uint8_t[4] low
    cdef Py_ssize_t i
    if length > 4:
        return False
    for i in range(length):
        low[i] = at[i] + 32 if b"A" <= at[i] <= b"Z" else at[i]
    if length == 1:
        return low[0] == b"?"
    if length == 2:
        return memcmp(low, b"na", 2) == 0
    if length == 3:
        return memcmp(low, b"nan", 3) == 0
    return memcmp(low, b"null", 4) == 0 or memcmp(low, b"none", 4) == 0


cdef void find_repeat(
    Fault *fault, text_t pairs, const int32_t *indices, Py_ssize_t n
) noexcept nogil:
    """Find the first word that repeats an index, among the words before any other fault."""
    cdef uint64_t *keys = <uint64_t *>malloc(n * sizeof(uint64_t))
    cdef uint64_t place, first = <uint64_t>n
    cdef Py_ssize_t i, _i
    if keys == NULL:
        fault.code = NO_MEMORY
        return
    for i in range(n):
        keys[i] = <uint64_t>indices[i] << 32 | <uint64_t>i
    qsort(keys, n, sizeof(uint64_t), compare_keys)
    for i in range(1, n):
        if keys[i] >> 32 == keys[i - 1] >> 32:
            place = keys[i] & <uint64_t>0xFFFFFFFF
            first = min(first, place)
    free(keys)
    if first == <uint64_t>n:
        return
    for _i in range(<Py_ssize_t>first + 1):
        while is_blank(pairs[0]):
            pairs += 1
        fault.word = pairs
        pairs = word_end(pairs)
    fault.code = REPEATED
    fault.end = pairs


cdef int compare_keys(const void *a, const void *b) noexcept nogil:
    cdef uint64_t one = (<const uint64_t *>a)[0]
    cdef uint64_t other = (<const uint64_t *>b)[0]
    return (one > other) - (one < other)
