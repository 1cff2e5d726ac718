//! The loops of `ranking`'s kernel contract in plain Rust: slices in, slices out.
//!
//! `ranking/kernels/contract.py` says what every loop computes and `ranking/kernels/reference.py`
//! in which order; this crate returns the same bits. Arguments are checked when they are put into
//! [`Dense`], [`Compressed`], [`domination::Lists`], [`domination::Descent`],
//! [`metrics::RankedLists`], [`bilinear::Tuples`] and [`factored::Factors`], so that no loop can meet
//! sizes that do not fit.

#![forbid(unsafe_code)]

pub mod alternating;
pub mod bilinear;
pub mod contract;
mod dispatch;
pub mod domination;
pub mod draws;
mod exp;
pub mod factored;
mod features;
mod guides;
mod invalid;
mod lanes;
pub mod letor;
pub mod metrics;
pub mod native;
mod pace;
pub mod rng;
pub mod scores;
mod sums;
mod threads;
mod wide;

pub use dispatch::instructions;
pub use exp::exp;
pub use features::{Compressed, Dense};
pub use invalid::Invalid;
pub use lanes::{Feature, Index};
pub use sums::{block_sum, dot};
pub use threads::Crew;
