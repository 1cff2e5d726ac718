"""Sampling of triplets; see :mod:`ranking.kernels.contract.sampling`."""

from libc.stdint cimport int64_t, uint64_t

from c_library cimport positives_t, sample_triplet

from ranking.kernels.cython.library cimport positives_of


def sample_triplets(sampling, int64_t n_positives, int64_t[:, ::1] out):
    """Sample a query, positives and negatives for each step."""
    cdef positives_t positives = positives_of(sampling.positives)
    cdef uint64_t seed = sampling.seed, first = sampling.first
    cdef int64_t step, columns = out.shape[1]
    with nogil:
        for step in range(out.shape[0]):
            sample_triplet(
                &positives, seed, first + <uint64_t>step, n_positives, columns, &out[step, 0]
            )
