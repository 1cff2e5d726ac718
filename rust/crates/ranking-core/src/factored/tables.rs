//! U, V and S: which thread updates which rows, and who shares a row.

use crate::error::Error;
use crate::factored::occurrences::Occurrences;
use crate::factored::rows::Piece;
use crate::factored::transposed::Transposed;

/// The rows of a matrix by thread, and who shares them.
#[derive(Debug)]
pub(super) struct Table {
    /// Rows at which the next thread begins.
    cuts: Vec<usize>,
    /// No rows if each belongs to one query or document.
    pub(super) transposed: Transposed,
}

impl Table {
    /// `n_rows` is 0 if each row belongs to one query or document.
    pub(super) fn new(n_rows: usize) -> Result<Self, Error> {
        Ok(Self {
            cuts: Vec::new(),
            transposed: Transposed::new(n_rows)?,
        })
    }

    /// Cut the rows as they were last shared out.
    pub(super) fn cut<'p>(&self, piece: Piece<'p>) -> Vec<Piece<'p>> {
        piece.cut_all(&self.cuts)
    }

    /// Share rows out so that each thread has as much work, given the rows that have some.
    pub(super) fn share_out(&mut self, rows: &impl Occurrences, threads: usize) {
        let mut all = Vec::with_capacity(rows.count());
        rows.for_each(|row, _| all.push((row as usize, 1)));
        self.cuts = quantiles(all, threads);
    }

    /// Share rows out by the listed entries.
    pub(super) fn share_out_listed(&mut self, threads: usize) {
        let listed = &self.transposed;
        let rows = listed.rows.iter().enumerate();
        let rows = rows.map(|(place, &row)| (row as usize, 1 + listed.entries(place).len()));
        self.cuts = quantiles(rows.collect(), threads);
    }
}

/// Cut rows, given with their work, into parts of about as much work.
fn quantiles(mut rows: Vec<(usize, usize)>, parts: usize) -> Vec<usize> {
    rows.sort_unstable();
    let total: usize = rows.iter().map(|row| row.1).sum();
    let (mut cuts, mut before) = (Vec::with_capacity(parts), 0);
    for (row, work) in rows {
        // After the row, if its middle is before the cut.
        while cuts.len() + 1 < parts && 2 * before + work > 2 * total * (cuts.len() + 1) / parts {
            cuts.push(row);
        }
        before += work;
    }
    cuts
}
