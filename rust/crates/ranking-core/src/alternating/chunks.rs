//! Rows of M by chunks of about as many non-zeros.

use std::ops::Range;

use crate::matrix::{Compressed, Feature, Index};
use crate::threads::ThreadTeam;

/// Chunks of rows per thread: the last ones to end should be short.
const CHUNKS: usize = 32;

/// Share rows out by non-zeros, because a few rows may have most of them. A row counts for one
/// more, so that empty rows are shared out, too.
pub(super) fn chunks<I: Index, F: Feature>(
    matrix: &Compressed<'_, I, F>,
    team: &ThreadTeam,
) -> Vec<Range<usize>> {
    let rows = matrix.lines();
    let count = rows.min(CHUNKS * team.threads());
    let weight = |row: usize| matrix.start(row) + row;
    let mut result = Vec::with_capacity(count);
    let mut first = 0;
    for chunk in 1..=count {
        let goal = weight(rows) / count * chunk;
        let last = if chunk == count {
            rows
        } else {
            first_at_least(first, rows, goal, weight)
        };
        result.push(first..last);
        first = last;
    }
    result
}

/// The first row from `low` on whose weight is not below `goal`, or `high`.
fn first_at_least(
    mut low: usize,
    mut high: usize,
    goal: usize,
    weight: impl Fn(usize) -> usize,
) -> usize {
    while low < high {
        let middle = low.midpoint(high);
        if weight(middle) < goal {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}
