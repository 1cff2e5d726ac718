//! The loops of `ranking`'s kernel contract in plain Rust: slices in, slices out.
//!
//! `ranking/kernels/contract` says what every loop computes and `ranking/kernels/reference` in
//! which order; this crate returns the same bits. Arguments have been checked in Python; a loop
//! panics, and never reads elsewhere, if they do not fit together.

#![forbid(unsafe_code)]

mod adaptive;
pub mod alternating;
pub mod bilinear;
pub mod constants;
mod dispatch;
pub mod domination;
mod error;
pub mod exp;
pub mod factored;
mod guide_tables;
pub mod item_item;
pub mod listwise;
mod matrix;
pub mod pairwise;
pub mod pairwise_lists;
pub mod random;
pub mod sampling;
mod simd;
pub mod sums;
mod threads;

pub use dispatch::instructions;
pub use error::OutOfMemory;
pub use matrix::*;
pub use threads::ThreadTeam;
