//! `SplitMix64` by counter: any thread, and a resumed run, can jump to any place in the stream.

use crate::constants::GAMMA;

/// Return the k-th random number of a seed.
#[inline]
#[must_use]
pub fn random_bits(seed: u64, k: u64) -> u64 {
    let mut z = seed.wrapping_add(k.wrapping_add(1).wrapping_mul(GAMMA));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Map a random number to an integer in [0, bound).
#[inline]
#[must_use]
pub fn below(bits: u64, bound: u32) -> u32 {
    // The high half of a 32 x 32 bit product: less than `bound`, so it fits.
    (((bits >> 32) * u64::from(bound)) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_zero_starts_as_published() {
        assert_eq!(random_bits(0, 0), 0xE220_A839_7B1D_CDAF);
    }
}
