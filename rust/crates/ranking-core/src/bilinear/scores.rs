//! Scores q' W d: the images of eight queries side by side, then all documents.

use crate::bilinear::features::{SparseRows, SparseVector};
use crate::constants::WIDE;
use crate::dispatch::{Job, dispatch};
use crate::error::filled;
use crate::matrix::{Compressed, Feature, Index};
use crate::simd::{Lanes, Machine};
use crate::threads::ThreadTeam;

/// An entry of the images of eight queries: a cache line.
type Column = [f64; WIDE];

struct Products<'a, 'o, I, F> {
    documents: Compressed<'a, I, F>,
    images: &'a [Column],
    out: &'a mut [&'o mut [f64]],
}

impl<I: Index, F: Feature> Job for Products<'_, '_, I, F> {
    type Output = ();
    #[inline(always)]
    fn run<M: Machine>(self, machine: M) {
        for document in 0..self.documents.lines() {
            let (indices, data) = self.documents.line(document);
            let mut low = Lanes::splat(machine, 0.0);
            let mut high = low;
            for (index, value) in indices.iter().zip(data) {
                let [a, b, c, d, e, f, g, h] = self.images[index.position()];
                let value = low.all(value.widen());
                low += value * Lanes::new(machine, [a, b, c, d]);
                high += value * Lanes::new(machine, [e, f, g, h]);
            }
            let totals = low.array().into_iter().chain(high.array());
            for (out, total) in self.out.iter_mut().zip(totals) {
                out[document] = total;
            }
        }
    }
}

/// Fill out[i, j] with `q_i`' W `d_j`.
pub fn bilinear_scores<I: Index, F: Feature>(
    queries: &dyn SparseRows,
    weights: &dyn SparseRows,
    documents: Compressed<'_, I, F>,
    n_columns: usize,
    out: &mut [f64],
    team: &ThreadTeam,
) {
    let n_documents = documents.lines();
    if out.is_empty() {
        return;
    }
    let shares = out.chunks_mut(WIDE * n_documents).enumerate();
    team.run(shares, |(share, out)| {
        let mut out: Vec<_> = out.chunks_mut(n_documents).collect();
        let mut images = filled(n_columns, [0.0; WIDE]);
        let (mut query, mut row) = (SparseVector::default(), SparseVector::default());
        for (lane, number) in (0..out.len()).zip(*share * WIDE..) {
            queries.load(number, &mut query);
            for (at, a) in query.entries() {
                weights.load(at as usize, &mut row);
                for (column, w) in row.entries() {
                    images[column as usize][lane] += a * w;
                }
            }
        }
        dispatch(Products {
            documents,
            images: &images,
            out: &mut out,
        });
    });
}
