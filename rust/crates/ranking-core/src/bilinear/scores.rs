//! Scores q' W d: the images of eight queries side by side, then all documents.

use crate::bilinear::features::{SparseRows, SparseVector};
use crate::constants::WIDE;
use crate::dispatch::{Job, dispatch};
use crate::error::{Error, check_length, filled};
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

/// Fill out[i, j] with `q_i`' W `d_j`; queries and W come with their numbers of rows.
///
/// # Errors
/// When sizes do not fit, or there is no memory for the images.
pub fn bilinear_scores<I: Index, F: Feature>(
    (queries, n_queries): (&dyn SparseRows, usize),
    (weights, n_rows): (&dyn SparseRows, usize),
    documents: Compressed<'_, I, F>,
    out: &mut [f64],
    team: &ThreadTeam,
) -> Result<(), Error> {
    let n_documents = documents.lines();
    check_length("out", out.len(), n_queries.saturating_mul(n_documents))?;
    if out.is_empty() {
        return Ok(());
    }
    let shares = out.chunks_mut(WIDE * n_documents).enumerate();
    team.enter(|| {
        team.try_for_each(shares, |(share, out)| {
            let mut out: Vec<_> = out.chunks_mut(n_documents).collect();
            let mut images = filled(documents.length(), [0.0; WIDE])?;
            let (mut query, mut row) = (SparseVector::default(), SparseVector::default());
            for lane in 0..out.len() {
                let number = i64::try_from(*share * WIDE + lane).unwrap_or(i64::MAX);
                queries.load(number, n_rows, &mut query)?;
                for (at, a) in query.entries() {
                    weights.load(i64::from(at), images.len(), &mut row)?;
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
            Ok(())
        })
    })
}
