//! What several tests need: random numbers and sparse matrices.
#![allow(dead_code, reason = "every test uses a part of it")]

use ranking_core::factored::Features;
use ranking_core::random::{below, fill, random_bits, uniform};
use ranking_core::{Compressed, ThreadTeam};

pub(crate) fn team(threads: usize) -> ThreadTeam {
    ThreadTeam::new(threads).unwrap()
}

/// Uniform numbers in [-0.5, 0.5).
pub(crate) fn doubles(seed: u64, length: usize) -> Vec<f64> {
    let mut numbers = vec![0.0; length];
    fill(seed, 0, &mut numbers, |bits| uniform(bits) - 0.5);
    numbers
}

#[expect(clippy::cast_possible_truncation, reason = "rounding is wanted")]
pub(crate) fn singles(seed: u64, length: usize) -> Vec<f32> {
    doubles(seed, length)
        .into_iter()
        .map(|x| x as f32)
        .collect()
}

/// Triplets of queries and documents below a bound.
pub(crate) fn triplets(seed: u64, steps: usize, width: usize, bound: u32) -> Vec<i64> {
    let mut numbers = vec![0; steps * width];
    fill(seed, 0, &mut numbers, |bits| i64::from(below(bits, bound)));
    numbers
}

/// A sparse matrix by row.
pub(crate) struct Sparse {
    pub(crate) columns: usize,
    pub(crate) indptr: Vec<i32>,
    pub(crate) indices: Vec<i32>,
    pub(crate) data: Vec<f64>,
}

impl Sparse {
    /// Rows of at most `width` entries.
    pub(crate) fn random(seed: u64, rows: u64, columns: u32, width: u64) -> Self {
        let (mut indptr, mut indices) = (vec![0], Vec::new());
        for row in 0..rows {
            let numbers = (row * width..(row + 1) * width).map(|k| random_bits(seed, k));
            let mut own: Vec<_> = numbers
                .map(|bits| below(bits, columns).cast_signed())
                .collect();
            own.sort_unstable();
            own.dedup();
            indices.extend(own);
            indptr.push(i32::try_from(indices.len()).unwrap());
        }
        Self {
            columns: columns as usize,
            data: doubles(seed + 1, indices.len()),
            indptr,
            indices,
        }
    }

    pub(crate) fn compressed(&self) -> Compressed<'_, i32, f64> {
        Compressed::new(&self.indptr, &self.indices, &self.data, self.columns).unwrap()
    }

    pub(crate) fn features(&self) -> Features<'_> {
        Features::from(self.compressed())
    }
}
