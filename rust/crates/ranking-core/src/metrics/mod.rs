//! Ranked lists and measures of them: one sort, then every measure that was asked for.

mod blocks;
mod measures;
mod order;
mod pairs;

pub use measures::{COLUMNS, RankedLists, ranked_metrics};
pub use order::{Score, rank_lists};

/// Lists that one thread takes at a time. A list's values do not depend on it.
const LISTS: usize = 8;
