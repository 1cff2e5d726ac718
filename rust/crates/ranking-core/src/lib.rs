//! The loops of `ranking`'s kernel contract in plain Rust: slices in, slices out.
//!
//! `ranking/kernels/contract` says what every loop computes and `ranking/kernels/reference` in
//! which order; this crate returns the same bits. Arguments are checked when they are put into
//! [`Dense`], [`Compressed`], [`sampling::Sampling`], [`bilinear::Triplets`] and the like, so that
//! loops can trust all sizes.

#![forbid(unsafe_code)]

mod adaptive;
pub mod alternating;
pub mod bilinear;
pub mod constants;
mod dispatch;
pub mod domination;
mod error;
mod exp;
pub mod factored;
mod guide_tables;
pub mod linear;
mod matrix;
pub mod native;
pub mod pairwise;
pub mod pairwise_lists;
pub mod random;
pub mod sampling;
mod simd;
mod sums;
mod threads;

pub use dispatch::instructions;
pub use error::Error;
pub use exp::exp;
pub use matrix::{Compressed, Dense, Feature, Index, Matrix, Stored};
pub use sums::{block_sum, dot};
pub use threads::ThreadTeam;
