//! The bilinear model's W in training: sparse rows, sampled triplets, lazy shrinkage.
//!
//! `ranking/kernels/contract/bilinear.py` says what is computed, and
//! `ranking/kernels/reference/bilinear.py` in which order. Only weights that are not zero are
//! stored: a row is a hash table, or an array once that takes no more memory ([`row`]). Shrinkage
//! is lazy: no entry knows when it was last shrunk, its row does ([`shrinkage`]). The slot of an
//! entry that has shrunk to zero is free for another one.

mod buckets;
mod features;
mod groups;
mod margins;
mod part;
mod row;
mod shrinkage;
mod store;
mod train;

pub use features::{SparseRows, Triplets};
pub use margins::Violations;
pub use shrinkage::{ShrinkageState, UpdateRule};
pub use store::*;
pub use train::*;
