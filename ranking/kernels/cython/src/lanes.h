/* Vectors of four doubles: the "lanes" of the kernel contract.
 *
 * Vector types of the compiler: the same source becomes AVX2, SSE2 or NEON, and each lane has the
 * arithmetic of a plain double. Compilers vectorise loops over `double[4]` less well. Intrinsics
 * are used only where gcc 12 compiles the generic form poorly.
 */
#ifndef RANKING_LANES_H
#define RANKING_LANES_H

#include <stdint.h>
#ifdef __AVX2__
#include <immintrin.h>
#endif

#if !defined(__GNUC__)
#error "The Cython kernel needs the vector types of gcc or clang (on Windows: clang-cl or MinGW)."
#endif

#define LANES_INLINE static inline __attribute__((always_inline, unused))

typedef double lanes_t __attribute__((vector_size(32)));
typedef int64_t lanes_mask_t __attribute__((vector_size(32)));
typedef uint64_t lanes_bits_t __attribute__((vector_size(32)));

/* NumPy aligns to the element, not to the vector, so memory is accessed through these types. */
typedef double lanes_memory_t __attribute__((vector_size(32), aligned(8), may_alias));
typedef float lanes_float_t __attribute__((vector_size(16), aligned(4), may_alias));

#ifdef __AVX2__
#define LANES_INSTRUCTIONS "avx2"
#else
#define LANES_INSTRUCTIONS "baseline"
#endif

#ifdef _OPENMP
#define LANES_THREADS "openmp"
#else
#define LANES_THREADS "none"
#endif

LANES_INLINE lanes_t lanes_load(const double *from)
{
    return *(const lanes_memory_t *)from;
}

LANES_INLINE lanes_t lanes_widen(const float *from)
{
#ifdef __AVX2__
    return _mm256_cvtps_pd(_mm_loadu_ps(from));
#else
    return __builtin_convertvector(*(const lanes_float_t *)from, lanes_t);
#endif
}

LANES_INLINE void lanes_store(double *to, lanes_t v)
{
    *(lanes_memory_t *)to = v;
}

LANES_INLINE lanes_t lanes_splat(double v)
{
    return (lanes_t){v, v, v, v};
}

/* Add the lanes. */
LANES_INLINE double lanes_sum(lanes_t v)
{
#ifdef __AVX2__
    __m128d half = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
    return half[0] + half[1];
#else
    return (v[0] + v[2]) + (v[1] + v[3]);
#endif
}

/* Select `yes` where the mask is set, else `no`. Unlike fmin and fmax, this propagates NaN. */
LANES_INLINE lanes_t lanes_select(lanes_mask_t mask, lanes_t yes, lanes_t no)
{
    return (lanes_t)(((lanes_mask_t)yes & mask) | ((lanes_mask_t)no & ~mask));
}

/* exp for |t| <= 1/32. */
LANES_INLINE lanes_t lanes_exp_short(lanes_t t)
{
    lanes_t t2 = t * t;
    lanes_t t4 = t2 * t2;
    lanes_t low = (1.0 + t) + (t * (1.0 / 6.0) + 0.5) * t2;
    lanes_t high = (t * (1.0 / 120.0) + 1.0 / 24.0) + (t * (1.0 / 5040.0) + 1.0 / 720.0) * t2;
    return low + high * t4;
}

/* exp for |r| <= 0.3467. */
LANES_INLINE lanes_t lanes_exp_core(lanes_t r)
{
    lanes_t r2 = r * r;
    lanes_t r4 = r2 * r2;
    lanes_t r8 = r4 * r4;
    lanes_t low = (1.0 + r) + (r * 0x1.5555555555558p-3 + 0x1.0000000000001p-1) * r2;
    lanes_t mid = (r * 0x1.111111110f7f5p-7 + 0x1.5555555553d55p-5)
                  + (r * 0x1.a01a01b012e65p-13 + 0x1.6c16c178911b7p-10) * r2;
    lanes_t high = (r * 0x1.71ddf6a1003a6p-19 + 0x1.a019b8f8d9659p-16)
                   + (r * 0x1.af634e6a9eb34p-26 + 0x1.28919d70ceb38p-22) * r2;
    return (low + mid * r4) + high * r8;
}

/* exp for any x, saturating. */
LANES_INLINE lanes_t lanes_exp(lanes_t x)
{
    const lanes_t limit = lanes_splat(708.0);
    const double magic = 6755399441055744.0; /* 1.5 * 2**52: adding it rounds to an integer */
    lanes_t t, k, p;
    x = lanes_select(x < -limit, -limit, x);
    x = lanes_select(x > limit, limit, x);
    t = x * 0x1.71547652b82fep+0 + magic;
    k = t - magic;
    p = lanes_exp_core((x - k * 0x1.62e42feep-1) - k * 0x1.a39ef35793c76p-33);
    return (lanes_t)((lanes_bits_t)p + ((lanes_bits_t)t << 52));
}

/* exp of one number, with the same bits as a lane of `lanes_exp`. */
LANES_INLINE double lanes_exp_one(double x)
{
    return lanes_exp(lanes_splat(x))[0];
}

#endif
