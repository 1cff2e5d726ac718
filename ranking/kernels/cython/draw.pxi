# What tuples are drawn from, for bilinear.pyx and factored.pyx: both include this file.

cdef extern from "draw.h" nogil:
    ctypedef struct draw_guide_t:
        uint32_t *rising
        uint32_t *starts
    ctypedef struct draw_lists_t:
        const int64_t *queries
        const int64_t *query_sums
        const int64_t *list_of
        const int64_t *list_ptr
        const int64_t *members
        const int64_t *member_sums
        const int64_t *itself
        const float *weights
        int64_t n_queries
        int64_t n_documents
        int64_t n_lists
        bint any_other
        draw_guide_t member_guide
        draw_guide_t query_guide
    void draw_tuple(
        const draw_lists_t *lists, uint64_t seed, uint64_t step, int64_t positives,
        int64_t columns, int64_t *out,
    ) noexcept


cdef const int64_t *ints_of(const int64_t[::1] array) noexcept:
    return &array[0] if array.shape[0] else NULL


cdef draw_lists_t lists_of(fields) except *:
    # The caller keeps the arrays alive.
    cdef draw_lists_t made
    cdef const float[::1] weights = fields[7]
    made.queries, made.n_queries = ints_of(fields[0]), fields[0].shape[0]
    made.query_sums = ints_of(fields[1])
    made.list_of, made.list_ptr = ints_of(fields[2]), ints_of(fields[3])
    made.members, made.member_sums = ints_of(fields[4]), ints_of(fields[5])
    made.itself = ints_of(fields[6])
    made.weights = &weights[0] if weights.shape[0] else NULL
    made.n_lists = fields[3].shape[0] - 1
    made.n_documents, made.any_other = fields[8], fields[9]
    made.member_guide.starts = made.query_guide.starts = NULL
    return made
