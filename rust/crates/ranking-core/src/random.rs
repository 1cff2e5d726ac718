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

/// Map a random number to a uniform in [0, 1).
#[inline]
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "53 bits fit a double exactly")]
pub fn uniform(bits: u64) -> f64 {
    (bits >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
}

/// Map a random number to an integer in [0, bound).
#[inline]
#[must_use]
pub fn below(bits: u64, bound: u32) -> u32 {
    // The high half of a 32 x 32 bit product: less than `bound`, so it fits.
    (((bits >> 32) * u64::from(bound)) >> 32) as u32
}

/// Fill `out` with the random numbers first, first + 1, ... of a seed, each mapped to a value.
pub fn fill<T>(seed: u64, first: u64, out: &mut [T], map: impl Fn(u64) -> T) {
    for (k, value) in (0..).zip(out) {
        *value = map(random_bits(seed, first.wrapping_add(k)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_zero_starts_as_published() {
        assert_eq!(random_bits(0, 0), 0xE220_A839_7B1D_CDAF);
    }

    #[test]
    fn any_number_can_be_jumped_to() {
        let (mut all, mut later) = ([0; 100], [0; 40]);
        fill(7, 0, &mut all, |bits| bits);
        fill(7, 60, &mut later, |bits| bits);
        assert_eq!(all[60..], later);
    }
}
