//! U, V and S: which thread changes which rows, and which objects share a row.

use crate::bilinear::Failure;
use crate::factored::registry::Occurrences;
use crate::factored::rows::Piece;
use crate::factored::transposed::Transposed;

/// Who takes which rows of a matrix, and which objects share them.
#[derive(Debug)]
pub(super) struct Table {
    /// Rows from which another thread takes over.
    cuts: Vec<usize>,
    /// No rows if each belongs to one object.
    pub(super) transposed: Transposed,
}

impl Table {
    /// `n_rows` is 0 if each row belongs to one object.
    pub(super) fn new(n_rows: usize) -> Result<Self, Failure> {
        Ok(Self {
            cuts: Vec::new(),
            transposed: Transposed::new(n_rows)?,
        })
    }

    /// Cut the rows as they were last shared out.
    pub(super) fn cut<'p>(&self, piece: Piece<'p>) -> Vec<Piece<'p>> {
        piece.cut_all(&self.cuts)
    }

    /// Share the rows out so that each thread has as much work, given the rows that have some.
    pub(super) fn share_out(&mut self, rows: &impl Occurrences, threads: usize) {
        let mut all = Vec::with_capacity(rows.count());
        rows.for_each(|row, _| all.push((row as usize, 1)));
        self.cuts = quantiles(all, threads);
    }

    /// Share the rows out by the entries that are listed.
    pub(super) fn share_out_listed(&mut self, threads: usize) {
        let listed = &self.transposed;
        let rows = listed.rows.iter().enumerate();
        let rows = rows.map(|(place, &row)| (row as usize, 1 + listed.entries(place).len()));
        self.cuts = quantiles(rows.collect(), threads);
    }
}

/// Cuts between which the rows have about as much work; rows come with theirs.
fn quantiles(mut rows: Vec<(usize, usize)>, parts: usize) -> Vec<usize> {
    rows.sort_unstable();
    let total: usize = rows.iter().map(|row| row.1).sum();
    let (mut cuts, mut before) = (Vec::with_capacity(parts), 0);
    for (row, work) in rows {
        // Behind the row, if its middle is before the cut.
        while cuts.len() + 1 < parts && 2 * before + work > 2 * total * (cuts.len() + 1) / parts {
            cuts.push(row);
        }
        before += work;
    }
    cuts
}
