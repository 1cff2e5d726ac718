//! U, V and S: which thread updates which rows, and which slots share a row.

use crate::error::{filled, lengthen, reserve};
use crate::factored::features::Features;
use crate::factored::rows::Piece;
use crate::factored::sums::Terms;
use crate::matrix::short;

const NONE: u32 = u32::MAX;

/// Queries, or documents, by slot, and their features.
pub(super) type Slots<'a> = (&'a Features<'a>, &'a [u32]);

/// The rows of a matrix by thread, and for each row that a batch changes the slots that have its
/// feature, with the values: their sums are added for the row.
#[derive(Debug)]
pub(super) struct Table {
    /// Rows at which the next thread begins.
    cuts: Vec<usize>,
    /// Where a row is in `rows`; empty if each row belongs to one query or document.
    places: Vec<u32>,
    pub(super) rows: Vec<u32>,
    /// Where the entries of each row end.
    ends: Vec<usize>,
    entries: Vec<(u32, f32)>,
}

impl Table {
    /// `n_rows` is 0 if each row belongs to one query or document.
    pub(super) fn new(n_rows: usize) -> Self {
        Self {
            cuts: Vec::new(),
            places: filled(n_rows, NONE),
            rows: Vec::new(),
            ends: Vec::new(),
            entries: Vec::new(),
        }
    }

    /// Cut the rows as they were last shared out.
    pub(super) fn cut<'p>(&self, piece: Piece<'p>) -> Vec<Piece<'p>> {
        piece.cut_all(&self.cuts)
    }

    /// Share rows out so that each thread has as much work, given the rows that have some.
    pub(super) fn share_out(&mut self, rows: &impl Terms, threads: usize) {
        let mut all = Vec::with_capacity(rows.count());
        rows.for_each(|row, _| all.push((row as usize, 1)));
        self.cuts = quantiles(all, threads);
    }

    /// Share rows out by the listed entries.
    pub(super) fn share_out_listed(&mut self, threads: usize) {
        let rows = self.rows.iter().enumerate();
        let rows = rows.map(|(place, &row)| (row as usize, 1 + self.entries(place).len()));
        self.cuts = quantiles(rows.collect(), threads);
    }

    /// List the entries by row, instead of those of the last batch. The slots of the second
    /// features follow those of the first.
    pub(super) fn list(&mut self, all: &[Slots<'_>]) {
        for row in self.rows.drain(..) {
            self.places[row as usize] = NONE;
        }
        self.ends.clear();
        for (features, entities) in all {
            for &entity in *entities {
                self.count(features, entity as usize);
            }
        }
        // From counts to starts; filling makes ends of them.
        let mut total = 0;
        for end in &mut self.ends {
            let start = total;
            total += *end;
            *end = start;
        }
        lengthen(&mut self.entries, total, (0, 0.0));
        let mut slot = 0;
        for (features, entities) in all {
            for &entity in *entities {
                features.for_entries(entity as usize, |row, value| {
                    let end = &mut self.ends[self.places[row] as usize];
                    self.entries[*end] = (slot, value);
                    *end += 1;
                });
                slot += 1;
            }
        }
    }

    #[inline(always)]
    fn count(&mut self, features: &Features<'_>, entity: usize) {
        let size = features.count(entity);
        reserve(&mut self.rows, size);
        reserve(&mut self.ends, size);
        features.for_entries(entity, |row, _| {
            let place = &mut self.places[row];
            if *place == NONE {
                *place = short(self.rows.len());
                self.rows.push(short(row));
                self.ends.push(0);
            }
            self.ends[*place as usize] += 1;
        });
    }

    /// The slots and values of the row at a place.
    #[inline(always)]
    pub(super) fn entries(&self, place: usize) -> &[(u32, f32)] {
        let start = if place == 0 { 0 } else { self.ends[place - 1] };
        &self.entries[start..self.ends[place]]
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
