//! W while it is trained: tuples are drawn, a step changes a few rows, a penalty shrinks all.
//!
//! `ranking/kernels/contract.py` ("Bilinear") says what is computed, and
//! `ranking/kernels/reference_bilinear.py` in which order. Only what is not zero is kept: a row is
//! a hash table, or an array once that takes no more room ([`row`]). No entry knows when it was
//! last shrunk, for its row's lens says so ([`lens`]); an entry that the lens shows as zero is
//! room for another.

mod buckets;
mod groups;
mod hogwild;
mod lens;
mod objects;
mod part;
mod row;
mod scores;
mod search;
mod steps;
mod store;
mod stored;

use std::collections::TryReserveError;
use std::fmt;

pub use lens::{Clock, Penalty};
pub use objects::{Lines, Rows, Tuples};
pub use scores::bilinear_scores;
pub use search::{Form, Ranks};
pub use steps::{PassivePlan, Plan};
pub use store::Store;
pub use stored::Stored;

use crate::invalid::Invalid;

/// Why a loop stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Arguments do not fit together.
    Invalid(Invalid),
    /// The system gave no memory.
    Memory,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(invalid) => invalid.fmt(f),
            Self::Memory => f.write_str("there is no memory left."),
        }
    }
}

impl std::error::Error for Failure {}

impl From<Invalid> for Failure {
    fn from(invalid: Invalid) -> Self {
        Self::Invalid(invalid)
    }
}

impl From<TryReserveError> for Failure {
    fn from(_: TryReserveError) -> Self {
        Self::Memory
    }
}

/// Make a vector that has `length` elements at least.
pub(crate) fn lengthen<T: Copy>(
    vector: &mut Vec<T>,
    length: usize,
    value: T,
) -> Result<(), TryReserveError> {
    if let Some(missing) = length.checked_sub(vector.len()) {
        vector.try_reserve(missing)?;
        vector.resize(length, value);
    }
    Ok(())
}

/// A vector of `length` equal elements.
pub(crate) fn filled<T: Copy>(length: usize, value: T) -> Result<Vec<T>, TryReserveError> {
    let mut vector = Vec::new();
    vector.try_reserve_exact(length)?;
    vector.resize(length, value);
    Ok(vector)
}
