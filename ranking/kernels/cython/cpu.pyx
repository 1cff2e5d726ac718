"""Which build of the loops this machine can run."""

cdef extern from *:
    """
    #if defined(RANKING_AVX2_BUILT) && (defined(__x86_64__) || defined(__i386__))
    static int ranking_runs_avx2(void)
    {
        __builtin_cpu_init();
        return __builtin_cpu_supports("avx2") != 0;
    }
    #else
    static int ranking_runs_avx2(void) { return 0; }
    #endif
    """
    bint ranking_runs_avx2() noexcept nogil


def runs_avx2():
    """Return whether the loops were built for AVX2 and this processor has it."""
    return ranking_runs_avx2()
