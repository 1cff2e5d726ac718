/* SplitMix64 by counter: see "Random numbers" in the kernel contract. */
#ifndef RANKING_RANDOM_H
#define RANKING_RANDOM_H

#include <stdint.h>

#include "lanes.h"

LANES_INLINE uint64_t random_bits(uint64_t seed, uint64_t k)
{
    uint64_t z = seed + (k + 1) * UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

LANES_INLINE double random_uniform(uint64_t seed, uint64_t k)
{
    return (double)(random_bits(seed, k) >> 11) * 0x1p-53;
}

LANES_INLINE int64_t random_below(uint64_t seed, uint64_t k, int64_t bound)
{
    return (int64_t)(((random_bits(seed, k) >> 32) * (uint64_t)bound) >> 32);
}

#endif
